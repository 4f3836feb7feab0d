package pay

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/relay"
)

func message(t *testing.T, id string) relay.Message {
	t.Helper()
	b, err := json.Marshal(ticket.Message{Topic: ticket.TopicPaymentRequested, PaymentID: id})
	require.NoError(t, err)
	return relay.Message{DedupID: "d", Topic: ticket.TopicPaymentRequested, Payload: b}
}

// Every outcome of the sandbox, what it costs in time, and what the buyer is told.
func TestEveryOutcome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method string
		state  ticket.PaymentState
		took   time.Duration
		told   ticket.Status
		reason string
	}{
		{"", ticket.PaymentCaptured, 0, ticket.Paid, ""},
		{MethodApprove, ticket.PaymentCaptured, 0, ticket.Paid, ""},
		{MethodDecline, ticket.PaymentDeclined, 0, ticket.PaymentFailed, "declined"},
		{"a method nobody knows", ticket.PaymentDeclined, 0, ticket.PaymentFailed, "declined"},
		{MethodDelay, ticket.PaymentCaptured, 2 * time.Second, ticket.Paid, ""},
		{MethodVanish, ticket.PaymentCaptured, 3*time.Second + 200*time.Millisecond, ticket.Paid, ""},
		{MethodTwice, ticket.PaymentCaptured, 0, ticket.Paid, ""},
	} {
		t.Run("method "+c.method, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var d *desk
				told := 0
				d = newDesk(t, newBooks(), NewSandbox(SandboxConfig{Notify: func(ch Charge) {
					told++
					require.NoError(t, d.worker.Answer(t.Context(), ch))
				}}))
				d.books.add("p1", c.method)
				start := time.Now()
				require.NoError(t, d.worker.Handle(t.Context(), message(t, "p1")))
				require.Equal(t, c.took, time.Since(start))
				require.Equal(t, c.state, d.books.state("p1"))
				require.Equal(t, []ticket.Outcome{{Event: "demo", Person: "p", ReservationID: "r-p1", Status: c.told, Reason: c.reason}}, d.books.outcomes())
				require.Equal(t, c.method == MethodTwice, told == 2)
				require.Positive(t, told)
				// The same message again, and after the lease: nothing more.
				time.Sleep(time.Minute)
				require.NoError(t, d.worker.Handle(t.Context(), message(t, "p1")))
				require.EqualValues(t, 1, d.sandbox.Audit().ChargeCalls, "charged once")
				require.Len(t, d.books.outcomes(), 1)
				d.balanced(t)
			})
		})
	}
}

// Promise 2: without an answer the payment is unknown, never failed.
func TestNoAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, newBooks(), NewSandbox(SandboxConfig{}))
		d.books.add("p1", MethodVanish)
		m := message(t, "p1")
		go func() { _ = d.worker.Handle(t.Context(), m) }()
		time.Sleep(3*time.Second + 1)
		synctest.Wait()
		require.Equal(t, ticket.PaymentUnknown, d.books.state("p1"))
		require.Empty(t, d.books.outcomes(), "the buyer is told nothing yet")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, ticket.PaymentCaptured, d.books.state("p1"))
		require.EqualValues(t, 1, d.sandbox.Audit().ChargeCalls)
	})
}

// Promise 2, when even the answers to the questions are lost for a while.
func TestUnknownIsAskedUntilAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSandbox(SandboxConfig{})
		d := newDesk(t, newBooks(), s)
		d.books.add("p1", MethodVanish)
		stop := running(t, d.worker)
		time.Sleep(2 * time.Second) // the charge is under way
		s.SetDown(true)
		time.Sleep(5 * time.Minute)
		require.Equal(t, ticket.PaymentUnknown, d.books.state("p1"))
		require.Empty(t, d.books.outcomes())
		s.SetDown(false)
		time.Sleep(31 * time.Second)
		stop()
		require.Equal(t, ticket.PaymentCaptured, d.books.state("p1"))
		require.EqualValues(t, 1, s.Audit().ChargeCalls, "asked about, never charged again")
		d.balanced(t)
	})
}

