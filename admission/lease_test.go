package admission

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// node is one process that wants to lead.
type node struct {
	lease *Lease
	stop  context.CancelFunc
	done  chan struct{} // closed when Run has returned

	mu    sync.Mutex // guards the fields below
	terms []Term
	won   []time.Time
	ends  []error // the causes of the terms that ended
	ended []time.Time
}

// stand lets a node stand by, and lead for as long as it may.
func stand(t *testing.T, cfg LeaseConfig, store redis.Scripter) *node {
	t.Helper()
	l, err := NewLease(cfg, store, zaptest.NewLogger(t))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	n := &node{lease: l, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(n.done)
		_ = l.Run(ctx, func(ctx context.Context, term Term) {
			n.mu.Lock()
			n.terms, n.won = append(n.terms, term), append(n.won, time.Now())
			n.mu.Unlock()
			<-ctx.Done()
			n.mu.Lock()
			defer n.mu.Unlock()
			n.ends, n.ended = append(n.ends, context.Cause(ctx)), append(n.ended, time.Now())
		})
	}()
	t.Cleanup(func() { cancel(); <-n.done })
	return n
}

func (n *node) led() []Term {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]Term(nil), n.terms...)
}

func (n *node) causes() []error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]error(nil), n.ends...)
}

// until waits for a condition of real servers, and fails after a time that only a
// fault can take.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-limit.C:
			require.FailNow(t, "never: "+what)
		}
	}
}

// Promise 9, planned: the lease is given back, and whoever stands by has it at the
// next try.
func TestPlannedStopHandsOverInOneTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		a := stand(t, LeaseConfig{}, store)
		synctest.Wait()
		time.Sleep(50 * time.Millisecond)
		b := stand(t, LeaseConfig{}, store)
		time.Sleep(10 * time.Second)
		require.Len(t, a.led(), 1)
		require.Empty(t, b.led())
		stopped := time.Now()
		a.stop()
		<-a.done
		require.Equal(t, stopped, time.Now(), "it waits for nothing")
		time.Sleep(DefaultTick + time.Millisecond)
		require.Len(t, b.led(), 1)
		require.LessOrEqual(t, b.won[0].Sub(stopped), DefaultTick)
		require.Greater(t, b.led()[0].Fence, a.led()[0].Fence)
	})
}

// Promise 9, killed: the lease runs out, and whoever stands by has it one try later.
func TestKilledLeaderIsFollowedAfterTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		dead, err := NewLease(LeaseConfig{}, store, zaptest.NewLogger(t))
		require.NoError(t, err)
		_, term, ok := dead.obtain(t.Context()) // and then it is killed: no renewal, no release
		require.True(t, ok)
		killed := time.Now()
		time.Sleep(37 * time.Millisecond)
		b := stand(t, LeaseConfig{}, store)
		time.Sleep(2*time.Second + DefaultTick)
		require.Len(t, b.led(), 1)
		require.LessOrEqual(t, b.won[0].Sub(killed), 2*time.Second+DefaultTick)
		require.GreaterOrEqual(t, b.won[0].Sub(killed), 2*time.Second, "not while the dead one may still trust its own")
		require.False(t, term.Trusted())
	})
}

func TestLeaseIsRenewedAtAThird(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		a := stand(t, LeaseConfig{TTL: 3 * time.Second}, store)
		time.Sleep(time.Minute + time.Millisecond)
		require.Equal(t, 60, store.count("renew"))
		require.Equal(t, 1, store.count("obtain"))
		require.True(t, a.led()[0].Trusted())
		require.Empty(t, a.causes())
	})
}

