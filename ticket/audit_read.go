package ticket

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
)

// ledger is an event's rows as one snapshot has them.
type ledger struct {
	event        string
	now          int64
	kind         string // empty: it sells nothing
	made         int64  // when its catalogue was
	perUser      int64
	seats        map[string]ledgerSeat
	items        map[string]stockRow
	shares       map[string]int64 // by person
	reservations map[string]*ledgerReservation
	payments     map[string]*ledgerPayment // by reservation
	outbox       []ledgerRow
	bookings     map[ledgerBooking]string // to reservations
	meetings     map[string][]Meeting     // by item
	numbers      ledgerNumbers
}

type ledgerSeat struct {
	status      SeatStatus
	reservation string
}

type ledgerReservation struct {
	id, person, jti  string
	status           Status
	reason           string
	seats            []string
	n, amount        int64
	currency         string
	created, endedMS int64
}

// living says whether it has its seats.
func (r *ledgerReservation) living() bool {
	return r.status == Held || r.status == PaymentPending || r.status == Paid
}

type ledgerPayment struct {
	id, reservation string
	amount          int64
	currency        string
	state           PaymentState
	created         int64
	changed         int64
}

type ledgerRow struct {
	topic, key string
	state      int64
	published  int64
}

// The states of an outbox row.
const (
	rowWaiting   = 0
	rowPublished = 1
	rowParked    = 2
)

// dedupID names a message for good: a reservation has each topic once.
func dedupID(key, topic string) string { return key + ":" + topic }

// snapshot runs do in a transaction that only reads and sees one moment.
func (db *DB) snapshot(ctx context.Context, do func(context.Context, tx) error) (err error) {
	conn, err := db.conn(ctx, db.read)
	if err != nil {
		return db.fail(err)
	}
	defer func() { err = errors.Join(err, giveBack(conn)) }()
	how := &sql.TxOptions{ReadOnly: true} // SQLite: one moment from the first read on
	if db.dialect == postgres {
		how.Isolation = sql.LevelRepeatableRead
	}
	sqltx, err := conn.BeginTx(ctx, how)
	if err != nil {
		return db.fail(err)
	}
	defer func() { _ = sqltx.Rollback() }() // there is nothing to keep
	t := tx{db: db, conn: conn, on: sqltx}
	if db.dialect == postgres {
		// The sale's plans look rows up one by one; here whole tables are read.
		if err := t.query(ctx, func(func(...any) error) error { return nil }, `SELECT set_config('enable_seqscan', 'on', true),
			set_config('enable_bitmapscan', 'on', true), set_config('plan_cache_mode', 'auto', true)`, nil); err != nil {
			return err
		}
	}
	return do(ctx, t)
}

// ledger reads an event's rows.
func (s *Store) ledger(ctx context.Context, event string) (*ledger, error) {
	var l *ledger
	err := s.db.snapshot(ctx, func(ctx context.Context, t tx) (err error) {
		l = &ledger{
			event: event, seats: map[string]ledgerSeat{}, items: map[string]stockRow{}, shares: map[string]int64{},
			reservations: map[string]*ledgerReservation{}, payments: map[string]*ledgerPayment{},
			bookings: map[ledgerBooking]string{}, meetings: map[string][]Meeting{},
		}
		if l.now, err = s.now(ctx, t); err != nil {
			return err
		}
		err = t.query(ctx, func(scan func(...any) error) error { return scan(&l.kind, &l.perUser, &l.made) },
			`SELECT kind, per_user, created_ms FROM catalogues WHERE event = $1`, nil, event)
		if err != nil {
			return err
		}
		for _, read := range []func(context.Context, tx) error{
			l.readSeats, l.readItems, l.readShares, l.readReservations, l.readPayments, l.readOutbox, l.readBookings, l.readNumbers,
		} {
			if err := read(ctx, t); err != nil {
				return err
			}
		}
		return nil
	})
	return l, err
}

func (l *ledger) readSeats(ctx context.Context, t tx) error {
	return t.query(ctx, func(scan func(...any) error) error {
		var id string
		var seat ledgerSeat
		err := scan(&id, &seat.status, &seat.reservation)
		l.seats[id] = seat
		return err
	}, `SELECT id, status, reservation FROM seats WHERE event = $1`, nil, l.event)
}

func (l *ledger) readItems(ctx context.Context, t tx) error {
	return t.query(ctx, func(scan func(...any) error) error {
		var r stockRow
		var meetings string
		if err := scan(&r.id, &r.total, &r.free, &meetings); err != nil {
			return err
		}
		l.items[r.id] = r
		return l.readMeetings(r.id, meetings)
	}, `SELECT id, total, free, meetings FROM items WHERE event = $1`, nil, l.event)
}

func (l *ledger) readShares(ctx context.Context, t tx) error {
	return t.query(ctx, func(scan func(...any) error) error {
		var person string
		var n int64
		err := scan(&person, &n)
		l.shares[person] = n
		return err
	}, `SELECT person, n FROM shares WHERE event = $1`, nil, l.event)
}

func (l *ledger) readReservations(ctx context.Context, t tx) error {
	return t.query(ctx, func(scan func(...any) error) error {
		r := &ledgerReservation{}
		var seats string
		if err := scan(&r.id, &r.person, &r.jti, &r.status, &r.reason, &seats, &r.n, &r.amount, &r.currency, &r.created, &r.endedMS); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(seats), &r.seats); err != nil {
			return fmt.Errorf("seats of %s: %w", r.id, err)
		}
		l.reservations[r.id] = r
		return nil
	}, `SELECT id, person, jti, status, reason, seats, n, amount_cents, currency, created_ms, ends_ms
		FROM reservations WHERE event = $1`, nil, l.event)
}

func (l *ledger) readPayments(ctx context.Context, t tx) error {
	return t.query(ctx, func(scan func(...any) error) error {
		p := &ledgerPayment{}
		err := scan(&p.id, &p.reservation, &p.amount, &p.currency, &p.state, &p.created, &p.changed)
		l.payments[p.reservation] = p // one at most: the column is unique
		return err
	}, `SELECT id, reservation, amount_cents, currency, state, created_ms, changed_ms FROM payments WHERE event = $1`, nil, l.event)
}

func (l *ledger) readOutbox(ctx context.Context, t tx) error {
	return t.query(ctx, func(scan func(...any) error) error {
		var r ledgerRow
		err := scan(&r.topic, &r.key, &r.state, &r.published)
		l.outbox = append(l.outbox, r)
		return err
	}, `SELECT topic, key, state, published_ms FROM outbox WHERE event = $1 ORDER BY id`, nil, l.event)
}
