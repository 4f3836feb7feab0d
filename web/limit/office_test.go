package limit

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// TestAnOfficeIsInWithinHalfAMinute holds promise 9: 300 people behind one address
// join at the opening, each trying again as the waiting page does, at an event with the
// usual limits and no challenge.
func TestAnOfficeIsInWithinHalfAMinute(t *testing.T) {
	t.Parallel()
	rules, err := ParseRules(waitroom.LimitSettings{})
	require.NoError(t, err)
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, Config{}, nil)
			l.store = willing
			began := time.Now()
			var people sync.WaitGroup
			var mu sync.Mutex
			random := rand.New(rand.NewPCG(seed, 1)) // guarded by mu
			var last time.Duration                   // guarded by mu
			for range 300 {
				people.Go(func() {
					for attempt := 0; ; attempt++ {
						v := l.Allow(t.Context(), Request{Event: "e", Call: Join, Addr: office}, rules)
						mu.Lock()
						if v.OK {
							last = max(last, time.Since(began))
							mu.Unlock()
							return
						}
						// The page's backoff on joining: a random part of 1 s, 2 s … 20 s beyond the server's word.
						wait := v.RetryAfter + time.Duration(random.Float64()*float64(min(20*time.Second, time.Second<<min(attempt, 10))))
						mu.Unlock()
						time.Sleep(wait)
					}
				})
			}
			people.Wait()
			require.LessOrEqual(t, last, 30*time.Second, "seed %d", seed)
		})
	}
}

// TestASolvedChallengeIsNoWall holds promise 9 where the event has a challenge: the
// first hundred of a minute join as ever, and whoever solves it at once.
func TestASolvedChallengeIsNoWall(t *testing.T) {
	t.Parallel()
	rules, err := ParseRules(waitroom.LimitSettings{})
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Config{}, nil)
		l.store = willing
		req := Request{Event: "e", Call: Join, Addr: office, Challenge: true}
		require.Equal(t, 100, passed(t.Context(), l, 300, req, rules))
		require.Equal(t, WhichAddress, l.Allow(t.Context(), req, rules).Which)
		time.Sleep(time.Minute)
		require.Equal(t, 100, passed(t.Context(), l, 300, req, rules), "a minute is a minute")
		req.Cleared = true
		require.Equal(t, 300, passed(t.Context(), l, 300, req, rules))
	})
}
