package pay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket"
)

// Every state that a claimed payment can be in, with the breaker open or not.
func TestNextStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state    ticket.PaymentState
		attempts int
		wanted   bool
		onOpen   string
		ready    step
		open     step
	}{
		{ticket.PaymentRequested, 1, true, "wait", stepCharge, stepWait},
		{ticket.PaymentRequested, 1, true, "cancel", stepCharge, stepCancel},
		{ticket.PaymentRequested, 1, false, "wait", stepCancel, stepCancel},
		// An earlier worker may have charged: nobody charges or cancels unasked.
		{ticket.PaymentRequested, 2, true, "wait", stepAsk, stepWait},
		{ticket.PaymentRequested, 2, true, "cancel", stepAsk, stepWait},
		{ticket.PaymentRequested, 2, false, "cancel", stepAsk, stepWait},
		{ticket.PaymentUnknown, 1, true, "cancel", stepAsk, stepWait},
		{ticket.PaymentUnknown, 5, false, "wait", stepAsk, stepWait},
		{ticket.PaymentRefundDue, 3, false, "cancel", stepRefund, stepWait},
		{ticket.PaymentCaptured, 1, false, "cancel", stepNone, stepNone},
		{ticket.PaymentDeclined, 1, false, "cancel", stepNone, stepNone},
		{ticket.PaymentCancelled, 1, false, "cancel", stepNone, stepNone},
		{ticket.PaymentRefunded, 1, false, "cancel", stepNone, stepNone},
	} {
		p := ticket.Payment{State: c.state, Attempts: c.attempts, Wanted: c.wanted, OnBreakerOpen: c.onOpen}
		require.Equal(t, c.ready, next(p, true), "%+v, breaker closed", c)
		require.Equal(t, c.open, next(p, false), "%+v, breaker open", c)
	}
}
