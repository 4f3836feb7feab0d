package ticket

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// openPayment are the states in which a payment still needs somebody.
const openPayment = `state IN ('requested', 'unknown', 'refund_due')`

// paymentColumns in the order in which scanPayment reads them.
const paymentColumns = `id, event, reservation, person, amount_cents, currency, method, state, attempts, changed_ms`

func scanPayment(scan func(...any) error) (Payment, error) {
	var p Payment
	err := scan(&p.ID, &p.Event, &p.ReservationID, &p.Person, &p.AmountCents, &p.Currency, &p.Method, &p.State, &p.Attempts, &p.changed)
	return p, err
}

// ClaimPayment gives a payment to one worker for the time of the lease; false
// when there is nothing to do for it, or somebody else has it for now.
func (s *Store) ClaimPayment(ctx context.Context, id string, lease time.Duration) (Payment, bool, error) {
	claimed, err := s.claim(ctx, lease, `UPDATE payments SET attempts = attempts + 1, lease_ms = $2
		WHERE id = $3 AND `+openPayment+` AND (attempts = 0 OR lease_ms <= $1) RETURNING `+paymentColumns, id)
	if err != nil || len(claimed) == 0 {
		return Payment{}, false, err
	}
	return claimed[0], true, nil
}

// ClaimStalePayments claims payments that nobody works on though they are not
// done: their message was lost, their worker died, or their answer is unknown.
func (s *Store) ClaimStalePayments(ctx context.Context, limit int, lease time.Duration) ([]Payment, error) {
	return s.claim(ctx, lease, `WITH due AS MATERIALIZED
			(SELECT id FROM payments WHERE `+openPayment+` AND lease_ms <= $1 ORDER BY lease_ms LIMIT $3 {skip})
		UPDATE payments SET attempts = attempts + 1, lease_ms = $2
		WHERE id IN (SELECT id FROM due) RETURNING `+paymentColumns, limit)
}

// ReleasePayment gives a claimed payment back, for a worker that has sent the
// provider nothing for it: the claim counts as never made, so that waiting for the
// provider burns no attempts. It may be claimed again after the wait. A claim that
// another has followed is left alone. The buyer is told once that the payment waits: the
// reservation, which stays in payment, has the reason until its outcome.
func (s *Store) ReleasePayment(ctx context.Context, p Payment, wait time.Duration) error {
	told := false
	err := s.again(ctx, func(ctx context.Context, t tx) error {
		now, err := s.now(ctx, t)
		if err != nil {
			return err
		}
		waits, err := move(ctx, t, `UPDATE reservations SET reason = $2
			WHERE id = $1 AND status = 'payment_pending' AND reason = '' RETURNING `+columns, p.ReservationID, paymentUnavailable)
		if err != nil {
			return err
		}
		var box outgoing
		for _, r := range waits {
			box.add(TopicPaymentWaits, &r, "", now)
		}
		if err := box.write(ctx, t, now); err != nil {
			return err
		}
		told = len(waits) > 0
		_, err = t.exec(ctx, `UPDATE payments SET attempts = attempts - 1, lease_ms = $3
			WHERE id = $1 AND attempts = $2 AND `+openPayment, nil, p.ID, p.Attempts, now+wait.Milliseconds())
		return err
	})
	if err != nil {
		return fmt.Errorf("release payment %s: %w", p.ID, err)
	}
	if told {
		s.news.poke()
	}
	return nil
}

// claim runs a claiming statement, whose first parameters are the time and the
// lease's end, and adds what the reservations say.
func (s *Store) claim(ctx context.Context, lease time.Duration, statement string, what any) ([]Payment, error) {
	var claimed []Payment
	err := s.again(ctx, func(ctx context.Context, t tx) error {
		claimed = nil
		now, err := s.now(ctx, t)
		if err != nil {
			return err
		}
		err = t.query(ctx, func(scan func(...any) error) error {
			p, err := scanPayment(scan)
			claimed = append(claimed, p)
			return err
		}, statement, nil, now, now+lease.Milliseconds(), what)
		if err != nil {
			return err
		}
		return wanting(ctx, t, claimed, now)
	})
	if err != nil {
		return nil, fmt.Errorf("claim payments: %w", err)
	}
	return claimed, nil
}

