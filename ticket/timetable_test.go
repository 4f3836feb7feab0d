package ticket

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMeetingsOverlap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"mon 10:00-11:30", "mon 11:00-12:00", true},
		{"mon 10:00-11:30", "mon 11:30-12:00", false},
		{"mon 10:00-11:30", "tue 10:00-11:30", false},
		{"mon 10:00-11:30", "mon 10:30-10:45", true},
		{"2026-10-05 10:00-11:30", "2026-10-05 11:00-12:00", true},
		{"2026-10-05 10:00-11:30", "2026-10-12 10:00-11:30", false},
		{"2026-10-05 10:00-11:30", "MON 11:00-12:00", true}, // that day is a Monday
		{"2026-10-06 10:00-11:30", "mon 10:00-11:30", false},
		{"sun 00:00-24:00", "sun 23:59-24:00", true},
	} {
		a, err := ParseMeeting(c.a)
		require.NoError(t, err)
		b, err := ParseMeeting(c.b)
		require.NoError(t, err)
		require.Equal(t, c.want, a.overlaps(b), "%s and %s", a, b)
		require.Equal(t, c.want, b.overlaps(a), "%s and %s", b, a)
		require.Equal(t, c.want, clash([]Meeting{{Day: 6, From: 0, To: 1}, a}, []Meeting{b}))
	}
	for _, wrong := range []string{
		"", "mon", "mon 10:00", "monday 10:00-11:00", "mon 10-11", "mon 11:00-10:00", "mon 10:00-10:00",
		"mon 10:60-11:00", "mon 10:00-24:01", "mon 23:00-25:00", "2026-02-30 10:00-11:00", "mon -1:00-11:00", "mon 10:00-11:0",
	} {
		_, err := ParseMeeting(wrong)
		require.Error(t, err, wrong)
	}
}

func FuzzParseMeeting(f *testing.F) {
	f.Add("mon 10:00-11:30")
	f.Add("2026-10-05 9:00-24:00")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMeeting(text)
		if err != nil {
			return
		}
		again, err := ParseMeeting(m.String())
		require.NoError(t, err)
		require.Equal(t, m, again, "what is written is read as the same")
	})
}
