package pay

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/waitroom-dev/waitroom/ticket/sqltest"
)

// stopping ends the test databases before the leak check.
type stopping struct{ m *testing.M }

func (s stopping) Run() int {
	defer sqltest.Stop()
	return s.m.Run()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(stopping{m}) }

// scripted is a provider that does what it is told.
type scripted struct {
	mu     sync.Mutex
	charge func(context.Context) (Charge, error)
	calls  int
}

func (s *scripted) set(took time.Duration, c Charge, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.charge = func(ctx context.Context) (Charge, error) {
		if e := wait(ctx, took); e != nil {
			return Charge{}, e
		}
		return c, err
	}
}

func (s *scripted) Charge(ctx context.Context, _ ChargeRequest) (Charge, error) {
	s.mu.Lock()
	s.calls++
	f := s.charge
	s.mu.Unlock()
	return f(ctx)
}

func (s *scripted) Find(ctx context.Context, _ string) (Charge, error) {
	return s.Charge(ctx, ChargeRequest{})
}

func (s *scripted) Refund(ctx context.Context, _ RefundRequest) (Refund, error) {
	_, err := s.Charge(ctx, ChargeRequest{})
	return Refund{}, err
}

func newGuard(t *testing.T, p Provider, cfg GuardConfig) *Guard {
	t.Helper()
	g, err := NewGuard(cfg, p, zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	return g
}

var (
	good     = Charge{Status: ChargeCaptured}
	declined = Charge{Status: ChargeDeclined}
	errFault = errors.New("provider: internal error")
)

// Promise 3: half of the calls failed, of at least 50.
func TestBreakerOpensAtHalfFailed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		good, bad   int // in this order
		opensAtCall int // 0: it stays closed
	}{
		{"49 of 49 failed are too few calls to judge by", 0, 49, 0},
		{"50 of 50 failed", 0, 50, 50},
		{"24 of 50 failed", 26, 24, 0},
		{"25 of 50 failed", 25, 25, 50},
		{"49 of the last 100 failed", 300, 49, 0},
		{"50 of the last 100 failed", 300, 50, 350},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &scripted{}
				g := newGuard(t, p, GuardConfig{})
				opened := 0
				for i := range c.good + c.bad {
					p.set(0, good, nil)
					if i >= c.good {
						p.set(0, Charge{}, errFault)
					}
					_, err := g.Charge(t.Context(), ChargeRequest{})
					require.NotErrorIs(t, err, ErrOpen)
					if !g.Ready() && opened == 0 {
						opened = i + 1
					}
				}
				require.Equal(t, c.opensAtCall, opened)
			})
		})
	}
}

// Promise 3: four fifths slower than 2 s.
func TestBreakerOpensAtFourFifthsSlow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		took time.Duration
		slow int // of 50
		open bool
	}{
		{"40 of 50 took 2s", 2 * time.Second, 40, true},
		{"39 of 50 took 2s", 2 * time.Second, 39, false},
		{"50 of 50 took a little less", 2*time.Second - 1, 50, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &scripted{}
				g := newGuard(t, p, GuardConfig{})
				for i := range 50 {
					p.set(0, good, nil)
					if i < c.slow {
						p.set(c.took, good, nil)
					}
					_, err := g.Charge(t.Context(), ChargeRequest{})
					require.NoError(t, err)
				}
				require.Equal(t, c.open, !g.Ready())
			})
		})
	}
}

// Promise 3: each call is cut at 3 s, and that is a failure.
func TestCallsAreCutAtThreeSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &scripted{}
		p.set(time.Hour, good, nil)
		g := newGuard(t, p, GuardConfig{})
		start := time.Now()
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				_, err := g.Charge(t.Context(), ChargeRequest{})
				require.Error(t, err)
			})
		}
		calls.Wait()
		require.Equal(t, 3*time.Second, time.Since(start))
		require.False(t, g.Ready(), "50 calls without an answer open the breaker")
	})
}

// Promise 3: open for 30 s exactly, then ten trials decide.
func TestBreakerTriesAgainAfterThirtySeconds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		good, bad int
		ready     bool
	}{
		{"six good trials close it", 6, 0, true},
		{"four bad ones do not open it yet", 0, 4, true},
		{"five bad ones open it", 0, 5, false},
		{"five of each: open", 5, 5, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &scripted{}
				g := newGuard(t, p, GuardConfig{})
				breakIt(t, g, p)
				time.Sleep(30*time.Second - 1)
				_, err := g.Charge(t.Context(), ChargeRequest{})
				require.ErrorIs(t, err, ErrOpen)
				require.Zero(t, g.Trials(32))
				time.Sleep(time.Nanosecond)
				require.True(t, g.Ready())
				require.Equal(t, 10, g.Trials(32))
				for i := range c.good + c.bad {
					p.set(0, good, nil)
					if i >= c.good {
						p.set(0, Charge{}, errFault)
					}
					_, err := g.Charge(t.Context(), ChargeRequest{})
					require.NotErrorIs(t, err, ErrOpen)
				}
				require.Equal(t, c.ready, g.Ready())
				if c.good >= 6 {
					require.Equal(t, 32, g.Trials(32), "closed")
				}
			})
		})
	}
}

func TestHalfOpenLetsOnlyTrialsThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &scripted{}
		g := newGuard(t, p, GuardConfig{})
		breakIt(t, g, p)
		time.Sleep(30 * time.Second)
		p.set(time.Second, good, nil)
		before := p.calls
		var calls sync.WaitGroup
		for range 100 {
			calls.Go(func() { _, _ = g.Charge(t.Context(), ChargeRequest{}) })
		}
		calls.Wait()
		require.Equal(t, 10, p.calls-before)
		require.Equal(t, 32, g.Trials(32), "ten good trials closed it")
	})
}

