package natsbroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket/relay"
)

// Connect makes a connection to servers at a nats:// or tls:// URL, or several of
// them with commas. It keeps trying for ever, also if nobody answers yet; while
// nobody does, calls fail at once. Close it after use.
func Connect(servers string, log *zap.Logger) (*nats.Conn, error) {
	log = log.Named("nats")
	conn, err := nats.Connect(servers,
		nats.Name("waitroom"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectBufSize(-1), // a message waits in the outbox, not here
		nats.ReconnectWait(200*time.Millisecond), nats.ReconnectJitter(200*time.Millisecond, time.Second),
		nats.Timeout(2*time.Second), nats.PingInterval(5*time.Second), nats.MaxPingsOutstanding(2), nats.FlusherTimeout(2*time.Second),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { log.Warn("broker lost", zap.Error(err)) }),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("broker found again") }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { log.Warn("broker error", zap.Error(err)) }),
	)
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	return conn, nil
}

// names are what the streams and subjects of an installation are called.
type names struct{ prefix string }

func newNames(prefix string) names { return names{cmp.Or(prefix, "wr")} }

func (n names) stream() string              { return n.prefix + "-tickets" }
func (n names) requests() string            { return n.prefix + "-requests" }
func (n names) request(event string) string { return n.prefix + ".requests." + event }

// numberer begins the names of an event's consumers; no event's id has a "_".
func (n names) numberer(event string) string { return n.prefix + "-numberer-" + event + "_" }

func (n names) dead() string                { return n.prefix + "-tickets-dead" }
func (n names) all() string                 { return n.prefix + ".tickets.>" }
func (n names) allDead() string             { return n.prefix + ".dead.>" }
func (n names) subject(topic string) string { return n.prefix + ".tickets." + topic }
func (n names) deadLetter(to string) string { return n.prefix + ".dead." + to }
func (n names) topic(subject string) string { return strings.TrimPrefix(subject, n.prefix+".tickets.") }

func (n names) subjects(of []string) []string {
	subjects := make([]string, len(of))
	for i, topic := range of {
		subjects[i] = n.subject(topic)
	}
	return subjects
}

// The headers of a message beside the deduplication id's.
const (
	headEvent = "Waitroom-Event"
	headKey   = "Waitroom-Key"
	headCause = "Waitroom-Cause"
)

func (n names) message(m jetstream.Msg) relay.Message {
	h := m.Headers()
	return relay.Message{
		DedupID: h.Get(nats.MsgIdHdr), Event: h.Get(headEvent), Key: h.Get(headKey),
		Topic: n.topic(m.Subject()), Payload: m.Data(),
	}
}

// duplicates is the duplicate window: far more than a relay's lease.
const duplicates = 10 * time.Minute

// ensure makes a stream where there is none.
func ensure(ctx context.Context, js jetstream.JetStream, name, subjects string, most int64, replicas int) (jetstream.Stream, error) {
	stream, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name: name, Subjects: []string{subjects}, Storage: jetstream.FileStorage, Replicas: replicas,
			MaxMsgs: most, Discard: jetstream.DiscardOld, Duplicates: duplicates,
		})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another node was first
			stream, err = js.Stream(ctx, name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	return stream, nil
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
