package waitroom

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// By hand any state follows any other, on whichever node: an operator knows more than
// the schedule. Each deed is in the trail, with who, what, before and after; what is no
// state is refused by its field, and nothing is written.
func TestLifeByHand(t *testing.T) {
	t.Parallel()
	rdb := redistest.Mini(t)
	l := testLine(t, rdb)
	other := testLineAs(t, rdb, l.cfg.Prefix)
	for _, from := range states {
		for _, to := range states {
			id := EventID(from + "-" + to)
			_, err := l.Create(t.Context(), DefaultSettings(id), from, "ada")
			require.NoError(t, err)
			for _, wrong := range []string{`"opened"`, `"Open"`, `""`, `null`, `1`} {
				_, err = l.Patch(t.Context(), id, []byte(`{"rate_per_s":7,"state":`+wrong+`}`), "bob")
				requireField(t, err, "state")
			}
			_, err = other.Patch(t.Context(), id, []byte(`{"rate_per_s":9,"state":"`+string(to)+`"}`), "bob")
			require.NoError(t, err)
			at := func(l *Line) {
				e, err := l.Event(t.Context(), id)
				require.NoError(t, err)
				require.Equal(t, []any{to, "operator", 9.0}, []any{e.State, e.Reason, e.RatePerS}, "%s to %s", from, to)
			}
			at(l)
			at(other)
			require.NoError(t, l.ShiftClock(t.Context(), id, 1000*time.Hour))
			at(l) // no time was set, so none changes it
			trail, err := l.Audit(t.Context(), id, "", 0)
			require.NoError(t, err)
			require.Len(t, trail, 2, "created and patched once; what was refused left nothing")
			require.Equal(t, []string{"bob", "patch"}, []string{trail[1].By, trail[1].What})
			for text, want := range map[string]struct {
				state State
				rate  float64
			}{trail[1].Before: {from, 10}, trail[1].After: {to, 9}} {
				var said struct {
					State    State
					Settings string
				}
				require.NoError(t, json.Unmarshal([]byte(text), &said))
				var settings Settings
				require.NoError(t, json.Unmarshal([]byte(said.Settings), &settings))
				require.Equal(t, want.state, said.State)
				require.InDelta(t, want.rate, settings.RatePerS, 0)
			}
		}
	}
}

// By time an event only goes on: what each state becomes when each moment passes,
// whatever has been set by hand before it.
func TestLifeByTime(t *testing.T) {
	t.Parallel()
	l := testLine(t, redistest.Mini(t))
	want := map[State][3]State{ // at the lobby, at the opening, at the end
		Scheduled: {Lobby, Open, Closed},
		Lobby:     {Lobby, Open, Closed},
		Open:      {Open, Open, Closed},
		Paused:    {Paused, Paused, Closed},
		Draining:  {Draining, Draining, Closed},
		Closed:    {Closed, Closed, Closed},
	}
	for from, then := range want {
		for _, all := range []bool{true, false} { // each moment is seen, or only the last
			s := DefaultSettings(EventID(from) + map[bool]EventID{true: "-each", false: "-last"}[all])
			now := time.Now().UTC()
			lobby, opens, closes := now.Add(time.Hour), now.Add(2*time.Hour), now.Add(3*time.Hour)
			s.LobbyOpensAt, s.OpensAt, s.ClosesAt = &lobby, &opens, &closes
			_, err := l.Create(t.Context(), s, from, "ada")
			require.NoError(t, err)
			for i, state := range then {
				if !all && i < 2 {
					continue
				}
				require.NoError(t, l.ShiftClock(t.Context(), s.ID, time.Duration(i+1)*time.Hour+time.Minute))
				e, err := l.Event(t.Context(), s.ID)
				require.NoError(t, err)
				require.Equal(t, state, e.State, "%s, moment %d, each seen: %t", from, i, all)
			}
		}
	}
}

// Two nodes that see a moment pass at once make one change of it, in one record; and a
// store that is killed comes back with the state that it had.
func TestLifeIsDecidedOnce(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.Config{AOF: "always"})
	l := testLine(t, srv.Client(t))
	nodes := []*Line{l, testLineAs(t, srv.Client(t), l.cfg.Prefix)}
	s := DefaultSettings("e")
	now := time.Now().UTC()
	lobby, opens, closes := now.Add(time.Hour), now.Add(2*time.Hour), now.Add(3*time.Hour)
	s.LobbyOpensAt, s.OpensAt, s.ClosesAt = &lobby, &opens, &closes
	_, err := l.Create(t.Context(), s, "", "ada")
	require.NoError(t, err)
	for i, state := range []State{Lobby, Open, Closed} {
		at(t, l, time.Duration(i+1)*time.Hour+time.Minute)
		var wg sync.WaitGroup
		for n := range 16 {
			wg.Go(func() {
				if e, err := nodes[n%2].Event(t.Context(), "e"); err != nil || e.State != state {
					t.Errorf("%v %v", e.State, err)
				}
			})
		}
		wg.Wait()
		srv.Kill(t)
		srv.Restart(t)
		e, err := nodes[1].Event(t.Context(), "e")
		require.NoError(t, err)
		require.Equal(t, []any{state, "schedule"}, []any{e.State, e.Reason})
	}
	trail, err := l.Audit(t.Context(), "e", "", 0)
	require.NoError(t, err)
	var moves []string
	for _, r := range trail[1:] {
		moves = append(moves, r.By+" "+r.What+" "+r.Before+" "+r.After)
	}
	require.Equal(t, []string{"schedule state scheduled lobby", "schedule state lobby open", "schedule state open closed"}, moves)
}