// Promise 1: a worker that dies after the charge leaves it to the next, who asks.
func TestWorkerKilledAfterTheCharge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, s := newBooks(), NewSandbox(SandboxConfig{})
		dead := newDesk(t, &books{}, s)
		b.add("p1", MethodApprove)
		p, ok, err := b.ClaimPayment(t.Context(), "p1", 30*time.Second)
		require.NoError(t, err)
		require.True(t, ok)
		_, err = dead.guard.Charge(t.Context(), ChargeRequest{Key: p.ID, AmountCents: p.AmountCents, Currency: p.Currency, Method: p.Method})
		require.NoError(t, err) // … and here it is killed

		d := newDesk(t, b, s)
		stop := running(t, d.worker)
		require.NoError(t, d.worker.Handle(t.Context(), message(t, "p1")))
		require.Equal(t, ticket.PaymentRequested, b.state("p1"), "in hand until the lease is over")
		time.Sleep(32 * time.Second)
		stop()
		require.Equal(t, ticket.PaymentCaptured, b.state("p1"))
		require.EqualValues(t, 1, s.Audit().ChargeCalls)
		require.Len(t, b.outcomes(), 1)
		d.balanced(t)
	})
}

// Promise 1: the database goes away between charge and settle.
func TestDatabaseAwayAfterTheCharge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, newBooks(), NewSandbox(SandboxConfig{}))
		d.books.add("p1", MethodDelay)
		stop := running(t, d.worker)
		time.Sleep(2 * time.Second)
		d.books.setAway(errAway)
		time.Sleep(time.Minute)
		require.ErrorIs(t, d.worker.Handle(t.Context(), message(t, "p1")), errAway, "the message comes again")
		d.books.setAway(nil)
		time.Sleep(31 * time.Second)
		stop()
		require.Equal(t, ticket.PaymentCaptured, d.books.state("p1"))
		d.balanced(t)
	})
}

// Promise 6: money for seats that were gone goes back once.
func TestLateMoneyGoesBackOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, newBooks(), NewSandbox(SandboxConfig{}))
		d.books.add("p1", MethodDelay)
		d.books.gone["p1"] = true
		stops := []func(){running(t, d.worker), running(t, newWorker(t, d.books, d.guard))}
		time.Sleep(10 * time.Minute)
		for _, stop := range stops {
			stop()
		}
		require.Equal(t, ticket.PaymentRefunded, d.books.state("p1"))
		require.EqualValues(t, 1, d.sandbox.Audit().Refunded)
		require.Equal(t, ticket.Refunded, d.books.outcomes()[0].Status)
		d.balanced(t)
	})
}

// Promise 6: also if the worker dies between the refund and its note.
func TestRefundIsRepeatedWithTheSameKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, newBooks(), NewSandbox(SandboxConfig{}))
		d.books.add("p1", MethodApprove)
		d.books.gone["p1"] = true
		require.NoError(t, d.worker.Handle(t.Context(), message(t, "p1")))
		require.Equal(t, ticket.PaymentRefundDue, d.books.state("p1"))
		_, err := d.guard.Refund(t.Context(), RefundRequest{Key: "p1:refund", ChargeKey: "p1", AmountCents: 5000, Currency: "EUR"})
		require.NoError(t, err) // … and here it is killed
		require.NoError(t, d.worker.Handle(t.Context(), message(t, "p1")))
		require.Equal(t, ticket.PaymentRefunded, d.books.state("p1"))
		a := d.sandbox.Audit()
		require.EqualValues(t, 2, a.RefundCalls)
		require.EqualValues(t, 1, a.Refunded)
		d.balanced(t)
	})
}

// Promise 7: no message ever came.
func TestLostMessageIsFoundBySweep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, newBooks(), NewSandbox(SandboxConfig{}))
		for i := range 200 {
			d.books.add(fmt.Sprintf("p%d", i), MethodApprove)
		}
		stop := running(t, d.worker)
		time.Sleep(time.Second)
		stop()
		require.Zero(t, d.books.open())
		d.balanced(t)
	})
}

// A reservation that waits no more is never charged; if it was, it is refunded.
func TestUnwantedPaymentIsNotCharged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, newBooks(), NewSandbox(SandboxConfig{}))
		unwanted := func(p *ticket.Payment) { p.Wanted = false }
		d.books.add("fresh", MethodApprove, unwanted)
		d.books.add("asked", MethodApprove, unwanted, func(p *ticket.Payment) { p.Attempts = 1 })
		d.books.end("asked")
		require.NoError(t, d.worker.Pay(t.Context(), "fresh"))
		require.Equal(t, ticket.PaymentCancelled, d.books.state("fresh"))
		stop := running(t, d.worker)
		time.Sleep(14 * time.Minute)
		require.Equal(t, ticket.PaymentRequested, d.books.state("asked"), "it may still come")
		time.Sleep(2 * time.Minute)
		stop()
		require.Equal(t, ticket.PaymentCancelled, d.books.state("asked"))
		require.Zero(t, d.sandbox.Audit().ChargeCalls)
	})
}

