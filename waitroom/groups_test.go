package waitroom

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// noon is when the tests' windows begin.
var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// years are the windows of four years of study, an hour each, 4 first.
func years() []GroupSettings {
	groups := make([]GroupSettings, 4)
	for i := range groups {
		opens, closes := noon.Add(time.Duration(i)*time.Hour), noon.Add(time.Duration(i+1)*time.Hour)
		groups[i] = GroupSettings{
			Name: fmt.Sprintf("year-%d", 4-i), Claim: map[string]any{"year": float64(4 - i)}, OpensAt: &opens, ClosesAt: &closes,
		}
	}
	return groups
}

// why is why somebody was refused.
func why(tb testing.TB, err error) NotEligibleError {
	tb.Helper()
	require.ErrorIs(tb, err, ErrNotEligible)
	e, ok := errors.AsType[*NotEligibleError](err)
	require.True(tb, ok)
	return *e
}

// doc.go promise 18.
func TestPromise18WindowsByTheStoresClock(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		for _, mode := range []string{"queue", ModeInstant, ModeBuffered} {
			l := testLine(t, rdb)
			e := open(t, l, func(s *Settings) {
				s.Mode, s.Identity, s.Groups = mode, "jwt", years()
				s.ClaimTTL = Duration(24 * time.Hour)
				s.Tickets.Kind, s.Tickets.Stock = "stock", 100
			})
			ask := func(who string, year int) error {
				groups := e.GroupsOf(map[string]any{"year": float64(year)})
				switch mode {
				case ModeInstant:
					_, err := l.Issue(t.Context(), IssueRequest{Event: "e", Subject: who, Groups: groups})
					return err
				case ModeBuffered:
					_, err := l.Enqueue(t.Context(), EnqueueRequest{JoinRequest: JoinRequest{Event: "e", Subject: who, Groups: groups}})
					return err
				default:
					_, err := l.Join(t.Context(), JoinRequest{Event: "e", Subject: who, Groups: groups})
					return err
				}
			}
			for hour := range 4 { // each year in its hour, to the millisecond, and no other year in it
				for _, now := range []time.Time{noon.Add(time.Duration(hour) * time.Hour), noon.Add(time.Duration(hour+1)*time.Hour - time.Millisecond)} {
					freeze(t, l, now)
					for year := 1; year <= 4; year++ {
						err := ask(fmt.Sprintf("%d of %s", year, now), year)
						opens := noon.Add(time.Duration(4-year) * time.Hour)
						switch {
						case year == 4-hour:
							require.NoError(t, err, "%s: year %d at %s", mode, year, now)
						case year > 4-hour:
							require.Equal(t, NotEligibleError{Why: PastWindow}, why(t, err), "%s: year %d at %s", mode, year, now)
						default:
							require.Equal(t, NotEligibleError{Why: EarlyWindow, OpensAt: opens, In: opens.Sub(now)}, why(t, err), "%s: year %d at %s", mode, year, now)
						}
					}
				}
			}
			require.Equal(t, NotEligibleError{Why: NoGroup}, why(t, ask("somebody", 5)))
			freeze(t, l, noon.Add(5*time.Hour))
			require.NoError(t, ask(fmt.Sprintf("%d of %s", 4, noon), 4), "whoever has joined keeps the place when the window is over")
			require.NoError(t, ask(fmt.Sprintf("%d of %s", 4, noon), 0), "also without the claim")
		}
	})
}

