package redisbroker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// forgotten is how long a consumer without pending messages may be silent before
// its name is taken out of the group.
const forgotten = 24 * time.Hour

// tidy makes the group if it is not there, from the log's beginning on, so that
// nothing published before the first consumer came is lost; and it takes out the
// names of consumers long gone.
func (c *Consumer) tidy(ctx context.Context) error {
	err := c.rdb.XGroupCreateMkStream(ctx, c.keys.log, c.cfg.Group, "0").Err()
	if err != nil && !redis.HasErrorPrefix(err, "BUSYGROUP") {
		return wrap("make group", err)
	}
	infos, err := c.rdb.XInfoConsumers(ctx, c.keys.log, c.cfg.Group).Result()
	if err != nil {
		return wrap("list consumers", err)
	}
	for _, i := range infos {
		if i.Name != c.cfg.Name && i.Pending == 0 && i.Idle > forgotten {
			if err := c.rdb.XGroupDelConsumer(ctx, c.keys.log, c.cfg.Group, i.Name).Err(); err != nil {
				return wrap("forget consumer", err)
			}
		}
	}
	return nil
}

// resign takes our name out of the group if nothing is pending under it; what is
// pending must stay, for the others to claim.
func (c *Consumer) resign(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	infos, err := c.rdb.XInfoConsumers(ctx, c.keys.log, c.cfg.Group).Result()
	if err != nil {
		c.log.Debug("name left in the group", zap.Error(err))
		return
	}
	for _, i := range infos {
		if i.Name == c.cfg.Name && i.Pending == 0 {
			if err := c.rdb.XGroupDelConsumer(ctx, c.keys.log, c.cfg.Group, i.Name).Err(); err != nil {
				c.log.Debug("name left in the group", zap.Error(err))
			}
		}
	}
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// backoff is the jittered wait after n failures in a row: 50 ms doubling to 2 s.
func backoff(n int) time.Duration {
	d := 2 * time.Second
	if n < 7 {
		d = min(d, 50*time.Millisecond<<(n-1))
	}
	return d/2 + time.Duration(rand.Float64()*float64(d)/2)
}
