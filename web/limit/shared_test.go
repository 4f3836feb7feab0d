package limit

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// TestProcessesShareABucket holds promise 1.
func TestProcessesShareABucket(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		sharesBuckets(t, rdb)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		sharesBuckets(t, redistest.Cluster(t))
	})
}

func sharesBuckets(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	processes := []*Limiter{newLimiter(t, Config{}, rdb), newLimiter(t, Config{}, rdb), newLimiter(t, Config{}, rdb)}
	for _, c := range []struct {
		req  func(i int) Request
		want int64
	}{
		{func(int) Request { return Request{Event: "e", Call: Browse, Person: "ann", Addr: office} }, 10},
		{func(int) Request { return Request{Event: "e", Call: Booking, Person: "ann", Addr: office} }, 5},
		{func(int) Request { return Request{Event: "e", Call: Issue, Person: "ann", Addr: office} }, 3},
		{func(int) Request { return Request{Event: "e", Call: Browse, Person: "bob", Addr: office} }, 10},
		{func(int) Request { return Request{Event: "other", Call: Browse, Person: "ann", Addr: office} }, 10},
		{func(int) Request { return Request{Event: "e", Call: Join, Addr: office} }, 10},
		{func(i int) Request { // one household
			return Request{Event: "e", Call: Join, Addr: netip.MustParseAddr(fmt.Sprintf("2001:db8:0:1:%x::%x", i+1, i))}
		}, 10},
	} {
		var ok atomic.Int64
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() {
				if processes[i%len(processes)].Allow(t.Context(), c.req(i), hourly).OK {
					ok.Add(1)
				}
			})
		}
		wg.Wait()
		require.Equal(t, c.want, ok.Load(), "%+v", c.req(0))
	}
	prefixed := newLimiter(t, Config{Prefix: "elsewhere"}, rdb)
	require.True(t, prefixed.Allow(t.Context(), Request{Event: "e", Call: Issue, Person: "ann"}, hourly).OK)
}

// TestWaitThenPass holds promise 2 through the store.
func TestWaitThenPass(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		a, b := newLimiter(t, Config{}, rdb), newLimiter(t, Config{}, rdb)
		rules := Rules{Issue: per(2, time.Second)}
		// A machine that takes half a second for two calls earns a third meanwhile: then
		// another person tries.
		var req Request
		var v Verdict
		for i := 0; i == 0 || v.OK; i++ {
			req = Request{Event: "e", Call: Issue, Person: fmt.Sprint("p", i)}
			require.True(t, a.Allow(t.Context(), req, rules).OK)
			require.True(t, a.Allow(t.Context(), req, rules).OK)
			v = b.Allow(t.Context(), req, rules)
		}
		require.Equal(t, WhichIssue, v.Which)
		require.Positive(t, v.RetryAfter)
		require.LessOrEqual(t, v.RetryAfter, time.Second)
		<-time.After(v.RetryAfter)
		require.True(t, b.Allow(t.Context(), req, rules).OK)
	})
}

// TestNobodyIsCrowdedOut holds promise 3: browsing does not touch booking, and an
// office's strangers do not touch its people.
func TestNobodyIsCrowdedOut(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, Config{}, redistest.Mini(t))
	browse := Request{Event: "e", Call: Browse, Person: "ann", Addr: office}
	require.Equal(t, 10, passed(t.Context(), l, 200, browse, hourly))
	require.Equal(t, WhichPerson, l.Allow(t.Context(), browse, hourly).Which)
	require.Equal(t, 5, passed(t.Context(), l, 20, Request{Event: "e", Call: Booking, Person: "ann", Addr: office}, hourly))
	require.Equal(t, 3, passed(t.Context(), l, 20, Request{Event: "e", Call: Issue, Person: "ann", Addr: office}, hourly))

	stranger := Request{Event: "e", Call: Join, Addr: office, Challenge: true}
	require.Equal(t, 10, passed(t.Context(), l, 500, stranger, hourly))
	require.Equal(t, WhichAddress, l.Allow(t.Context(), stranger, hourly).Which)
	stranger.Cleared = true
	require.Equal(t, 300, passed(t.Context(), l, 300, stranger, hourly), "a challenge instead of a wall")
	for i := range 300 {
		require.True(t, l.Allow(t.Context(), Request{Event: "e", Call: Browse, Person: fmt.Sprint("p", i), Addr: office}, hourly).OK)
	}
	require.True(t, l.Allow(t.Context(), Request{Event: "e", Call: Join, Addr: another}, hourly).OK)
}

