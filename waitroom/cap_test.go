package waitroom

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// Promise 3: the cap holds, at random moments, from random callers.
func TestPromise3NoSecondHoldsMoreThanTheRate(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			for _, rate := range []float64{0.5, 3, 10, 47.5, 500} {
				l := testLine(t, rdb)
				e := open(t, l, func(s *Settings) { s.RatePerS = rate })
				crowd(t, l, 3000)
				type admission struct {
					at time.Time
					n  int
				}
				var all []admission
				seed := rand.Uint64()
				rnd := rand.New(rand.NewPCG(seed, 0))
				total, now, behind := 0, e.Now, time.Duration(0)
				for range 200 {
					switch rnd.IntN(10) {
					case 0: // a pause, or a gap between leaders
						now = now.Add(time.Duration(rnd.IntN(5000)) * time.Millisecond)
					case 1, 2, 3: // at once again
					case 4: // a store takes over whose clock is behind
						behind += time.Duration(rnd.IntN(300)) * time.Millisecond
					default:
						now = now.Add(time.Duration(rnd.IntN(220)) * time.Millisecond)
					}
					freeze(t, l, now.Add(-behind))
					if n := len(promote(t, l, 1+rnd.IntN(600)).Grants); n > 0 {
						all = append(all, admission{now, n})
						total += n
					}
				}
				most := int(math.Ceil(rate + rate/10 - 1e-9))
				for i := range all {
					in := 0
					for _, a := range all[i:] {
						if a.at.Sub(all[i].at) < time.Second {
							in += a.n
						}
					}
					require.LessOrEqual(t, in, most, "rate %v, seed %d: admitted in the second from %v on", rate, seed, all[i].at)
				}
				require.Positive(t, total, "rate %v: somebody must come in", rate)
			}
		})
	}
}

// Promise 3: steady ticks use the rate fully.
func TestPromise3SteadyTicksReachTheRate(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			for _, rate := range []float64{1, 10, 25, 333} {
				l := testLine(t, rdb)
				first := open(t, l, func(s *Settings) { s.RatePerS = rate }).Now
				crowd(t, l, 4000)
				freeze(t, l, first)
				promote(t, l, 0)
				total, now := 0, first
				for tick := 1; tick <= 100; tick++ {
					late := time.Duration(rand.IntN(40)) * time.Millisecond
					now = first.Add(time.Duration(tick)*100*time.Millisecond + late)
					freeze(t, l, now)
					total += len(promote(t, l, int(rate/10)+2).Grants)
				}
				seconds := now.Sub(first).Seconds()
				require.GreaterOrEqual(t, float64(total), 0.97*rate*seconds-1, "rate %v over %.1f s", rate, seconds)
				require.LessOrEqual(t, float64(total), rate*seconds+rate/10+1, "rate %v over %.1f s", rate, seconds)
			}
		})
	}
}

// Promise 3: a rate of few people a second is reached by calls that come only when
// somebody is due.
func TestPromise3RareCallsReachTheRate(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			for _, rate := range []float64{0.5, 1, 2, 5} {
				l := testLine(t, rdb)
				now := open(t, l, func(s *Settings) { s.RatePerS = rate }).Now
				crowd(t, l, 400)
				freeze(t, l, now)
				promote(t, l, 0)
				total := 0
				const calls = 100
				for i := range calls {
					now = now.Add(time.Duration(float64(time.Second) / rate))
					freeze(t, l, now)
					total += len(promote(t, l, i+1-total).Grants)
				}
				require.Equal(t, calls, total, "rate %v", rate)
				now = now.Add(time.Hour)
				freeze(t, l, now)
				require.LessOrEqual(t, len(promote(t, l, 10).Grants), 2, "nothing is made up for after a gap but the one who is due")
			}
		})
	}
}

// Promise 3: never more than max_active inside, whoever asks.
func TestPromise3MaxActiveHolds(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			open(t, l, func(s *Settings) { s.MaxActive, s.RatePerS = 10, 10_000 })
			joinMany(t, l, 100)
			var wg sync.WaitGroup
			var mu sync.Mutex
			var grants []Grant
			for range 20 {
				wg.Go(func() {
					p, err := l.Promote(t.Context(), PromoteRequest{Event: "e", Fence: 1, N: 7})
					if err != nil {
						t.Errorf("promote: %v", err)
					}
					mu.Lock()
					defer mu.Unlock()
					grants = append(grants, p.Grants...)
				})
			}
			wg.Wait()
			require.Len(t, grants, 10)
			require.Equal(t, "max_active", promote(t, l, 5).Reason)
			_, err := l.Admit(t.Context(), "e", AdmitRequest{Count: 1, By: "op"})
			require.ErrorIs(t, err, ErrFull, "by hand is inside max_active too")

			// Three finish and are replaced in one tick; five never come, and are
			// replaced at the end of their claim.
			for _, g := range grants[:3] {
				require.NoError(t, l.Complete(t.Context(), "e", g.JTI))
			}
			at(t, l, time.Second)
			require.Len(t, promote(t, l, 100).Grants, 3)
			for _, g := range grants[3:5] {
				_, err := l.Enter(t.Context(), "e", passOf(g))
				require.NoError(t, err)
			}
			at(t, l, 5*time.Minute+time.Second)
			swept, err := l.Sweep(t.Context(), "e")
			require.NoError(t, err)
			require.GreaterOrEqual(t, swept.Ended, 5)
			require.LessOrEqual(t, int(promote(t, l, 100).Inside), 10)
		})
	}
}

