package admission

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// Why a term of leadership ended, as the cause of its context.
var (
	// ErrLeaseLost: the store says that somebody else holds the lease, or nobody.
	ErrLeaseLost = errors.New("lease lost")
	// ErrLeaseUntrusted: the lease could not be renewed in time.
	ErrLeaseUntrusted = errors.New("lease not renewed in time")
)

// LeaseConfig says how leadership is held.
type LeaseConfig struct {
	// Prefix begins the keys in the store. Default "wr".
	Prefix string
	// TTL is how long a leader that vanished is waited for. Default 2s, at least 300ms.
	TTL time.Duration
	// Retry is how often those who stand by try to win it. Default 100ms: one tick.
	Retry time.Duration
}

// Lease is the wish to lead. At most one node at a time holds it, as far as a
// lock with a time to live can say; what makes a second leader harmless is the
// fence, which only grows and which the promote script checks.
type Lease struct {
	cfg   LeaseConfig
	rdb   redis.Scripter
	locks *redislock.Client
	token string // of this node: a try whose reply was lost finds its own lock
	log   *zap.Logger
}

// Term is one leadership, from winning the lease to losing it.
type Term struct {
	// Fence is larger than that of every term before.
	Fence int64
	// Gap is how long nobody had led when this term was won, by the store's clock. A
	// leader that was killed was seen last when it renewed, so it may be up to a third
	// of the lease too long. Below 0: not known, such as in a new store.
	Gap   time.Duration
	until *atomic.Int64 // trusted until: nanoseconds after start
	start time.Time
}

// NewTerm is a term that is trusted for so long from now on.
func NewTerm(fence int64, trusted time.Duration) Term {
	t := Term{Fence: fence, Gap: -1, until: new(atomic.Int64), start: time.Now()}
	t.until.Store(int64(trusted))
	return t
}

// Trusted reports whether the lease cannot have run out yet by this node's clock.
// A process that was paused sees it at once; one that is paused right after
// asking is stopped by the fence.
func (t Term) Trusted() bool { return time.Since(t.start) < time.Duration(t.until.Load()) }

// left is how long the term is still trusted.
func (t Term) left() time.Duration { return time.Duration(t.until.Load()) - time.Since(t.start) }

// extend trusts the term for ttl from when the attempt began, not from its reply.
func (t Term) extend(attempt time.Time, ttl time.Duration) {
	t.until.Store(int64(attempt.Sub(t.start) + ttl))
}

// NewLease checks the settings and connects nothing.
func NewLease(cfg LeaseConfig, rdb redis.Scripter, log *zap.Logger) (*Lease, error) {
	cfg.Prefix = cmp.Or(cfg.Prefix, "wr")
	cfg.TTL = cmp.Or(cfg.TTL, 2*time.Second)
	cfg.Retry = cmp.Or(cfg.Retry, DefaultTick)
	if cfg.TTL < 300*time.Millisecond {
		return nil, fmt.Errorf("lease: ttl %v, must be at least 300ms", cfg.TTL)
	}
	if cfg.Retry < 0 || cfg.Retry > cfg.TTL {
		return nil, fmt.Errorf("lease: retry %v, must be above 0 and at most the ttl of %v", cfg.Retry, cfg.TTL)
	}
	return &Lease{cfg: cfg, rdb: rdb, locks: redislock.New(rdb), token: rand.Text(), log: log}, nil
}

