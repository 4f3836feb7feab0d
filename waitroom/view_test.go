package waitroom

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// Promise 6: positions equal rank + 1 for everybody, whatever happens to the line:
// joins, leaves, promotions, expiries, lost places that come back, new epochs.
func TestPromise6PositionsEqualRanks(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			seed := rand.Uint64()
			rnd := rand.New(rand.NewPCG(seed, 0))
			t.Logf("seed %d", seed)
			l := testLine(t, rdb)
			open(t, l, func(s *Settings) { s.RatePerS = 10_000 })
			views := []*View{watch(t, l, nil), watch(t, testLineAs(t, rdb, l.cfg.Prefix), &heardOf{})}
			var places []Place
			var seqs []Seq
			joined := func(ps ...Place) {
				for _, p := range ps {
					if !slices.ContainsFunc(places, func(q Place) bool { return q.Entry == p.Entry }) {
						places = append(places, p)
					}
					seqs = append(seqs, p.Seq)
				}
			}
			one := func() Place { return places[rnd.IntN(len(places))] }
			joined(joinMany(t, l, 300)...)
			for round := range 12 {
				for range 25 {
					switch rnd.IntN(10) {
					case 0, 1:
						joined(joinMany(t, l, 1+rnd.IntN(40))...)
					case 2, 3:
						require.NoError(t, l.Leave(t.Context(), "e", one().Entry))
					case 4:
						shift(t, l, 200*time.Millisecond)
						promote(t, l, rnd.IntN(20))
					case 5: // graces end, but of those who were here a moment ago
						shift(t, l, time.Minute)
						for range 20 {
							_, err := l.Place(t.Context(), "e", one().Receipt)
							requireGone(t, err)
						}
						_, err := l.Sweep(t.Context(), "e")
						require.NoError(t, err)
					case 6: // comes back, at the end where the place is over
						p, err := l.Join(t.Context(), JoinRequest{Event: "e", Receipt: one().Receipt})
						requireGone(t, err)
						if err == nil {
							joined(p)
						}
					case 7:
						if rnd.IntN(5) == 0 {
							require.NoError(t, l.Block(t.Context(), "e", one().Entry, "test"))
						}
					case 8: // the store loses a place behind everyone's back, and the feed with it
						if rnd.IntN(5) == 0 {
							misplace(t, l, one())
						}
					case 9: // the store falls back to a copy without the newest, and is another epoch
						if rnd.IntN(5) == 0 {
							fallBack(t, l, 1+rnd.IntN(20))
							joined(joinMany(t, l, 1)...)
						}
					}
				}
				if round%4 == 3 { // what was lost comes back from receipts
					for _, p := range places {
						_, err := l.Place(t.Context(), "e", p.Receipt)
						requireGone(t, err)
					}
				}
				for _, v := range views {
					requireRanks(t, l, v, seqs)
				}
			}
		})
	}
}

// Settings, state, counts and the list of events are known soon, and misses find
// what was made a moment ago.
func TestViewKnowsEvents(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			var lis heardOf
			v := watch(t, l, &lis)
			_, err := v.Event(t.Context(), "e")
			require.ErrorIs(t, err, ErrNoEvent)
			for i := range 3 {
				s := DefaultSettings(EventID(fmt.Sprintf("e%d", i)))
				_, err := l.Create(t.Context(), s, "", "test")
				require.NoError(t, err)
				began := time.Now()
				ev, err := v.Event(t.Context(), s.ID)
				require.NoError(t, err)
				require.Equal(t, s, ev.Settings)
				t.Logf("a new event was found after %v", time.Since(began))
			}
			require.Len(t, v.Events(), 3)

			open(t, l, nil)
			joinMany(t, l, 30)
			_, err = v.Event(t.Context(), "e")
			require.NoError(t, err)
			promote(t, l, 10)
			until(t, "counts", func() bool {
				ev, err := v.Event(t.Context(), "e")
				return err == nil && ev.Waiting == 20 && ev.Inside == 10 && ev.Admitted == 10
			})
			level(t, v)
			eta, p90, ok := v.Estimate("e", 0, 5)
			require.True(t, ok)
			require.True(t, eta >= time.Second && p90 >= eta, "%v, %v", eta, p90)

			_, err = l.Patch(t.Context(), "e", []byte(`{"state":"paused","message":"back soon"}`), "test")
			require.NoError(t, err)
			until(t, "paused", func() bool { return lis.last().State == Paused })
			ev, err := v.Event(t.Context(), "e")
			require.NoError(t, err)
			require.Equal(t, "back soon", ev.Message)
			level(t, v)
			_, _, ok = v.Estimate("e", 0, 5)
			require.False(t, ok, "no estimate while paused")

			require.NoError(t, l.Delete(t.Context(), "e", "test"))
			until(t, "deleted", func() bool { return lis.last().Reason == "deleted" })
			_, err = v.Event(t.Context(), "e")
			require.ErrorIs(t, err, ErrNoEvent)
			require.Len(t, v.Events(), 3)

			canceled, cancel := context.WithCancel(t.Context())
			cancel()
			_, err = v.Event(canceled, "none")
			require.ErrorIs(t, err, context.Canceled)
		})
	}
}

