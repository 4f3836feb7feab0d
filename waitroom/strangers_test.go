package waitroom

import (
	"cmp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// strangers.lua answers and does what join.lua would have, in every state of an event
// that one of them looks at.
func TestStrangersJoinAsAnyoneDoes(t *testing.T) {
	t.Parallel()
	const seq, early = Seq(1_800_000_000_000_000), "20"
	people := make([]joinCall, 7)
	for i := range people { // two runs of phones among others
		entry := EntryID("stranger-00" + string(rune('a'+i)))
		people[i] = joinCall{placeCall: placeCall{entry: entry, mobile: i == 2 || i == 3 || i == 6}, fresh: true}
	}
	known := append([]joinCall{{placeCall: placeCall{entry: "has-receipt0", seq: seq - 5}}}, people...)
	meta := func(t *testing.T, l *Line, values ...any) {
		t.Helper()
		require.NoError(t, l.rdb.HSet(t.Context(), l.keys.meta("e"), values...).Err())
	}
	joined := func(t *testing.T, l *Line) {
		t.Helper()
		_, err := l.sendJoins(t.Context(), "e", people)
		require.NoError(t, err)
	}
	type left struct { // behind by a batch
		places     []Place
		errs       []error
		line, away []redis.Z
		meta       []any
	}
	rows := map[string]struct {
		settings func(*Settings)
		state    State // default: open
		before   func(*testing.T, *Line)
		calls    []joinCall // default: people
		told     given
		general  bool // join.lua's to answer
	}{
		"open":            {},
		"paused":          {state: Paused},
		"lobby":           {state: Lobby},
		"lobby of a draw": {state: Lobby, settings: func(s *Settings) { s.Order = OrderDraw }},
		"has been open":   {before: func(t *testing.T, l *Line) { meta(t, l, "opens_at", early, "sched", early) }}, //nolint:thelper // a row
		"nothing lost":    {told: given{seqs: [mostLanes]Seq{0, 0, seq}}},
		"scheduled":       {state: Scheduled, general: true},
		"draining":        {state: Draining, general: true},
		"closed":          {state: Closed, general: true},
		"due to open":     {state: Lobby, general: true, before: func(t *testing.T, l *Line) { meta(t, l, "opens_at", early, "sched", "10") }}, //nolint:thelper // a row
		"due to close":    {general: true, before: func(t *testing.T, l *Line) { meta(t, l, "closes_at", early, "sched", "10") }},              //nolint:thelper // a row
		"lanes":           {general: true, settings: regions},
		"groups":          {general: true, settings: func(s *Settings) { s.Groups = []GroupSettings{{Name: "press", Codes: true}} }},
		"a receipt":       {general: true, calls: known},
		"sequences lost":  {general: true, told: given{seqs: [mostLanes]Seq{0, 0, seq + 3}}},
		"another server":  {general: true, told: given{unseen: true}},
		"sent again":      {general: true, before: joined},
		"sent again, the first is in": {general: true, before: func(t *testing.T, l *Line) { //nolint:thelper // a row
			joined(t, l)
			require.Len(t, promote(t, l, 1).Grants, 1)
		}},
		"sent again, the first has left": {general: true, before: func(t *testing.T, l *Line) { //nolint:thelper // a row
			joined(t, l)
			require.NoError(t, l.Leave(t.Context(), "e", people[0].entry))
		}},
	}
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		whole := script("parties", "join")
		for _, s := range []*redis.Script{whole, scriptJoin} { // who finds it missing says so
			require.NoError(t, s.Load(t.Context(), rdb).Err())
		}
		for name, row := range rows {
			join := func(s *redis.Script) (after left, general bool) {
				l := testLine(t, rdb)
				settings := DefaultSettings("e")
				if row.settings != nil {
					row.settings(&settings)
				}
				_, err := l.Create(t.Context(), settings, cmp.Or(row.state, Open), "test")
				require.NoError(t, err, name)
				freeze(t, l, noon)
				meta(t, l, "base", int64(seq-10), "seq", int64(seq))
				if row.before != nil {
					row.before(t, l)
				}
				calls := people
				if row.calls != nil {
					calls = row.calls
				}
				told := row.told
				r, err := l.call(t.Context(), s, "e", []string{l.keys.codes("e")}, joinArgs([]any{&told}, calls)...)
				require.NoError(t, err, name)
				answers, err := joinReplies(r, len(calls))
				require.NoError(t, err, name)
				for i, a := range answers {
					p, err := l.joined("e", calls[i], a)
					p.Grant = Grant{} // its jti is another one
					after.places, after.errs = append(after.places, p), append(after.errs, err)
				}
				after.line = rdb.ZRangeWithScores(t.Context(), l.keys.line("e"), 0, -1).Val()
				after.away = rdb.ZRangeWithScores(t.Context(), l.keys.away("e"), 0, -1).Val()
				after.meta = rdb.HMGet(t.Context(), l.keys.meta("e"), "seq", "base", "state", "version", "draw_phase").Val()
				return after, !strings.HasPrefix(r.rest[0], "n ")
			}
			want, _ := join(whole)
			got, general := join(scriptJoin)
			require.Equal(t, want, got, name)
			require.Equal(t, row.general, general, "%s: which of them answered", name)
		}
	})
}