// breakIt opens the breaker.
func breakIt(t *testing.T, g *Guard, p *scripted) {
	t.Helper()
	p.set(0, Charge{}, errFault)
	for range 50 {
		_, err := g.Charge(t.Context(), ChargeRequest{})
		require.ErrorIs(t, err, errFault)
	}
	require.False(t, g.Ready())
}

// Promise 4: refusals and callers who went away never open it, nor hide faults.
func TestOnlyTheProvidersFaultsCount(t *testing.T) {
	t.Parallel()
	harmless := map[string]func(t *testing.T, g *Guard, p *scripted){
		"declined": func(t *testing.T, g *Guard, p *scripted) {
			t.Helper()
			p.set(2500*time.Millisecond, declined, nil)
			_, err := g.Charge(t.Context(), ChargeRequest{})
			require.NoError(t, err)
		},
		"refused": func(t *testing.T, g *Guard, p *scripted) {
			t.Helper()
			p.set(0, Charge{}, ErrRefused)
			_, err := g.Refund(t.Context(), RefundRequest{})
			require.ErrorIs(t, err, ErrRefused)
		},
		"not found": func(t *testing.T, g *Guard, p *scripted) {
			t.Helper()
			p.set(0, Charge{}, ErrNotFound)
			_, err := g.Find(t.Context(), "k")
			require.ErrorIs(t, err, ErrNotFound)
		},
		"caller hung up": func(t *testing.T, g *Guard, p *scripted) {
			t.Helper()
			p.set(time.Hour, good, nil)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			_, err := g.Charge(ctx, ChargeRequest{})
			require.ErrorIs(t, err, context.Canceled)
		},
		"caller's own deadline": func(t *testing.T, g *Guard, p *scripted) {
			t.Helper()
			p.set(time.Hour, good, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := g.Charge(ctx, ChargeRequest{})
			require.ErrorIs(t, err, context.DeadlineExceeded)
		},
		"gone before the call": func(t *testing.T, g *Guard, p *scripted) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			before := p.calls
			_, err := g.Charge(ctx, ChargeRequest{})
			require.ErrorIs(t, err, ErrNotSent)
			require.Equal(t, before, p.calls)
		},
	}
	for name, call := range harmless {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &scripted{}
				g := newGuard(t, p, GuardConfig{})
				for range 200 {
					call(t, g, p)
				}
				require.True(t, g.Ready())
				p.set(0, Charge{}, errFault)
				for range 49 {
					_, err := g.Charge(t.Context(), ChargeRequest{})
					require.ErrorIs(t, err, errFault)
				}
				require.True(t, g.Ready(), "49 calls are too few to judge by")
				_, err := g.Charge(t.Context(), ChargeRequest{})
				require.ErrorIs(t, err, errFault)
				require.False(t, g.Ready(), "the 50th fault opens it, whatever came between")

				// Half-open: they neither open nor jam it.
				time.Sleep(30 * time.Second)
				for range 50 {
					call(t, g, p)
				}
				p.set(0, good, nil)
				for range 6 {
					_, err := g.Charge(t.Context(), ChargeRequest{})
					require.NoError(t, err)
				}
				require.Equal(t, 32, g.Trials(32), "closed again")
			})
		})
	}
}

// A call that began before the breaker opened says nothing about the trials.
func TestLateResultsDoNotJudgeTrials(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &scripted{}
		g := newGuard(t, p, GuardConfig{OpenFor: time.Second})
		p.set(2500*time.Millisecond, Charge{}, errFault)
		var late sync.WaitGroup
		for range 20 {
			late.Go(func() { _, _ = g.Charge(t.Context(), ChargeRequest{}) })
		}
		synctest.Wait()
		breakIt(t, g, p)
		time.Sleep(time.Second)
		p.set(0, good, nil)
		_, err := g.Charge(t.Context(), ChargeRequest{})
		require.NoError(t, err)
		late.Wait()
		require.True(t, g.Ready(), "20 old faults are no trials")
	})
}

// The window's counts equal a plain recount of the last calls.
func TestWindowEqualsARecount(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 20).Draw(t, "size")
		w := newWindow(size)
		var all []call
		for range rapid.IntRange(0, 60).Draw(t, "calls") {
			c := call{failed: rapid.Bool().Draw(t, "failed"), slow: rapid.Bool().Draw(t, "slow")}
			all = append(all, c)
			w.add(c)
			last := all[max(0, len(all)-size):]
			failed, slow := 0, 0
			for _, c := range last {
				if c.failed {
					failed++
				}
				if c.slow {
					slow++
				}
			}
			if len(w.calls) != len(last) || w.failed != failed || w.slow != slow {
				t.Fatalf("window has %d calls, %d failed, %d slow; the last %d have %d, %d", len(w.calls), w.failed, w.slow, len(last), failed, slow)
			}
		}
	})
}

func TestGuardConfigFaultsAreNamed(t *testing.T) {
	t.Parallel()
	_, err := NewGuard(GuardConfig{SlowAfter: 4 * time.Second, Window: 10, Trials: -1, FailureRate: 2}, nil, zap.NewNop(), prometheus.NewRegistry())
	for _, want := range []string{"slow after 4s", "window 10", "trials -1", "failure rate 2"} {
		require.ErrorContains(t, err, want)
	}
}
