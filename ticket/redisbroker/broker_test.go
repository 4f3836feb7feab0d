package redisbroker_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/brokertest"
	"github.com/waitroom-dev/waitroom/ticket/redisbroker"
	"github.com/waitroom-dev/waitroom/ticket/relay"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// another is a second client of a client's server.
func another(t *testing.T, rdb *redis.Client) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: rdb.Options().Addr, Protocol: 2})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// eventually polls until it is so, for at most 20 seconds.
func eventually(t *testing.T, so func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(20 * time.Second)
	for !so() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it never was so")
		}
	}
}

// running runs a component until the test ends, or until stop is called.
func running(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return stop
}

func publisher(t *testing.T, rdb redis.UniversalClient, cfg redisbroker.PublisherConfig) *redisbroker.Publisher {
	t.Helper()
	p, err := redisbroker.NewPublisher(cfg, rdb)
	require.NoError(t, err)
	return p
}

func consumer(t *testing.T, rdb redis.UniversalClient, cfg redisbroker.ConsumerConfig, h relay.Handler) *redisbroker.Consumer {
	t.Helper()
	cfg.Group = "payments"
	cfg.Block = 50 * time.Millisecond
	c, err := redisbroker.NewConsumer(cfg, rdb, h, zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel)), prometheus.NewRegistry())
	require.NoError(t, err)
	return c
}

func message(n int) relay.Message {
	return relay.Message{
		DedupID: fmt.Sprintf("d%d", n), Event: "demo", Topic: ticket.TopicPaymentRequested,
		Key: fmt.Sprintf("r%d", n%7), Payload: fmt.Appendf(nil, `{"payment_id":"p%d"}`, n),
	}
}

func messages(n int) []relay.Message {
	ms := make([]relay.Message, n)
	for i := range ms {
		ms[i] = message(i)
	}
	return ms
}

// Promises 1 and 2: once each, in order, however often they are sent.
func TestPublishCountsOnceAndKeepsOrder(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		p := publisher(t, rdb, redisbroker.PublisherConfig{})
		ms := messages(200)
		require.Nil(t, p.Publish(t.Context(), ms[:150]))
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { p.Publish(t.Context(), ms[:150]) })
		}
		all.Wait()
		require.Nil(t, p.Publish(t.Context(), ms))
		log, err := rdb.XRange(t.Context(), "wr:{tickets}:log", "-", "+").Result()
		require.NoError(t, err)
		require.Len(t, log, 200, "each deduplication id counts once")
		for i, x := range log {
			require.Equal(t, ms[i].DedupID, x.Values["id"], "order of publication")
			require.Equal(t, string(ms[i].Payload), x.Values["payload"])
			require.Equal(t, ms[i].Key, x.Values["key"])
		}
	})
}

// Promise 7: log and seen ids are bounded.
func TestPublishIsBounded(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		p := publisher(t, rdb, redisbroker.PublisherConfig{MaxLen: 500, SeenLen: 300})
		for i := range 20 {
			ms := make([]relay.Message, 100)
			for j := range ms {
				ms[j] = message(i*100 + j)
			}
			require.Nil(t, p.Publish(t.Context(), ms))
		}
		n, err := rdb.XLen(t.Context(), "wr:{tickets}:log").Result()
		require.NoError(t, err)
		require.GreaterOrEqual(t, n, int64(500))
		require.LessOrEqual(t, n, int64(700), "trimmed to whole nodes of 100")
		seen, err := rdb.ZCard(t.Context(), "wr:{tickets}:seen").Result()
		require.NoError(t, err)
		require.Equal(t, int64(300), seen)
	})
}

func TestPublishRefusesOnlyTheMessageAtFault(t *testing.T) {
	t.Parallel()
	mr := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: mr.Addr()})
	defer func() { require.NoError(t, rdb.Close()) }()
	p := publisher(t, rdb, redisbroker.PublisherConfig{MaxBytes: 100})
	ms := messages(3)
	ms[1].Payload = make([]byte, 101)
	errs := p.Publish(t.Context(), ms)
	require.Len(t, errs, 3)
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], relay.ErrRefused)
	require.NoError(t, errs[2])
	require.Equal(t, int64(2), rdb.XLen(t.Context(), "wr:{tickets}:log").Val())

	mr.SetError("LOADING the data set")
	errs = p.Publish(t.Context(), ms)
	require.ErrorIs(t, errs[0], relay.ErrAway)
	require.ErrorIs(t, errs[1], relay.ErrRefused, "also while the store is away")
	require.ErrorIs(t, errs[2], relay.ErrAway)
}

