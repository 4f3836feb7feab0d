package waitroom

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBatcherSendsALoneCallAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBatcher(64, 10, func(_ context.Context, _ string, qs []int) ([]int, error) { return qs, nil })
		began := time.Now()
		for i := range 10 {
			got, err := b.do(t.Context(), "k", i)
			require.NoError(t, err)
			require.Equal(t, i, got)
		}
		require.Zero(t, time.Since(began), "a lone call waits for nothing")
		require.Empty(t, b.lanes, "an idle batcher keeps nothing")
	})
}

func TestBatcherGathersWhileACallIsOnItsWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sizes := make(chan int, 10)
		b := newBatcher(4, 100, func(_ context.Context, _ string, qs []int) ([]int, error) {
			sizes <- len(qs)
			time.Sleep(time.Second)
			return qs, nil
		})
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				got, err := b.do(t.Context(), "k", i)
				if err != nil || got != i {
					t.Errorf("got %d, %v, want %d: everyone has their own answer", got, err, i)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		close(sizes)
		var got []int
		for n := range sizes {
			got = append(got, n)
		}
		require.Equal(t, []int{1, 1, 1, 4, 3}, got)
		require.Equal(t, 3*time.Second, time.Since(began), "the lone calls beside each other, the batches one after the other")
		require.Empty(t, b.lanes)
	})
}

func TestBatcherKeysDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBatcher(4, 100, func(_ context.Context, k int, _ []int) ([]int, error) {
			time.Sleep(time.Second)
			return []int{k}, nil
		})
		began := time.Now()
		var wg sync.WaitGroup
		for k := range 20 {
			wg.Go(func() { _, _ = b.do(t.Context(), k, 0) })
		}
		wg.Wait()
		require.Equal(t, time.Second, time.Since(began))
	})
}

func TestBatcherErrorsReachTheirBatchOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		b := newBatcher(3, 100, func(_ context.Context, _ string, qs []int) ([]int, error) {
			time.Sleep(time.Second)
			if slices.Contains(qs, 4) {
				return nil, broken
			}
			return qs, nil
		})
		errs := make([]error, 7)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { _, errs[i] = b.do(t.Context(), "k", i) })
			synctest.Wait()
		}
		wg.Wait()
		require.Equal(t, []error{nil, nil, nil, broken, broken, broken, nil}, errs)
	})
}

func TestBatcherRefusesWhenFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBatcher(2, 3, func(_ context.Context, _ string, qs []int) ([]int, error) {
			time.Sleep(time.Second)
			return qs, nil
		})
		errs := make([]error, mostLone+5)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { _, errs[i] = b.do(t.Context(), "k", i) })
			synctest.Wait()
		}
		wg.Wait()
		require.Equal(t, []error{nil, nil, nil, nil, nil, nil, ErrBusy, ErrBusy}, errs)
		require.ErrorIs(t, ErrBusy, ErrUnavailable)
	})
}

func TestBatcherCancelledCallersHarmNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBatcher(2, 100, func(ctx context.Context, _ string, qs []int) ([]int, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Second):
				return qs, nil
			}
		})
		gone := errors.New("gone")
		ctxs := make([]context.Context, 8)
		cancels := make([]context.CancelCauseFunc, len(ctxs))
		errs := make([]error, len(ctxs))
		took := make([]time.Duration, len(ctxs))
		began := time.Now()
		var wg sync.WaitGroup
		for i := range ctxs {
			ctxs[i], cancels[i] = context.WithCancelCause(t.Context())
			wg.Go(func() {
				_, errs[i] = b.do(ctxs[i], "k", i)
				took[i] = time.Since(began)
			})
			synctest.Wait()
		}
		// 0 is sending, as 1 and 2 are; 3 is next in line for the baton; 6 waits further behind.
		for _, i := range []int{0, 3, 6} {
			cancels[i](gone)
		}
		wg.Wait()
		for i, err := range errs {
			if i == 3 || i == 6 {
				require.ErrorIs(t, err, gone)
				require.Zero(t, took[i], "whoever waits and gives up is gone at once")
				continue
			}
			require.NoError(t, err, "call %d: the others have their answers", i)
		}
		require.Equal(t, 3*time.Second, time.Since(began), "0 1 2, then 4 5, 7")
		require.Empty(t, b.lanes)
		for _, cancel := range cancels {
			cancel(nil)
		}
	})
}

// Callers that come and give up at random: everyone who stays has an answer, and
// the lanes are empty in the end.
func TestBatcherStress(t *testing.T) {
	t.Parallel()
	var inFlight, most atomic.Int32
	b := newBatcher(8, 1000, func(_ context.Context, k int, qs []int) ([]string, error) {
		if n := inFlight.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer inFlight.Add(-1)
		out := make([]string, len(qs))
		for i, q := range qs {
			out[i] = fmt.Sprint(k, q)
		}
		return out, nil
	})
	var wg sync.WaitGroup
	for c := range 64 {
		wg.Go(func() {
			for i := range 500 {
				ctx, cancel := context.WithCancel(t.Context())
				stop := func() bool { return true }
				if i%3 == 0 {
					stop = context.AfterFunc(t.Context(), cancel)
					go cancel() // at some moment of the call
				}
				got, err := b.do(ctx, c%3, i)
				if err == nil && got != fmt.Sprint(c%3, i) {
					t.Errorf("got %q for %d %d", got, c%3, i)
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("unexpected error %v", err)
				}
				stop()
				cancel()
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, most.Load(), int32(3*mostLone), "of three keys")
	require.Empty(t, b.lanes)
}
