package ticket

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// counted is a call that notes that it was done.
type counted struct{ done atomic.Int64 }

func TestGatherAloneWaitsForNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gather[*counted]{lanes: 1, most: 4, bound: 10, run: func(_ context.Context, calls []*counted) {
			require.Len(t, calls, 1)
			calls[0].done.Add(1)
		}}
		start := time.Now()
		c := &counted{}
		require.NoError(t, g.do(t.Context(), c))
		require.EqualValues(t, 1, c.done.Load())
		require.Zero(t, time.Since(start))
	})
}

func TestGatherTakesWhatArrivedMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		var mu sync.Mutex
		g := &gather[*counted]{lanes: 1, most: 4, bound: 10, run: func(_ context.Context, calls []*counted) {
			time.Sleep(time.Second) // a transaction takes its time
			mu.Lock()
			sizes = append(sizes, len(calls))
			mu.Unlock()
			for _, c := range calls {
				c.done.Add(1)
			}
		}}
		var wg sync.WaitGroup
		calls := make([]counted, 7)
		for i := range calls {
			wg.Go(func() { require.NoError(t, g.do(t.Context(), &calls[i])) })
			synctest.Wait()
		}
		wg.Wait()
		require.Equal(t, []int{1, 4, 2}, sizes)
		for i := range calls {
			require.EqualValues(t, 1, calls[i].done.Load())
		}
		require.Zero(t, g.running)
	})
}

func TestGatherRefusesBeyondItsBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gather[*counted]{lanes: 1, most: 1, bound: 2, run: func(context.Context, []*counted) { time.Sleep(time.Second) }}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { require.NoError(t, g.do(t.Context(), &counted{})) })
			synctest.Wait()
		}
		require.Equal(t, 1, g.backlog())
		require.ErrorIs(t, g.do(t.Context(), &counted{}), ErrUnavailable)
		wg.Wait()
	})
}

func TestGatherWhoLeavesIsNotDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gather[*counted]{lanes: 1, most: 1, bound: 9, run: func(_ context.Context, calls []*counted) {
			time.Sleep(time.Second)
			calls[0].done.Add(1)
		}}
		var first, second, third counted
		var wg sync.WaitGroup
		hasty, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		wg.Go(func() { require.NoError(t, g.do(hasty, &first), "a leader ends what it began") })
		synctest.Wait()
		wg.Go(func() { require.ErrorIs(t, g.do(hasty, &second), ErrUnavailable) })
		synctest.Wait()
		wg.Go(func() { require.NoError(t, g.do(t.Context(), &third)) })
		wg.Wait()
		require.Equal(t, []int64{1, 0, 1}, []int64{first.done.Load(), second.done.Load(), third.done.Load()})
	})
}

// Under a storm of callers, some of whom leave, everybody who stays is done once
// and no lane is lost.
func TestGatherStorm(t *testing.T) {
	t.Parallel()
	for _, lanes := range []int{1, 3} {
		t.Run(fmt.Sprint(lanes), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := &gather[*counted]{lanes: lanes, most: 5, bound: 1000, run: func(_ context.Context, calls []*counted) {
					time.Sleep(time.Duration(len(calls)) * time.Millisecond)
					for _, c := range calls {
						c.done.Add(1)
					}
				}}
				var wg sync.WaitGroup
				for i := range 500 {
					wg.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
						if i%7 == 0 {
							cancel()
							ctx, cancel = context.WithTimeout(t.Context(), time.Duration(i%11)*time.Millisecond)
						}
						defer cancel()
						time.Sleep(time.Duration(i%13) * time.Millisecond)
						c := &counted{}
						if err := g.do(ctx, c); err == nil {
							require.EqualValues(t, 1, c.done.Load())
						} else {
							require.ErrorIs(t, err, ErrUnavailable)
							require.Zero(t, i%7, "who stays is done")
						}
					})
				}
				wg.Wait()
				require.Zero(t, g.running)
				require.Empty(t, g.queue)
			})
		})
	}
}
