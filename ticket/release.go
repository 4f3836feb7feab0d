package ticket

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// sweepBatch is the most holds that end in one transaction.
const sweepBatch = 200

// paymentUnavailable is the reason of a hold in payment that ended without an
// outcome.
const paymentUnavailable = "payment_unavailable"

// columns of a reservation, in the order in which scanReservation reads them.
const columns = `id, event, person, status, reason, seats, amount_cents, currency, ends_ms`

func scanReservation(scan func(...any) error, more ...any) (Reservation, error) {
	var r Reservation
	var seats string
	var ends int64
	into := []any{&r.ID, &r.Event, &r.Person, &r.Status, &r.Reason, &seats, &r.AmountCents, &r.Currency, &ends}
	if err := scan(append(into, more...)...); err != nil {
		return r, err
	}
	r.ExpiresAt = millis(ends)
	if err := json.Unmarshal([]byte(seats), &r.Seats); err != nil {
		return r, fmt.Errorf("seats of %s: %w", r.ID, err)
	}
	return r, nil
}

// move runs a statement that returns the reservations it changed.
func move(ctx context.Context, t tx, statement string, args ...any) ([]Reservation, error) {
	var moved []Reservation
	err := t.query(ctx, func(scan func(...any) error) error {
		r, err := scanReservation(scan)
		moved = append(moved, r)
		return err
	}, statement, nil, args...)
	return moved, err
}

// freed is what a release gives back, for the halls to learn.
type freed struct {
	seats map[string][]seatRow
	stock map[string][]stockRow
}

