package pay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
)

// work does what can be done now about a payment in hand; ready says whether the
// breaker let calls through when it was claimed. What it cannot end comes again
// when the lease is over, so it has no error to return.
func (w *Worker) work(ctx context.Context, p ticket.Payment, ready bool, until time.Time) {
	ctx, cancel := context.WithDeadline(ctx, until.Add(-settleMargin))
	defer cancel()
	log := w.log.With(zap.String("payment", p.ID), zap.String("event", p.Event), zap.Int("attempt", p.Attempts))
	s := next(p, ready)
	w.steps.WithLabelValues(string(s)).Inc()
	var err error
	switch s {
	case stepCharge:
		err = w.charge(ctx, p, log)
	case stepAsk:
		err = w.ask(ctx, p, log)
	case stepCancel:
		err = w.settle(ctx, p.ID, ticket.ResultUnavailable)
	case stepRefund:
		err = w.refund(ctx, p)
	case stepWait:
		err = w.release(ctx, p, 0)
	case stepNone:
	}
	if errors.Is(err, ErrOpen) || errors.Is(err, ErrNotSent) {
		err = errors.Join(err, w.release(ctx, p, w.cfg.SweepEvery))
	}
	switch {
	case err == nil, errors.Is(err, errWatched):
	case errors.Is(err, ErrRefused):
		log.Error("payment needs a person", zap.String("step", string(s)), zap.Error(err))
	default:
		log.Warn("payment comes again", zap.String("step", string(s)), zap.Error(err))
	}
}

// charge sends the charge, and asks at once when there is no answer.
func (w *Worker) charge(ctx context.Context, p ticket.Payment, log *zap.Logger) error {
	c, err := w.guard.Charge(ctx, ChargeRequest{Key: p.ID, AmountCents: p.AmountCents, Currency: p.Currency, Method: p.Method})
	switch f := readCharge(p, c, err); f {
	case findingCaptured:
		return w.settle(ctx, p.ID, ticket.ResultCaptured)
	case findingDeclined:
		if err != nil {
			log.Error("charge refused", zap.Error(err))
		}
		return w.settle(ctx, p.ID, ticket.ResultDeclined)
	case findingUnsent:
		if p.Attempts <= 1 && errors.Is(err, ErrOpen) && p.OnBreakerOpen == onOpenCancel {
			return w.settle(ctx, p.ID, ticket.ResultUnavailable)
		}
		return err
	case findingStrange:
		return strange(p, c)
	case findingNothing, findingUnknown:
		log.Warn("charge without an answer", zap.String("status", string(c.Status)), zap.Error(err))
		if err := w.settle(ctx, p.ID, ticket.ResultUnknown); err != nil {
			return err
		}
		return w.askSoon(ctx, p)
	default:
		return fmt.Errorf("unknown finding %q", f)
	}
}

// askSoon asks a few times about a charge that was just sent. Finding nothing is
// no news yet: the charge may still be on its way.
func (w *Worker) askSoon(ctx context.Context, p ticket.Payment) error {
	var last error
	for n := range w.cfg.Asks {
		if err := wait(ctx, w.cfg.AskAfter<<n); err != nil {
			return err
		}
		c, err := w.guard.Find(ctx, p.ID)
		switch f := readCharge(p, c, err); f {
		case findingCaptured:
			return w.settle(ctx, p.ID, ticket.ResultCaptured)
		case findingDeclined:
			return w.settle(ctx, p.ID, ticket.ResultDeclined)
		case findingStrange:
			return strange(p, c)
		case findingUnsent:
			return err
		case findingNothing, findingUnknown:
			last = fmt.Errorf("still unknown: %w", orPending(err))
		}
	}
	return last
}

// ask finds out about a charge that an earlier claim may have made; that claim's
// lease is over, so what is not there now was never made.
func (w *Worker) ask(ctx context.Context, p ticket.Payment, log *zap.Logger) error {
	c, err := w.guard.Find(ctx, p.ID)
	switch f := readCharge(p, c, err); f {
	case findingCaptured:
		return w.settle(ctx, p.ID, ticket.ResultCaptured)
	case findingDeclined:
		if errors.Is(err, ErrRefused) {
			return err // the question was refused, not the charge
		}
		return w.settle(ctx, p.ID, ticket.ResultDeclined)
	case findingNothing:
		switch {
		case p.Wanted:
			return w.charge(ctx, p, log)
		case believed(p, w.cfg.Watch):
			return w.settle(ctx, p.ID, ticket.ResultUnavailable)
		default:
			return errWatched
		}
	case findingStrange:
		return strange(p, c)
	case findingUnsent:
		return err
	case findingUnknown:
		if p.State != ticket.PaymentUnknown {
			return errors.Join(orPending(err), w.settle(ctx, p.ID, ticket.ResultUnknown))
		}
		return orPending(err)
	default:
		return fmt.Errorf("unknown finding %q", f)
	}
}

// release gives back a claim by which nothing was sent.
func (w *Worker) release(ctx context.Context, p ticket.Payment, wait time.Duration) error {
	return w.write(ctx, "released", func(ctx context.Context) error { return w.store.ReleasePayment(ctx, p, wait) })
}

func (w *Worker) refund(ctx context.Context, p ticket.Payment) error {
	_, err := w.guard.Refund(ctx, RefundRequest{
		Key: p.ID + ":refund", ChargeKey: p.ID, AmountCents: p.AmountCents, Currency: p.Currency,
	})
	if err != nil {
		return err
	}
	return w.write(ctx, "refunded", func(ctx context.Context) error {
		_, err := w.store.SettleRefund(ctx, p.ID)
		return err
	})
}

// settle writes a result, and tries again while there is time.
func (w *Worker) settle(ctx context.Context, id string, r ticket.PaymentResult) error {
	return w.write(ctx, string(r), func(ctx context.Context) error {
		_, err := w.store.Settle(ctx, id, r)
		return err
	})
}

// write makes one call to the store, up to five times within settleMargin. What
// was found out is written also after ctx ended: that is what the margin is for.
func (w *Worker) write(ctx context.Context, result string, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleMargin)
	defer cancel()
	var err error
	for n := range 5 {
		if err = call(ctx); err == nil {
			w.settled.WithLabelValues(result).Inc()
			return nil
		}
		if errors.Is(err, ticket.ErrNoReservation) || wait(ctx, 50*time.Millisecond<<n) != nil {
			break
		}
	}
	return fmt.Errorf("settle %s: %w", result, err)
}

// strange is a charge under our key that is not ours: a person must look.
func strange(p ticket.Payment, c Charge) error {
	return fmt.Errorf("%w: charge %s has %d %s under key %q, not %d %s", ErrRefused, c.ID, c.AmountCents, c.Currency, c.Key, p.AmountCents, p.Currency)
}

// orPending names the absence of an answer where the provider made no error.
func orPending(err error) error {
	if err == nil {
		return errPending
	}
	return err
}

// errWatched: nobody waits for the payment and there is no charge; but one may
// still come, so it is asked about again.
var errWatched = errors.New("no charge yet, and none wanted")

var errPending = errors.New("the provider does not know yet")
