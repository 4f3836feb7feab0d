package pay

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// The methods that the sandbox knows. Any other is declined.
const (
	MethodApprove = "approve" // captured at once; also the empty method
	MethodDecline = "decline" // declined at once
	MethodDelay   = "delay"   // captured after SandboxConfig.Delay
	MethodVanish  = "vanish"  // captured, and never answered
	MethodTwice   = "twice"   // captured, and told twice
	MethodDown    = "down"    // an error, and nothing is charged
)

// SandboxConfig says how a sandbox behaves. The zero value of a field is its default.
type SandboxConfig struct {
	// Delay is how long MethodDelay takes. Default 2s.
	Delay time.Duration
	// Notify is told of each charge when it is made, before the caller is answered;
	// of one of MethodTwice twice. It must not block for long. Default nobody.
	Notify func(Charge)
	// MaxCharges is the most charges in the books; beyond it the sandbox is down,
	// for it never forgets one. Default 1,000,000.
	MaxCharges int
}

// Sandbox is a provider to test against, with books of its own. It keeps them in
// memory, or in a journal too (OpenSandbox), and is safe for concurrent use.
type Sandbox struct {
	cfg SandboxConfig

	mu      sync.Mutex
	down    bool
	charges map[string]*entry  // by key
	refunds map[string]*Refund // by key
	books   Books
	journal *journal // nil: they are in memory only
}

// entry is a charge with what was asked for.
type entry struct {
	charge Charge
	asked  ChargeRequest
}

var _ Provider = (*Sandbox)(nil)

// NewSandbox makes a sandbox with empty books.
func NewSandbox(cfg SandboxConfig) *Sandbox {
	cfg.Delay = cmp.Or(cfg.Delay, 2*time.Second)
	cfg.MaxCharges = cmp.Or(cfg.MaxCharges, 1_000_000)
	return &Sandbox{cfg: cfg, charges: map[string]*entry{}, refunds: map[string]*Refund{}}
}

// Books are the sums of a sandbox.
type Books struct {
	// Captured charges and their sum.
	Captured      int64 `json:"captured"`
	CapturedCents int64 `json:"captured_cents"`
	Declined      int64 `json:"declined"`
	Refunded      int64 `json:"refunded"`
	RefundedCents int64 `json:"refunded_cents"`
	// Calls of each kind, repetitions included.
	ChargeCalls int64 `json:"charge_calls"`
	FindCalls   int64 `json:"find_calls"`
	RefundCalls int64 `json:"refund_calls"`
	// Repeated is the number of charge calls whose key was known already.
	Repeated int64 `json:"repeated"`
}

// Audit gives the sums as they are now.
func (s *Sandbox) Audit() Books {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.books
}

// Recount adds up the books from the single records, to check Audit.
func (s *Sandbox) Recount() (capturedCents, refundedCents int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.charges {
		if e.charge.Status == ChargeCaptured {
			capturedCents += e.charge.AmountCents
		}
	}
	for _, r := range s.refunds {
		refundedCents += r.AmountCents
	}
	return capturedCents, refundedCents
}

// SetDown makes every call fail, until it is set back.
func (s *Sandbox) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// Charge is Provider's.
func (s *Sandbox) Charge(ctx context.Context, r ChargeRequest) (Charge, error) {
	if r.Method == MethodDelay && !s.knows(r.Key) {
		if err := wait(ctx, s.cfg.Delay); err != nil {
			return Charge{}, err
		}
	}
	c, first, err := s.book(r)
	if err != nil || !first {
		return c, err
	}
	for range map[bool]int{false: 1, true: 2}[r.Method == MethodTwice] {
		if s.cfg.Notify != nil {
			s.cfg.Notify(c)
		}
	}
	if r.Method == MethodVanish {
		<-ctx.Done()
		return Charge{}, fmt.Errorf("charge %s: %w", r.Key, context.Cause(ctx))
	}
	return c, nil
}

func (s *Sandbox) knows(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.charges[key] != nil
}

