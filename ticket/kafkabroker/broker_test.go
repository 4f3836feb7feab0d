package kafkabroker_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/brokertest"
	"github.com/waitroom-dev/waitroom/ticket/kafkabroker"
	"github.com/waitroom-dev/waitroom/ticket/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gate can make a server hang: it reads nothing while the gate is shut.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while the gate is open
	gone chan struct{} // the test is over
}

func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{open: make(chan struct{}), gone: make(chan struct{})}
	close(g.open)
	t.Cleanup(func() { close(g.gone) })
	return g
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) unshut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
}

func (g *gate) wait() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
	case <-g.gone:
	}
}

func (g *gate) listen(network, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), network, address) // the cluster closes it
	return gated{l, g}, err
}

type gated struct {
	net.Listener
	g *gate
}

func (l gated) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return gatedConn{c, l.g}, err
}

type gatedConn struct {
	net.Conn
	g *gate
}

func (c gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.g.wait()
	return n, err
}

// Promises 1 to 6, on the library's own fake cluster of three brokers.
func TestPlay(t *testing.T) {
	t.Parallel()
	brokertest.Play(t, func(t *testing.T) brokertest.Broker {
		t.Helper()
		g := newGate(t)
		cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.ListenFn(g.listen))
		require.NoError(t, err)
		t.Cleanup(cluster.Close)
		address := kafkabroker.Address{Seeds: cluster.ListenAddrs()}
		publisher, err := kafkabroker.NewPublisher(address)
		require.NoError(t, err)
		t.Cleanup(publisher.Close)
		return brokertest.Broker{
			Publisher: publisher, Log: kafkabroker.NewLog(address), TooLarge: 2 << 20,
			Consume: func(h relay.Handler) func(context.Context) error {
				c, err := kafkabroker.NewConsumer(kafkabroker.ConsumerConfig{Group: "g", MaxTries: 3}, address, h, zap.NewNop(), nil)
				require.NoError(t, err)
				return c.Run
			},
			Tail: func(each func(relay.Message)) func(context.Context) error {
				return kafkabroker.NewTail(address, each, zap.NewNop()).Run
			},
			Dead: func() []string {
				dead := address
				dead.Topic = "wr-tickets-dead"
				var ids []string
				require.NoError(t, kafkabroker.NewLog(dead).Records(t.Context(), func(r ticket.LogRecord) { ids = append(ids, r.DedupID) }))
				return ids
			},
			Freeze: g.shut,
			Thaw:   g.unshut,
		}
	})
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	a, err := kafkabroker.ParseURL("kafka+tls://me:secret@a:9092,b:9093/tickets?sasl=SCRAM-SHA-512&partitions=12")
	require.NoError(t, err)
	require.Equal(t, kafkabroker.Address{
		Seeds: []string{"a:9092", "b:9093"}, Topic: "tickets", Partitions: 12, TLS: true, User: "me", Password: "secret", SASL: "scram-sha-512",
	}, a)
	for _, bad := range []string{"http://a:1", "kafka://", "kafka://me:secret@a:1?sasl=none", "kafka://a:1?partitions=0", "kafka://me:secret@a:x:y:z"} {
		_, err := kafkabroker.ParseURL(bad)
		require.Error(t, err, bad)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestConfigFaultsAreNamed(t *testing.T) {
	t.Parallel()
	err := kafkabroker.ConsumerConfig{Concurrency: -1, HandleTimeout: -1}.Validate()
	for _, field := range []string{"group", "concurrency", "handle timeout"} {
		require.ErrorContains(t, err, field)
	}
}
