package waitroom

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

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
					v.Estimate("e", 0, pos)
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
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if pos, ok := v.Position("e", Seq(ev.Epoch+1+i.Add(1)%100_000)); ok {
				v.Estimate("e", 0, pos)
			}
		}
	})
}
