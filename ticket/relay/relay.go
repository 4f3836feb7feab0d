package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/waitroom-dev/waitroom/ticket"
)

// Outbox is where the rows are. *ticket.Store is one.
type Outbox interface {
	// ClaimOutbox takes up to limit rows for the lease, in order of id, and never
	// a row behind an unpublished one of its key that it does not return as well.
	ClaimOutbox(ctx context.Context, limit int, lease time.Duration) ([]ticket.OutboxRow, error)
	MarkPublished(ctx context.Context, ids []int64) error
	// MarkFailed counts an attempt, sets the time of the next, and parks the row
	// after the last.
	MarkFailed(ctx context.Context, id int64, cause string) error
	// SweepOutbox deletes up to limit rows that were published longer ago than
	// olderThan, and says how many.
	SweepOutbox(ctx context.Context, olderThan time.Duration, limit int) (int, error)
}

// Relay carries rows from an outbox to a publisher.
type Relay struct {
	cfg     Config
	outbox  Outbox
	pub     Publisher
	log     *zap.Logger
	metrics *metrics
	// kick holds one hint; more of them say nothing new.
	kick chan struct{}
}

// New makes a relay; Run starts it.
func New(cfg Config, outbox Outbox, pub Publisher, log *zap.Logger, reg prometheus.Registerer) (*Relay, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	return &Relay{
		cfg: cfg.withDefaults(), outbox: outbox, pub: pub, log: log.Named("relay"), metrics: m,
		kick: make(chan struct{}, 1),
	}, nil
}

// Kick says that something was committed; it never blocks, and may be called by
// anyone at any time.
func (r *Relay) Kick() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// Run carries rows until ctx ends, then makes the last marks and returns nil.
func (r *Relay) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.carry(ctx) })
	g.Go(func() error { return r.sweep(ctx) })
	return g.Wait()
}

// load is what a relay has in its hands between two looks at the outbox.
type load struct {
	rows   []claimed // claimed, not published
	marks  []int64   // published, not marked
	failed []failure // poison, not marked
}

func (r *Relay) carry(ctx context.Context) error {
	var l load
	failures := 0 // in a row
	for ctx.Err() == nil {
		more, err := r.claim(ctx, &l)
		if err == nil {
			err = r.publish(ctx, &l)
		}
		if markErr := r.mark(ctx, &l); err == nil {
			err = markErr
		}
		switch {
		case ctx.Err() != nil:
		case err != nil:
			failures++
			r.log.Warn("outbox waits", zap.Int("rows", len(l.rows)), zap.Int("failures", failures), zap.Error(err))
			pause(ctx, backoff(failures, r.cfg.BackoffMax), nil)
		case more || len(l.rows) > 0:
			failures = 0
		default:
			failures = 0
			pause(ctx, jitter(r.cfg.Poll), r.kick)
		}
	}
	// What was published is marked also after the end, so that a planned stop
	// publishes nothing twice.
	r.lastMarks(ctx, &l)
	return nil
}

func (r *Relay) lastMarks(ctx context.Context, l *load) {
	if len(l.marks) == 0 && len(l.failed) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.StoreTimeout)
	defer cancel()
	if err := r.mark(ctx, l); err != nil {
		r.log.Warn("last marks not made", zap.Int("rows", len(l.marks)+len(l.failed)), zap.Error(err))
	}
}

// claim fills the load up; more says that the outbox may have another row behind
// those that it gave, of the same keys or beyond the limit.
func (r *Relay) claim(ctx context.Context, l *load) (more bool, err error) {
	l.rows = live(l.rows, time.Now(), r.cfg.PublishTimeout)
	room := r.cfg.Batch - len(l.rows) - len(l.marks) - len(l.failed)
	if room <= 0 {
		return true, nil
	}
	until := time.Now().Add(r.cfg.Lease) // before the call: never later than the store's
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StoreTimeout)
	defer cancel()
	rows, err := r.outbox.ClaimOutbox(ctx, room, r.cfg.Lease)
	if err != nil {
		r.metrics.failures.WithLabelValues(faultStore).Inc()
		return false, fmt.Errorf("claim outbox: %w", err)
	}
	for _, row := range rows {
		l.rows = append(l.rows, claimed{row, until})
	}
	return len(rows) > 0, nil
}

