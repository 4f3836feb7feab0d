package ticket

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// atOnce runs do n times at once and gives how often each result came.
func atOnce(n int, do func(i int) string) map[string]int {
	var mu sync.Mutex
	results := map[string]int{}
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			r := do(i)
			mu.Lock()
			defer mu.Unlock()
			results[r]++
		})
	}
	close(start)
	wg.Wait()
	return results
}

// try gives what one call comes to: "ok", a refusal, or an error.
func try(tb testing.TB, s *Store, q ReserveRequest) string {
	tb.Helper()
	a, err := s.Reserve(tb.Context(), q)
	switch {
	case errors.Is(err, ErrContended):
		return "contended"
	case errors.Is(err, ErrInProgress):
		return "in progress"
	case err != nil:
		return err.Error()
	}
	b := decode(tb, a)
	switch {
	case b.Refusal != "":
		return b.Refusal
	case a.Replayed:
		return "replayed"
	}
	return "ok"
}

// Promise 1: a seat is sold once.
func TestPromise1OneSeatManyBuyers(t *testing.T) {
	t.Parallel()
	for _, locking := range []string{Optimistic, Pessimistic} {
		t.Run(locking, func(t *testing.T) {
			t.Parallel()
			onPools(t, func(t *testing.T, address string) {
				t.Helper()
				nodes := []*Store{openStore(t, address, Config{}), openStore(t, address, Config{Lanes: 4, Group: 8})}
				c := hallOf(1, 1)
				c.Locking = locking
				require.NoError(t, nodes[0].Put(t.Context(), "e", c))
				got := atOnce(200, func(i int) string {
					return try(t, nodes[i%2], (&buyer{event: "e", name: fmt.Sprint(i)}).seats("A-1"))
				})
				require.Equal(t, map[string]int{"ok": 1, ErrSeatTaken.Error(): 199}, got)
				require.EqualValues(t, 2, count(t, nodes[0], `SELECT version FROM seats WHERE event = 'e'`), "the version grew by one")
				require.EqualValues(t, 1, count(t, nodes[0], `SELECT count(*) FROM outbox`))
				require.EqualValues(t, 1, count(t, nodes[0], `SELECT count(*) FROM reservations`))
				require.EqualValues(t, 200, count(t, nodes[0], `SELECT count(*) FROM answers`))
			})
		})
	}
}

// Promise 2: stock adds up and never goes below zero.
func TestPromise2StockAddsUp(t *testing.T) {
	t.Parallel()
	for _, locking := range []string{Optimistic, Pessimistic} {
		t.Run(locking, func(t *testing.T) {
			t.Parallel()
			onPools(t, func(t *testing.T, address string) {
				t.Helper()
				nodes := []*Store{openStore(t, address, Config{Group: 16}), openStore(t, address, Config{Lanes: 2, Group: 16})}
				require.NoError(t, nodes[0].Put(t.Context(), "e", Catalogue{Kind: KindStock, Stock: 101, Locking: locking}))
				got := atOnce(150, func(i int) string {
					return try(t, nodes[i%2], (&buyer{event: "e", name: fmt.Sprint(i)}).quantity(1+i%2))
				})
				require.Zero(t, got["contended"], "each refusal is definite: %v", got)
				free := count(t, nodes[0], `SELECT free FROM items`)
				sold := count(t, nodes[0], `SELECT sum(n) FROM reservations`)
				require.EqualValues(t, 101, free+sold)
				require.Zero(t, free, "singles came last too, so nothing is left: %v", got)
				require.Equal(t, sold, count(t, nodes[0], `SELECT sum(n) FROM shares`))
				require.EqualValues(t, got["ok"], count(t, nodes[0], `SELECT count(*) FROM outbox`))
			})
		})
	}
}

// Promise 3: the server's own choice never sells a seat twice, and sells all.
func TestPromise3BestAvailableSellsAll(t *testing.T) {
	t.Parallel()
	onPools(t, func(t *testing.T, address string) {
		t.Helper()
		nodes := []*Store{openStore(t, address, Config{Group: 16}), openStore(t, address, Config{Lanes: 2, Group: 16})}
		require.NoError(t, nodes[0].Put(t.Context(), "e", hallOf(10, 10)))
		buyers := make([]*buyer, 150)
		for i := range buyers {
			buyers[i] = &buyer{event: "e", name: fmt.Sprint(i)}
		}
		got := atOnce(len(buyers), func(i int) string {
			for {
				if r := try(t, nodes[i%2], buyers[i].quantity(1)); r != "contended" {
					return r
				}
			}
		})
		require.Equal(t, map[string]int{"ok": 100, ErrSoldOut.Error(): 50}, got)
		require.EqualValues(t, 100, count(t, nodes[0], `SELECT count(DISTINCT reservation) FROM seats WHERE status = 'held'`))
	})
}

