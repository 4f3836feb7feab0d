package waitroom

import (
	"encoding/base64"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/waitroom-dev/waitroom/waitroom/rank"
)

// feedFields writes a record as the scripts do.
func feedFields(r feedRecord) map[string]any {
	fields := map[string]any{"b": fmt.Sprint(r.base), "m": fmt.Sprint(r.moment)}
	set := func(name string, lines []string) {
		if len(lines) > 0 {
			fields[name] = strings.Join(lines, "\n")
		}
	}
	var g, d, back, x []string
	for _, gr := range r.granted {
		subject := "-"
		if gr.Subject != string(gr.Entry) {
			subject = base64.RawURLEncoding.EncodeToString([]byte(gr.Subject))
		}
		g = append(g, fmt.Sprintf("%s %d %s %d %d %s", gr.Entry, gr.Seq, gr.JTI, gr.AdmittedAt.UnixMilli(), gr.ClaimBy.UnixMilli(), subject))
	}
	for _, dep := range r.departed {
		d = append(d, fmt.Sprintf("%s %d %s", dep.Entry, dep.Seq, dep.State))
	}
	for _, seq := range r.returned {
		back = append(back, fmt.Sprintf("somebody %d", seq))
	}
	for _, e := range r.ended {
		x = append(x, fmt.Sprintf("%s %s %s", e.Entry, e.JTI, e.State))
	}
	set("g", g)
	set("d", d)
	set("r", back)
	set("x", x)
	if r.version {
		fields["v"] = "7"
	}
	return fields
}

