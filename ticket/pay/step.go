package pay

import (
	"errors"
	"time"

	"github.com/waitroom-dev/waitroom/ticket"
)

// step is what a worker does next with a payment in its hands.
type step string

const (
	stepCharge step = "charge" // it was never charged, and is wanted
	stepAsk    step = "ask"    // it may have been charged
	stepCancel step = "cancel" // it was never charged, and must not be any more
	stepRefund step = "refund"
	stepWait   step = "wait" // the provider is away; the payment comes again
	stepNone   step = "none" // it is done
)

// next decides the step for a payment that was just claimed; ready says that the
// breaker lets calls through.
func next(p ticket.Payment, ready bool) step {
	switch p.State {
	case ticket.PaymentRequested:
		// On the first claim nobody can have charged it.
		fresh := p.Attempts <= 1
		switch {
		case fresh && !p.Wanted:
			return stepCancel
		case fresh && !ready && p.OnBreakerOpen == onOpenCancel:
			return stepCancel
		case !ready:
			return stepWait
		case fresh:
			return stepCharge
		default:
			return stepAsk
		}
	case ticket.PaymentUnknown:
		if !ready {
			return stepWait
		}
		return stepAsk
	case ticket.PaymentRefundDue:
		if !ready {
			return stepWait
		}
		return stepRefund
	case ticket.PaymentCaptured, ticket.PaymentDeclined, ticket.PaymentCancelled, ticket.PaymentRefunded:
		return stepNone
	default:
		return stepNone
	}
}

// believed says whether the absence of a charge is final: one that was sent may
// still be on its way, and would be captured for nobody.
func believed(p ticket.Payment, watch time.Duration) bool { return !p.Wanted && p.Quiet >= watch }

// onOpenCancel is ticket's word for giving up while the breaker is open.
const onOpenCancel = "cancel"

// finding is what a call said about a charge.
type finding string

const (
	findingCaptured finding = "captured"
	findingDeclined finding = "declined"
	findingNothing  finding = "nothing" // there is no charge
	findingUnsent   finding = "unsent"  // this call made none; an earlier one may have
	findingUnknown  finding = "unknown"
	findingStrange  finding = "strange" // a charge that is not what was asked for
)

// read turns the end of a charge or find into a finding. A refusal of a charge is
// final: the provider understood, and took nothing.
func readCharge(p ticket.Payment, c Charge, err error) finding {
	switch {
	case errors.Is(err, ErrNotFound):
		return findingNothing
	case errors.Is(err, ErrOpen), errors.Is(err, ErrNotSent):
		return findingUnsent
	case errors.Is(err, ErrRefused):
		return findingDeclined
	case err != nil:
		return findingUnknown
	case c.Status == ChargeDeclined:
		return findingDeclined
	case c.Status != ChargeCaptured:
		return findingUnknown
	case c.Key != p.ID || c.AmountCents != p.AmountCents || c.Currency != p.Currency:
		return findingStrange
	default:
		return findingCaptured
	}
}