// doc.go promise 19.
func TestPromise19Codes(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		l := testLine(t, rdb)
		later := noon.Add(time.Hour)
		open(t, l, func(s *Settings) {
			s.Groups = []GroupSettings{
				{Name: "press", Codes: true}, {Name: "club", Codes: true, OpensAt: &later}, {Name: "rest", Default: true, OpensAt: &later},
			}
		})
		freeze(t, l, noon)
		add := func(group string, uses int, codes ...string) int {
			n, err := l.AddCodes(t.Context(), CodesRequest{Event: "e", Group: group, Uses: uses, Unlimited: uses == 0, Codes: codes, By: "test"})
			require.NoError(t, err)
			return n
		}
		require.Equal(t, 2, add("press", 1, "once-0001", "ONCE 0002"))
		require.Equal(t, 1, add("press", 0, "many-0001", "once-0001"), "a code that is there stays as it is")
		require.Equal(t, 1, add("press", 2, "pair-0001"))
		require.Equal(t, 1, add("club", 1, "club-0001"))
		for _, none := range []string{"nobody", "rest"} { // nobody is chosen for the rest by a code
			_, err := l.AddCodes(t.Context(), CodesRequest{Event: "e", Group: none, Codes: []string{"once-0003"}})
			require.ErrorIs(t, err, ErrNoGroup, none)
		}
		for _, short := range []string{"short-1", strings.Repeat("x", 65), "ünicode-1"} {
			_, err := l.AddCodes(t.Context(), CodesRequest{Event: "e", Group: "press", Codes: []string{short}})
			wrong, ok := errors.AsType[*InvalidError](err)
			require.True(t, ok, short)
			require.Equal(t, "codes[0]", wrong.Fields[0].Field)
		}

		join := func(code, receipt string) (Place, error) {
			return l.Join(t.Context(), JoinRequest{Event: "e", Code: code, Receipt: receipt, Groups: []string{"rest"}})
		}
		first, err := join("Once0001", "")
		require.NoError(t, err)
		require.True(t, first.Created)
		again, err := join("ONCE-0001", "")
		require.NoError(t, err, "an answer may have been lost: who has the code has the place")
		require.Equal(t, first.Entry, again.Entry)
		require.Equal(t, first.Seq, again.Seq)
		require.False(t, again.Created)
		_, err = l.Join(t.Context(), JoinRequest{Event: "e", Code: "once-0001", Subject: "somebody who is known"})
		require.Equal(t, UsedCode, why(t, err).Why)

		require.NoError(t, l.Leave(t.Context(), "e", first.Entry))
		back, err := join("once-0001", first.Receipt)
		require.NoError(t, err, "it is still its holder's")
		require.Greater(t, back.Seq, first.Seq)

		for range 2 {
			_, err = join("pair-0001", "")
			require.NoError(t, err)
		}
		_, err = join("pair-0001", "")
		require.Equal(t, UsedCode, why(t, err).Why)
		for range 3 {
			_, err = join("many-0001", "")
			require.NoError(t, err)
		}
		_, err = join("none-0001", "")
		require.Equal(t, UnknownCode, why(t, err).Why, "a wrong code is told, also where a default group would take its holder")
		_, err = join("club-0001", "")
		require.Equal(t, later, why(t, err).OpensAt)
		_, err = join("", "")
		require.Equal(t, later, why(t, err).OpensAt)
		freeze(t, l, later)
		_, err = join("club-0001", "")
		require.NoError(t, err, "what was refused was not used up")
		_, err = join("", "")
		require.NoError(t, err)

		// The store holds no code, and an event that is gone none of their hashes.
		all, err := rdb.HGetAll(t.Context(), l.keys.codes("e")).Result()
		require.NoError(t, err)
		require.Len(t, all, 5)
		for hash := range all {
			require.NotContains(t, strings.ToUpper(hash), "0001")
		}
		require.NoError(t, l.Delete(t.Context(), "e", "test"))
		require.Zero(t, rdb.Exists(t.Context(), l.keys.codes("e")).Val())
	})
}

// doc.go promises 2 and 4: of a call that is sent again, whoever was let in keeps the
// place, also beside somebody who was refused.
func TestPromise4SentAgainBesideSomebodyWhoIsRefused(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		l := testLine(t, rdb)
		later := noon.Add(time.Hour)
		open(t, l, func(s *Settings) {
			s.Groups = []GroupSettings{{Name: "press", Codes: true}, {Name: "rest", Default: true, OpensAt: &later}}
		})
		freeze(t, l, noon)
		_, err := l.AddCodes(t.Context(), CodesRequest{Event: "e", Group: "press", Uses: 2, Codes: []string{"pair-0001"}, By: "test"})
		require.NoError(t, err)
		var calls []joinCall
		for _, code := range []string{"", "pair-0001"} {
			calls = append(calls, l.whoJoins(JoinRequest{Event: "e", Code: code, Groups: []string{"rest"}}))
		}
		first, err := l.sendJoins(t.Context(), "e", calls)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(first[1].words), "c "), first)
		again, err := l.sendJoins(t.Context(), "e", calls)
		require.NoError(t, err)
		require.Equal(t, []joinReply{first[0], {words: "w" + first[1].words[1:]}}, again)
		_, err = l.Join(t.Context(), JoinRequest{Event: "e", Code: "pair-0001"})
		require.NoError(t, err, "the code was used once")
	})
}

// doc.go promise 19, in mode buffered: the holder of a code for one person whose answer was
// lost has the request.
func TestPromise19CodesOfRequests(t *testing.T) {
	t.Parallel()
	l := testLine(t, redistest.Mini(t))
	open(t, l, func(s *Settings) {
		s.Mode, s.Tickets.Kind, s.Tickets.Stock = ModeBuffered, "stock", 100
		s.Groups = []GroupSettings{{Name: "press", Codes: true}}
	})
	_, err := l.AddCodes(t.Context(), CodesRequest{Event: "e", Group: "press", Codes: []string{"once-0001"}, By: "test"})
	require.NoError(t, err)
	var got []Numbering
	for range 2 {
		n, err := l.Enqueue(t.Context(), EnqueueRequest{JoinRequest: JoinRequest{Event: "e", Code: "once-0001"}})
		require.NoError(t, err)
		got = append(got, n)
	}
	require.Equal(t, got[0], got[1])
	_, err = l.Enqueue(t.Context(), EnqueueRequest{JoinRequest: JoinRequest{Event: "e", Code: "once-0001", Subject: "somebody who is known"}})
	require.Equal(t, UsedCode, why(t, err).Why)
}

