package pay

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket"
)

// Promise 5: jobs wait while the breaker is open, burn no attempts, and go on.
func TestJobsWaitWhileTheBreakerIsOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, newBooks(), NewSandbox(SandboxConfig{}))
		breakSandbox(t, d)
		d.books.add("p1", MethodApprove)
		stop := running(t, d.worker)
		time.Sleep(29 * time.Second)
		require.Zero(t, d.books.payments["p1"].Attempts, "no attempt is burnt")
		require.Equal(t, ticket.PaymentRequested, d.books.state("p1"))
		d.sandbox.SetDown(false)
		time.Sleep(3 * time.Second)
		stop()
		require.Equal(t, ticket.PaymentCaptured, d.books.state("p1"))
		d.balanced(t)
	})
}

// Promise 5: a job whose message came while the breaker was open goes on with the
// first trials, not a whole lease later.
func TestJobThatWaitedGoesOnWithTheTrials(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, newBooks(), NewSandbox(SandboxConfig{}))
		breakSandbox(t, d)
		stop := running(t, d.worker)
		d.books.add("p1", MethodApprove)
		time.Sleep(27 * time.Second)
		require.NoError(t, d.worker.Handle(t.Context(), message(t, "p1")))
		require.Equal(t, ticket.PaymentRequested, d.books.state("p1"))
		require.Empty(t, d.books.outcomes())
		d.sandbox.SetDown(false)
		time.Sleep(4 * time.Second)
		stop()
		require.Equal(t, ticket.PaymentCaptured, d.books.state("p1"))
		d.balanced(t)
	})
}

// breakSandbox takes the sandbox down and opens the breaker with 50 calls.
func breakSandbox(t *testing.T, d *desk) {
	t.Helper()
	d.sandbox.SetDown(true)
	for range 50 {
		_, err := d.guard.Find(t.Context(), "nothing")
		require.ErrorIs(t, err, ErrDown)
	}
	require.False(t, d.guard.Ready())
}

func cancelling(p *ticket.Payment) { p.OnBreakerOpen = "cancel" }

// Promise 5: or reservations are cancelled, with the reason, at once.
func TestReservationsAreCancelledWhileTheBreakerIsOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, newBooks(), NewSandbox(SandboxConfig{}))
		breakSandbox(t, d)
		d.books.add("p1", MethodApprove, cancelling)
		start := time.Now()
		require.NoError(t, d.worker.Handle(t.Context(), message(t, "p1")))
		require.Zero(t, time.Since(start))
		require.Equal(t, []ticket.Outcome{{Event: "demo", Person: "p", ReservationID: "r-p1", Status: ticket.Cancelled, Reason: "payment_unavailable"}}, d.books.outcomes())
		require.Zero(t, d.sandbox.Audit().ChargeCalls)
	})
}

// Promise 5: what may have been charged is never cancelled for an open breaker.
func TestUnknownIsNotCancelledWhileTheBreakerIsOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, newBooks(), NewSandbox(SandboxConfig{}))
		d.books.add("p1", MethodVanish, cancelling)
		stop := running(t, d.worker)
		time.Sleep(2 * time.Second)
		breakSandbox(t, d)
		time.Sleep(10 * time.Minute)
		require.Empty(t, d.books.outcomes())
		d.sandbox.SetDown(false)
		time.Sleep(2 * time.Minute)
		stop()
		require.Equal(t, ticket.PaymentCaptured, d.books.state("p1"))
		d.balanced(t)
	})
}
