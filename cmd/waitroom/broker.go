package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/kafkabroker"
	"github.com/waitroom-dev/waitroom/ticket/natsbroker"
	"github.com/waitroom-dev/waitroom/ticket/redisbroker"
	"github.com/waitroom-dev/waitroom/ticket/relay"
)

// brokerSchemes are the URLs that --broker takes; the first is Redis streams.
var brokerSchemes = []string{"redis", "rediss", "redis+sentinel", "redis+cluster", "nats", "tls", "kafka", "kafka+tls"}

// paymentGroup is the group of the payment workers, of all nodes together.
const paymentGroup = "payments"

// broker is where the outbox's messages go to and come from.
type broker interface {
	publisher() (relay.Publisher, error)
	// consumer shares the messages of a topic with the group's others.
	consumer(group, topic string, h relay.Handler) (runner, error)
	// tail tells this node every outcome.
	tail(lis redisbroker.Listener) (runner, error)
	log() (ticket.BrokerLog, error)
	close() error
}

// brokerDeps is what the parts of a broker are made with.
type brokerDeps struct {
	node    string
	log     *zap.Logger
	metrics prometheus.Registerer
}

// openBroker makes the broker of a URL; empty is the line's own store. Nothing is
// reached yet: a broker that is away is waited for, and the outbox keeps the rest.
func openBroker(rawURL string, store redis.UniversalClient, deps brokerDeps) (broker, error) {
	switch scheme, _, _ := strings.Cut(rawURL, ":"); scheme {
	case "":
		return &redisStreams{rdb: store, deps: deps, shared: true}, nil
	case "nats", "tls":
		return openNATS(rawURL, deps)
	case "kafka", "kafka+tls":
		address, err := kafkabroker.ParseURL(rawURL)
		return &kafkaTopic{address: address, deps: deps}, err
	default: // the configuration lets nothing else through
		rdb, err := redisClient(rawURL)
		return &redisStreams{rdb: rdb, deps: deps}, err
	}
}

// redisStreams are the streams of a Redis, usually the line's own.
type redisStreams struct {
	rdb    redis.UniversalClient
	deps   brokerDeps
	shared bool // the client is the line's
}

func (b *redisStreams) publisher() (relay.Publisher, error) {
	return redisbroker.NewPublisher(redisbroker.PublisherConfig{Prefix: keyPrefix}, b.rdb)
}

func (b *redisStreams) consumer(group, topic string, h relay.Handler) (runner, error) {
	c, err := redisbroker.NewConsumer(redisbroker.ConsumerConfig{
		Prefix: keyPrefix, Group: group, Name: b.deps.node, Topics: []string{topic},
	}, b.rdb, h, b.deps.log, b.deps.metrics)
	if err != nil {
		return nil, err
	}
	return c.Run, nil
}

func (b *redisStreams) tail(lis redisbroker.Listener) (runner, error) {
	t, err := redisbroker.NewTail(redisbroker.TailConfig{Prefix: keyPrefix}, b.rdb, lis, b.deps.log, b.deps.metrics)
	if err != nil {
		return nil, err
	}
	return t.Run, nil
}

func (b *redisStreams) log() (ticket.BrokerLog, error) {
	return redisbroker.NewLog(keyPrefix, b.rdb), nil
}

func (b *redisStreams) close() error {
	if b.shared {
		return nil
	}
	return b.rdb.Close()
}

// natsStream is a stream of NATS JetStream.
type natsStream struct {
	conn     *nats.Conn
	replicas int
	deps     brokerDeps
}

// openNATS connects to nats://host:port, whose parameter replicas is for the stream.
func openNATS(rawURL string, deps brokerDeps) (*natsStream, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("broker: no URL") // the parser's text would repeat the password
	}
	b := &natsStream{deps: deps}
	if replicas := u.Query().Get("replicas"); replicas != "" {
		if b.replicas, err = strconv.Atoi(replicas); err != nil {
			return nil, fmt.Errorf("broker: replicas %q is no number", replicas)
		}
	}
	u.RawQuery = ""
	var servers []string
	for host := range strings.SplitSeq(u.Host, ",") {
		one := *u
		one.Host = host
		servers = append(servers, one.String())
	}
	b.conn, err = natsbroker.Connect(strings.Join(servers, ","), deps.log)
	return b, err
}

func (b *natsStream) publisher() (relay.Publisher, error) {
	return natsbroker.NewPublisher(natsbroker.PublisherConfig{Prefix: keyPrefix, Replicas: b.replicas}, b.conn)
}

func (b *natsStream) consumer(group, topic string, h relay.Handler) (runner, error) {
	c, err := natsbroker.NewConsumer(natsbroker.ConsumerConfig{Prefix: keyPrefix, Group: group, Topics: []string{topic}},
		b.conn, h, b.deps.log, b.deps.metrics)
	if err != nil {
		return nil, err
	}
	return c.Run, nil
}

func (b *natsStream) tail(lis redisbroker.Listener) (runner, error) {
	t, err := natsbroker.NewTail(keyPrefix, 0, b.conn, teller(lis, b.deps.log), b.deps.log)
	if err != nil {
		return nil, err
	}
	return t.Run, nil
}

func (b *natsStream) log() (ticket.BrokerLog, error) { return natsbroker.NewLog(keyPrefix, b.conn) }

func (b *natsStream) close() error {
	b.conn.Close()
	return nil
}

// kafkaTopic is a topic of Kafka.
type kafkaTopic struct {
	address kafkabroker.Address
	deps    brokerDeps
	closers []func()
}

func (b *kafkaTopic) publisher() (relay.Publisher, error) {
	p, err := kafkabroker.NewPublisher(b.address)
	if err == nil {
		b.closers = append(b.closers, p.Close)
	}
	return p, err
}

func (b *kafkaTopic) consumer(group, topic string, h relay.Handler) (runner, error) {
	c, err := kafkabroker.NewConsumer(kafkabroker.ConsumerConfig{Group: keyPrefix + "-" + group, Topics: []string{topic}},
		b.address, h, b.deps.log, b.deps.metrics)
	if err != nil {
		return nil, err
	}
	return c.Run, nil
}

func (b *kafkaTopic) tail(lis redisbroker.Listener) (runner, error) {
	return kafkabroker.NewTail(b.address, teller(lis, b.deps.log), b.deps.log).Run, nil
}

func (b *kafkaTopic) log() (ticket.BrokerLog, error) { return kafkabroker.NewLog(b.address), nil }

func (b *kafkaTopic) close() error {
	for _, closer := range b.closers {
		closer()
	}
	return nil
}

// teller passes the outcomes among messages on.
func teller(lis redisbroker.Listener, log *zap.Logger) func(relay.Message) {
	return func(m relay.Message) {
		o, is, err := relay.OutcomeOf(m)
		switch {
		case err != nil:
			log.Error("outcome unreadable", zap.String("id", m.DedupID), zap.Error(err))
		case is:
			lis.Outcome(o)
		}
	}
}

// reachBroker asks a broker for its log's first records, so that a command ends
// with one clear line where it is away.
func reachBroker(ctx context.Context, b broker) (ticket.BrokerLog, error) {
	if streams, ok := b.(*redisStreams); ok {
		if err := reachRedis(ctx, streams.rdb); err != nil {
			return nil, err
		}
	}
	return b.log()
}