func TestGroupsOf(t *testing.T) {
	t.Parallel()
	s := Settings{Groups: []GroupSettings{
		{Name: "seniors", Claim: map[string]any{"year": float64(4)}},
		{Name: "staff", Claim: map[string]any{"roles": "staff", "active": true}},
		{Name: "codes", Codes: true},
		{Name: "rest", Default: true},
	}}
	for name, c := range map[string]struct {
		claims map[string]any
		want   []string
	}{
		"nothing":            {nil, []string{"rest"}},
		"a number":           {map[string]any{"year": 4.0}, []string{"seniors"}},
		"a number as text":   {map[string]any{"year": "4"}, []string{"rest"}},
		"an element":         {map[string]any{"roles": []any{"x", "staff"}, "active": true}, []string{"staff"}},
		"half of the claims": {map[string]any{"roles": "staff"}, []string{"rest"}},
		"not an element":     {map[string]any{"roles": []any{map[string]any{"staff": true}}, "active": true}, []string{"rest"}},
		"two groups":         {map[string]any{"year": 4.0, "roles": "staff", "active": true}, []string{"seniors", "staff"}},
	} {
		require.Equal(t, c.want, s.GroupsOf(c.claims), name)
	}
}

func TestGroupsThatTakeNobodyAreRefused(t *testing.T) {
	t.Parallel()
	for groups, want := range map[string][]FieldError{
		`[{"name":"A"}]`: {{"groups[0].name", "must be 1 to 32 characters of a-z, 0-9 and -"}, {"groups[0].claim", "give exactly one of claim, codes and default"}},
		`[{"name":"a","codes":true,"default":true}]`:                                                       {{"groups[0].claim", "give exactly one of claim, codes and default"}},
		`[{"name":"a","default":true},{"name":"a","codes":true}]`:                                          {{"groups[1].name", "is there twice"}},
		`[{"name":"a","default":true},{"name":"b","default":true}]`:                                        {{"groups[1].opens_at", "overlaps the window of groups[0], which takes the same people"}},
		`[{"name":"a","claim":{"year":[4]}}]`:                                                              {{"groups[0].claim.year", "must be text of at most 128 bytes, a number, true or false"}},
		`[{"name":"a","claim":7}]`:                                                                         {{"groups[0].claim", "must be an object"}},
		`[{"name":"a","colour":"red"}]`:                                                                    {{"groups[0].colour", "is not a setting"}},
		`[{"name":"a","codes":true,"closes_at":"2026-05-04T11:00:00Z"}]`:                                   {{"groups[0].closes_at", "must be after people may join the event"}},
		`[{"name":"a","codes":true,"opens_at":"2026-05-04T18:00:00Z"}]`:                                    {{"groups[0].opens_at", "must be before the event's closes_at"}},
		`[{"name":"a","codes":true,"opens_at":"2026-05-04T14:00:00Z","closes_at":"2026-05-04T13:00:00Z"}]`: {{"groups[0].closes_at", "must be after opens_at"}},
		`[{"name":"a","claim":{"y":1},"closes_at":"2026-05-04T13:30:00Z"},{"name":"b","claim":{"y":1},"opens_at":"2026-05-04T13:00:00Z"}]`: {
			{"groups[1].opens_at", "overlaps the window of groups[0], which takes the same people"},
		},
	} {
		_, _, err := DecodeSettings([]byte(`{"id":"e","identity":"jwt","opens_at":"2026-05-04T12:00:00Z","closes_at":"2026-05-04T18:00:00Z","groups":` + groups + `}`))
		wrong, ok := errors.AsType[*InvalidError](err)
		require.True(t, ok, "%s: %v", groups, err)
		require.Equal(t, want, wrong.Fields, groups)
	}
	_, _, err := DecodeSettings([]byte(`{"id":"e","groups":[{"name":"a","claim":{"year":4}}]}`))
	require.ErrorContains(t, err, "groups[0].claim: needs identity jwt")
	s, _, err := DecodeSettings([]byte(`{"id":"e","identity":"jwt","groups":[
		{"name":"a","claim":{"y":1},"closes_at":"2026-05-04T13:00:00Z"},{"name":"b","claim":{"y":1},"opens_at":"2026-05-04T13:00:00Z"},{"name":"c","claim":{"y":2}}]}`))
	require.NoError(t, err, "one window after the other")
	require.Len(t, s.Groups, 3)
}
