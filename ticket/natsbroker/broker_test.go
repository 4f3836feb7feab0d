package natsbroker_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket/brokertest"
	"github.com/waitroom-dev/waitroom/ticket/natsbroker"
	"github.com/waitroom-dev/waitroom/ticket/natstest"
	"github.com/waitroom-dev/waitroom/ticket/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T, server *natstest.Server) *nats.Conn {
	t.Helper()
	conn, err := natsbroker.Connect(server.URL(), zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// Promises 1 to 6, on a real server.
func TestPlay(t *testing.T) {
	t.Parallel()
	brokertest.Play(t, func(t *testing.T) brokertest.Broker {
		t.Helper()
		server := natstest.Start(t)
		conn := connect(t, server)
		publisher, err := natsbroker.NewPublisher(natsbroker.PublisherConfig{}, conn)
		require.NoError(t, err)
		log, err := natsbroker.NewLog("", conn)
		require.NoError(t, err)
		return brokertest.Broker{
			Publisher: publisher, Log: log, Once: true, TooLarge: 2 << 20,
			Consume: func(h relay.Handler) func(context.Context) error {
				c, err := natsbroker.NewConsumer(natsbroker.ConsumerConfig{
					Group: "g", MaxDeliveries: 3, Block: 50 * time.Millisecond, HandleTimeout: 500 * time.Millisecond, AckWait: 2 * time.Second, // a hand-over of a busy machine is no failed try
				}, connect(t, server), h, zap.NewNop(), nil)
				require.NoError(t, err)
				return c.Run
			},
			Tail: func(each func(relay.Message)) func(context.Context) error {
				tail, err := natsbroker.NewTail("", 50*time.Millisecond, connect(t, server), each, zap.NewNop())
				require.NoError(t, err)
				return tail.Run
			},
			Dead: func() []string {
				js, err := jetstream.New(conn)
				require.NoError(t, err)
				stream, err := js.Stream(t.Context(), "wr-tickets-dead")
				if err != nil {
					return nil
				}
				var ids []string
				for n := range stream.CachedInfo().State.Msgs {
					m, err := stream.GetMsg(t.Context(), n+1)
					require.NoError(t, err)
					require.Equal(t, "bad", m.Header.Get("Waitroom-Cause"))
					ids = append(ids, m.Header.Get(nats.MsgIdHdr))
				}
				return ids
			},
			Freeze: func() { server.Freeze(t) },
			Thaw:   func() { server.Thaw(t) },
		}
	})
}

// Promises 3 and 5: a restart of the server loses nobody's message.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	publisher, err := natsbroker.NewPublisher(natsbroker.PublisherConfig{}, connect(t, server))
	require.NoError(t, err)
	handled, seen := make(chan string, 100), make(chan string, 100)
	consumer, err := natsbroker.NewConsumer(natsbroker.ConsumerConfig{Group: "g", Block: 50 * time.Millisecond}, connect(t, server),
		func(_ context.Context, m relay.Message) error { handled <- m.DedupID; return nil }, zap.NewNop(), nil)
	require.NoError(t, err)
	tail, err := natsbroker.NewTail("", 50*time.Millisecond, connect(t, server), func(m relay.Message) { seen <- m.DedupID }, zap.NewNop())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- consumer.Run(ctx) }()
	go func() { ended <- tail.Run(ctx) }()
	publish := func(id string) {
		m := relay.Message{DedupID: id, Topic: "reservation.held", Event: "e", Key: "k", Payload: []byte("{}")}
		for {
			pctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			errs := publisher.Publish(pctx, []relay.Message{m})
			cancel()
			if errs == nil {
				return
			}
			require.ErrorIs(t, errs[0], relay.ErrAway)
		}
	}
	gets := func(from chan string, id string) {
		for {
			select {
			case got := <-from:
				if got == id {
					return
				}
			case <-time.After(30 * time.Second):
				require.Fail(t, "it never came", id)
			}
		}
	}
	publish("a")
	gets(handled, "a")
	for range 100 { // until the tail has begun
		publish("b" + time.Now().String())
		if len(seen) > 0 {
			break
		}
	}
	server.Restart(t)
	publish("c")
	gets(handled, "c")
	gets(seen, "c")
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
}

func TestConfigFaultsAreNamed(t *testing.T) {
	t.Parallel()
	_, err := natsbroker.NewPublisher(natsbroker.PublisherConfig{MaxMsgs: -1, Replicas: 9}, nil)
	require.ErrorContains(t, err, "max msgs")
	require.ErrorContains(t, err, "replicas")
	err = natsbroker.ConsumerConfig{Concurrency: -1, AckWait: time.Second, MaxDeliveries: -1, Block: time.Hour}.Validate()
	for _, field := range []string{"group", "concurrency", "ack wait", "max deliveries", "block"} {
		require.ErrorContains(t, err, field)
	}
}
