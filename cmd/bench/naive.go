package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// naive reserves as one writes it first: a transaction for each request, in which
// everything is read and then written that our reservations write. It works on the
// same tables, in an event of its own.
type naive struct {
	db    *sql.DB
	event string
}

// errBehind: somebody else changed the row after it was read.
var errBehind = errors.New("row has another version by now")

// seat reserves a seat for the n-th buyer.
func (v *naive) seat(ctx context.Context, n int64, seat string) error {
	return v.once(ctx, n, seat, `SELECT version FROM seats WHERE event = $1 AND id = $2`,
		`UPDATE seats SET status = 'held', version = version + 1, reservation = $4
		WHERE event = $1 AND id = $2 AND version = $3 AND status = 'free'`)
}

// stock takes one of the stock for the n-th buyer, again and again until no other
// came between, with growing, jittered waits.
func (v *naive) stock(ctx context.Context, n int64, item string) error {
	const first, most = 500 * time.Microsecond, 16 * time.Millisecond
	for wait := first; ; wait = min(2*wait, most) {
		err := v.once(ctx, n, item, `SELECT version FROM items WHERE event = $1 AND id = $2 AND free > 0`,
			`UPDATE items SET free = free - 1, version = version + 1 WHERE event = $1 AND id = $2 AND version = $3 AND $4 <> ''`)
		if !errors.Is(err, errBehind) {
			return err
		}
		timer := time.NewTimer(rand.N(wait))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

func (v *naive) once(ctx context.Context, n int64, what, read, write string) error {
	tx, err := v.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	id, person := fmt.Sprintf("naive-%s-%d", v.event, n), fmt.Sprintf("buyer-%d", n)
	key := []byte(id)
	var old int64
	err = tx.QueryRowContext(ctx, `SELECT status FROM answers WHERE key = $1`, key).Scan(&old)
	if !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("answer of %s: %w", id, err)
	}
	if err := tx.QueryRowContext(ctx, read, v.event, what).Scan(&old); err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}
	res, err := tx.ExecContext(ctx, write, v.event, what, old, id)
	if err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	if rows, err := res.RowsAffected(); err != nil || rows != 1 {
		return errors.Join(err, errBehind)
	}
	seats := `["` + what + `"]`
	for _, step := range []struct {
		statement string
		args      []any
	}{
		{`INSERT INTO reservations (id, event, person, jti, status, reason, seats, n, amount_cents, currency, created_ms, ends_ms)
			VALUES ($1, $2, $3, $4, 'held', '', $5, 1, 5000, 'EUR', 1, 180000)`, []any{id, v.event, person, "jti-" + person, seats}},
		{`INSERT INTO shares (event, person, n) VALUES ($1, $2, 1) ON CONFLICT (event, person) DO UPDATE SET n = shares.n + 1`, []any{v.event, person}},
		{`INSERT INTO outbox (event, topic, key, payload, created_ms) VALUES ($1, 'reservation.held', $2, $3, 1)`, []any{v.event, id, []byte(seats)}},
		{`INSERT INTO answers (key, body_hash, status, body, created_ms) VALUES ($1, $2, 201, $3, 1)`, []any{key, key, []byte(`{"reservation_id":"` + id + `"}`)}},
	} {
		if _, err := tx.ExecContext(ctx, step.statement, step.args...); err != nil {
			return fmt.Errorf("write %s: %w", id, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit %s: %w", id, err)
	}
	return nil
}
