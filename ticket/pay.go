package ticket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// patience is how long a payment that nobody claimed waits for its message
// before it counts as stale.
const patience = 3000

// Pay moves a held reservation into payment: from then on the hold is a lease
// that ends with the payment's outcome, or at Config.PaymentLease. What costs
// nothing needs no payment: it is paid at once. Asked again
// with another key while paying or after, it answers with the reservation as it
// is and pays nothing twice.
//
// Refusals (ErrNoReservation, ErrHoldExpired) come as Answers; errors are as in
// Reserve.
func (s *Store) Pay(ctx context.Context, q PayRequest) (Answer, error) {
	key := q.Key.hash()
	done, err := s.begin(key, q.Key)
	if err != nil {
		return Answer{}, err
	}
	defer done()
	var answer Answer
	var f freed
	err = s.again(ctx, func(ctx context.Context, t tx) error {
		var err error
		answer, f, err = s.pay(ctx, t, q, key)
		if t.doubt {
			answer.Replayed = false // it was this call that did it
		}
		return err
	})
	if errors.Is(err, ErrIdempotencyMismatch) {
		return Answer{}, ErrIdempotencyMismatch
	}
	if err != nil {
		return Answer{}, fmt.Errorf("pay %s: %w", q.ReservationID, err)
	}
	s.learned(f)
	s.news.poke()
	return answer, nil
}

func (s *Store) pay(ctx context.Context, t tx, q PayRequest, key []byte) (a Answer, f freed, err error) {
	now, err := s.now(ctx, t)
	if err != nil {
		return a, f, err
	}
	if key != nil {
		all, err := answered(ctx, t, [][]byte{key})
		if err != nil {
			return a, f, err
		}
		found, ok := all[string(key)]
		if ok && !bytes.Equal(found.bodyHash, q.Key.BodyHash[:]) {
			return a, f, ErrIdempotencyMismatch
		}
		if ok {
			return found.answer, f, nil
		}
	}
	// By its id: with a bare ends_ms the planner may walk along all holds that live.
	moved, err := move(ctx, t, `UPDATE reservations SET ends_ms = $5,
			status = CASE amount_cents WHEN 0 THEN 'paid' ELSE 'payment_pending' END
		WHERE id = $1 AND event = $2 AND person = $3 AND status = 'held' AND ends_ms + 0 > $4
		RETURNING `+columns, q.ReservationID, q.Event, q.Person, now, now+s.cfg.PaymentLease.Milliseconds())
	if err != nil {
		return a, f, err
	}
	var r Reservation
	var refusal error
	switch {
	case len(moved) == 0:
		r, refusal, err = paying(ctx, t, q)
	case moved[0].Status == Paid:
		r = moved[0]
		f, err = settled(ctx, t, r, now)
	default:
		r = moved[0]
		err = s.request(ctx, t, r, q.Method, now)
	}
	if err != nil {
		return a, f, err
	}
	status, body := q.Encode(r, refusal)
	answer := Answer{Status: status, Body: body}
	if key == nil {
		return answer, f, nil
	}
	return answer, f, store(ctx, t, []storing{{key, q.Key.BodyHash, answer}}, now)
}

// request writes the payment and its message.
func (s *Store) request(ctx context.Context, t tx, r Reservation, method string, now int64) error {
	id := newID(now)
	err := t.insert(ctx, 1, `INSERT INTO payments
		(id, event, reservation, person, amount_cents, currency, method, state, attempts, lease_ms, created_ms, changed_ms)
		VALUES ($1, $2, $3, $4, $5, $6, $7, 'requested', 0, $8, $9, $9)`, nil,
		id, r.Event, r.ID, r.Person, r.AmountCents, r.Currency, method, now+patience, now)
	if err != nil {
		return err
	}
	var box outgoing
	box.add(TopicPaymentRequested, &r, id, now)
	return box.write(ctx, t, now)
}

// paying says why a reservation could not be moved into payment: it is there
// already, or the refusal says why not.
func paying(ctx context.Context, t tx, q PayRequest) (r Reservation, refusal, err error) {
	r, err = one(ctx, t, q.Event, q.ReservationID, q.Person)
	if errors.Is(err, ErrNoReservation) {
		return Reservation{}, err, nil
	}
	if err != nil {
		return Reservation{}, nil, err
	}
	if r.Status == PaymentPending || r.Status == Paid {
		return r, nil, nil
	}
	return Reservation{}, ErrHoldExpired, nil
}

// one reads a person's own reservation.
func one(ctx context.Context, t tx, event, id, person string) (Reservation, error) {
	found, err := move(ctx, t, `SELECT `+columns+` FROM reservations WHERE id = $1 AND event = $2 AND person = $3`, id, event, person)
	if err != nil {
		return Reservation{}, err
	}
	if len(found) == 0 {
		return Reservation{}, ErrNoReservation
	}
	return found[0], nil
}

// Cancel gives a held reservation back. Repeating it is harmless, and so is
// cancelling what has ended; ErrNotCancellable once it is paid or paying,
// ErrNoReservation when it is not this person's.
func (s *Store) Cancel(ctx context.Context, event, id, person string) error {
	var f freed
	err := s.again(ctx, func(ctx context.Context, t tx) error {
		f = freed{} // what an undone try gave back is not free
		now, err := s.now(ctx, t)
		if err != nil {
			return err
		}
		moved, err := move(ctx, t, `UPDATE reservations SET status = 'cancelled', reason = 'by_buyer'
			WHERE id = $1 AND event = $2 AND person = $3 AND status = 'held' RETURNING `+columns, id, event, person)
		if err != nil {
			return err
		}
		if len(moved) == 0 {
			r, err := one(ctx, t, event, id, person)
			if err == nil && (r.Status == PaymentPending || r.Status == Paid) {
				return ErrNotCancellable
			}
			return err
		}
		if f, err = release(ctx, t, moved); err != nil {
			return err
		}
		return s.announce(ctx, t, moved, now)
	})
	if err != nil {
		return fmt.Errorf("cancel %s: %w", id, err)
	}
	s.learned(f)
	s.news.poke()
	return nil
}

// Bought says whether a token has a reservation that lives: held, in payment or paid.
// Errors: ErrUnavailable.
func (s *Store) Bought(ctx context.Context, event, jti string) (bool, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	bought := false
	err := s.db.look(ctx, func(ctx context.Context, t tx) error {
		return t.query(ctx, func(scan func(...any) error) error {
			var id string
			bought = true
			return scan(&id)
		}, `SELECT id FROM reservations WHERE event = $1 AND jti = $2 AND status IN ('held', 'payment_pending', 'paid')`, nil, event, jti)
	})
	if err != nil {
		return false, fmt.Errorf("what a token bought: %w", err)
	}
	return bought, nil
}

// Reservation gives a person's reservation; ErrNoReservation when there is none
// or it is somebody else's. A hold whose time is over is ended first.
func (s *Store) Reservation(ctx context.Context, event, id, person string) (Reservation, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	var r Reservation
	var now int64
	read := func(ctx context.Context, t tx) (err error) {
		if now, err = s.now(ctx, t); err != nil {
			return err
		}
		r, err = one(ctx, t, event, id, person)
		return err
	}
	err := s.db.look(ctx, read)
	if err == nil && (r.Status == Held || r.Status == PaymentPending) && r.ExpiresAt.UnixMilli() <= now {
		if err = s.expireAll(ctx, event, true); err == nil {
			err = s.db.look(ctx, read)
		}
	}
	if err != nil {
		return Reservation{}, fmt.Errorf("reservation %s: %w", id, err)
	}
	return r, nil
}