// Promise 9: a charge that comes after the provider has said that there is none,
// for a reservation that is over, is found and given back once.
func TestChargeAfterNotFoundGoesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, newBooks(), NewSandbox(SandboxConfig{}))
		d.books.add("p1", MethodApprove, func(p *ticket.Payment) { p.Attempts = 1 })
		d.books.gone["p1"] = true
		d.books.end("p1")
		stop := running(t, d.worker)
		time.Sleep(5 * time.Minute)
		require.Positive(t, d.sandbox.Audit().FindCalls)
		_, err := d.sandbox.Charge(t.Context(), ChargeRequest{Key: "p1", AmountCents: 5000, Currency: "EUR", Method: MethodApprove})
		require.NoError(t, err, "it was on its way all the time")
		time.Sleep(time.Minute)
		stop()
		require.Equal(t, ticket.PaymentRefunded, d.books.state("p1"))
		require.EqualValues(t, 1, d.sandbox.Audit().Refunded)
		d.balanced(t)
	})
}

// Promise 5: a provider that cannot be reached burns no attempts either; when the
// breaker opens, events that give up do so, also without a message.
func TestUnreachableProviderBurnsNoAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, p := newBooks(), &scripted{}
		p.set(0, Charge{}, ErrNotSent)
		d := newDesk(t, b, p)
		for i := range 20 {
			b.add(fmt.Sprint("waits", i), MethodApprove)
			b.add(fmt.Sprint("gives up", i), MethodApprove, cancelling)
		}
		stop := running(t, d.worker)
		time.Sleep(20 * time.Second)
		require.False(t, d.guard.Ready())
		stop()
		for i := range 20 {
			require.Zero(t, b.payments[fmt.Sprint("waits", i)].Attempts)
			require.Equal(t, ticket.PaymentRequested, b.state(fmt.Sprint("waits", i)))
			require.Equal(t, ticket.PaymentCancelled, b.state(fmt.Sprint("gives up", i)))
		}
		require.Len(t, b.outcomes(), 20)
	})
}

// A charge under our key that is not ours is left to a person.
func TestStrangeChargeIsNotSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, newBooks(), NewSandbox(SandboxConfig{}))
		_, err := d.sandbox.Charge(t.Context(), ChargeRequest{Key: "p1", AmountCents: 1, Currency: "EUR"})
		require.NoError(t, err)
		d.books.add("p1", MethodApprove, func(p *ticket.Payment) { p.Attempts = 1 })
		require.NoError(t, d.worker.Pay(t.Context(), "p1"))
		require.Equal(t, ticket.PaymentRequested, d.books.state("p1"))
		require.Empty(t, d.books.outcomes())
	})
}

// A message that cannot be read is an error, so that it becomes a dead letter.
func TestUnreadableMessages(t *testing.T) {
	t.Parallel()
	d := newDesk(t, newBooks(), NewSandbox(SandboxConfig{}))
	require.Error(t, d.worker.Handle(t.Context(), relay.Message{Topic: ticket.TopicPaymentRequested, Payload: []byte("{")}))
	require.Error(t, d.worker.Handle(t.Context(), relay.Message{Topic: ticket.TopicPaymentRequested, Payload: []byte("{}")}))
	require.NoError(t, d.worker.Handle(t.Context(), relay.Message{Topic: ticket.TopicPaid}))
	require.NoError(t, d.worker.Handle(t.Context(), message(t, "of nobody")))
}

// The provider is down for a while, with a crowd in the middle of paying.
func TestProviderDownThenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, newBooks(), NewSandbox(SandboxConfig{}))
		stop := running(t, d.worker)
		var crowd sync.WaitGroup
		for i := range 600 {
			id := fmt.Sprintf("p%d", i)
			method := []string{MethodApprove, MethodDelay, MethodVanish, MethodDecline}[i%4]
			switch i {
			case 200:
				d.sandbox.SetDown(true)
			case 400:
				d.sandbox.SetDown(false)
			}
			if i%2 == 0 {
				d.books.add(id, method)
			} else {
				d.books.add(id, method, cancelling)
			}
			crowd.Go(func() { _ = d.worker.Handle(t.Context(), message(t, id)) })
			time.Sleep(100 * time.Millisecond)
		}
		crowd.Wait()
		time.Sleep(5 * time.Minute)
		stop()
		require.Zero(t, d.books.open(), "all are settled")
		cancelled := 0
		for _, o := range d.books.outcomes() {
			if o.Reason == "payment_unavailable" {
				cancelled++
			}
		}
		require.Positive(t, cancelled, "the breaker opened")
		require.Less(t, cancelled, 200)
		d.balanced(t)
	})
}