// Promise 4: one token buys once.
func TestPromise4TokenBuysOnce(t *testing.T) {
	t.Parallel()
	onPools(t, func(t *testing.T, address string) {
		t.Helper()
		nodes := []*Store{openStore(t, address, Config{}), openStore(t, address, Config{})}
		require.NoError(t, nodes[0].Put(t.Context(), "e", Catalogue{Kind: KindStock, Stock: 100_000, PerUser: 1000}))
		const tokens, times = 40, 20
		var mu sync.Mutex
		won := map[int]int{}
		got := atOnce(tokens*times, func(i int) string {
			token := i % tokens
			q := (&buyer{event: "e", name: fmt.Sprint("p", i)}).quantity(1)
			q.JTI = fmt.Sprint("token", token)
			r := try(t, nodes[(i/tokens)%2], q)
			if r == "ok" {
				mu.Lock()
				defer mu.Unlock()
				won[token]++
			}
			return r
		})
		require.Equal(t, map[string]int{"ok": tokens, ErrTokenUsed.Error(): tokens * (times - 1)}, got)
		for token, n := range won {
			require.Equal(t, 1, n, "token %d", token)
		}
		require.EqualValues(t, 100_000-tokens, count(t, nodes[0], `SELECT free FROM items`))
	})
}

// Promise 5: one key acts once; 50 at once have one effect.
func TestPromise5OneKeyActsOnce(t *testing.T) {
	t.Parallel()
	onPools(t, func(t *testing.T, address string) {
		t.Helper()
		nodes := []*Store{openStore(t, address, Config{}), openStore(t, address, Config{})}
		require.NoError(t, nodes[0].Put(t.Context(), "e", hallOf(5, 10)))
		q := (&buyer{event: "e", name: "ann"}).quantity(2)
		got := atOnce(50, func(i int) string { return try(t, nodes[i%2], q) })
		require.Equal(t, 1, got["ok"], "%v", got)
		require.Equal(t, 49, got["in progress"]+got["replayed"], "%v", got)
		require.EqualValues(t, 1, count(t, nodes[0], `SELECT count(*) FROM reservations`))

		first, err := nodes[0].Reserve(t.Context(), q)
		require.NoError(t, err)
		second, err := nodes[1].Reserve(t.Context(), q)
		require.NoError(t, err)
		require.True(t, second.Replayed)
		require.Equal(t, first, second, "byte for byte, on any node")

		other := q
		other.Key.BodyHash[0]++
		_, err = nodes[0].Reserve(t.Context(), other)
		require.ErrorIs(t, err, ErrIdempotencyMismatch)
		other = q
		other.Key.Caller = "bob"
		other.Person, other.JTI = "bob", "jti-bob"
		require.Equal(t, "ok", try(t, nodes[0], other), "the same key of another caller is another key")

		refused := (&buyer{event: "e", name: "cid"}).quantity(3)
		require.Equal(t, ErrAlreadyReserved.Error(), try(t, nodes[0], refused))
		again, err := nodes[1].Reserve(t.Context(), refused)
		require.NoError(t, err)
		require.True(t, again.Replayed, "a definite refusal is replayed too")
	})
}

// Promise 6: a person has at most per_user, whatever they do at once.
func TestPromise6ShareHolds(t *testing.T) {
	t.Parallel()
	onPools(t, func(t *testing.T, address string) {
		t.Helper()
		nodes := []*Store{openStore(t, address, Config{Group: 4}), openStore(t, address, Config{Lanes: 3, Group: 4})}
		c := hallOf(10, 10)
		c.PerUser = 3
		require.NoError(t, nodes[0].Put(t.Context(), "e", c))
		got := atOnce(60, func(i int) string {
			q := (&buyer{event: "e", name: fmt.Sprint(i)}).quantity(1 + i%2)
			q.Person = "ann"
			return try(t, nodes[i%2], q)
		})
		require.LessOrEqual(t, count(t, nodes[0], `SELECT n FROM shares WHERE person = 'ann'`), int64(3))
		require.Equal(t, count(t, nodes[0], `SELECT n FROM shares WHERE person = 'ann'`),
			count(t, nodes[0], `SELECT count(*) FROM seats WHERE status = 'held'`), "%v", got)
		require.NotZero(t, got["ok"])
	})
}

// Promise 7: a bad call in a group spoils nobody else's.
func TestPromise7BadCallSpoilsNobody(t *testing.T) {
	t.Parallel()
	onPools(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{})
		require.NoError(t, s.Put(t.Context(), "e", Catalogue{Kind: KindStock, Stock: 1000}))
		got := atOnce(100, func(i int) string {
			q := (&buyer{event: "e", name: fmt.Sprint(i)}).quantity(1)
			if i%10 == 3 {
				q.Person = "\xff\x00" // PostgreSQL's text takes neither
			}
			if r := try(t, s, q); r == "ok" || i%10 != 3 {
				return r
			}
			return "bad"
		})
		require.EqualValues(t, got["ok"], count(t, s, `SELECT sum(n) FROM reservations`))
		require.EqualValues(t, 1000-got["ok"], count(t, s, `SELECT free FROM items`))
		require.GreaterOrEqual(t, got["ok"], 90, "%v", got)
		for r := range got {
			require.Contains(t, []string{"ok", "bad"}, r)
		}
	})
}

// Promise 8: nobody fails for want of a lock or a connection.
func TestPromise8CrowdOnSmallPool(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, withPool(address, "1"), Config{})
		running(t, s)
		require.NoError(t, s.Put(t.Context(), "e", hallOf(20, 20)))
		got := atOnce(400, func(i int) string {
			b := &buyer{event: "e", name: fmt.Sprint(i)}
			r := try(t, s, b.seats(fmt.Sprintf("A-%d-%d", i/20+1, i%20+1)))
			if _, _, err := s.Map(t.Context(), "e"); err != nil {
				return err.Error()
			}
			return r
		})
		require.Equal(t, map[string]int{"ok": 400}, got)
		require.Equal(t, Usage{Max: 1}.Max, s.Usage().Max)
	})
}