// What the listener is told is what was done, in order, once.
func TestViewTellsItsListener(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			open(t, l, func(s *Settings) { s.RatePerS = 5000 })
			var lis heardOf
			v := watch(t, l, &lis)
			places := joinMany(t, l, 300)
			level(t, v)
			var grants []Grant
			for i := range 10 {
				require.NoError(t, l.Leave(t.Context(), "e", places[299-i].Entry))
				shift(t, l, 200*time.Millisecond)
				grants = append(grants, promote(t, l, 25).Grants...)
			}
			until(t, "all grants", func() bool { return len(lis.grants()) >= len(grants) })
			require.Equal(t, grants, lis.grants())
			require.NoError(t, l.Complete(t.Context(), "e", grants[3].JTI))
			require.NoError(t, l.Revoke(t.Context(), "e", grants[4].JTI, "op"))
			level(t, v)
			lis.mu.Lock()
			defer lis.mu.Unlock()
			require.Len(t, lis.departed, 10)
			require.Equal(t, Departure{Entry: places[299].Entry, Seq: places[299].Seq, State: EntryLeft}, lis.departed[0])
			require.Equal(t, []End{
				{Entry: grants[3].Entry, JTI: grants[3].JTI, State: EntryCompleted},
				{Entry: grants[4].Entry, JTI: grants[4].JTI, State: EntryBlocked},
			}, lis.ended)
			require.Equal(t, 1, lis.forgotten, "only the first heartbeat was news")
		})
	}
}

// whenLetIn records what was known of the event when somebody was let in.
type whenLetIn struct {
	heardOf
	known chan Event // one admission
}

func (w *whenLetIn) Admitted(EventID, []Grant) { w.known <- w.last() }

// Whoever is let in after a change is told what the change says, also where both are
// read at once.
func TestViewTellsOfAChangeBeforeItsAdmissions(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config{})
	l := testLine(t, s.Client(t))
	open(t, l, func(s *Settings) { s.RedirectURL = "/old" })
	joinMany(t, l, 1)
	var g gate
	slow := s.Client(t)
	slow.AddHook(&g)
	lis := whenLetIn{known: make(chan Event, 1)}
	v := watch(t, testLineAs(t, slow, l.cfg.Prefix), &lis)
	level(t, v)
	g.mu.Lock()
	_, err := l.Patch(t.Context(), "e", []byte(`{"redirect_url":"/new","state":"paused"}`), "op")
	require.NoError(t, err)
	_, err = l.Admit(t.Context(), "e", AdmitRequest{Count: 1, By: "op"})
	require.NoError(t, err)
	g.mu.Unlock()
	ev := <-lis.known
	require.Equal(t, "/new", ev.RedirectURL)
	require.Equal(t, Paused, ev.State)
}

// A view that could not read for a while loses nobody's admission.
func TestViewTellsOfFiveThousandAdmissionsAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config{})
	l := testLine(t, s.Client(t))
	open(t, l, nil)
	joinMany(t, l, 5000)
	var g gate
	slow := s.Client(t)
	slow.AddHook(&g)
	var lis heardOf
	v := watch(t, testLineAs(t, slow, l.cfg.Prefix), &lis)
	level(t, v)
	g.mu.Lock()
	var grants []Grant
	for len(grants) < 5000 {
		gs, err := l.Admit(t.Context(), "e", AdmitRequest{Count: 500, By: "test"})
		require.NoError(t, err)
		grants = append(grants, gs...)
	}
	g.mu.Unlock()
	until(t, "all grants", func() bool { return len(lis.grants()) >= len(grants) })
	require.Equal(t, grants, lis.grants())
}