func TestConfigFaultsAreNamed(t *testing.T) {
	t.Parallel()
	_, err := redisbroker.NewConsumer(redisbroker.ConsumerConfig{MinIdle: time.Second, MaxDeliveries: -1}, nil, nil, zap.NewNop(), prometheus.NewRegistry())
	require.ErrorContains(t, err, "group")
	require.ErrorContains(t, err, "min idle 1s")
	require.ErrorContains(t, err, "max deliveries -1")
	_, err = redisbroker.NewPublisher(redisbroker.PublisherConfig{MaxLen: -1}, nil)
	require.ErrorContains(t, err, "max len -1")
}

// Promise 1, when the reply is lost and the client sends the command again.
func TestLostReplyCountsOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	proxy := redistest.NewProxy(t, server.Addr())
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), Protocol: 2})
	defer func() { require.NoError(t, rdb.Close()) }()
	p := publisher(t, rdb, redisbroker.PublisherConfig{})
	require.Nil(t, p.Publish(t.Context(), messages(1)))
	proxy.Fail(func(n int) redistest.Fault { return redistest.Fault{Cut: n <= 2} })
	require.Nil(t, p.Publish(t.Context(), messages(50)))
	require.Equal(t, 3, proxy.Scripts(), "the command was sent three times")
	require.Equal(t, int64(50), server.Client(t).XLen(t.Context(), "wr:{tickets}:log").Val())
}

// Promises 3 and 6, when the server goes and comes back: with its data (AOF) nothing
// is lost, and consumer and tail go on by themselves.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	for _, aof := range []string{"always", ""} {
		t.Run("aof "+aof, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Config{AOF: aof})
			rdb := server.Client(t)
			p := publisher(t, rdb, redisbroker.PublisherConfig{})
			var handled atomic.Int64
			c, err := redisbroker.NewConsumer(redisbroker.ConsumerConfig{Group: "payments", Block: 50 * time.Millisecond, Topics: []string{ticket.TopicPaymentRequested}},
				server.Client(t), func(context.Context, relay.Message) error { handled.Add(1); return nil }, zap.NewNop(), nil)
			require.NoError(t, err)
			running(t, c.Run)
			h := &heard{}
			tail, err := redisbroker.NewTail(redisbroker.TailConfig{Block: 50 * time.Millisecond}, server.Client(t), h, zap.NewNop(), nil)
			require.NoError(t, err)
			running(t, tail.Run)
			n := 0
			for h.len() == 0 {
				m, _ := outcome(n)
				require.Nil(t, p.Publish(t.Context(), []relay.Message{m}))
				n++
			}
			server.Kill(t)
			require.NotNil(t, p.Publish(t.Context(), messages(1)), "nobody there")
			server.Restart(t)
			eventually(t, func() bool { return p.Publish(t.Context(), messages(40)) == nil })
			last, want := outcome(1000)
			require.Nil(t, p.Publish(t.Context(), []relay.Message{last}))
			eventually(t, func() bool { return handled.Load() >= 40 && h.last() == want })
		})
	}
}

// Promise 8: an audit reads every record that the log holds, oldest first.
func TestLogIsReadWhole(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Config{}).Client(t)
	l := redisbroker.NewLog("", rdb)
	var read []string
	each := func(r ticket.LogRecord) {
		require.WithinDuration(t, time.Now(), r.At, time.Minute)
		read = append(read, r.DedupID+" "+r.Event+" "+r.Topic+" "+r.Key)
	}
	require.NoError(t, l.Records(t.Context(), each))
	require.Empty(t, read)
	ms := messages(2500) // three reads
	require.Nil(t, publisher(t, rdb, redisbroker.PublisherConfig{}).Publish(t.Context(), ms))
	require.NoError(t, l.Records(t.Context(), each))
	want := make([]string, len(ms))
	for i, m := range ms {
		want[i] = m.DedupID + " " + m.Event + " " + m.Topic + " " + m.Key
	}
	require.Equal(t, want, read)
}

// Promises 1 to 5 and 8, in the games that every broker plays.
func TestPlay(t *testing.T) {
	t.Parallel()
	brokertest.Play(t, func(t *testing.T) brokertest.Broker {
		t.Helper()
		server := redistest.Start(t, redistest.Config{})
		rdb := server.Client(t)
		return brokertest.Broker{
			Publisher: publisher(t, rdb, redisbroker.PublisherConfig{}), Log: redisbroker.NewLog("", rdb), Once: true, TooLarge: 1 << 20,
			Consume: func(h relay.Handler) func(context.Context) error {
				return consumer(t, another(t, rdb), redisbroker.ConsumerConfig{
					MaxDeliveries: 3, HandleTimeout: 100 * time.Millisecond, MinIdle: 400 * time.Millisecond,
				}, h).Run
			},
			Dead: func() []string {
				var ids []string
				for _, x := range rdb.XRange(t.Context(), "wr:{tickets}:dead", "-", "+").Val() {
					id, _ := x.Values["id"].(string)
					ids = append(ids, id)
				}
				return ids
			},
			Freeze: func() { server.Freeze(t) },
			Thaw:   func() { server.Thaw(t) },
		}
	})
}