// Promise 3: the opening's burst comes once, and never after a pause.
func TestPromise3BurstComesOnceAtOpening(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			s := DefaultSettings("e")
			now := time.Now().UTC().Truncate(time.Millisecond)
			lobby, opens := now.Add(-time.Hour), now.Add(time.Hour)
			s.LobbyOpensAt, s.OpensAt, s.Burst, s.Grace = &lobby, &opens, 50, Duration(24*time.Hour)
			e, err := l.Create(t.Context(), s, "", "test")
			require.NoError(t, err)
			require.Equal(t, Lobby, e.State)
			joinMany(t, l, 200)
			p := promote(t, l, 10)
			require.Equal(t, Promotion{State: Lobby, Waiting: 200, RatePerS: 10, Reason: "not_open", Now: p.Now}, p, "nobody is in before opening")

			freeze(t, l, opens.Add(10*time.Millisecond))
			p = promote(t, l, 1)
			require.Len(t, p.Grants, 51)
			require.Equal(t, Open, p.State)
			require.LessOrEqual(t, len(promote(t, l, 5).Grants), 1)
			for _, st := range []string{`{"state":"paused"}`, `{"state":"open"}`} {
				_, err := l.Patch(t.Context(), "e", []byte(st), "op")
				require.NoError(t, err)
			}
			freeze(t, l, opens.Add(5*time.Second))
			require.LessOrEqual(t, len(promote(t, l, 100).Grants), 2)
		})
	}
}

// Promise 3: a store's clock that leaps ahead, again and again, brings nobody in whom the
// rate would not have: the leader's own clock is its witness.
func TestPromise3LeapsOfTheStoresClock(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		const rate = 200
		l := testLine(t, rdb)
		e := open(t, l, func(s *Settings) {
			s.RatePerS, s.Grace, s.ClaimTTL = rate, Duration(24*time.Hour), Duration(24*time.Hour)
		})
		crowd(t, l, 1500)
		clock, ran := e.Now, time.Millisecond
		call := func() int {
			freeze(t, l, clock)
			p, err := l.Promote(t.Context(), PromoteRequest{Event: "e", Fence: 1, N: 300, Ran: ran})
			require.NoError(t, err)
			return len(p.Grants)
		}
		var in []int // by the ticks of the leader's clock
		for tick := range 40 {
			n := call()
			if tick >= 20 { // two leaps a tick, with a call after each
				for range 2 {
					clock = clock.Add(1500 * time.Millisecond)
					n += call()
				}
			}
			in = append(in, n)
			clock, ran = clock.Add(100*time.Millisecond), ran+100*time.Millisecond
		}
		for i := range len(in) - 9 {
			sum := 0
			for _, n := range in[i : i+10] {
				sum += n
			}
			require.LessOrEqual(t, sum, rate+rate/10+rate/20+1, "in the second from tick %d: %v", i, in)
			require.GreaterOrEqual(t, sum, rate-rate/10, "nor does it keep anybody out: %v", in)
		}
	})
}

// Promise 3: nor does a clock that only runs fast, where two calls fall into one moment of
// it, as those of an event's lanes do.
func TestPromise3FastClockAndTwoCallsAMoment(t *testing.T) {
	t.Parallel()
	const rate = 200
	l := testLine(t, redistest.Mini(t))
	e := open(t, l, func(s *Settings) {
		s.RatePerS, s.Grace, s.ClaimTTL = rate, Duration(24*time.Hour), Duration(24*time.Hour)
	})
	crowd(t, l, 1500)
	in := 0
	for tick := range 40 {
		passed := time.Duration(tick) * 100 * time.Millisecond
		freeze(t, l, e.Now.Add(passed*14/10))
		for range 2 {
			p, err := l.Promote(t.Context(), PromoteRequest{Event: "e", Fence: 1, N: 300, Ran: time.Millisecond + passed})
			require.NoError(t, err)
			in += len(p.Grants)
		}
	}
	require.LessOrEqual(t, in, 4*rate+rate/10, "in four seconds of the leader's clock")
}
