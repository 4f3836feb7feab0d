package natsbroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waitroom-dev/waitroom/ticket/relay"
)

// PublisherConfig says how a publisher works. The zero value of a field is its default.
type PublisherConfig struct {
	// Prefix begins the names of streams and subjects. Default "wr".
	Prefix string
	// MaxMsgs is the most messages of the stream, if the publisher makes it; the
	// oldest are dropped. Default 1,000,000.
	MaxMsgs int64
	// Replicas of the stream, if the publisher makes it. Default 1, at most 5.
	Replicas int
}

// Publisher hands messages to the stream. It is safe for concurrent use.
type Publisher struct {
	cfg   PublisherConfig
	names names
	js    jetstream.JetStream

	mu     sync.Mutex // guards below
	stream bool       // the stream was there
}

var _ relay.Publisher = (*Publisher)(nil)

// NewPublisher makes a publisher on a connection; the stream is made at the first
// Publish.
func NewPublisher(cfg PublisherConfig, conn *nats.Conn) (*Publisher, error) {
	cfg.MaxMsgs = cmp.Or(cfg.MaxMsgs, 1_000_000)
	cfg.Replicas = cmp.Or(cfg.Replicas, 1)
	var errs []error
	if cfg.MaxMsgs < 0 {
		errs = append(errs, fmt.Errorf("max msgs %d: must be positive", cfg.MaxMsgs))
	}
	if cfg.Replicas < 1 || cfg.Replicas > 5 {
		errs = append(errs, fmt.Errorf("replicas %d: must be 1 to 5", cfg.Replicas))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("nats publisher: %w", err)
	}
	// What the server has not answered is given up well before a relay's lease ends.
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncTimeout(10*time.Second))
	if err != nil {
		return nil, fmt.Errorf("nats publisher: %w", err)
	}
	return &Publisher{cfg: cfg, names: newNames(cfg.Prefix), js: js}, nil
}

// Publish hands the messages over in order and waits for the server's word on
// each. A message without a topic or a deduplication id, or too large, is
// relay.ErrRefused; any other failure is relay.ErrAway.
func (p *Publisher) Publish(ctx context.Context, ms []relay.Message) []error {
	errs := make([]error, len(ms))
	if err := p.ready(ctx); err != nil {
		for i, m := range ms {
			errs[i] = cmp.Or(check(m), away(err))
		}
		return errs
	}
	sent := make([]jetstream.PubAckFuture, len(ms))
	failed := false
	for i, m := range ms {
		if errs[i] = check(m); errs[i] == nil {
			sent[i], errs[i] = p.send(m)
		}
		failed = failed || errs[i] != nil
	}
	for i, future := range sent {
		if future == nil {
			continue
		}
		select {
		case <-future.Ok():
		case err := <-future.Err():
			errs[i], failed = p.judge(err), true
		case <-ctx.Done():
			errs[i], failed = away(ctx.Err()), true
		}
	}
	if !failed {
		return nil
	}
	return errs
}

// send gives a message to the connection. None is sent again by the library: the
// relay does that, in order.
func (p *Publisher) send(m relay.Message) (jetstream.PubAckFuture, error) {
	future, err := p.js.PublishMsgAsync(&nats.Msg{
		Subject: p.names.subject(m.Topic), Data: m.Payload,
		Header: nats.Header{nats.MsgIdHdr: {m.DedupID}, headEvent: {m.Event}, headKey: {m.Key}},
	}, jetstream.WithRetryAttempts(0))
	if err != nil {
		return nil, p.judge(err)
	}
	return future, nil
}

// judge says whose fault a failure is.
func (p *Publisher) judge(err error) error {
	if errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum) {
		return fmt.Errorf("%w: %w", relay.ErrRefused, err)
	}
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) {
		p.mu.Lock()
		p.stream = false // it may be gone: look before the next message
		p.mu.Unlock()
	}
	return away(err)
}

func away(err error) error { return fmt.Errorf("%w: %w", relay.ErrAway, err) }

func check(m relay.Message) error {
	if m.DedupID == "" || m.Topic == "" || strings.ContainsAny(m.Topic, " \t\r\n*>") {
		return fmt.Errorf("%w: no deduplication id or no topic", relay.ErrRefused)
	}
	return nil
}

// ready makes the stream, once.
func (p *Publisher) ready(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stream {
		return nil
	}
	_, err := ensure(ctx, p.js, p.names.stream(), p.names.all(), p.cfg.MaxMsgs, p.cfg.Replicas)
	p.stream = err == nil
	return err
}
