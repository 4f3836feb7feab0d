package waitroom

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// doc.go promises 21 and 22 on a cluster, in virtual time: people join four lanes through
// two nodes, leave and come back, while the leader is killed, wakes and calls beside its
// successor, or calls too often. Whatever happens, each lane lets in those who joined it in
// the order in which they did, no second holds more than the lane's rate or the event's,
// who stands below has only what those above leave, and no shown position grows.
func TestPromise21FaultsBreakNoLane(t *testing.T) {
	t.Parallel()
	rdb := redistest.Cluster(t)
	a := testLine(t, rdb)
	nodes := []*Line{a, testLineAs(t, rdb, a.keys.prefix)}
	own := 30.0
	e := open(t, a, func(s *Settings) {
		s.RatePerS, s.Grace = 100, Duration(24*time.Hour)
		s.Lanes = []LaneSettings{{Name: "eu", RatePerS: &own}, {Name: "us", Share: 0.2}, {Name: "gold"}, {Name: "public"}}
	})
	rates := []float64{30, 20, 100, 100}
	type letIn struct {
		at   time.Time
		lane int
	}
	var (
		random = rand.New(rand.NewPCG(21, 22))
		views  = []*View{watch(t, nodes[0], nil), watch(t, nodes[1], nil)}
		now    = noon
		lines  = make([][]Place, len(rates))                               // who waits, in the order of their joins
		shown  = []map[Seq]int64{make(map[Seq]int64), make(map[Seq]int64)} // by each node
		let    []letIn
		in     = make(map[EntryID]bool)
		left   []Place
		fence  = int64(1)
		faults = 0
	)
	join := func(lane int, receipt string) {
		groups, err := e.ChooseLane(e.Lanes[lane].Name, nil)
		require.NoError(t, err)
		p, err := nodes[random.IntN(2)].Join(t.Context(), JoinRequest{Event: "e", Groups: groups, Receipt: receipt})
		require.NoError(t, err)
		require.True(t, p.Created)
		lines[e.LaneNumber(p.Seq)] = append(lines[e.LaneNumber(p.Seq)], p)
	}
	promote := func(node, lane int, fence int64) {
		p, err := nodes[node].Promote(t.Context(), PromoteRequest{Event: "e", Fence: fence, N: 40, Lane: lane})
		require.NoError(t, err)
		want := lines[lane][:len(p.Grants)]
		require.Equal(t, entries(want), granted(p.Grants), "order within %s", e.Lanes[lane].Name)
		lines[lane] = lines[lane][len(p.Grants):]
		for _, g := range p.Grants {
			require.False(t, in[g.Entry], "one grant for one place")
			in[g.Entry] = true
			let = append(let, letIn{now, lane})
		}
		if lane == 3 && len(p.Grants) > 0 {
			require.Empty(t, lines[2], "a lane without a rate has what the one above it leaves")
		}
		second := make([]int, len(rates)+1)
		for _, l := range let {
			if l.at.After(now.Add(-time.Second)) {
				second[l.lane]++
				second[len(rates)]++
			}
		}
		for i, rate := range append(slices.Clone(rates), 100) {
			require.LessOrEqual(t, float64(second[i]), rate*1.1, "lane %d (%d: the event) in the second up to %v", i, len(rates), now.Sub(noon))
		}
	}
	look := func() {
		for i, v := range views {
			for _, line := range lines {
				for _, p := range line {
					pos, ok := v.Position("e", p.Seq)
					if before, told := shown[i][p.Seq]; ok && told {
						require.LessOrEqual(t, pos, before, "a position grew")
					}
					if ok {
						shown[i][p.Seq] = pos
					}
				}
			}
		}
	}
	for tick := range 150 {
		now = now.Add(100 * time.Millisecond)
		freeze(t, a, now)
		for range random.IntN(22) {
			join(random.IntN(len(rates)), "")
		}
		if lane := random.IntN(len(rates)); tick%5 == 0 && len(lines[lane]) > 0 {
			i := random.IntN(len(lines[lane]))
			gone := lines[lane][i]
			require.NoError(t, a.Leave(t.Context(), "e", gone.Entry))
			lines[lane] = slices.Delete(lines[lane], i, i+1)
			left = append(left, gone)
		}
		if tick%15 == 7 {
			back := left[0]
			left = left[1:]
			join(random.IntN(len(rates)), back.Receipt)
		}
		for lane := range rates {
			if random.IntN(8) == 0 { // another leads from here on, and the old one wakes
				faults++
				fence++
				promote(int(fence)%2, lane, fence)
				_, err := nodes[int(fence-1)%2].Promote(t.Context(), PromoteRequest{Event: "e", Fence: fence - 1, N: 40, Lane: lane})
				require.ErrorIs(t, err, ErrFenced)
			}
			promote(int(fence)%2, lane, fence)
			if random.IntN(8) == 0 { // a tick is made up for
				faults++
				promote(int(fence)%2, lane, fence)
			}
		}
		look()
	}
	require.Greater(t, faults, 100)
	for lane, rate := range []float64{30, 20} { // nobody starved by any of it
		n := 0
		for _, l := range let {
			if l.lane == lane {
				n++
			}
		}
		require.Greater(t, float64(n), 15*rate*0.7, "%s had its rate", e.Lanes[lane].Name)
	}
	for _, v := range views {
		until(t, "exact places", func() bool {
			for lane, line := range lines {
				for n, p := range line {
					if pos, ok := v.Position("e", p.Seq); !ok || pos != int64(n+1) {
						return false
					}
				}
				if ev, err := v.Event(t.Context(), "e"); err != nil || ev.LaneCounts[lane].Waiting != int64(len(line)) {
					return false
				}
			}
			return true
		})
	}
}
