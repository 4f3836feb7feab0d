package load

import (
	"context"
	"math/rand/v2"
	"time"
)

// The bounds of every retry.
const (
	retryBase  = 200 * time.Millisecond
	retryCap   = 10 * time.Second
	retryTries = 10
)

// backoff is the wait before try number attempt+1: exponential with full jitter on its
// upper half, capped, and never shorter than what the server asked for. What the
// server asked for is stretched by up to a tenth, so that a crowd told the same
// does not come back as one.
func backoff(attempt int, retryAfter time.Duration, r *rand.Rand) time.Duration {
	d := retryCap
	if attempt < 7 { // 200 ms doubled six times is past the cap
		d = min(retryCap, retryBase<<(attempt-1))
	}
	d = d/2 + time.Duration(r.Int64N(int64(d/2)+1))
	if retryAfter > 0 {
		d = max(d, retryAfter+time.Duration(r.Int64N(int64(retryAfter/10)+1)))
	}
	return d
}

// pause waits for d; it returns ctx's error if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
