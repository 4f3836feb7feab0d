package pay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// GuardConfig says when calls are cut and when the breaker opens. The zero value
// of a field is its default, which is system A's number.
type GuardConfig struct {
	// Timeout cuts each call. Default 3s.
	Timeout time.Duration
	// Window is the number of calls looked at. Default 100.
	Window int
	// MinCalls is the least number of calls to judge by. Default 50.
	MinCalls int
	// FailureRate of the window's calls opens the breaker. Default 0.5.
	FailureRate float64
	// SlowAfter makes a call slow; SlowRate of them opens the breaker. Default 2s, 0.8.
	SlowAfter time.Duration
	SlowRate  float64
	// OpenFor is how long the breaker stays open before trials. Default 30s.
	OpenFor time.Duration
	// Trials is the number of calls let through half-open: more than 1-FailureRate
	// of them good closes the breaker, else it opens again. Default 10.
	Trials int
}

func (c GuardConfig) withDefaults() GuardConfig {
	c.Timeout = cmp.Or(c.Timeout, 3*time.Second)
	c.Window = cmp.Or(c.Window, 100)
	c.MinCalls = cmp.Or(c.MinCalls, 50)
	c.FailureRate = cmp.Or(c.FailureRate, 0.5)
	c.SlowAfter = cmp.Or(c.SlowAfter, 2*time.Second)
	c.SlowRate = cmp.Or(c.SlowRate, 0.8)
	c.OpenFor = cmp.Or(c.OpenFor, 30*time.Second)
	c.Trials = cmp.Or(c.Trials, 10)
	return c
}

// Validate reports every wrong field.
func (c GuardConfig) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Timeout < 0 || c.SlowAfter < 0 || c.SlowAfter > c.Timeout {
		errs = append(errs, fmt.Errorf("slow after %s: must be at most the timeout %s", c.SlowAfter, c.Timeout))
	}
	if c.MinCalls < 1 || c.Window < c.MinCalls {
		errs = append(errs, fmt.Errorf("window %d: must be at least the %d calls to judge by", c.Window, c.MinCalls))
	}
	if c.FailureRate < 0 || c.FailureRate > 1 || c.SlowRate < 0 || c.SlowRate > 1 {
		errs = append(errs, fmt.Errorf("failure rate %g, slow rate %g: must be 0 to 1", c.FailureRate, c.SlowRate))
	}
	if c.OpenFor < 0 {
		errs = append(errs, fmt.Errorf("open for %s: must be positive", c.OpenFor))
	}
	if c.Trials < 1 {
		errs = append(errs, fmt.Errorf("trials %d: must be positive", c.Trials))
	}
	return errors.Join(errs...)
}

// Guard is a provider behind a timeout and a breaker; it adds ErrOpen to what
// each call may end with. It is safe for concurrent use.
type Guard struct {
	cfg   GuardConfig
	next  Provider
	log   *zap.Logger
	calls *prometheus.HistogramVec
	state *prometheus.GaugeVec

	mu sync.Mutex
	// breaker keeps the state; in the closed state window decides, which can count
	// slow calls and ask for a least number of calls.
	breaker circuitbreaker.CircuitBreaker[any]
	window  window
	// turn counts changes of state: what began in an earlier one says nothing now.
	turn int
}

var _ Provider = (*Guard)(nil)

// NewGuard puts a guard before a provider.
func NewGuard(cfg GuardConfig, next Provider, log *zap.Logger, reg prometheus.Registerer) (*Guard, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("payment guard: %w", err)
	}
	g := &Guard{
		cfg: cfg.withDefaults(), next: next, log: log.Named("payment"),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "waitroom", Subsystem: "payment", Name: "call_seconds",
			Help:    "Calls to the provider by deed and result: ok, refused, fault, cancelled, open.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2, 3, 5},
		}, []string{"deed", "result"}),
		state: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "waitroom", Subsystem: "payment", Name: "breaker_state",
			Help: "1 for the state that the breaker is in.",
		}, []string{"state"}),
	}
	g.window = newWindow(g.cfg.Window)
	good := uint(math.Floor(float64(g.cfg.Trials)*(1-g.cfg.FailureRate))) + 1
	g.breaker = circuitbreaker.NewBuilder[any]().
		WithDelay(g.cfg.OpenFor).
		WithSuccessThresholdRatio(min(good, uint(g.cfg.Trials)), uint(g.cfg.Trials)).
		OnStateChanged(g.changed).
		Build()
	g.show(circuitbreaker.ClosedState)
	for _, c := range []prometheus.Collector{g.calls, g.state} {
		if reg == nil {
			break
		}
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register payment metrics: %w", err)
		}
	}
	return g, nil
}

// Ready says whether a call would be let through now, as far as can be told
// without making one; false is the open breaker.
func (g *Guard) Ready() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.breaker.IsOpen() || g.breaker.RemainingDelay() == 0
}

