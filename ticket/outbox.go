package ticket

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
)

// In every claim the rows are chosen and locked in a materialised query of its
// own: inside IN (…) PostgreSQL may run the choice again for each row it looks
// at, and claim more than the limit.

// ClaimOutbox gives up to limit unpublished rows to one relay for the time of
// the lease, those of the oldest reservations first. Of each reservation only its oldest
// unpublished row is given, so that its messages keep their order, also past one that
// fails or is parked. Every eighth claim begins with the youngest, so that where the
// relay cannot keep up nothing waits for ever. Rows are found by their state, never by a number that was reached, so
// that what commits late is not skipped.
func (s *Store) ClaimOutbox(ctx context.Context, limit int, lease time.Duration) ([]OutboxRow, error) {
	var claimed []OutboxRow
	order := `o.key, o.id`
	if s.claims.Add(1)%8 == 0 {
		order = `o.key DESC, o.id DESC`
	}
	err := s.again(ctx, func(ctx context.Context, t tx) error {
		claimed = nil
		now, err := s.now(ctx, t)
		if err != nil {
			return err
		}
		return t.query(ctx, func(scan func(...any) error) error {
			var r OutboxRow
			var created int64
			err := scan(&r.ID, &r.Event, &r.Topic, &r.Key, &r.Payload, &r.Attempts, &created)
			r.CreatedAt = millis(created)
			r.DedupID = dedupID(r.Key, r.Topic)
			claimed = append(claimed, r)
			return err
		}, `WITH due AS MATERIALIZED
				(SELECT o.id FROM outbox o WHERE o.state <> 1 AND o.state = 0 AND o.next_ms <= $1 AND
					o.id = (SELECT e.id FROM outbox e WHERE e.key = o.key AND e.state <> 1 ORDER BY e.id LIMIT 1)
				ORDER BY `+order+` LIMIT $3 {skip})
			UPDATE outbox SET next_ms = $2 WHERE id IN (SELECT id FROM due)
			RETURNING id, event, topic, key, payload, attempts, created_ms`, nil, now, now+lease.Milliseconds(), limit)
	})
	if err != nil {
		return nil, fmt.Errorf("claim outbox: %w", err)
	}
	slices.SortFunc(claimed, func(a, b OutboxRow) int { return cmp.Compare(a.ID, b.ID) })
	return claimed, nil
}

// MarkPublished notes that the broker has taken these rows.
func (s *Store) MarkPublished(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	ids = slices.Sorted(slices.Values(ids))
	err := s.again(ctx, func(ctx context.Context, t tx) error {
		now, err := s.now(ctx, t)
		if err != nil {
			return err
		}
		_, err = t.exec(ctx, `UPDATE outbox SET state = 1, published_ms = $1 FROM {rows}
			WHERE outbox.id = r.id AND outbox.state <> 1`, table("id", ids), now)
		return err
	})
	if err != nil {
		return fmt.Errorf("mark published: %w", err)
	}
	return nil
}

// MarkFailed notes that a row could not be published, and why. It is tried again
// after a growing wait (0.1 s to 30 s), and parked after Config.OutboxAttempts.
func (s *Store) MarkFailed(ctx context.Context, id int64, cause string) error {
	parked := false
	err := s.again(ctx, func(ctx context.Context, t tx) error {
		now, err := s.now(ctx, t)
		if err != nil {
			return err
		}
		return t.query(ctx, func(scan func(...any) error) error {
			var state int
			err := scan(&state)
			parked = state == 2
			return err
		}, `UPDATE outbox SET attempts = attempts + 1, cause = $3,
				next_ms = CAST($2 AS BIGINT) + CASE WHEN attempts >= 9 THEN 30000 ELSE 100 << CAST(attempts AS INTEGER) END,
				state = CASE WHEN attempts + 1 >= $4 THEN 2 ELSE 0 END
			WHERE id = $1 AND state = 0 RETURNING state`, nil, id, now, cause, s.cfg.OutboxAttempts)
	})
	if err != nil {
		return fmt.Errorf("mark failed: %w", err)
	}
	if parked {
		s.m.parked.Inc()
		s.log.Error("message parked until somebody looks", zap.Int64("row", id), zap.String("cause", cause))
	}
	return nil
}

// Unpark puts up to limit parked rows of an event back to be tried, oldest first,
// and gives their number.
func (s *Store) Unpark(ctx context.Context, event string, limit int) (int, error) {
	var n int64
	err := s.again(ctx, func(ctx context.Context, t tx) (err error) {
		n, err = t.exec(ctx, `WITH due AS MATERIALIZED
				(SELECT id FROM outbox WHERE state = 2 AND event = $1 ORDER BY id LIMIT $2 {skip})
			UPDATE outbox SET state = 0, attempts = 0, next_ms = 0 WHERE id IN (SELECT id FROM due)`, nil, event, limit)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("unpark outbox of %s: %w", event, err)
	}
	if n > 0 {
		s.news.poke()
	}
	return int(n), nil
}

// SweepOutbox deletes up to limit rows that were published longer ago than that,
// and gives their number.
func (s *Store) SweepOutbox(ctx context.Context, olderThan time.Duration, limit int) (int, error) {
	var n int64
	err := s.again(ctx, func(ctx context.Context, t tx) error {
		now, err := s.now(ctx, t)
		if err != nil {
			return err
		}
		n, err = t.exec(ctx, `WITH due AS MATERIALIZED
				(SELECT id FROM outbox WHERE state = 1 AND published_ms <= $1 ORDER BY published_ms LIMIT $2 {skip})
			DELETE FROM outbox WHERE id IN (SELECT id FROM due)`, nil, now-olderThan.Milliseconds(), limit)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("sweep outbox: %w", err)
	}
	return int(n), nil
}
