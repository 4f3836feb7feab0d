package kafkabroker

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/waitroom-dev/waitroom/ticket/relay"
)

// Address says where the brokers are and what the topic is called.
type Address struct {
	// Seeds are HOST:PORT of some of the brokers.
	Seeds []string
	// Topic is Kafka's. Default "wr-tickets".
	Topic string
	// Partitions of the topic, if it is made here. Default 8.
	Partitions int
	// TLS encrypts the connections.
	TLS bool
	// User and Password, if set, authenticate by SASL: plain (default),
	// scram-sha-256 or scram-sha-512.
	User, Password, SASL string
}

// ParseURL reads kafka://[user:password@]host:port[,host:port…][/topic] or
// kafka+tls://…, with the parameters sasl and partitions. Its errors name no secret.
func ParseURL(raw string) (Address, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "kafka" && u.Scheme != "kafka+tls" || u.Host == "" {
		return Address{}, errors.New("kafka: wants the form kafka://host:port")
	}
	q := u.Query()
	a := Address{
		Seeds: strings.Split(u.Host, ","), Topic: strings.Trim(u.Path, "/"), TLS: u.Scheme == "kafka+tls",
		SASL: strings.ToLower(cmp.Or(q.Get("sasl"), "plain")),
	}
	if u.User != nil {
		a.User = u.User.Username()
		a.Password, _ = u.User.Password()
	}
	if p := q.Get("partitions"); p != "" {
		if a.Partitions, err = strconv.Atoi(p); err != nil || a.Partitions < 1 || a.Partitions > 1000 {
			return Address{}, errors.New("kafka: partitions: must be 1 to 1000")
		}
	}
	switch a.SASL {
	case "plain", "scram-sha-256", "scram-sha-512":
	default:
		return Address{}, fmt.Errorf("kafka: sasl: %q is none of plain, scram-sha-256, scram-sha-512", a.SASL)
	}
	return a, nil
}

func (a Address) topic() string { return cmp.Or(a.Topic, "wr-tickets") }
func (a Address) dead() string  { return a.topic() + "-dead" }

// client makes a client; it connects at the first call.
func (a Address) client(more ...kgo.Opt) (*kgo.Client, error) {
	opts := []kgo.Opt{
		kgo.ClientID("waitroom"), kgo.SeedBrokers(a.Seeds...), kgo.DialTimeout(2 * time.Second),
		kgo.RequestTimeoutOverhead(3 * time.Second), kgo.MetadataMinAge(250 * time.Millisecond),
	}
	if a.TLS {
		opts = append(opts, kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	if a.User != "" {
		switch auth := (scram.Auth{User: a.User, Pass: a.Password}); a.SASL {
		case "scram-sha-256":
			opts = append(opts, kgo.SASL(auth.AsSha256Mechanism()))
		case "scram-sha-512":
			opts = append(opts, kgo.SASL(auth.AsSha512Mechanism()))
		default:
			opts = append(opts, kgo.SASL(plain.Auth{User: a.User, Pass: a.Password}.AsMechanism()))
		}
	}
	client, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return client, nil
}

// ensure makes a topic where there is none.
func ensure(ctx context.Context, client *kgo.Client, topic string, partitions int) error {
	_, err := kadm.NewClient(client).CreateTopic(ctx, int32(cmp.Or(partitions, 8)), -1, nil, topic) //nolint:gosec // at most 1000
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	return nil
}

// The headers of a message.
const (
	headID    = "id"
	headEvent = "event"
	headTopic = "topic"
	headCause = "cause"
)

// recordOf writes a message as Kafka carries it.
func recordOf(to string, m relay.Message) *kgo.Record {
	return &kgo.Record{Topic: to, Key: []byte(m.Key), Value: m.Payload, Headers: []kgo.RecordHeader{
		{Key: headID, Value: []byte(m.DedupID)}, {Key: headEvent, Value: []byte(m.Event)}, {Key: headTopic, Value: []byte(m.Topic)},
	}}
}

// messageOf reads a record; headers that it does not know are left alone.
func messageOf(r *kgo.Record) relay.Message {
	m := relay.Message{Key: string(r.Key), Payload: r.Value}
	for _, h := range r.Headers {
		switch h.Key {
		case headID:
			m.DedupID = string(h.Value)
		case headEvent:
			m.Event = string(h.Value)
		case headTopic:
			m.Topic = string(h.Value)
		}
	}
	return m
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
