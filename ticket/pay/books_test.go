package pay

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
)

// books is a Store in memory: the state machine of payments, in the fewest lines.
type books struct {
	mu       sync.Mutex
	payments map[string]*ticket.Payment
	lease    map[string]time.Time
	// gone are payments whose seats are somebody else's by now.
	gone map[string]bool
	told []ticket.Outcome
	// unwanted are payments that nobody waits for, since when.
	unwanted map[string]time.Time
	// away makes every call fail.
	away error
}

var errAway = errors.New("database away")

func newBooks() *books {
	return &books{payments: map[string]*ticket.Payment{}, lease: map[string]time.Time{}, gone: map[string]bool{}, unwanted: map[string]time.Time{}}
}

func (b *books) add(id, method string, change ...func(*ticket.Payment)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &ticket.Payment{
		ID: id, Event: "demo", ReservationID: "r-" + id, Person: "p", AmountCents: 5000, Currency: "EUR",
		Method: method, State: ticket.PaymentRequested, Wanted: true, OnBreakerOpen: "wait",
	}
	for _, f := range change {
		f(p)
	}
	b.payments[id] = p
}

func (b *books) claim(id string, lease time.Duration) (ticket.Payment, bool) {
	p := b.payments[id]
	open := p != nil && slices.Contains([]ticket.PaymentState{ticket.PaymentRequested, ticket.PaymentUnknown, ticket.PaymentRefundDue}, p.State)
	if !open || time.Now().Before(b.lease[id]) {
		return ticket.Payment{}, false
	}
	b.lease[id] = time.Now().Add(lease)
	p.Attempts++
	claimed := *p
	if since, ended := b.unwanted[id]; ended {
		claimed.Wanted, claimed.Quiet = false, time.Since(since)
	}
	return claimed, true
}

// end makes a payment one that nobody waits for, from now on.
func (b *books) end(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unwanted[id] = time.Now()
}

func (b *books) ClaimUnsent(_ context.Context, _ int, lease time.Duration) ([]ticket.Payment, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ps []ticket.Payment
	for id, p := range b.payments {
		if p.State == ticket.PaymentRequested && p.Attempts == 0 && p.OnBreakerOpen == onOpenCancel {
			if p, ok := b.claim(id, lease); ok {
				ps = append(ps, p)
			}
		}
	}
	return ps, b.away
}

func (b *books) ReleasePayment(_ context.Context, p ticket.Payment, wait time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.payments[p.ID]; b.away == nil && now.Attempts == p.Attempts {
		now.Attempts--
		b.lease[p.ID] = time.Now().Add(wait)
	}
	return b.away
}

func (b *books) ClaimPayment(_ context.Context, id string, lease time.Duration) (ticket.Payment, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away != nil {
		return ticket.Payment{}, false, b.away
	}
	p, ok := b.claim(id, lease)
	return p, ok, nil
}

func (b *books) ClaimStalePayments(_ context.Context, limit int, lease time.Duration) ([]ticket.Payment, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ps []ticket.Payment
	for id := range b.payments {
		if len(ps) == limit {
			break
		}
		if p, ok := b.claim(id, lease); ok {
			ps = append(ps, p)
		}
	}
	return ps, b.away
}

func (b *books) Payment(_ context.Context, id string) (ticket.Payment, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.payments[id]; p != nil {
		return *p, b.away
	}
	return ticket.Payment{}, errors.Join(b.away, ticket.ErrNoReservation)
}

func (b *books) Settle(ctx context.Context, id string, r ticket.PaymentResult) (ticket.Outcome, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := errors.Join(b.away, ctx.Err()); err != nil {
		return ticket.Outcome{}, err
	}
	p := b.payments[id]
	o := ticket.Outcome{Event: p.Event, Person: p.Person, ReservationID: p.ReservationID}
	switch {
	case p.State != ticket.PaymentRequested && p.State != ticket.PaymentUnknown &&
		(r != ticket.ResultCaptured || p.State == ticket.PaymentCaptured || p.State == ticket.PaymentRefundDue || p.State == ticket.PaymentRefunded):
		return o, nil // done before
	case r == ticket.ResultUnknown:
		p.State = ticket.PaymentUnknown
		return o, nil
	case r == ticket.ResultCaptured && (b.gone[id] || p.State == ticket.PaymentCancelled || p.State == ticket.PaymentDeclined):
		p.State, b.lease[id] = ticket.PaymentRefundDue, time.Time{}
		return o, nil
	case r == ticket.ResultCaptured:
		p.State, o.Status = ticket.PaymentCaptured, ticket.Paid
	case r == ticket.ResultDeclined:
		p.State, o.Status, o.Reason = ticket.PaymentDeclined, ticket.PaymentFailed, "declined"
	case r == ticket.ResultUnavailable:
		p.State, o.Status, o.Reason = ticket.PaymentCancelled, ticket.Cancelled, "payment_unavailable"
	}
	p.Wanted = false
	b.told = append(b.told, o)
	return o, nil
}

func (b *books) SettleRefund(_ context.Context, id string) (ticket.Outcome, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.payments[id]
	o := ticket.Outcome{Event: p.Event, Person: p.Person, ReservationID: p.ReservationID, Status: ticket.Refunded}
	if b.away == nil && p.State == ticket.PaymentRefundDue {
		p.State = ticket.PaymentRefunded
		b.told = append(b.told, o)
	}
	return o, b.away
}

func (b *books) setAway(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = err
}

func (b *books) state(id string) ticket.PaymentState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.payments[id].State
}

// outcomes are what the buyers were told, in order.
func (b *books) outcomes() []ticket.Outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.told)
}

// sold is the price of all payments that stand as captured.
func (b *books) sold() (cents int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.payments {
		if p.State == ticket.PaymentCaptured {
			cents += p.AmountCents
		}
	}
	return cents
}

func (b *books) open() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.payments {
		if p.State == ticket.PaymentRequested || p.State == ticket.PaymentUnknown || p.State == ticket.PaymentRefundDue {
			n++
		}
	}
	return n
}

// desk is a worker with its surroundings.
type desk struct {
	books   *books
	sandbox *Sandbox
	guard   *Guard
	worker  *Worker
}

func newDesk(t *testing.T, b *books, p Provider) *desk {
	t.Helper()
	d := &desk{books: b}
	d.sandbox, _ = p.(*Sandbox)
	d.guard = newGuard(t, p, GuardConfig{})
	d.worker = newWorker(t, b, d.guard)
	return d
}

func newWorker(t *testing.T, s Store, g *Guard) *Worker {
	t.Helper()
	w, err := NewWorker(WorkerConfig{}, s, g, zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	return w
}

// running runs a worker's sweep until the test ends, or until stop is called.
func running(t *testing.T, w *Worker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return stop
}

// balanced checks promises 1 and 8 by a recount.
func (d *desk) balanced(t *testing.T) {
	t.Helper()
	captured, refunded := d.sandbox.Recount()
	a := d.sandbox.Audit()
	require.Equal(t, a.CapturedCents, captured)
	require.Equal(t, a.RefundedCents, refunded)
	require.Equal(t, d.books.sold(), captured-refunded, "captured less refunded is the price of what was sold")
}
