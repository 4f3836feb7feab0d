package redisbroker_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/redisbroker"
	"github.com/waitroom-dev/waitroom/ticket/relay"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// Promise 3: a dead consumer's messages come to the others.
func TestConsumersTakeOverFromTheDead(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		p := publisher(t, rdb, redisbroker.PublisherConfig{})
		require.Nil(t, p.Publish(t.Context(), messages(40)))
		// The dead one read ten and was never seen again.
		require.NoError(t, rdb.XGroupCreateMkStream(t.Context(), "wr:{tickets}:log", "payments", "0").Err())
		require.NoError(t, rdb.XReadGroup(t.Context(), &redis.XReadGroupArgs{
			Group: "payments", Consumer: "dead", Streams: []string{"wr:{tickets}:log", ">"}, Count: 10,
		}).Err())
		got := &tally{}
		cfg := redisbroker.ConsumerConfig{HandleTimeout: 500 * time.Millisecond, MinIdle: time.Second}
		for range 2 {
			running(t, consumer(t, another(t, rdb), cfg, got.handle).Run)
		}
		eventually(t, func() bool { return len(got.all()) == 40 })
		eventually(t, func() bool {
			return rdb.XPending(t.Context(), "wr:{tickets}:log", "payments").Val().Count == 0
		})
	})
}

// tally counts messages by deduplication id.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *tally) handle(_ context.Context, m relay.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[m.DedupID]++
	return nil
}

func (c *tally) all() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}

// Of two that claim the same idle message, one gets it: with a thousand of them
// and a minute of idle time once claimed, each is handled once.
func TestOneOfTwoClaims(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, rdb *redis.Client, age func(time.Duration)) {
		t.Helper()
		p := publisher(t, rdb, redisbroker.PublisherConfig{})
		require.Nil(t, p.Publish(t.Context(), messages(1000)))
		require.NoError(t, rdb.XGroupCreateMkStream(t.Context(), "wr:{tickets}:log", "payments", "0").Err())
		require.NoError(t, rdb.XReadGroup(t.Context(), &redis.XReadGroupArgs{
			Group: "payments", Consumer: "dead", Streams: []string{"wr:{tickets}:log", ">"}, Count: 1000,
		}).Err())
		age(time.Hour)
		got := &tally{}
		for range 4 {
			running(t, consumer(t, another(t, rdb), redisbroker.ConsumerConfig{MinIdle: time.Minute}, got.handle).Run)
		}
		eventually(t, func() bool { return len(got.all()) == 1000 })
		for id, n := range got.all() {
			require.Equal(t, 1, n, "message %s", id)
		}
	}
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		rdb := redistest.Start(t, redistest.Config{}).Client(t)
		test(t, rdb, func(d time.Duration) { // XCLAIM can set an idle time, in the real server
			args := []any{"XCLAIM", "wr:{tickets}:log", "payments", "dead", 0}
			for _, x := range rdb.XRange(t.Context(), "wr:{tickets}:log", "-", "+").Val() {
				args = append(args, x.ID)
			}
			require.NoError(t, rdb.Do(t.Context(), append(args, "IDLE", d.Milliseconds())...).Err())
		})
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		mr := miniredis.RunT(t)
		mr.SetTime(time.Now().Add(-2 * time.Hour))
		rdb := redis.NewClient(&redis.Options{Addr: mr.Addr(), Protocol: 2})
		defer func() { require.NoError(t, rdb.Close()) }()
		test(t, rdb, func(d time.Duration) { mr.SetTime(time.Now().Add(-2 * time.Hour).Add(d)) })
	})
}

// Promise 4: acknowledged after the handling, and a stop waits for messages in hand.
func TestConsumerAcknowledgesAfterHandling(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		p := publisher(t, rdb, redisbroker.PublisherConfig{})
		begun, finish := make(chan struct{}), make(chan struct{})
		stop := running(t, consumer(t, another(t, rdb), redisbroker.ConsumerConfig{}, func(context.Context, relay.Message) error {
			close(begun)
			<-finish
			return nil
		}).Run)
		require.Nil(t, p.Publish(t.Context(), messages(1)))
		<-begun
		require.Equal(t, int64(1), rdb.XPending(t.Context(), "wr:{tickets}:log", "payments").Val().Count)
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		close(finish)
		<-stopped
		require.Zero(t, rdb.XPending(t.Context(), "wr:{tickets}:log", "payments").Val().Count)
		require.Empty(t, rdb.XInfoConsumers(t.Context(), "wr:{tickets}:log", "payments").Val(), "the name is taken out")
	})
}

// Promise 5: poison becomes a dead letter with its cause and stops nobody.
func TestPoisonBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		p := publisher(t, rdb, redisbroker.PublisherConfig{})
		var tries atomic.Int64
		others := &tally{}
		cfg := redisbroker.ConsumerConfig{
			HandleTimeout: 100 * time.Millisecond, MinIdle: 200 * time.Millisecond, MaxDeliveries: 3,
			Topics: []string{ticket.TopicPaymentRequested},
		}
		reg := prometheus.NewRegistry()
		cfg.Group, cfg.Block = "payments", 20*time.Millisecond
		c, err := redisbroker.NewConsumer(cfg, another(t, rdb), func(ctx context.Context, m relay.Message) error {
			if m.DedupID == "d3" {
				tries.Add(1)
				return errors.New("cannot read it")
			}
			return others.handle(ctx, m)
		}, zap.NewNop(), reg)
		require.NoError(t, err)
		ms := messages(10)
		ms[5].Topic = ticket.TopicPaid // another's business
		require.Nil(t, p.Publish(t.Context(), ms))
		running(t, c.Run)
		eventually(t, func() bool { return rdb.XLen(t.Context(), "wr:{tickets}:dead").Val() == 1 })
		require.GreaterOrEqual(t, tries.Load(), int64(1))
		require.LessOrEqual(t, tries.Load(), int64(3), "handled at most three times")
		require.Len(t, others.all(), 8)
		dead := rdb.XRange(t.Context(), "wr:{tickets}:dead", "-", "+").Val()[0].Values
		require.Equal(t, "d3", dead["id"])
		require.Equal(t, "cannot read it", dead["cause"])
		require.Equal(t, string(ms[3].Payload), dead["payload"])
		eventually(t, func() bool { return rdb.XPending(t.Context(), "wr:{tickets}:log", "payments").Val().Count == 0 })
	})
}

// Consumers of one group never handle a message at the same time, and together
// handle each once while nobody dies.
func TestGroupShares(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		p := publisher(t, rdb, redisbroker.PublisherConfig{})
		got := &tally{}
		for range 3 {
			running(t, consumer(t, another(t, rdb), redisbroker.ConsumerConfig{Concurrency: 5}, got.handle).Run)
		}
		require.Nil(t, p.Publish(t.Context(), messages(1000)))
		eventually(t, func() bool { return len(got.all()) == 1000 })
		for id, n := range got.all() {
			require.Equal(t, 1, n, "message %s", id)
		}
	})
}