// What is written is read, whatever it is.
func TestFeedRecordsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	name := rapid.StringMatching(`[A-Za-z0-9_-]{1,30}`)
	seq := rapid.Int64Range(1, rank.MaxSeq-1)
	grant := rapid.Custom(func(t *rapid.T) Grant {
		entry := name.Draw(t, "entry")
		return Grant{
			Event: "e", Entry: EntryID(entry), Seq: Seq(seq.Draw(t, "seq")),
			Subject:    rapid.OneOf(rapid.Just(entry), rapid.StringN(1, 40, -1)).Draw(t, "subject"),
			JTI:        name.Draw(t, "jti") + ".1",
			AdmittedAt: time.UnixMilli(rapid.Int64Range(1, 1<<43).Draw(t, "admitted")).UTC(),
			ClaimBy:    time.UnixMilli(rapid.Int64Range(1, 1<<43).Draw(t, "claim")).UTC(),
			State:      EntryAdmitted,
		}
	})
	departure := rapid.Custom(func(t *rapid.T) Departure {
		return Departure{
			Entry: EntryID(name.Draw(t, "entry")), Seq: Seq(seq.Draw(t, "seq")),
			State: rapid.SampledFrom([]EntryState{EntryLeft, EntryExpired, EntryBlocked}).Draw(t, "state"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		want := feedRecord{
			base:    rapid.Int64Range(0, rank.MaxSeq-1).Draw(t, "base"),
			moment:  rapid.Int64Range(1, 1<<43).Draw(t, "moment"),
			version: rapid.Bool().Draw(t, "version"),
		}
		if gs := rapid.SliceOfN(grant, 0, 3).Draw(t, "granted"); len(gs) > 0 {
			want.granted = gs
		}
		if ds := rapid.SliceOfN(departure, 0, 3).Draw(t, "departed"); len(ds) > 0 {
			want.departed = ds
		}
		for _, s := range rapid.SliceOfN(seq, 0, 3).Draw(t, "returned") {
			want.returned = append(want.returned, Seq(s))
		}
		for range rapid.IntRange(0, 3).Draw(t, "ended") {
			want.ended = append(want.ended, End{
				Entry: EntryID(name.Draw(t, "entry")), JTI: name.Draw(t, "jti"),
				State: rapid.SampledFrom([]EntryState{EntryCompleted, EntryExpired, EntryLeft, EntryBlocked}).Draw(t, "state"),
			})
		}
		got, err := parseFeed("e", feedFields(want))
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

// A record that is not whole is refused whole.
func TestFeedRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := map[string]any{
		"b": "1000", "m": "1700000000000", "v": "3",
		"g": "ann 1001 j.1 1700000000 1700000300000 -\nbob 1002 j.2 1700000000 1700000300000 Ym9i",
		"d": "cat 1003 left\ndan 1004 expired", "r": "eve 7", "x": "fay j.9 completed",
		"p": "them cat\nthem",
	}
	rec, err := parseFeed("e", good)
	require.NoError(t, err)
	require.Equal(t, []Departure{{Entry: "dan", Seq: 1004, State: EntryExpired}}, rec.gone(), "cat has only moved into a party")
	require.Equal(t, []EntryID{"them", "cat"}, whoChanged(rec.parties))
	newer := maps.Clone(good)
	newer["z"] = "of a later version"
	_, err = parseFeed("e", newer)
	require.NoError(t, err, "a field of a later version is passed over")

	for _, bad := range []struct{ field, value string }{
		{"b", ""},
		{"b", "-1"},
		{"b", "1e3"},
		{"b", "9007199254740992"},
		{"b", "+5"},
		{"b", "007"},
		{"p", "them and cat"},
		{"m", "0"},
		{"m", "x"},
		{"g", ""},
		{"g", "ann 1001 j.1 1700000000 1700000300000"},
		{"g", "ann 1001 j.1 1700000000 1700000300000 - -"},
		{"g", "ann 0 j.1 1700000000 1700000300000 -"},
		{"g", " 1001 j.1 1700000000 1700000300000 -"},
		{"g", "ann 1001  1700000000 1700000300000 -"},
		{"g", "ann 1001 j.1 0 1700000300000 -"},
		{"g", "ann 1001 j.1 1700000000 nan -"},
		{"g", "ann 1001 j.1 1700000000 1700000300000 !"},
		{"g", "ann 1001 j.1 1700000000 1700000300000 a"},
		{"g", "ann 1001 j.1 1700000000 1700000300000 -\n"},
		{"d", ""},
		{"d", "cat 1003"},
		{"d", "cat 1003 waiting"},
		{"d", "cat 1003 Left"},
		{"d", "cat 1.5 left"},
		{"d", "c\x00t 1003 left"},
		{"d", "cat 99999999999999999999 left"},
		{"r", ""},
		{"r", "eve"},
		{"r", "eve -7"},
		{"r", "eve 7 8"},
		{"x", ""},
		{"x", "fay j.9"},
		{"x", "fay j.9 com pleted"},
	} {
		fields := maps.Clone(good)
		fields[bad.field] = bad.value
		r, err := parseFeed("e", fields)
		require.ErrorIs(t, err, errFeed, "%s = %q", bad.field, bad.value)
		require.Equal(t, feedRecord{}, r, "nothing of it counts")
	}
	for _, name := range []string{"b", "m"} {
		fields := maps.Clone(good)
		delete(fields, name)
		_, err := parseFeed("e", fields)
		require.ErrorIs(t, err, errFeed, "without %s", name)
	}
	_, err = parseFeed("e", map[string]any{"b": int64(1), "m": "1"})
	require.ErrorIs(t, err, errFeed, "a value that is no string")
}

func TestStreamIDs(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"0-0", "1700000000000-0", "1-18446744073709551615"} {
		id, err := parseStreamID(s)
		require.NoError(t, err)
		require.Equal(t, s, id.String())
	}
	for _, s := range []string{"", "1", "1-", "-1", "a-b", "1-2-3", "-1-2"} {
		_, err := parseStreamID(s)
		require.ErrorIs(t, err, errFeed, "%q", s)
	}
	a, b, c := streamID{1, 9}, streamID{2, 0}, streamID{2, 1}
	require.True(t, a.before(b) && b.before(c) && a.before(c))
	require.False(t, b.before(a) || c.before(b) || a.before(a))
}

// Whatever is accepted is in bounds, and says the same when written again.
func FuzzFeed(f *testing.F) {
	f.Add("1000", "1700000000000", "ann 1001 j.1 1700000000 1700000300000 -", "cat 1003 left", "eve 7", "fay j.9 completed")
	f.Add("0", "1", "ann 1 j 1 1 YQ", "a 1 blocked\nb 2 left", "a 1\nb 2", "")
	f.Fuzz(func(t *testing.T, b, m, g, d, r, x string) {
		fields := map[string]any{"b": b, "m": m}
		for name, text := range map[string]string{"g": g, "d": d, "r": r, "x": x} {
			if text != "" {
				fields[name] = text
			}
		}
		rec, err := parseFeed("e", fields)
		if err != nil {
			require.ErrorIs(t, err, errFeed)
			require.Equal(t, feedRecord{}, rec)
			return
		}
		for _, gr := range rec.granted {
			require.NotEmpty(t, gr.Entry)
			require.NotEmpty(t, gr.JTI)
			require.True(t, gr.Seq > 0 && gr.Seq < rank.MaxSeq)
		}
		for _, dep := range rec.departed {
			require.NotEmpty(t, dep.Entry)
			require.True(t, dep.Seq > 0 && dep.Seq < rank.MaxSeq)
		}
		again, err := parseFeed("e", feedFields(rec))
		require.NoError(t, err)
		require.Equal(t, rec, again)
	})
}
