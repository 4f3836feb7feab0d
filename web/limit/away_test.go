package limit

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// TestAwayIsNeitherOpenNorShut holds promise 6: each caller by the local bucket, all
// together by the cap, booking by its own.
func TestAwayIsNeitherOpenNorShut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Config{AwayPerS: 50}, nil)
		l.store = willing
		ann := Request{Event: "e", Call: Browse, Person: "ann"}
		require.Equal(t, 4, passed(t.Context(), l, 4, ann, hourly))
		l.store = gone
		require.Equal(t, 6, passed(t.Context(), l, 100, ann, hourly), "the store's absence is no fresh allowance")
		require.Equal(t, WhichPerson, l.Allow(t.Context(), ann, hourly).Which)

		crowd := func(call Call, second int) (ok int) {
			for i := range 500 {
				v := l.Allow(t.Context(), Request{Event: "e", Call: call, Person: fmt.Sprint(second, "-", i)}, hourly)
				if v.OK {
					ok++
				} else {
					require.Equal(t, Verdict{RetryAfter: time.Second, Which: WhichAway}, v)
				}
			}
			return ok
		}
		require.Equal(t, 44, crowd(Browse, 0), "the cap, less what ann had of it")
		require.Equal(t, 50, crowd(Booking, 0), "booking is not crowded out")
		time.Sleep(time.Second)
		require.Equal(t, 50, crowd(Join, 1))
		require.InDelta(t, 1, gauge(t, l.metrics.away), 0)
	})
}

// TestAwayIsAskedOnceInAWhile holds promises 6 and 7 in exact times: a store that
// hangs costs each of the first calls CallTimeout, then one call each AwayRetry, and
// decides again from the first of these that it answers.
func TestAwayIsAskedOnceInAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Config{CallTimeout: 200 * time.Millisecond, AwayAfter: 3, AwayRetry: 5 * time.Second}, nil)
		asked := 0
		l.store = storeFunc(func(ctx context.Context, _ []charge) ([]refusal, error) {
			asked++
			<-ctx.Done()
			return nil, ctx.Err()
		})
		n := 0
		took := func() time.Duration {
			n++
			begun := time.Now()
			require.True(t, l.Allow(t.Context(), Request{Event: "e", Call: Browse, Person: fmt.Sprint(n)}, hourly).OK)
			return time.Since(begun)
		}
		for range 3 {
			require.Equal(t, 200*time.Millisecond, took())
		}
		for range 100 {
			require.Zero(t, took())
		}
		require.Equal(t, 3, asked)
		time.Sleep(5 * time.Second)
		require.Equal(t, 200*time.Millisecond, took())
		require.Zero(t, took(), "one call tries")
		require.Equal(t, 4, asked)

		l.store = storeFunc(func(context.Context, []charge) ([]refusal, error) {
			return []refusal{{WhichPerson, time.Minute}}, nil
		})
		require.Zero(t, took())
		time.Sleep(5 * time.Second)
		v := l.Allow(t.Context(), Request{Event: "e", Call: Browse, Person: "back"}, hourly)
		require.Equal(t, WhichPerson, v.Which)
		require.Zero(t, gauge(t, l.metrics.away))
	})
}

// A caller who hangs up is no fault of the store's.
func TestHangingUpIsNoFault(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, Config{AwayAfter: 1}, redistest.Mini(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, 10, passed(ctx, l, 20, Request{Event: "e", Call: Browse, Person: "p"}, hourly))
	require.True(t, l.breaker.IsClosed())
}

// A store that answers nonsense is away, and gets its next chance all the same.
func TestPanicDoesNotKeepTheStoreAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Config{AwayAfter: 1}, nil)
		l.store = storeFunc(func(context.Context, []charge) ([]refusal, error) { panic("nonsense") })
		req := Request{Event: "e", Call: Browse, Person: "p"}
		for range 3 {
			require.Panics(t, func() { l.Allow(t.Context(), req, hourly) })
			require.True(t, l.breaker.IsOpen())
			time.Sleep(time.Second)
		}
		l.store = willing
		require.True(t, l.Allow(t.Context(), req, hourly).OK)
		require.True(t, l.breaker.IsClosed())
	})
}

// TestStoreKilled holds promises 6 and 7 with a real server, which comes back empty.
func TestStoreKilled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	cfg := Config{AwayRetry: 20 * time.Millisecond}
	a, b := newLimiter(t, cfg, eager(t, server)), newLimiter(t, cfg, eager(t, server))
	ann := Request{Event: "e", Call: Browse, Person: "ann", Addr: office}
	require.Equal(t, 3, passed(t.Context(), a, 3, ann, hourly))
	require.Equal(t, 3, passed(t.Context(), b, 3, ann, hourly))

	server.Kill(t)
	require.Equal(t, 7, passed(t.Context(), a, 50, ann, hourly), "each process by itself")
	require.Equal(t, 7, passed(t.Context(), b, 50, ann, hourly))
	require.Equal(t, 5, passed(t.Context(), a, 50, Request{Event: "e", Call: Booking, Person: "ann", Addr: office}, hourly))
	require.False(t, a.breaker.IsClosed())

	server.Restart(t)
	for i, l := range []*Limiter{a, b} {
		back(t, l, fmt.Sprint("probe", i))
	}
	bob := Request{Event: "e", Call: Browse, Person: "bob", Addr: office}
	require.Equal(t, 10, passed(t.Context(), a, 50, bob, hourly))
	require.Zero(t, passed(t.Context(), b, 50, bob, hourly), "the bucket is shared again")
	require.Zero(t, passed(t.Context(), a, 50, ann, hourly), "the local bucket has not forgotten")
}

// eager is a client that finds out quickly that nobody is there.
func eager(tb testing.TB, s *redistest.Server) *redis.Client {
	tb.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// back calls until the store decides again.
func back(tb testing.TB, l *Limiter, who string) {
	tb.Helper()
	deadline := time.After(30 * time.Second)
	for i := 0; !l.breaker.IsClosed(); i++ {
		l.Allow(tb.Context(), Request{Event: "e", Call: Browse, Person: fmt.Sprint(who, i)}, hourly)
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			tb.Fatal("the store is back and was not asked")
		}
	}
}
