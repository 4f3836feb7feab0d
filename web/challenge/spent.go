package challenge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// spent are the solutions that were used, in the store.
type spent struct {
	rdb    redis.UniversalClient
	prefix string
}

// key names one solution's mark. The hash tag is the solution: nothing else is asked
// beside it, and a cluster spreads them.
func (s *spent) key(event waitroom.EventID, name string) string {
	return s.prefix + ":{" + string(event) + ":" + name + "}:spent"
}

// errSpent: somebody has used it before.
var errSpent = errors.New("used before")

// spend marks a solution as used for so long. The client may send the command again
// after a lost reply; then the mark is there, and our own.
func (s *spent) spend(ctx context.Context, event waitroom.EventID, name string, keep time.Duration) error {
	own := rand.Text()
	err := s.rdb.SetArgs(ctx, s.key(event, name), own, redis.SetArgs{Mode: "NX", TTL: keep}).Err()
	if err == nil {
		return nil
	}
	if !errors.Is(err, redis.Nil) {
		return fmt.Errorf("spend a challenge: %w: %w", waitroom.ErrUnavailable, err)
	}
	switch mark, err := s.rdb.Get(ctx, s.key(event, name)).Result(); {
	case err == nil && mark == own:
		return nil
	case err == nil || errors.Is(err, redis.Nil): // it was there a moment ago
		return errSpent
	default:
		return fmt.Errorf("spend a challenge: %w: %w", waitroom.ErrUnavailable, err)
	}
}
