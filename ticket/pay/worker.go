package pay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/relay"
)

// Store is where the payments are. *ticket.Store is one.
type Store interface {
	// ClaimPayment takes a payment for the lease; false if it is done or in hand.
	ClaimPayment(ctx context.Context, id string, lease time.Duration) (ticket.Payment, bool, error)
	// ClaimStalePayments takes open payments that nobody has in hand.
	ClaimStalePayments(ctx context.Context, limit int, lease time.Duration) ([]ticket.Payment, error)
	// ClaimUnsent takes payments that were never tried, of events that give up while
	// the provider is away.
	ClaimUnsent(ctx context.Context, limit int, lease time.Duration) ([]ticket.Payment, error)
	// ReleasePayment gives a claim back by which nothing was sent, and its attempt.
	ReleasePayment(ctx context.Context, p ticket.Payment, wait time.Duration) error
	// Payment reads one; ticket.ErrNoReservation if there is none.
	Payment(ctx context.Context, id string) (ticket.Payment, error)
	// Settle writes what was found out; repeating it changes nothing.
	Settle(ctx context.Context, paymentID string, r ticket.PaymentResult) (ticket.Outcome, error)
	SettleRefund(ctx context.Context, paymentID string) (ticket.Outcome, error)
}

// WorkerConfig says how a worker works. The zero value of a field is its default.
type WorkerConfig struct {
	// Lease is how long a payment is in hand. Default 30s. Work on it ends five
	// seconds earlier, so that no two workers have it. At least 15s.
	Lease time.Duration
	// SweepEvery is the time between looks for payments that nobody has in hand.
	// Default 1s.
	SweepEvery time.Duration
	// SweepBatch is the most payments that a sweep takes, so the most it works on
	// at a time. Default 32.
	SweepBatch int
	// Asks is how often the worker asks at once about a charge without an answer;
	// after that it comes again with the sweep. Default 3.
	Asks int
	// AskAfter is the wait before the first such question; it doubles. Default 200ms.
	AskAfter time.Duration
	// Watch is how long a payment that nobody waits for any more, and of which the
	// provider knows nothing, is asked about: a charge that was sent may come late,
	// and is then given back. Default 15m.
	Watch time.Duration
	// Drain is how long payments in hand may go on after ctx ended. Default 5s.
	Drain time.Duration
}

func (c WorkerConfig) withDefaults() WorkerConfig {
	c.Lease = cmp.Or(c.Lease, 30*time.Second)
	c.SweepEvery = cmp.Or(c.SweepEvery, time.Second)
	c.SweepBatch = cmp.Or(c.SweepBatch, 32)
	c.Asks = cmp.Or(c.Asks, 3)
	c.AskAfter = cmp.Or(c.AskAfter, 200*time.Millisecond)
	c.Watch = cmp.Or(c.Watch, 15*time.Minute)
	c.Drain = cmp.Or(c.Drain, 5*time.Second)
	return c
}

// Validate reports every wrong field.
func (c WorkerConfig) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Lease < 15*time.Second {
		errs = append(errs, fmt.Errorf("lease %s: must be at least 15s", c.Lease))
	}
	if c.SweepEvery < 0 || c.AskAfter < 0 || c.Drain < 0 || c.Watch < 0 {
		errs = append(errs, errors.New("sweep every, ask after, drain, watch: must be positive"))
	}
	if c.SweepBatch < 1 || c.Asks < 1 {
		errs = append(errs, errors.New("sweep batch, asks: must be positive"))
	}
	return errors.Join(errs...)
}

// glance is the lease of a claim while the breaker is open: long enough to cancel,
// and short, so that a job that waits is free when the provider is back.
const glance = 2 * time.Second

// settleMargin is what is left of a lease for writing down what was found out.
const settleMargin = 5 * time.Second

// Worker charges payments and settles them. Several side by side are safe, and a
// worker needs no queue: what no message says, its sweep finds.
type Worker struct {
	cfg     WorkerConfig
	store   Store
	guard   *Guard
	log     *zap.Logger
	settled *prometheus.CounterVec
	steps   *prometheus.CounterVec
}

// NewWorker makes a worker; Run starts its sweep, Handle takes messages.
func NewWorker(cfg WorkerConfig, store Store, guard *Guard, log *zap.Logger, reg prometheus.Registerer) (*Worker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("payment worker: %w", err)
	}
	w := &Worker{
		cfg: cfg.withDefaults(), store: store, guard: guard, log: log.Named("payment"),
		settled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "waitroom", Subsystem: "payment", Name: "settled_total",
			Help: "Payments settled by result: captured, declined, unknown, unavailable, refunded.",
		}, []string{"result"}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "waitroom", Subsystem: "payment", Name: "steps_total",
			Help: "What workers did with payments: charge, ask, cancel, refund, wait, none.",
		}, []string{"step"}),
	}
	for _, c := range []prometheus.Collector{w.settled, w.steps} {
		if reg == nil {
			break
		}
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register payment metrics: %w", err)
		}
	}
	return w, nil
}

