package waitroom

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// heardOf records what a Listener was told.
type heardOf struct {
	mu        sync.Mutex
	admitted  []Grant
	departed  []Departure
	ended     []End
	changed   []Event
	forgotten int
}

func (h *heardOf) Admitted(_ EventID, gs []Grant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.admitted = append(h.admitted, gs...)
}

func (h *heardOf) Departed(_ EventID, ds []Departure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.departed = append(h.departed, ds...)
}

func (h *heardOf) Ended(_ EventID, es []End) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = append(h.ended, es...)
}

func (h *heardOf) Changed(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed = append(h.changed, e)
}

func (h *heardOf) Forgotten(EventID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgotten++
}

func (h *heardOf) last() Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.changed) == 0 {
		return Event{}
	}
	return h.changed[len(h.changed)-1]
}

func (h *heardOf) grants() []Grant {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.admitted)
}

// watch runs a view of l until the test ends.
func watch(tb testing.TB, l *Line, lis Listener) *View {
	tb.Helper()
	v, err := NewView(l, lis)
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	ended := make(chan error, 1)
	go func() { ended <- v.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			require.NoError(tb, err, "a view ends well")
		case <-time.After(30 * time.Second):
			tb.Error("the view did not end")
		}
	})
	return v
}

// until waits for what must come to be.
func until(tb testing.TB, what string, cond func() bool) {
	tb.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			require.FailNow(tb, "waited in vain", "for: %s", what)
		}
	}
}

// level waits until the view has read the feed, from its beginning to its end,
// after the call, and says that it is level.
func level(tb testing.TB, v *View) {
	tb.Helper()
	heard := func() (time.Time, bool) {
		f := v.follower("e")
		if f == nil {
			return time.Time{}, false
		}
		f.state.mu.RLock()
		defer f.state.mu.RUnlock()
		return f.state.heard, f.state.level
	}
	for range 2 { // the first reading may have begun before the call
		before, _ := heard()
		until(tb, "a level view", func() bool {
			now, ok := heard()
			return ok && now.After(before)
		})
	}
}

// requireRanks compares the place of every sequence ever given with the store's.
func requireRanks(tb testing.TB, l *Line, v *View, seqs []Seq) {
	tb.Helper()
	level(tb, v)
	zs, err := l.rdb.ZRangeWithScores(tb.Context(), l.keys.line("e"), 0, -1).Result()
	require.NoError(tb, err)
	ranks := make(map[Seq]int64, len(zs))
	for i, z := range zs {
		ranks[Seq(z.Score)] = int64(i) + 1
	}
	for _, seq := range slices.Concat(seqs, slices.Collect(maps.Keys(ranks))) {
		pos, ok := v.Position("e", seq)
		require.Equal(tb, ranks[seq] > 0, ok, "whether %d waits", seq)
		require.Equal(tb, ranks[seq], pos, "position of %d", seq)
	}
}

// requireGone lets pass that somebody has no place, and nothing else.
func requireGone(tb testing.TB, err error) {
	tb.Helper()
	if err != nil && !errors.Is(err, ErrBlocked) {
		require.ErrorIs(tb, err, ErrNoEntry)
	}
}

// gate keeps readings of the feed waiting while a test holds its lock.
type gate struct {
	hook
	mu sync.RWMutex
}

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "xrange" {
			g.mu.RLock()
			defer g.mu.RUnlock()
		}
		return next(ctx, cmd)
	}
}

// hook does nothing, for hooks that do something.
type hook struct{}

func (hook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func seqsOf(places []Place) []Seq {
	seqs := make([]Seq, len(places))
	for i, p := range places {
		seqs[i] = p.Seq
	}
	return seqs
}

// counting counts commands by name.
type counting struct {
	hook
	n, scans, places atomic.Int64
}

func (c *counting) count(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		c.n.Add(1)
		if strings.HasPrefix(cmd.Name(), "z") {
			c.scans.Add(1)
		}
		if args := cmd.Args(); len(args) > 1 && args[1] == scriptPlace.Hash() {
			c.places.Add(1)
		}
	}
}

func (c *counting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}

func (c *counting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.count(cmds...)
		return next(ctx, cmds)
	}
}

// fillLine puts n people into the line at once, every seventh of whom has left.
func fillLine(tb testing.TB, l *Line, base int64, n int) {
	tb.Helper()
	for from := 0; from < n; from += 1000 {
		zs := make([]redis.Z, 0, 1000)
		for i := from; i < min(n, from+1000); i++ {
			if i%7 != 0 {
				zs = append(zs, redis.Z{Score: float64(base + 1 + int64(i)), Member: fmt.Sprintf("p%015d", i)})
			}
		}
		require.NoError(tb, l.rdb.ZAdd(tb.Context(), l.keys.line("e"), zs...).Err())
	}
	require.NoError(tb, l.rdb.HSet(tb.Context(), l.keys.meta("e"), "seq", base+int64(n)).Err())
}