// The heartbeat keeps a node's sockets counted, and says when they were forgotten.
func TestViewBeatsForItsNode(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			open(t, l, nil)
			var lis heardOf
			watch(t, l, &lis)
			forgotten := func(n int) func() bool {
				return func() bool {
					lis.mu.Lock()
					defer lis.mu.Unlock()
					return lis.forgotten == n
				}
			}
			until(t, "the first heartbeat", forgotten(1))
			require.Equal(t, []string{l.Node()}, rdb.ZRange(t.Context(), l.keys.nodes("e"), 0, -1).Val())
			shift(t, l, HeartbeatTTL+time.Second)
			_, err := l.Sweep(t.Context(), "e")
			require.NoError(t, err)
			until(t, "the node was given up, and is told", forgotten(2))
		})
	}
}

// A long line is read in pieces, with admissions told between them.
func TestViewLoadsALongLine(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			ev := open(t, l, nil)
			fillLine(t, l, ev.Epoch, 4*lineBatch)
			places := joinN(t, l, 3)
			v := watch(t, l, nil)
			var seqs []Seq
			for i := range int64(4 * lineBatch) {
				seqs = append(seqs, Seq(ev.Epoch+1+i))
			}
			requireRanks(t, l, v, slices.Concat(seqs, seqsOf(places)))
		})
	}
}

// A view that ends says so to whoever waits for it, and one that never ran does not
// keep anyone for ever.
func TestViewEnds(t *testing.T) {
	t.Parallel()
	l := testLine(t, redistest.Mini(t))
	open(t, l, nil)
	_, err := NewView(nil, nil)
	require.Error(t, err)
	v, err := NewView(l, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- v.Run(ctx) }()
	_, err = v.Event(t.Context(), "e")
	require.NoError(t, err)
	cancel()
	require.NoError(t, <-ended)
	_, err = v.Event(t.Context(), "other")
	require.ErrorIs(t, err, ErrUnavailable)
	require.False(t, v.Level("none"))
	_, _, ok := v.Estimate("none", 0, 1)
	require.False(t, ok)
	_, ok = v.Position("none", 1)
	require.False(t, ok)
}

// Cancelled at any moment, a view ends well and leaves nothing running.
func TestViewEndsAtAnyMoment(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			open(t, l, nil)
			joinMany(t, l, 100)
			for range 40 {
				v, err := NewView(l, &heardOf{})
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(120*time.Millisecond))
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() {
						_, err := v.Event(ctx, EventID([]string{"e", "none"}[rand.IntN(2)]))
						if err != nil && ctx.Err() == nil && !errors.Is(err, ErrNoEvent) {
							t.Errorf("event: %v", err)
						}
					})
				}
				require.NoError(t, v.Run(ctx))
				cancel()
				wg.Wait()
			}
		})
	}
}

// The view on a cluster of three masters, with events on all of them.
func TestViewsOnACluster(t *testing.T) {
	t.Parallel()
	l := testLine(t, redistest.Cluster(t))
	v := watch(t, l, nil)
	for i := range 9 {
		s := DefaultSettings(EventID(fmt.Sprintf("event-%d", i)))
		_, err := l.Create(t.Context(), s, Open, "test")
		require.NoError(t, err)
		var last Place
		for range 5 {
			last, err = l.Join(t.Context(), JoinRequest{Event: s.ID})
			require.NoError(t, err)
		}
		_, err = l.Admit(t.Context(), s.ID, AdmitRequest{Count: 2, By: "test"})
		require.NoError(t, err)
		_, err = v.Event(t.Context(), s.ID)
		require.NoError(t, err)
		until(t, "the third place", func() bool {
			pos, ok := v.Position(s.ID, last.Seq)
			return ok && pos == 3 && v.Level(s.ID)
		})
	}
}