// publish makes one call to the broker with the first row of each key.
func (r *Relay) publish(ctx context.Context, l *load) error {
	first, rest := wave(l.rows)
	if len(first) == 0 {
		return nil
	}
	ms := make([]Message, len(first))
	for i, row := range first {
		ms[i] = messageOf(row.OutboxRow)
	}
	// A call that has begun is not cut short by the end of ctx: its rows would be
	// published again by the next relay.
	pctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.PublishTimeout)
	defer cancel()
	v := judge(first, r.pub.Publish(pctx, ms))
	l.rows = append(v.again, without(rest, v.failed)...)
	l.failed = append(l.failed, v.failed...)
	for _, row := range v.published {
		l.marks = append(l.marks, row.ID)
		r.metrics.published.WithLabelValues(row.Topic).Inc()
		r.metrics.lag.Observe(max(0, time.Since(row.CreatedAt).Seconds()))
	}
	for _, f := range v.failed {
		r.metrics.failures.WithLabelValues(faultMessage).Inc()
		r.log.Error("message failed", zap.Int64("row", f.row.ID), zap.String("topic", f.row.Topic),
			zap.String("event", f.row.Event), zap.Int("attempts", f.row.Attempts+1), zap.Error(f.cause))
	}
	if v.away != nil {
		r.metrics.failures.WithLabelValues(faultBroker).Inc()
		return fmt.Errorf("publish %d: %w", len(v.again), v.away)
	}
	return nil
}

// mark writes down what became of the rows; what cannot be written stays in hand.
func (r *Relay) mark(ctx context.Context, l *load) error {
	if len(l.marks) > 0 {
		if err := r.store(ctx, func(ctx context.Context) error { return r.outbox.MarkPublished(ctx, l.marks) }); err != nil {
			return fmt.Errorf("mark published: %w", err)
		}
		l.marks = l.marks[:0]
	}
	for len(l.failed) > 0 {
		f := l.failed[0]
		if err := r.store(ctx, func(ctx context.Context) error { return r.outbox.MarkFailed(ctx, f.row.ID, f.cause.Error()) }); err != nil {
			return fmt.Errorf("mark failed: %w", err)
		}
		l.failed = l.failed[1:]
	}
	return nil
}

func (r *Relay) store(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StoreTimeout)
	defer cancel()
	err := call(ctx)
	if err != nil {
		r.metrics.failures.WithLabelValues(faultStore).Inc()
	}
	return err
}

// sweep deletes rows that were published long ago, in bounded batches.
func (r *Relay) sweep(ctx context.Context) error {
	for ctx.Err() == nil {
		pause(ctx, jitter(r.cfg.SweepEvery), nil)
		for n := r.cfg.SweepBatch; n == r.cfg.SweepBatch && ctx.Err() == nil; {
			err := r.store(ctx, func(ctx context.Context) (err error) {
				n, err = r.outbox.SweepOutbox(ctx, r.cfg.Keep, r.cfg.SweepBatch)
				return err
			})
			if err != nil {
				if ctx.Err() == nil {
					r.log.Warn("outbox not swept", zap.Error(err))
				}
				break
			}
			r.metrics.swept.Add(float64(n))
		}
	}
	return nil
}

// pause waits for d, a kick or the end of ctx, whichever is first.
func pause(ctx context.Context, d time.Duration, kick <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-kick:
	case <-t.C:
	}
}

// jitter is d less up to a fifth of it, so that relays do not poll in step.
func jitter(d time.Duration) time.Duration {
	return d - time.Duration(rand.Float64()*float64(d)/5)
}

// backoff is the jittered wait after n failures in a row: 50 ms doubling to most.
func backoff(n int, most time.Duration) time.Duration {
	d := most
	if n < 16 {
		d = min(most, 50*time.Millisecond<<(n-1))
	}
	return d/2 + time.Duration(rand.Float64()*float64(d)/2)
}
