package admission

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

var _ Line = (*waitroom.Line)(nil)

// realLine is a line with one open event "a" and so many people in it.
func realLine(t *testing.T, rdb redis.UniversalClient, rate float64, people int) *waitroom.Line {
	t.Helper()
	l := nodeLine(t, rdb)
	s, _, err := waitroom.DecodeSettings(fmt.Appendf(nil, `{"id":"a","rate_per_s":%v}`, rate))
	require.NoError(t, err)
	_, err = l.Create(t.Context(), s, waitroom.Open, "test")
	require.NoError(t, err)
	var joins sync.WaitGroup
	errs := make([]error, people)
	for i := range people {
		joins.Go(func() { _, errs[i] = l.Join(t.Context(), waitroom.JoinRequest{Event: "a"}) })
	}
	joins.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	return l
}

func nodeLine(t *testing.T, rdb redis.UniversalClient) *waitroom.Line {
	t.Helper()
	l, err := waitroom.New(waitroom.Config{ReceiptKeys: [][]byte{bytes.Repeat([]byte{7}, 32)}}, rdb, zaptest.NewLogger(t))
	require.NoError(t, err)
	return l
}

// recorder is a real line that keeps every grant it gave.
type recorder struct {
	*waitroom.Line

	mu     sync.Mutex // guards the fields below
	grants []waitroom.Grant
	fenced int
}

func (r *recorder) Promote(ctx context.Context, req waitroom.PromoteRequest) (waitroom.Promotion, error) {
	p, err := r.Line.Promote(ctx, req)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grants = append(r.grants, p.Grants...)
	if err != nil && ctx.Err() == nil {
		r.fenced++
	}
	return p, err
}

func (r *recorder) given() []waitroom.Grant {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]waitroom.Grant(nil), r.grants...)
}

// Promise 10, by the fence: whoever cannot know that the lease is gone is refused.
func TestFrozenLeaderIsFencedOff(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		line := realLine(t, rdb, 1000, 50)
		cfg := LeaseConfig{TTL: time.Minute}
		lease := func() *Lease {
			l, err := NewLease(cfg, rdb, zap.NewNop())
			require.NoError(t, err)
			return l
		}
		_, old, ok := lease().obtain(t.Context())
		require.True(t, ok)
		p, err := line.Promote(t.Context(), waitroom.PromoteRequest{Event: "a", Fence: old.Fence, N: 5})
		require.NoError(t, err)
		require.Len(t, p.Grants, 5)
		// It is paused; the lock key is deleted by hand; another wins.
		require.NoError(t, rdb.Del(t.Context(), leaseKey("wr")).Err())
		_, next, ok := lease().obtain(t.Context())
		require.True(t, ok)
		_, err = line.Promote(t.Context(), waitroom.PromoteRequest{Event: "a", Fence: next.Fence, N: 1})
		require.NoError(t, err)
		// It wakes in the middle of a tick, with a term that it trusts.
		require.True(t, old.Trusted())
		r := &recorder{Line: line}
		paused := leadOnce{term: old}
		c, err := New(Config{Node: "paused"}, Deps{Line: r, Leadership: &paused, Log: zaptest.NewLogger(t), Metrics: prometheus.NewRegistry()})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = c.Run(ctx) })
		until(t, "it steps down", paused.returned.Load)
		cancel()
		run.Wait()
		require.Empty(t, r.given(), "nobody was let in by the old term")
		require.Positive(t, r.fenced)
	})
}