// release gives back the seats, shares and stock of reservations that have just
// been moved out of a living state in this transaction. Seats that are not theirs
// any more are left alone. The order of tables is that of a reservation's writing.
func release(ctx context.Context, t tx, ended []Reservation) (freed, error) {
	f := freed{map[string][]seatRow{}, map[string][]stockRow{}}
	type tally = map[[2]string]int64 // by event and name
	shares, stock := tally{}, tally{}
	var seats [][3]string // event, seat, reservation
	for _, r := range ended {
		shares[[2]string{r.Event, r.Person}] += int64(len(r.Seats))
		for _, id := range r.Seats {
			seats = append(seats, [3]string{r.Event, id, r.ID})
			stock[[2]string{r.Event, id}]++
		}
	}
	slices.SortFunc(seats, func(a, b [3]string) int { return slices.Compare(a[:], b[:]) })
	events, ids, owners := make([]string, len(seats)), make([]string, len(seats)), make([]string, len(seats))
	for i, s := range seats {
		events[i], ids[i], owners[i] = s[0], s[1], s[2]
	}
	err := t.query(ctx, func(scan func(...any) error) error {
		var event string
		r := seatRow{status: SeatFree}
		err := scan(&event, &r.id, &r.version)
		f.seats[event] = append(f.seats[event], r)
		delete(stock, [2]string{event, r.id})
		return err
	}, `UPDATE seats SET status = 'free', version = seats.version + 1, reservation = ''
		FROM {rows} WHERE seats.event = r.event AND seats.id = r.id AND seats.reservation = r.owner
		RETURNING seats.event, seats.id, seats.version`,
		table("event", events).column("id", ids).column("owner", owners))
	if err != nil {
		return f, err
	}
	spread := func(all tally) *list {
		keys := slices.SortedFunc(maps.Keys(all), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
		events, names, ns := make([]string, len(keys)), make([]string, len(keys)), make([]int64, len(keys))
		for i, k := range keys {
			events[i], names[i], ns[i] = k[0], k[1], all[k]
		}
		return table("event", events).column("name", names).column("n", ns)
	}
	if err := t.insert(ctx, len(shares), `UPDATE shares SET n = shares.n - r.n FROM {rows}
		WHERE shares.event = r.event AND shares.person = r.name AND shares.n >= r.n`, spread(shares)); err != nil {
		return f, err
	}
	if len(stock) == 0 {
		return f, nil
	}
	if err := unbook(ctx, t, ended, stock); err != nil {
		return f, err
	}
	err = t.query(ctx, func(scan func(...any) error) error {
		var event string
		var r stockRow
		var closed int64
		err := scan(&event, &r.id, &r.total, &r.free, &r.version, &closed)
		r.closed = closed != 0
		f.stock[event] = append(f.stock[event], r)
		return err
	}, `UPDATE items SET free = items.free + r.n, version = items.version + 1 FROM {rows}
		WHERE items.event = r.event AND items.id = r.name
		RETURNING items.event, items.id, items.total, items.free, items.version, items.closed`, spread(stock))
	return f, err
}

// unbook forgets who had which slots or courses; stock has them by event and id.
func unbook(ctx context.Context, t tx, ended []Reservation, stock map[[2]string]int64) error {
	var rows [][4]string // event, person, item, reservation
	for _, r := range ended {
		for _, id := range r.Seats {
			if _, ok := stock[[2]string{r.Event, id}]; ok {
				rows = append(rows, [4]string{r.Event, r.Person, id, r.ID})
			}
		}
	}
	slices.SortFunc(rows, func(a, b [4]string) int { return slices.Compare(a[:], b[:]) })
	rows = slices.Compact(rows)
	cols := [4][]string{}
	for i := range cols {
		for _, row := range rows {
			cols[i] = append(cols[i], row[i])
		}
	}
	_, err := t.exec(ctx, `DELETE FROM bookings WHERE (event, person, item, reservation) IN
			(SELECT r.event, r.person, r.item, r.owner FROM {rows})`,
		table("event", cols[0]).column("person", cols[1]).column("item", cols[2]).column("owner", cols[3]))
	return err
}

// learned tells the halls of this node what was freed or sold, after the commit.
func (s *Store) learned(f freed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for event, rows := range f.seats {
		if h := s.halls[event]; h != nil {
			h.learn(rows)
		}
	}
	for event, rows := range f.stock {
		if h := s.halls[event]; h != nil {
			h.learnStock(rows)
		}
	}
}

// expire ends up to limit holds of an event whose time is over by the database's
// clock, and gives the number. A hold in payment that reached its cap is
// cancelled: its payment is asked about, and refunded if it was made. With
// urgent, holds that somebody else has locked are waited for.
func (s *Store) expire(ctx context.Context, event string, limit int, urgent bool) (int, error) {
	var f freed
	var ended []Reservation
	locking := "{skip}"
	if urgent {
		locking = "{lock}"
	}
	err := s.again(ctx, func(ctx context.Context, t tx) error {
		f = freed{} // what an undone try gave back is not free
		now, err := s.now(ctx, t)
		if err != nil {
			return err
		}
		ended, err = move(ctx, t, `WITH due AS MATERIALIZED
				(SELECT id FROM reservations WHERE `+inEvent+` AND `+ending+` AND ends_ms <= $2
				ORDER BY ends_ms, id LIMIT $3 `+locking+`)
			UPDATE reservations SET
				reason = CASE status WHEN 'held' THEN 'hold_ended' ELSE '`+paymentUnavailable+`' END,
				status = CASE status WHEN 'held' THEN 'expired' ELSE 'cancelled' END
			WHERE id IN (SELECT id FROM due) RETURNING `+columns, event, now, limit)
		if err != nil || len(ended) == 0 {
			return err
		}
		if f, err = release(ctx, t, ended); err != nil {
			return err
		}
		return s.announce(ctx, t, ended, now)
	})
	if err != nil {
		return 0, fmt.Errorf("end holds of %s: %w", event, err)
	}
	s.learned(f)
	if len(ended) > 0 {
		s.news.poke()
	}
	s.m.expired.Add(float64(len(ended)))
	return len(ended), nil
}

// topicOf is the topic that tells of a status.
func topicOf(status Status) string {
	switch status {
	case Held:
		return TopicHeld
	case PaymentPending:
		return TopicPaymentRequested
	case Paid:
		return TopicPaid
	case Cancelled:
		return TopicCancelled
	case Expired:
		return TopicExpired
	case PaymentFailed:
		return TopicPaymentFailed
	case Refunded:
		return TopicRefunded
	}
	panic("unknown status " + string(status)) // the column's check allows no other
}

// announce writes the outbox rows of reservations that ended, and settles what is
// known of their payments: one that no worker ever claimed is never charged.
func (s *Store) announce(ctx context.Context, t tx, ended []Reservation, now int64) error {
	var box outgoing
	var paying []string
	for _, r := range ended {
		if r.Reason == paymentUnavailable {
			paying = append(paying, r.ID)
		}
		box.add(topicOf(r.Status), &r, "", now)
	}
	if err := box.write(ctx, t, now); err != nil || len(paying) == 0 {
		return err
	}
	slices.Sort(paying)
	// With the state among the conditions the planner would begin with all that are open.
	_, err := t.exec(ctx, `UPDATE payments SET changed_ms = $1,
			state = CASE WHEN state <> 'requested' THEN state WHEN attempts = 0 THEN 'cancelled' ELSE 'unknown' END
		FROM {rows} WHERE payments.reservation = r.id`, table("id", paying), now)
	return err
}
