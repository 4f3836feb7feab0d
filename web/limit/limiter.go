package limit

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

// store are the buckets that all processes share. It charges each of them, and says
// which refuse.
type store interface {
	take(ctx context.Context, charges []charge) ([]refusal, error)
}

// Limiter counts calls. All its methods may be called concurrently.
type Limiter struct {
	cfg     Config
	log     *zap.Logger
	memory  *memory
	store   store
	breaker circuitbreaker.CircuitBreaker[any]
	metrics *metrics

	// The caps of this process while the store is away.
	awayBooking, awayRest *rate.Limiter
}

// New makes a Limiter over the store, which it does not ask yet. The client must
// have ContextTimeoutEnabled, or its own read timeout bounds calls in place of
// Config.CallTimeout.
func New(cfg Config, rdb redis.UniversalClient, log *zap.Logger, reg prometheus.Registerer) (*Limiter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("limiter: %w", err)
	}
	cfg = cfg.withDefaults()
	l := &Limiter{
		cfg:         cfg,
		log:         log.Named("limit"),
		memory:      newMemory(cfg.Remember),
		store:       &shared{rdb: rdb, prefix: cfg.Prefix},
		awayBooking: rate.NewLimiter(rate.Limit(cfg.AwayPerS), cfg.AwayPerS),
		awayRest:    rate.NewLimiter(rate.Limit(cfg.AwayPerS), cfg.AwayPerS),
	}
	l.breaker = circuitbreaker.NewBuilder[any]().
		WithFailureThreshold(uint(cfg.AwayAfter)).
		WithSuccessThreshold(1). // one call tries
		WithDelay(cfg.AwayRetry).
		OnStateChanged(l.changed).
		Build()
	var err error
	if l.metrics, err = newMetrics(reg, l.memory); err != nil {
		return nil, err
	}
	return l, nil
}

// Allow says whether the call may go on. It always has an answer: a store that does
// not give one is away, for which there is a policy. A caller who hangs up does not
// end the store call, which is short: a hung-up caller says nothing about the store.
func (l *Limiter) Allow(ctx context.Context, req Request, rules Rules) Verdict {
	v, by := l.decide(ctx, req, rules)
	l.metrics.count(req.Call, v, by)
	return v
}

func (l *Limiter) decide(ctx context.Context, req Request, rules Rules) (Verdict, decider) {
	if l.exempt(req.Addr) {
		return Verdict{OK: true}, byNobody
	}
	charges := plan(req, rules)
	if len(charges) == 0 {
		return Verdict{OK: true}, byNobody
	}
	refused, full := l.memory.take(time.Now(), charges)
	if refused != nil {
		return worst(refused), byMemory
	}
	if full && req.Call == Poll && req.Person != "" {
		return Verdict{OK: true}, byMemory
	}
	refused, ok := l.ask(ctx, charges)
	if !ok {
		return l.away(time.Now(), req.Call), byAway
	}
	return worst(l.memory.remember(time.Now(), charges, refused)), byStore
}

// ask has the store decide; not ok is no answer.
func (l *Limiter) ask(ctx context.Context, charges []charge) ([]refusal, bool) {
	if !l.breaker.TryAcquirePermit() {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.cfg.CallTimeout)
	defer cancel()
	answered := false
	defer func() { // also after a panic: a permit that is not given back keeps the breaker open
		if answered {
			l.breaker.RecordSuccess()
		} else {
			l.breaker.RecordFailure()
		}
	}()
	begun := time.Now()
	refused, err := l.store.take(ctx, charges)
	l.metrics.asked(time.Since(begun), err)
	if err != nil {
		l.log.Debug("store call failed", zap.Error(err))
		return nil, false
	}
	answered = true
	return refused, true
}

// away decides without the store about a call that the local buckets let through.
func (l *Limiter) away(now time.Time, call Call) Verdict {
	limiter := l.awayRest
	if call == Booking {
		limiter = l.awayBooking
	}
	if limiter.AllowN(now, 1) {
		return Verdict{OK: true}
	}
	// All who are refused would come back at the first free moment; a second spreads
	// them as far as the cap's own measure.
	return Verdict{RetryAfter: time.Second, Which: WhichAway}
}

func (l *Limiter) exempt(a netip.Addr) bool {
	return within(l.cfg.Exempt, a.Unmap().WithZone(""))
}

// changed is told by the breaker, in a call to it.
func (l *Limiter) changed(e circuitbreaker.StateChangedEvent) {
	switch e.NewState {
	case circuitbreaker.OpenState:
		if e.OldState == circuitbreaker.ClosedState {
			l.log.Warn("store away, limits are this process's own", zap.Int("per_s", l.cfg.AwayPerS))
		}
		l.metrics.away.Set(1)
	case circuitbreaker.ClosedState:
		l.log.Info("store back, limits are shared")
		l.metrics.away.Set(0)
	case circuitbreaker.HalfOpenState: // one call tries; nothing is known yet
	}
}