// Promise 10: the trust is counted from before the attempt that brought it.
func TestTrustEndsByTheLeadersOwnClock(t *testing.T) {
	t.Parallel()
	t.Run("replies come late", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			asked := time.Now()
			store := &fakeStore{fault: func(context.Context) error {
				if time.Since(asked) < 500*time.Millisecond {
					time.Sleep(200 * time.Millisecond)
				}
				return nil
			}}
			a := stand(t, LeaseConfig{}, store)
			time.Sleep(700 * time.Millisecond)
			require.Len(t, a.led(), 1)
			term := a.led()[0]
			require.Equal(t, asked.Add(2*time.Second), time.Now().Add(term.left()), "from before the first call, not from the reply")
		})
	})
	t.Run("the store hangs", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var hang sync.Map
			store := &fakeStore{fault: func(ctx context.Context) error {
				if _, yes := hang.Load("now"); yes {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}}
			a := stand(t, LeaseConfig{TTL: 3 * time.Second}, store)
			time.Sleep(10*time.Second + 500*time.Millisecond) // renewed at 10 s
			hang.Store("now", true)
			time.Sleep(2500*time.Millisecond - time.Millisecond)
			require.Empty(t, a.causes(), "trusted until 13 s")
			time.Sleep(time.Millisecond)
			synctest.Wait()
			require.False(t, a.led()[0].Trusted())
			require.Equal(t, []error{ErrLeaseUntrusted}, a.causes())
		})
	})
	t.Run("the store answers with faults", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var broken sync.Map
			store := &fakeStore{fault: func(context.Context) error {
				if _, yes := broken.Load("now"); yes {
					return errors.New("connection refused")
				}
				return nil
			}}
			a := stand(t, LeaseConfig{TTL: 3 * time.Second}, store)
			time.Sleep(1500 * time.Millisecond)
			broken.Store("now", true)
			time.Sleep(1400 * time.Millisecond)
			broken.Delete("now") // one missed renewal is no loss
			time.Sleep(10 * time.Second)
			require.Empty(t, a.causes())
			require.Len(t, a.led(), 1)
		})
	})
}

func TestLockDeletedByHandIsNoticedAtTheNextRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		a := stand(t, LeaseConfig{}, store)
		synctest.Wait()
		b := stand(t, LeaseConfig{}, store)
		time.Sleep(time.Second)
		store.drop()
		time.Sleep(2 * time.Second / 3)
		require.Equal(t, []error{ErrLeaseLost}, a.causes())
		require.Len(t, b.led(), 1)
		require.Greater(t, b.led()[0].Fence, a.led()[0].Fence)
		time.Sleep(10 * time.Second)
		require.Len(t, a.led(), 1, "one leads, one stands by")
		require.Empty(t, b.causes())
	})
}

func TestSteppingDownGivesTheLeaseBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		l, err := NewLease(LeaseConfig{}, store, zaptest.NewLogger(t))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var fences []int64
		require.NoError(t, l.Run(ctx, func(_ context.Context, term Term) {
			if fences = append(fences, term.Fence); len(fences) == 3 {
				cancel()
			}
		}))
		require.Equal(t, []int64{1, 2, 3}, fences, "each term has a fence of its own")
		require.Equal(t, 3, store.count("release"))
	})
}

func TestLeaseConfigIsChecked(t *testing.T) {
	t.Parallel()
	for _, cfg := range []LeaseConfig{{TTL: time.Millisecond}, {TTL: -time.Second}, {Retry: time.Hour}, {Retry: -1}} {
		_, err := NewLease(cfg, &fakeStore{}, zaptest.NewLogger(t))
		require.ErrorContains(t, err, "lease: ")
	}
}

// On real servers, by their clock.

func TestLeaseOnRedis(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		// A lease far longer than the test: whoever follows follows a release.
		cfg := LeaseConfig{Prefix: "lease", TTL: time.Minute, Retry: 10 * time.Millisecond}
		a := stand(t, cfg, rdb)
		until(t, "a leads", func() bool { return len(a.led()) == 1 })
		b, c := stand(t, cfg, rdb), stand(t, cfg, rdb)
		a.stop()
		<-a.done
		until(t, "another leads", func() bool { return len(b.led())+len(c.led()) == 1 })
		second := append(b.led(), c.led()...)[0]
		require.Greater(t, second.Fence, a.led()[0].Fence)

		// Promise 8: a store that lost the fence gives a higher one.
		require.NoError(t, rdb.Del(t.Context(), fenceKey("lease"), leaseKey("lease")).Err())
		until(t, "the third term", func() bool { return len(b.led())+len(c.led()) == 2 })
		for _, term := range append(b.led(), c.led()...) {
			require.GreaterOrEqual(t, term.Fence, second.Fence)
			if term.Fence != second.Fence {
				require.Greater(t, term.Fence, second.Fence)
			}
		}
		stored, err := rdb.Get(t.Context(), fenceKey("lease")).Int64()
		require.NoError(t, err)
		require.Greater(t, stored, second.Fence)
	})
}