// TestFloodsAreCheap holds promise 4.
func TestFloodsAreCheap(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		a, b := newLimiter(t, Config{}, rdb), newLimiter(t, Config{}, rdb)
		warm := Request{Event: "e", Call: Browse, Person: "warm"}
		require.True(t, a.Allow(t.Context(), warm, hourly).OK) // the server has the script now
		var n trips
		rdb.AddHook(&n)

		require.True(t, a.Allow(t.Context(), warm, hourly).OK)
		require.Equal(t, 1, n.take(), "two buckets, one round trip")
		flood := Request{Event: "e", Call: Join, Addr: office}
		require.Equal(t, 10, passed(t.Context(), a, 1000, flood, hourly))
		require.Equal(t, 10, n.take(), "what the rule lets through and nothing else")
		require.Zero(t, passed(t.Context(), b, 1000, flood, hourly))
		require.Equal(t, 1, n.take(), "another process asks once")

		// All at once: none of them waits for the first one's answer.
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() { a.Allow(t.Context(), Request{Event: "e", Call: Join, Addr: another}, hourly) })
		}
		wg.Wait()
		require.Equal(t, 10, n.take())
	})
}

// What one bucket refuses is not taken from the other.
func TestRefusedCallsAreGivenBack(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		req := Request{Event: "e", Call: Browse, Person: "p"}
		rules := Rules{Person: per(10, time.Hour), PersonBurst: per(4, time.Hour)}
		require.Equal(t, 4, passed(t.Context(), newLimiter(t, Config{}, rdb), 4, req, rules))
		for range 20 { // each of them in a process that knows of no refusal
			require.Equal(t, WhichPersonBurst, newLimiter(t, Config{}, rdb).Allow(t.Context(), req, rules).Which)
		}
		rules.PersonBurst = waitroom.Rule{} // off
		require.Equal(t, 6, passed(t.Context(), newLimiter(t, Config{}, rdb), 50, req, rules))
	})
}

// A server that has lost its scripts gets them again.
func TestLostScript(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		l := newLimiter(t, Config{}, rdb)
		req := Request{Event: "e", Call: Browse, Person: "p"}
		require.Equal(t, 4, passed(t.Context(), l, 4, req, hourly))
		require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
		require.Equal(t, 6, passed(t.Context(), l, 20, req, hourly))
		require.True(t, l.breaker.IsClosed(), "and is not taken for away")
	})
}

// Keys are garbage after the rule's time, so that callers leave nothing behind.
func TestKeysExpire(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		l := newLimiter(t, Config{Prefix: "x"}, rdb)
		require.True(t, l.Allow(t.Context(), Request{Event: "e", Call: Browse, Person: "p"}, hourly).OK)
		require.True(t, l.Allow(t.Context(), Request{Event: "e", Call: Browse, Addr: office}, hourly).OK)
		keys, err := rdb.Keys(t.Context(), "*").Result()
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"rate:x:{e:p}:person", "rate:x:{e:p}:person_burst", "rate:x:{e:192.0.2.7}:address"}, keys)
		for _, k := range keys {
			ttl, err := rdb.TTL(t.Context(), k).Result()
			require.NoError(t, err)
			require.Positive(t, ttl)
			require.LessOrEqual(t, ttl, time.Hour)
		}
	})
}

func TestExemptAddresses(t *testing.T) {
	t.Parallel()
	rdb := redistest.Mini(t)
	l := newLimiter(t, Config{Exempt: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}, rdb)
	var n trips
	rdb.AddHook(&n)
	for _, a := range []string{"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"} {
		require.Equal(t, 50, passed(t.Context(), l, 50, Request{Event: "e", Call: Join, Addr: netip.MustParseAddr(a)}, hourly), a)
	}
	require.Zero(t, n.take())
	require.Equal(t, 10, passed(t.Context(), l, 50, Request{Event: "e", Call: Join, Addr: office}, hourly))
	require.Equal(t, 10, passed(t.Context(), l, 50, Request{Event: "e", Call: Join}, hourly), "no address is one bucket, and not exempt")
}
