package ticket

import (
	"context"
	"time"
)

// ClaimUnsent claims payments that no worker ever tried to charge, of events that
// give up while the provider is away.
func (s *Store) ClaimUnsent(ctx context.Context, limit int, lease time.Duration) ([]Payment, error) {
	return s.claim(ctx, lease, `WITH due AS MATERIALIZED
			(SELECT p.id FROM payments p WHERE p.`+openPayment+` AND p.state = 'requested' AND p.attempts = 0 AND p.lease_ms <= $1
				AND (SELECT c.on_breaker_open FROM catalogues c WHERE c.event = p.event) = 'cancel'
			ORDER BY p.lease_ms LIMIT $3 {skip})
		UPDATE payments SET attempts = attempts + 1, lease_ms = $2
		WHERE id IN (SELECT id FROM due) RETURNING `+paymentColumns, limit)
}
