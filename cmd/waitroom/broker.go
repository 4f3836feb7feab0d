package main

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/redisbroker"
)

// brokerReader reads what a broker holds; close ends its connections.
type brokerReader struct {
	log   ticket.BrokerLog
	close func()
}

// openBroker reaches the broker that serve would publish to with these flags; nil
// where that is the embedded store, which lives in the service's own process.
func openBroker(ctx context.Context, cfg serveConfig) (*brokerReader, error) {
	if cfg.Redis == "" {
		return nil, nil //nolint:nilnil // none is an answer here
	}
	rdb, err := redisClient(cfg.Redis)
	if err != nil {
		return nil, usage(err)
	}
	if err := reachRedis(ctx, rdb); err != nil {
		_ = rdb.Close() // it was never used
		return nil, err
	}
	return &brokerReader{log: storeLog(rdb), close: func() { _ = rdb.Close() }}, nil // only read from
}

// storeLog is the log in the line's own store.
func storeLog(rdb redis.UniversalClient) ticket.BrokerLog { return redisbroker.NewLog(keyPrefix, rdb) }
