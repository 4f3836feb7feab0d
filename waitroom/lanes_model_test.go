package waitroom

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// laneModel is what lanes promise, in plain Go: a list for each, everybody in one.
type laneModel struct {
	lines  [3][]EntryID
	inside map[EntryID]int         // lane
	tokens map[EntryID]JoinRequest // of everybody who ever joined
	grants map[EntryID]Grant
	passed [3][]time.Time // when people were let in
}

func (m *laneModel) lane(e EntryID) int {
	for lane, line := range m.lines {
		if slices.Contains(line, e) {
			return lane
		}
	}
	return -1
}

// doc.go promise 21: any order of joins, promotions, departures and ends keeps
// order within each lane, every cap over all of them and within each, and each person in
// one place.
func TestPromise21LanesKeepWhatTheEventPromises(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Config{}).Client(t)
	rapid.Check(t, func(rt *rapid.T) {
		l := testLineAs(t, rdb, fmt.Sprintf("lanes%d", rand.Int64()))
		e := open(t, l, regions)
		now := noon
		freeze(t, l, now)
		m := laneModel{inside: map[EntryID]int{}, tokens: map[EntryID]JoinRequest{}, grants: map[EntryID]Grant{}}
		names := []string{"eu", "us", "asia"}
		limits := [3]float64{30, 50, 100}
		someone := func(label string) (EntryID, bool) {
			all := make([]EntryID, 0, len(m.tokens))
			for id := range m.tokens {
				all = append(all, id)
			}
			if len(all) == 0 {
				return "", false
			}
			slices.Sort(all)
			return all[rapid.IntRange(0, len(all)-1).Draw(rt, label)], true
		}
		rt.Repeat(map[string]func(*rapid.T){
			"join": func(rt *rapid.T) {
				lane := rapid.IntRange(0, 2).Draw(rt, "lane")
				for range rapid.IntRange(1, 6).Draw(rt, "people") {
					groups, err := e.ChooseLane(names[lane], nil)
					require.NoError(rt, err)
					p, err := l.Join(t.Context(), JoinRequest{Event: "e", Groups: groups})
					require.NoError(rt, err)
					require.Equal(rt, names[lane], e.LaneOf(p.Seq))
					m.lines[lane] = append(m.lines[lane], p.Entry)
					m.tokens[p.Entry] = JoinRequest{Event: "e", Receipt: p.Receipt}
				}
			},
			"join again elsewhere": func(rt *rapid.T) {
				id, ok := someone("who")
				if !ok {
					return
				}
				req := m.tokens[id]
				req.Groups = []string{names[rapid.IntRange(0, 2).Draw(rt, "lane")]}
				p, err := l.Join(t.Context(), req)
				require.NoError(rt, err)
				if _, in := m.inside[id]; in || m.lane(id) >= 0 {
					require.Equal(rt, id, p.Entry)
					require.False(rt, p.Created, "whoever has a place or a turn has no other")
					return
				}
				now, was := e.LaneNumber(p.Seq), e.LaneNumber(seqOf(t, l, m.tokens[id].Receipt))
				require.Equal(rt, req.Groups[0], names[now], "whoever comes back stands where they join")
				require.Equal(rt, now >= was, id == p.Entry, "as somebody else in a lane ahead of theirs")
				m.lines[now] = append(m.lines[now], p.Entry)
				m.tokens[p.Entry] = JoinRequest{Event: "e", Receipt: p.Receipt}
			},
			"leave": func(rt *rapid.T) {
				id, ok := someone("who")
				if !ok {
					return
				}
				require.NoError(rt, l.Leave(t.Context(), "e", id))
				if lane := m.lane(id); lane >= 0 {
					m.lines[lane] = slices.DeleteFunc(m.lines[lane], func(e EntryID) bool { return e == id })
				}
				delete(m.inside, id)
				delete(m.grants, id)
			},
			"complete": func(rt *rapid.T) {
				for id, g := range m.grants {
					require.NoError(rt, l.Complete(t.Context(), "e", g.JTI))
					delete(m.inside, id)
					delete(m.grants, id)
					break
				}
			},
			"tick": func(rt *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 400).Draw(rt, "ms")) * time.Millisecond)
				freeze(t, l, now)
				for lane := range names {
					p, err := l.Promote(t.Context(), PromoteRequest{Event: "e", Fence: 1, N: rapid.IntRange(0, 40).Draw(rt, "n"), Lane: lane})
					require.NoError(rt, err)
					got := granted(p.Grants)
					require.LessOrEqual(rt, len(got), len(m.lines[lane]))
					if len(got) > 0 {
						require.Equal(rt, m.lines[lane][:len(got)], got, "order within %s", names[lane])
					}
					m.lines[lane] = m.lines[lane][len(got):]
					for _, g := range p.Grants {
						m.inside[g.Entry], m.grants[g.Entry] = lane, g
						m.passed[lane] = append(m.passed[lane], now)
					}
					require.Equal(rt, int64(len(m.lines[lane])), p.Waiting)
				}
			},
			"": func(rt *rapid.T) {
				ev, err := l.Event(t.Context(), "e")
				require.NoError(rt, err)
				within, all := [3]int64{}, 0
				for _, lane := range m.inside {
					within[lane]++
				}
				require.LessOrEqual(rt, len(m.inside), 60, "max_active of the event")
				require.LessOrEqual(rt, within[1], int64(40), "max_active of the lane")
				require.Equal(rt, int64(len(m.inside)), ev.Inside)
				for lane := range names {
					require.Equal(rt, LaneCounts{Name: names[lane], RatePerS: limits[lane], Waiting: int64(len(m.lines[lane])), Inside: within[lane], Admitted: int64(len(m.passed[lane]))}, ev.LaneCounts[lane])
					recent := 0
					for _, at := range m.passed[lane] {
						if now.Sub(at) < time.Second {
							recent++
						}
					}
					all += recent
					require.LessOrEqual(rt, float64(recent), limits[lane]*1.1+1, "a second of %s", names[lane])
				}
				require.LessOrEqual(rt, all, 110, "a second of the event")
			},
		})
	})
}

func seqOf(tb testing.TB, l *Line, receipt string) Seq {
	tb.Helper()
	_, seq, err := l.ReadReceipt("e", receipt)
	require.NoError(tb, err)
	return seq
}