// Two nodes on one event: the leader is cut off from the store, comes back, is
// deposed by hand. Nobody is in twice, nobody is lost, and the cap holds.
func TestTwoNodesThroughFaults(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	const (
		people = 400
		rate   = 100
	)
	line := realLine(t, server.Client(t), rate, people)
	begun := time.Now()
	type process struct {
		*recorder
		c   *Controller
		rdb *redis.Client
	}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	defer run.Wait()
	defer cancel()
	begin := func(name string) *process {
		rdb := server.Client(t)
		lease, err := NewLease(LeaseConfig{TTL: 400 * time.Millisecond}, rdb, zaptest.NewLogger(t).Named(name))
		require.NoError(t, err)
		p := &process{recorder: &recorder{Line: nodeLine(t, rdb)}, rdb: rdb}
		p.c, err = New(Config{Node: name}, Deps{
			Line: p.recorder, Leadership: lease, Bulletin: NewBulletin(rdb, "wr"),
			Log: zaptest.NewLogger(t).Named(name), Metrics: prometheus.NewRegistry(),
		})
		require.NoError(t, err)
		run.Go(func() { _ = p.c.Run(ctx) })
		return p
	}
	a := begin("a")
	until(t, "a lets people in", func() bool { return len(a.given()) >= 20 })
	b := begin("b")
	until(t, "b shows what a decides", func() bool {
		s, ok := b.c.Decision("a")
		return ok && s.Leader == "a"
	})
	require.NoError(t, a.rdb.Close()) // a crash: nothing of a reaches the store again, no release either
	until(t, "b takes over", func() bool { return len(b.given()) >= 20 })
	d := begin("d")
	require.NoError(t, b.rdb.Del(ctx, leaseKey("wr")).Err())
	until(t, "all are in", func() bool {
		ev, err := line.Event(ctx, "a")
		return err == nil && ev.Waiting == 0
	})
	took := time.Since(begun)
	cancel()
	run.Wait()

	ev, err := line.Event(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, int64(people), ev.Admitted)
	require.Equal(t, int64(people), ev.Inside)
	require.LessOrEqual(t, float64(people), rate*(took.Seconds()+0.1)+1, "in %v", took)
	entries := map[waitroom.EntryID]bool{}
	for _, p := range []*process{a, b, d} {
		for _, g := range p.given() {
			require.False(t, entries[g.Entry], "%s was let in twice", g.Entry)
			entries[g.Entry] = true
		}
	}
	// What was promoted by a call whose answer a crash cut off is in the store alone.
	require.InDelta(t, people, len(entries), rate/10+1)
}

// The law follows the pools of the whole installation, through the real board.
func TestBusyPeerStopsTheAdmission(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		ev := sells()
		ev.RatePerS = 100
		line := newFakeLine(ev)
		var (
			mu   sync.Mutex
			load = PoolStats{InUse: 1, Max: 10}
		)
		leader, peer := NewPoolBoard(rdb, "p", "leader"), NewPoolBoard(rdb, "p", "peer")
		leader.Publish(fixed(PoolStats{Max: 10}))
		peer.Publish(Pool{Stats: func() PoolStats { mu.Lock(); defer mu.Unlock(); return load }})
		c, err := New(Config{Node: "n1"}, Deps{
			Line: line, Leadership: &terms{trusted: time.Hour}, Sources: []Source{leader, NewReports(rdb, "p")},
			Log: zaptest.NewLogger(t), Metrics: prometheus.NewRegistry(),
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		defer run.Wait()
		defer cancel()
		reports := c.deps.Sources[1].(*Reports)
		for _, r := range []func(context.Context) error{leader.Run, peer.Run, reports.Run, c.Run} {
			run.Go(func() { _ = r(ctx) })
		}
		reason := func(want string) func() bool {
			return func() bool { s, ok := c.Decision("demo"); return ok && s.Reason == want }
		}
		until(t, "it lets people in", reason(ReasonRate))
		mu.Lock()
		load = PoolStats{InUse: 10, Max: 10, Waiting: 40}
		mu.Unlock()
		until(t, "the peer's queue stops it", func() bool { s, _ := c.Decision("demo"); return s.Reason == ReasonBusy && s.RatePerS == 0 })
		mu.Lock()
		load = PoolStats{InUse: 10, Max: 10}
		mu.Unlock()
		until(t, "a full pool with nobody waiting is no overload", reason(ReasonRecovering))
		require.NoError(t, reports.Report(ctx, "demo", 0.97))
		until(t, "the site's report stops it", reason(ReasonBusy))
	})
}