// wanting fills in whether the payments' reservations still wait for them.
func wanting(ctx context.Context, t tx, payments []Payment, now int64) error {
	ids := make([]string, len(payments))
	at := map[string]*Payment{}
	for i := range payments {
		ids[i] = payments[i].ReservationID
		at[ids[i]] = &payments[i]
	}
	if len(ids) == 0 {
		return nil
	}
	return t.query(ctx, func(scan func(...any) error) error {
		var id string
		var status Status
		var ends, created int64
		var onOpen string
		err := scan(&id, &status, &ends, &created, &onOpen)
		if p := at[id]; p != nil {
			p.Wanted = status == PaymentPending && ends > now
			p.WantedUntil, p.OnBreakerOpen = millis(ends), onOpen
			if !p.Wanted {
				p.Quiet = time.Duration(max(0, now-max(p.changed, ends))) * time.Millisecond
			}
		}
		return err
	}, `SELECT v.id, v.status, v.ends_ms, v.created_ms, c.on_breaker_open
		FROM {rows} JOIN reservations v ON v.id = r.id JOIN catalogues c ON c.event = v.event`, table("id", ids))
}

// Settle takes in what a worker found out about a payment, in one transaction:
//
//	payment \ result    captured               declined              unknown   unavailable
//	requested, unknown  sold, or refund_due    declined, seats free  unknown   cancelled, seats free
//	captured            nothing new            nothing               nothing   nothing
//	declined, cancelled refund_due             nothing               nothing   nothing
//	refund_due,refunded nothing                nothing               nothing   nothing
//
// Captured is refund_due when the reservation has ended meanwhile. The outcome is
// the reservation's state after it, whichever call made it so.
func (s *Store) Settle(ctx context.Context, paymentID string, result PaymentResult) (Outcome, error) {
	var outcome Outcome
	var f freed
	err := s.again(ctx, func(ctx context.Context, t tx) error {
		now, err := s.now(ctx, t)
		if err != nil {
			return err
		}
		p, err := payment(ctx, t, paymentID)
		if err != nil {
			return err
		}
		if f, err = settlePayment(ctx, t, p, result, now); err != nil {
			return err
		}
		outcome, err = outcomeOf(ctx, t, p)
		return err
	})
	if err != nil {
		return Outcome{}, fmt.Errorf("settle payment %s: %w", paymentID, err)
	}
	s.learned(f)
	s.news.poke()
	s.m.settled(result)
	return outcome, nil
}

// Payment is a payment as it stands. Errors: ErrNoReservation when there is none,
// ErrUnavailable.
func (s *Store) Payment(ctx context.Context, id string) (Payment, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	var p Payment
	err := s.db.look(ctx, func(ctx context.Context, t tx) (err error) {
		p, err = payment(ctx, t, id)
		return err
	})
	if err != nil {
		return Payment{}, fmt.Errorf("payment %s: %w", id, err)
	}
	return p, nil
}

func payment(ctx context.Context, t tx, id string) (Payment, error) {
	var p Payment
	err := t.query(ctx, func(scan func(...any) error) (err error) {
		p, err = scanPayment(scan)
		return err
	}, `SELECT `+paymentColumns+` FROM payments WHERE id = $1`, nil, id)
	if err == nil && p.ID == "" {
		return p, fmt.Errorf("no such payment: %w", ErrNoReservation)
	}
	return p, err
}

// verdict is what a result makes of a payment in some state: its new state, and
// the state that its reservation should take if it still waits.
type verdict struct {
	payment, late PaymentState // late: when the reservation has ended
	status        Status
	reason        string
}

// judgePayment is Settle's table; false means that nothing changes.
func judgePayment(state PaymentState, result PaymentResult) (verdict, bool) {
	switch state {
	case PaymentRequested, PaymentUnknown:
		switch result {
		case ResultCaptured:
			return verdict{PaymentCaptured, PaymentRefundDue, Paid, ""}, true
		case ResultDeclined:
			return verdict{PaymentDeclined, PaymentDeclined, PaymentFailed, "declined"}, true
		case ResultUnavailable:
			return verdict{PaymentCancelled, PaymentCancelled, Cancelled, paymentUnavailable}, true
		case ResultUnknown:
			return verdict{PaymentUnknown, PaymentUnknown, "", ""}, true
		}
	case PaymentDeclined, PaymentCancelled:
		if result == ResultCaptured {
			return verdict{PaymentRefundDue, PaymentRefundDue, "", ""}, true
		}
	case PaymentCaptured, PaymentRefundDue, PaymentRefunded:
	}
	return verdict{}, false
}

