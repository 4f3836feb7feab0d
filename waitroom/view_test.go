package waitroom

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// Promise 6: positions equal rank + 1 for everybody, whatever happens to the line.
func TestPromise6PositionsEqualRanks(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
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
				switch rnd.IntN(9) {
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
						lose(t, l, one())
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

// Settings, state, counts and the list of events are known soon, and misses find
// what was made a moment ago.
func TestViewKnowsEvents(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
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
		_, err = l.Patch(t.Context(), "e", []byte(`{"state":"paused","message":"back soon"}`), "test")
		require.NoError(t, err)
		until(t, "paused", func() bool { return lis.last().State == Paused })
		ev, err := v.Event(t.Context(), "e")
		require.NoError(t, err)
		require.Equal(t, "back soon", ev.Message)
		level(t, v)
		_, _, ok := v.Estimate("e", 5)
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

// What the listener is told is what was done, in order, once.
func TestViewTellsItsListener(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
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
		level(t, v)
		lis.mu.Lock()
		defer lis.mu.Unlock()
		require.Len(t, lis.departed, 10)
		require.Equal(t, Departure{Entry: places[299].Entry, Seq: places[299].Seq, State: EntryLeft}, lis.departed[0])
		require.Equal(t, 1, lis.forgotten, "only the first heartbeat was news")
	})
}

// The heartbeat keeps a node's sockets counted, and says when they were forgotten.
func TestViewBeatsForItsNode(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
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

// Positions cost the store nothing per person: the commands of a tick are few, and
// the same at 1,000 and at 50,000 waiting.
func TestViewCommandsDoNotDependOnPeople(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config{})
	l := testLine(t, s.Client(t))
	open(t, l, func(s *Settings) { s.RatePerS = 5000 })
	var c counting
	rdb := s.Client(t)
	rdb.AddHook(&c)
	var lis heardOf
	v := watch(t, testLineAs(t, rdb, l.cfg.Prefix), &lis)

	// measure has ten people promoted and ten leave each tick for a second, while
	// every position is asked for, and returns the commands per tick.
	measure := func(places []Place) float64 {
		level(t, v)
		c.n.Store(0)
		c.scans.Store(0)
		began := time.Now()
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for i := range 10 {
			<-tick.C
			promote(t, l, 10)
			for j := range 10 {
				require.NoError(t, l.Leave(t.Context(), "e", places[len(places)-1-10*i-j].Entry))
			}
			for _, p := range places {
				if pos, ok := v.Position("e", p.Seq); ok {
					v.Estimate("e", pos)
				}
			}
		}
		ticks := max(10, float64(time.Since(began))/float64(100*time.Millisecond))
		require.Zero(t, c.scans.Load(), "the line itself is not read while nothing is missing")
		return float64(c.n.Load()) / ticks
	}
	few := joinMany(t, l, 1000)
	atFew := measure(few)
	many := joinMany(t, l, 49_000)
	atMany := measure(many)
	t.Logf("commands per tick: %.1f at 1,000 waiting, %.1f at 50,000", atFew, atMany)
	require.LessOrEqual(t, max(atFew, atMany), 20.0)
	require.InDelta(t, atFew, atMany, 2)
	requireRanks(t, l, v, seqsOf(slices.Concat(few, many)))
}

// Misses cost the store nothing each: all who ask share one reading of the list.
func TestViewMissesAreShared(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config{})
	rdb := s.Client(t)
	var c counting
	rdb.AddHook(&c)
	v := watch(t, testLine(t, rdb), nil)
	until(t, "the first list", func() bool { return c.n.Load() > 0 })
	began := time.Now()
	c.n.Store(0)
	var wg sync.WaitGroup
	for i := range 2000 {
		wg.Go(func() {
			_, err := v.Event(t.Context(), EventID(fmt.Sprintf("none-%d", i)))
			if err == nil {
				t.Error("found an event that there is not")
			}
		})
	}
	wg.Wait()
	rounds := int64(time.Since(began)/viewSpacing) + 2
	require.LessOrEqual(t, c.n.Load(), rounds)
}

// A long line is read in pieces, with admissions told between them.
func TestViewLoadsALongLine(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
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
	require.True(t, v.Stale("none"))
	_, _, ok := v.Estimate("none", 1)
	require.False(t, ok)
	_, ok = v.Position("none", 1)
	require.False(t, ok)
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

// BenchmarkViewLoad reads a line from the store as after a start or a gap.
func BenchmarkViewLoad(b *testing.B) {
	const n = 200_000
	l, _ := benchLine(b)
	ev, err := l.Event(b.Context(), "e")
	require.NoError(b, err)
	fillLine(b, l, ev.Epoch, n)
	f := newFollower("e", l, nil, zap.NewNop())
	require.NoError(b, f.refresh(b.Context()))
	for b.Loop() {
		require.NoError(b, f.load(b.Context()))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/place")
}

// BenchmarkViewPosition answers as many people as a node may hold sockets of.
func BenchmarkViewPosition(b *testing.B) {
	l, _ := benchLine(b)
	ev, err := l.Event(b.Context(), "e")
	require.NoError(b, err)
	fillLine(b, l, ev.Epoch, 100_000)
	v := watch(b, l, nil)
	level(b, v)
	var i atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if pos, ok := v.Position("e", Seq(ev.Epoch+1+i.Add(1)%100_000)); ok {
				v.Estimate("e", pos)
			}
		}
	})
}