// book writes a charge down, or finds it; first says which.
func (s *Sandbox) book(r ChargeRequest) (c Charge, first bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.books.ChargeCalls++
	if s.down || r.Method == MethodDown {
		return Charge{}, false, fmt.Errorf("charge %s: %w", r.Key, ErrDown)
	}
	if r.Key == "" || r.AmountCents <= 0 || r.Currency == "" {
		return Charge{}, false, fmt.Errorf("charge %q of %d %q: %w: key, amount and currency are needed", r.Key, r.AmountCents, r.Currency, ErrRefused)
	}
	if e := s.charges[r.Key]; e != nil {
		s.books.Repeated++
		if e.asked != r {
			return Charge{}, false, fmt.Errorf("charge %s: %w: the key is another charge's", r.Key, ErrRefused)
		}
		return e.charge, false, nil
	}
	if len(s.charges) >= s.cfg.MaxCharges {
		return Charge{}, false, fmt.Errorf("charge %s: %w: the books are full", r.Key, ErrDown)
	}
	c = Charge{
		ID: fmt.Sprintf("ch_%d", len(s.charges)+1), Key: r.Key, Status: ChargeCaptured,
		AmountCents: r.AmountCents, Currency: r.Currency,
	}
	switch r.Method {
	case "", MethodApprove, MethodDelay, MethodVanish, MethodTwice:
	case MethodDecline:
		c.Status, c.Reason = ChargeDeclined, "card_declined"
	default:
		c.Status, c.Reason = ChargeDeclined, "unknown_method"
	}
	if err := s.journal.write(record{Charge: &c, Asked: &r}); err != nil {
		return Charge{}, false, fmt.Errorf("charge %s: %w", r.Key, err)
	}
	s.count(c, r)
	return c, true, nil
}

// Find is Provider's.
func (s *Sandbox) Find(_ context.Context, key string) (Charge, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.books.FindCalls++
	if s.down {
		return Charge{}, fmt.Errorf("find %s: %w", key, ErrDown)
	}
	e := s.charges[key]
	if e == nil {
		return Charge{}, fmt.Errorf("find %s: %w", key, ErrNotFound)
	}
	return e.charge, nil
}

// Refund is Provider's.
func (s *Sandbox) Refund(_ context.Context, r RefundRequest) (Refund, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.books.RefundCalls++
	if s.down {
		return Refund{}, fmt.Errorf("refund %s: %w", r.Key, ErrDown)
	}
	if old := s.refunds[r.Key]; old != nil {
		if old.ChargeKey != r.ChargeKey || old.AmountCents != r.AmountCents || !strings.EqualFold(old.Currency, r.Currency) {
			return Refund{}, fmt.Errorf("refund %s: %w: the key is another refund's", r.Key, ErrRefused)
		}
		return *old, nil
	}
	e := s.charges[r.ChargeKey]
	switch {
	case r.Key == "":
		return Refund{}, fmt.Errorf("refund: %w: a key is needed", ErrRefused)
	case e == nil || e.charge.Status != ChargeCaptured:
		return Refund{}, fmt.Errorf("refund %s: %w: nothing was captured", r.Key, ErrRefused)
	case r.AmountCents <= 0 || e.charge.RefundedCents+r.AmountCents > e.charge.AmountCents:
		return Refund{}, fmt.Errorf("refund %s: %w: %d of %d cents left", r.Key, ErrRefused, e.charge.AmountCents-e.charge.RefundedCents, e.charge.AmountCents)
	case !strings.EqualFold(e.charge.Currency, r.Currency):
		return Refund{}, fmt.Errorf("refund %s: %w: charged in %s", r.Key, ErrRefused, e.charge.Currency)
	}
	done := &Refund{
		ID: fmt.Sprintf("re_%d", len(s.refunds)+1), Key: r.Key, ChargeKey: r.ChargeKey,
		AmountCents: r.AmountCents, Currency: r.Currency,
	}
	if err := s.journal.write(record{Refund: done}); err != nil {
		return Refund{}, fmt.Errorf("refund %s: %w", r.Key, err)
	}
	s.giveBack(done)
	return *done, nil
}

// wait waits for d, or for the end of ctx, whose error it returns.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