// settlePayment moves reservation, seats and payment, in the order of locks that
// every ending has.
func settlePayment(ctx context.Context, t tx, p Payment, result PaymentResult, now int64) (freed, error) {
	v, changes := judgePayment(p.State, result)
	if !changes {
		return freed{}, nil
	}
	var f freed
	next := v.late
	if v.status == "" {
		next = v.payment
	} else {
		moved, err := move(ctx, t, `UPDATE reservations SET status = $2, reason = $3
			WHERE id = $1 AND status = 'payment_pending' RETURNING `+columns, p.ReservationID, string(v.status), v.reason)
		if err != nil {
			return f, err
		}
		if len(moved) == 1 {
			next = v.payment
			if f, err = settled(ctx, t, moved[0], now); err != nil {
				return f, err
			}
		}
	}
	// An unknown payment keeps its claim, and is asked about when that ends; money
	// to give back wants somebody at once.
	return f, t.insert(ctx, 1, `UPDATE payments SET state = $3, changed_ms = $4,
			lease_ms = CASE WHEN $3 = 'refund_due' THEN $4 ELSE lease_ms END
		WHERE id = $1 AND state = $2`, nil, p.ID, string(p.State), string(next), now)
}

// settled sells or gives back the seats of a reservation that has just ended its
// payment, and writes its message.
func settled(ctx context.Context, t tx, r Reservation, now int64) (f freed, err error) {
	if r.Status == Paid {
		f, err = sell(ctx, t, r)
	} else {
		f, err = release(ctx, t, []Reservation{r})
	}
	if err != nil {
		return f, err
	}
	var box outgoing
	box.add(topicOf(r.Status), &r, "", now)
	return f, box.write(ctx, t, now)
}

// sell makes a paid reservation's seats sold. Those of a stock have no rows.
func sell(ctx context.Context, t tx, r Reservation) (freed, error) {
	var rows []seatRow
	err := t.query(ctx, func(scan func(...any) error) error {
		row := seatRow{status: SeatSold}
		err := scan(&row.id, &row.version)
		rows = append(rows, row)
		return err
	}, `UPDATE seats SET status = 'sold', version = seats.version + 1 FROM {rows}
		WHERE seats.event = r.event AND seats.id = r.id AND seats.reservation = $1
		RETURNING seats.id, seats.version`,
		table("event", slices.Repeat([]string{r.Event}, len(r.Seats))).column("id", r.Seats), r.ID)
	return freed{seats: map[string][]seatRow{r.Event: rows}}, err
}

// outcomeOf reads what the payment's reservation has come to.
func outcomeOf(ctx context.Context, t tx, p Payment) (Outcome, error) {
	r, err := one(ctx, t, p.Event, p.ReservationID, p.Person)
	return Outcome{Event: r.Event, Person: r.Person, ReservationID: r.ID, Status: r.Status, Reason: r.Reason}, err
}

// SettleRefund notes that a payment's money went back. Repeating it changes
// nothing.
func (s *Store) SettleRefund(ctx context.Context, paymentID string) (Outcome, error) {
	var outcome Outcome
	err := s.again(ctx, func(ctx context.Context, t tx) error {
		now, err := s.now(ctx, t)
		if err != nil {
			return err
		}
		p, err := payment(ctx, t, paymentID)
		if err != nil {
			return err
		}
		switch p.State {
		case PaymentRefunded:
			outcome, err = outcomeOf(ctx, t, p)
			return err
		case PaymentRefundDue:
		case PaymentRequested, PaymentUnknown, PaymentCaptured, PaymentDeclined, PaymentCancelled:
			return fmt.Errorf("nothing to refund: the payment is %s", p.State)
		}
		moved, err := move(ctx, t, `UPDATE reservations SET status = 'refunded', reason = 'seat_gone'
			WHERE id = $1 AND status IN ('cancelled', 'expired', 'payment_failed') RETURNING `+columns, p.ReservationID)
		if err != nil {
			return err
		}
		var box outgoing
		for _, r := range moved {
			box.add(TopicRefunded, &r, p.ID, now)
		}
		if err := box.write(ctx, t, now); err != nil {
			return err
		}
		if err := t.insert(ctx, 1, `UPDATE payments SET state = 'refunded', changed_ms = $2
			WHERE id = $1 AND state = 'refund_due'`, nil, p.ID, now); err != nil {
			return err
		}
		outcome, err = outcomeOf(ctx, t, p)
		return err
	})
	if err != nil {
		return Outcome{}, fmt.Errorf("settle refund %s: %w", paymentID, err)
	}
	s.news.poke()
	return outcome, nil
}
