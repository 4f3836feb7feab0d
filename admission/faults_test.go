package admission

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// TestFaultsInVirtualTime lets two nodes lead in turn through a thousand faults:
// deleted locks, hanging and failing calls, planned stops. The line here has a fence
// and no cap, so what is seen is what the loop and the lease do by themselves.
func TestFaultsInVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate = 50
		line := newFakeLine(free("a", rate))
		random := rand.New(rand.NewPCG(1, 2))
		type process struct {
			hung, broken atomic.Bool
			stop         func()
		}
		store := &fakeStore{}
		begin := func() *process {
			p := &process{}
			ctx, cancel := context.WithCancel(t.Context())
			lease, err := NewLease(LeaseConfig{}, &hooked{fakeStore: store, hook: func(ctx context.Context) error {
				if p.hung.Load() {
					<-ctx.Done()
					return ctx.Err()
				}
				if p.broken.Load() {
					return errors.New("connection reset")
				}
				return nil
			}}, zap.NewNop())
			require.NoError(t, err)
			c, err := New(Config{Node: "n"}, Deps{Line: line, Leadership: lease, Log: zap.NewNop(), Metrics: prometheus.NewRegistry()})
			require.NoError(t, err)
			done := make(chan struct{})
			go func() { defer close(done); _ = c.Run(ctx) }()
			p.stop = func() { cancel(); <-done }
			return p
		}
		nodes := []*process{begin(), begin()}
		for range 1000 {
			i := random.IntN(2)
			switch n := nodes[i]; random.IntN(4) {
			case 0:
				store.drop()
			case 1:
				n.stop()
				nodes[i] = begin()
			case 2:
				n.hung.Store(true)
			case 3:
				n.broken.Store(true)
			}
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
			nodes[i].hung.Store(false)
			nodes[i].broken.Store(false)
		}
		for _, n := range nodes {
			n.stop()
		}
		all := line.of("a")
		from := 0
		window := 0
		var fence int64
		for i, p := range all {
			require.GreaterOrEqual(t, p.fence, fence, "an old term after a newer one")
			fence = p.fence
			window += p.n
			for all[from].at <= p.at-time.Second {
				window -= all[from].n
				from++
			}
			// One tick's rounding, and one tick more where a term took over.
			require.LessOrEqual(t, window, rate+2*rate/10, "at %v (%d)", p.at, i)
		}
		require.Greater(t, fence, int64(300), "terms changed")
		gap := time.Duration(0)
		for i := 1; i < len(all); i++ {
			gap = max(gap, all[i].at-all[i-1].at)
		}
		require.Less(t, gap, 6*time.Second, "a fault stops one node, never the event for long")
	})
}

// hooked is one node's way to the store.
type hooked struct {
	*fakeStore
	hook func(context.Context) error
}

func (h *hooked) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	if err := h.hook(ctx); err != nil {
		cmd := redis.NewCmd(ctx)
		cmd.SetErr(err)
		return cmd
	}
	return h.fakeStore.Eval(ctx, script, keys, args...)
}