// Run stands by until ctx ends, and calls lead for each term that it wins. The
// context of lead ends with the term; lead must return soon then, and may return
// by itself to step down. The lease is renewed at a third of its time while lead
// runs and given back when it returns, so that another node takes over at its
// next try.
func (l *Lease) Run(ctx context.Context, lead func(context.Context, Term)) error {
	tick := time.NewTicker(l.cfg.Retry)
	defer tick.Stop()
	for {
		if lock, term, ok := l.obtain(ctx); ok {
			l.hold(ctx, lock, term, lead)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// callTimeout bounds one call of the lease.
func (l *Lease) callTimeout() time.Duration { return min(l.cfg.TTL/3, storeTimeout) }

// raiseFence gives a new term its fence, while the lease is ours.
//
//	KEYS     the lease, the fence
//	ARGV[1]  the lease's value
//	reply    the fence, or 0 when the lease is not ours
//
// The fence is the number before plus one, and at least the store's time in ms: if
// a store loses the number, the next one is above whatever the events have seen.
var raiseFence = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local t = redis.call('TIME')
local fence = math.max((tonumber(redis.call('GET', KEYS[2])) or 0) + 1, t[1] * 1000 + math.floor(t[2] / 1000))
redis.call('SET', KEYS[2], string.format('%.0f', fence))
return fence`)

// signOfLife says that somebody leads.
//
//	KEYS[1]  when a leader was seen last, ms
//	reply    how many ms ago that was, or -1 for never
var signOfLife = redis.NewScript(`-- seen
local t = redis.call('TIME')
local now, before = t[1] * 1000 + math.floor(t[2] / 1000), redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], string.format('%.0f', now))
return before and math.max(0, now - tonumber(before)) or -1`)

// seen gives a sign of life, and tells how old the last one was; -1 if that is not
// known. It is for the metric alone, so that a failure is none.
func (l *Lease) seen(ctx context.Context) time.Duration {
	ms, err := signOfLife.Run(ctx, l.rdb, []string{seenKey(l.cfg.Prefix)}).Int64()
	if err != nil || ms < 0 {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}

// obtain tries once to win the lease and its fence.
func (l *Lease) obtain(ctx context.Context) (*redislock.Lock, Term, bool) {
	call, cancel := context.WithTimeout(ctx, l.callTimeout())
	defer cancel()
	term := NewTerm(0, l.cfg.TTL) // trusted from before the attempt
	lock, err := l.locks.Obtain(call, leaseKey(l.cfg.Prefix), l.cfg.TTL, &redislock.Options{Token: l.token})
	if err != nil { // held by another, or the store is away
		return nil, Term{}, false
	}
	term.Fence, err = raiseFence.Run(call, l.rdb, []string{leaseKey(l.cfg.Prefix), fenceKey(l.cfg.Prefix)}, l.token).Int64()
	if err != nil || term.Fence == 0 {
		l.release(ctx, lock)
		return nil, Term{}, false
	}
	term.Gap = l.seen(call)
	return lock, term, true
}

// hold leads for one term: renewing beside lead, and giving back after it.
func (l *Lease) hold(ctx context.Context, lock *redislock.Lock, term Term, lead func(context.Context, Term)) {
	l.log.Info("leadership won", zap.Int64("fence", term.Fence), zap.Duration("gap", term.Gap))
	leading, end := context.WithCancelCause(ctx)
	renewed := make(chan struct{})
	go func() { // waited for below
		defer close(renewed)
		end(l.renew(leading, lock, term))
	}()
	lead(leading, term)
	end(nil)
	<-renewed
	cause := context.Cause(leading)
	if !errors.Is(cause, ErrLeaseLost) && !errors.Is(cause, ErrLeaseUntrusted) { // it led to the end
		last, done := context.WithTimeout(context.WithoutCancel(ctx), l.callTimeout())
		l.seen(last)
		done()
	}
	l.release(ctx, lock)
	if ctx.Err() != nil || errors.Is(cause, context.Canceled) {
		l.log.Info("leadership given up", zap.Int64("fence", term.Fence))
		return
	}
	l.log.Warn("leadership lost", zap.Int64("fence", term.Fence), zap.Error(cause))
}

// renew keeps the lease until ctx ends or the term cannot be trusted any more, and
// says why.
func (l *Lease) renew(ctx context.Context, lock *redislock.Lock, term Term) error {
	tick := time.NewTicker(l.cfg.TTL / 3)
	defer tick.Stop()
	trust := time.NewTimer(term.left())
	defer trust.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-trust.C:
			if !term.Trusted() {
				return ErrLeaseUntrusted
			}
			trust.Reset(term.left())
			continue
		case <-tick.C:
		}
		if !term.Trusted() {
			return ErrLeaseUntrusted
		}
		attempt := time.Now()
		call, cancel := context.WithTimeout(ctx, min(term.left(), l.callTimeout()))
		err := lock.Refresh(call, l.cfg.TTL, nil)
		if err == nil {
			l.seen(call)
		}
		cancel()
		switch {
		case errors.Is(err, redislock.ErrNotObtained):
			return ErrLeaseLost
		case err == nil:
			term.extend(attempt, l.cfg.TTL)
			trust.Reset(term.left())
		}
	}
}

// release gives the lease back if it is still ours, also while everything ends.
func (l *Lease) release(ctx context.Context, lock *redislock.Lock) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.callTimeout())
	defer cancel()
	if err := lock.Release(ctx); err != nil && !errors.Is(err, redislock.ErrLockNotHeld) {
		l.log.Warn("lease not given back", zap.Error(err)) // it runs out by itself
	}
}