var _ relay.Handler = (*Worker)(nil).Handle

// Handle takes a message of ticket.TopicPaymentRequested. Whatever the provider
// does, the message is done: the payment itself comes again until it is settled.
// An error means that the store was away, or that the message is unreadable.
func (w *Worker) Handle(ctx context.Context, m relay.Message) error {
	if m.Topic != ticket.TopicPaymentRequested {
		return nil
	}
	var body ticket.Message
	if err := json.Unmarshal(m.Payload, &body); err != nil {
		return fmt.Errorf("payment message: %w", err)
	}
	if body.PaymentID == "" {
		return errors.New("payment message without payment_id")
	}
	return w.Pay(ctx, body.PaymentID)
}

// Pay works on one payment, if nobody else has it in hand and it is not done.
func (w *Worker) Pay(ctx context.Context, id string) error {
	ready, lease := w.guard.Ready(), w.cfg.Lease
	if !ready {
		lease = glance
	}
	until := time.Now().Add(lease)
	p, ok, err := w.store.ClaimPayment(ctx, id, lease)
	if err != nil {
		return fmt.Errorf("claim payment %s: %w", id, err)
	}
	if ok {
		w.work(ctx, p, ready, until)
	}
	return nil
}

// Answer takes an answer that the provider sent by itself, such as a second one;
// it changes nothing if the payment is settled, or nobody's here. One about another
// sum than was asked for is not believed: the provider is asked. The caller must
// have made sure that it is the provider who speaks.
func (w *Worker) Answer(ctx context.Context, c Charge) error {
	p, err := w.store.Payment(ctx, c.Key)
	if errors.Is(err, ticket.ErrNoReservation) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("answer for %s: %w", c.Key, err)
	}
	f := readCharge(p, c, nil)
	if f == findingStrange {
		if c, err = w.guard.Find(ctx, p.ID); err == nil {
			f = readCharge(p, c, nil)
			err = strange(p, c)
		}
	}
	switch f {
	case findingCaptured:
		return w.settle(ctx, p.ID, ticket.ResultCaptured)
	case findingDeclined:
		return w.settle(ctx, p.ID, ticket.ResultDeclined)
	case findingStrange: // nothing is settled by it; a payment that is open comes again
		w.log.Error("payment needs a person", zap.String("payment", p.ID), zap.String("step", "answer"), zap.Error(err))
		return nil
	case findingNothing, findingUnsent, findingUnknown: // it has no news
		return nil
	default:
		return fmt.Errorf("unknown finding %q", f)
	}
}

// Run sweeps for payments that nobody has in hand, until ctx ends; payments in
// hand may then go on for Drain.
func (w *Worker) Run(ctx context.Context) error {
	wctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(w.cfg.Drain, cancel) })
	defer stop()
	for {
		more, err := w.sweep(ctx, wctx)
		if err != nil && ctx.Err() == nil {
			w.log.Warn("payments not swept", zap.Error(err))
		}
		if more && err == nil {
			continue
		}
		d := w.cfg.SweepEvery
		if wait(ctx, d-time.Duration(rand.Float64()*float64(d)/5)) != nil {
			return nil
		}
	}
}

// sweep takes a batch and works on it; more says that there was a full one.
func (w *Worker) sweep(ctx, wctx context.Context) (more bool, err error) {
	n := w.guard.Trials(w.cfg.SweepBatch)
	if ctx.Err() != nil {
		return false, nil
	}
	cctx, cancel := context.WithTimeout(ctx, settleMargin)
	defer cancel()
	claim, ready, lease := w.store.ClaimStalePayments, true, w.cfg.Lease
	if n == 0 { // jobs wait, but for those whose event gives up
		claim, ready, lease, n = w.store.ClaimUnsent, false, glance+settleMargin, w.cfg.SweepBatch
	}
	until := time.Now().Add(lease)
	ps, err := claim(cctx, n, lease)
	if err != nil {
		return false, fmt.Errorf("claim payments: %w", err)
	}
	var hands sync.WaitGroup
	for _, p := range ps {
		hands.Go(func() { w.work(wctx, p, ready, until) })
	}
	hands.Wait()
	return len(ps) == n, nil
}