// Trials is how many calls make sense now: all that are wanted while the breaker
// is closed, a few while it tries, none while it is open.
func (g *Guard) Trials(wanted int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.breaker.IsClosed():
		return wanted
	case g.breaker.IsOpen() && g.breaker.RemainingDelay() > 0:
		return 0
	default:
		return min(wanted, g.cfg.Trials)
	}
}

// Charge is Provider's, guarded.
func (g *Guard) Charge(ctx context.Context, r ChargeRequest) (Charge, error) {
	return guarded(ctx, g, "charge", func(ctx context.Context) (Charge, error) { return g.next.Charge(ctx, r) },
		func(c Charge) bool { return c.Status == ChargeDeclined })
}

// Find is Provider's, guarded.
func (g *Guard) Find(ctx context.Context, key string) (Charge, error) {
	return guarded(ctx, g, "find", func(ctx context.Context) (Charge, error) { return g.next.Find(ctx, key) },
		func(Charge) bool { return false })
}

// Refund is Provider's, guarded.
func (g *Guard) Refund(ctx context.Context, r RefundRequest) (Refund, error) {
	return guarded(ctx, g, "refund", func(ctx context.Context) (Refund, error) { return g.next.Refund(ctx, r) },
		func(Refund) bool { return false })
}

// result is what a call says of the provider's health.
type result string

const (
	resultOK        result = "ok"
	resultRefused   result = "refused"   // an answer of a healthy provider; never counts against it
	resultFault     result = "fault"     // the provider's own
	resultCancelled result = "cancelled" // the caller went away: it says nothing
	resultOpen      result = "open"      // not called
)

func guarded[R any](ctx context.Context, g *Guard, deed string, f func(context.Context) (R, error), refused func(R) bool) (R, error) {
	var none R
	if err := ctx.Err(); err != nil {
		return none, fmt.Errorf("%s: %w: %w", deed, ErrNotSent, err)
	}
	turn, ok := g.begin()
	if !ok {
		g.calls.WithLabelValues(deed, string(resultOpen)).Observe(0)
		return none, fmt.Errorf("%s: %w", deed, ErrOpen)
	}
	start := time.Now()
	r, err := failsafe.With(timeout.New[R](g.cfg.Timeout)).WithContext(ctx).
		GetWithExecution(func(e failsafe.Execution[R]) (R, error) { //nolint:contextcheck // a child of ctx, which the timeout ends
			return f(e.Context())
		})
	took := time.Since(start)
	res := judge(ctx, err, err == nil && refused(r))
	g.end(turn, res, took >= g.cfg.SlowAfter)
	g.calls.WithLabelValues(deed, string(res)).Observe(took.Seconds())
	if err != nil {
		return none, fmt.Errorf("%s: %w", deed, err)
	}
	return r, nil
}

// judge decides whose fault a call's end was.
func judge(caller context.Context, err error, refused bool) result {
	switch {
	case refused, errors.Is(err, ErrRefused), errors.Is(err, ErrNotFound):
		return resultRefused
	case err == nil:
		return resultOK
	case caller.Err() != nil && !errors.Is(err, timeout.ErrExceeded):
		return resultCancelled
	default:
		return resultFault
	}
}

func (g *Guard) begin() (turn int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ok = g.breaker.TryAcquirePermit()
	return g.turn, ok
}

func (g *Guard) end(turn int, r result, slow bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if turn != g.turn {
		return
	}
	if g.breaker.IsHalfOpen() {
		switch {
		case r == resultCancelled:
			// The breaker cannot take a permit back without a result: begin the trials anew.
			g.breaker.Open()
			g.breaker.HalfOpen()
		case r == resultFault, r == resultOK && slow:
			g.breaker.RecordFailure()
		default:
			g.breaker.RecordSuccess()
		}
		return
	}
	if r == resultCancelled || r == resultRefused {
		return
	}
	g.window.add(call{failed: r == resultFault, slow: slow})
	if why := g.window.verdict(g.cfg.MinCalls, g.cfg.FailureRate, g.cfg.SlowRate); why != "" {
		g.log.Warn("breaker opens", zap.String("reason", why), zap.Int("calls", len(g.window.calls)),
			zap.Int("failed", g.window.failed), zap.Int("slow", g.window.slow))
		g.breaker.Open()
	}
}

// changed is called by the breaker in a call of ours, so under mu.
func (g *Guard) changed(e circuitbreaker.StateChangedEvent) {
	g.turn++
	g.window = newWindow(g.cfg.Window)
	g.show(e.NewState)
	g.log.Info("breaker changed", zap.Stringer("from", e.OldState), zap.Stringer("to", e.NewState))
}

func (g *Guard) show(now circuitbreaker.State) {
	for _, s := range []circuitbreaker.State{circuitbreaker.ClosedState, circuitbreaker.OpenState, circuitbreaker.HalfOpenState} {
		v := 0.0
		if s == now {
			v = 1
		}
		g.state.WithLabelValues(s.String()).Set(v)
	}
}