func TestFrozenLeaderIsOutOfTrustBeforeAnotherLeads(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Config{}).Client(t)
	cfg := LeaseConfig{TTL: 300 * time.Millisecond, Retry: 10 * time.Millisecond}
	frozen, err := NewLease(cfg, rdb, zaptest.NewLogger(t))
	require.NoError(t, err)
	lock, term, ok := frozen.obtain(t.Context()) // it is frozen now: nothing more comes of it
	require.True(t, ok)
	b := stand(t, cfg, rdb)
	until(t, "b leads", func() bool { return len(b.led()) == 1 })
	require.False(t, term.Trusted(), "the lease ran out by the store's clock, so it had by its own")
	require.Greater(t, b.led()[0].Fence, term.Fence)
	// It wakes: its renewal finds the lease gone, its release takes nothing away.
	require.ErrorIs(t, frozen.renew(t.Context(), lock, NewTerm(term.Fence, time.Hour)), ErrLeaseLost)
	frozen.release(t.Context(), lock)
	require.Equal(t, b.lease.token, rdb.Get(t.Context(), leaseKey("wr")).Val())
}

func TestLeaseWhoseReplyWasLostIsFoundAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	proxy := redistest.NewProxy(t, server.Addr())
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), Protocol: 2, MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	require.NoError(t, rdb.Ping(t.Context()).Err())
	proxy.Fail(func(n int) redistest.Fault { return redistest.Fault{Cut: n == 1} })
	l, err := NewLease(LeaseConfig{TTL: time.Minute}, rdb, zaptest.NewLogger(t))
	require.NoError(t, err)
	_, _, ok := l.obtain(t.Context())
	require.False(t, ok, "the reply was cut off")
	require.Equal(t, l.token, server.Client(t).Get(t.Context(), leaseKey("wr")).Val(), "but the lease was won")
	_, term, ok := l.obtain(t.Context())
	require.True(t, ok, "its own lock keeps nobody out")
	require.Positive(t, term.Fence)
}

func TestLeaseOutlivesAStoreThatFreezes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	a := stand(t, LeaseConfig{TTL: 300 * time.Millisecond, Retry: 10 * time.Millisecond}, server.Client(t))
	until(t, "a leads", func() bool { return len(a.led()) == 1 })
	server.Freeze(t)
	until(t, "the term ends", func() bool { return len(a.causes()) == 1 })
	require.ErrorIs(t, a.causes()[0], ErrLeaseUntrusted)
	server.Thaw(t)
	until(t, "it leads again", func() bool { return len(a.led()) == 2 })
	require.Greater(t, a.led()[1].Fence, a.led()[0].Fence)
}

// The gap without a leader is seen by whoever leads next: none to speak of after a
// planned stop, and after a kill no less than there was.
func TestGapWithoutALeaderIsMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		a := stand(t, LeaseConfig{}, store)
		synctest.Wait()
		b := stand(t, LeaseConfig{}, store)
		time.Sleep(10 * time.Second)
		require.Negative(t, a.led()[0].Gap, "nobody led before")
		a.stop()
		<-a.done
		time.Sleep(DefaultTick)
		synctest.Wait()
		require.LessOrEqual(t, b.led()[0].Gap, DefaultTick)
		require.GreaterOrEqual(t, b.led()[0].Gap, time.Duration(0))
		b.stop()
		<-b.done

		dead, err := NewLease(LeaseConfig{}, store, zaptest.NewLogger(t))
		require.NoError(t, err)
		_, _, ok := dead.obtain(t.Context())
		require.True(t, ok)
		c := stand(t, LeaseConfig{}, store)
		time.Sleep(3 * time.Second)
		require.InDelta(t, 2*time.Second, c.led()[0].Gap, float64(DefaultTick))
	})
}
