package natsbroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/relay"
)

// Tail shows this node every message. A tail is no member of a group: each node
// sees them all.
type Tail struct {
	names names
	js    jetstream.JetStream
	each  func(relay.Message)
	log   *zap.Logger
	block time.Duration
}

// NewTail makes a tail that calls each for every message, which must not block;
// block is how long one fetch waits, 0 for 500ms. Run starts it.
func NewTail(prefix string, block time.Duration, conn *nats.Conn, each func(relay.Message), log *zap.Logger) (*Tail, error) {
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("nats tail: %w", err)
	}
	return &Tail{names: newNames(prefix), js: js, each: each, log: log.Named("tail"), block: cmp.Or(block, 500*time.Millisecond)}, nil
}

// reanchor is how often the tail checks that the stream it reads is still the one
// that it knows.
const reanchor = 5 * time.Second

// reading is where a tail is.
type reading struct {
	begun    bool
	last     uint64 // the last message seen
	anchored time.Time
	consumer jetstream.Consumer
}

// Run shows messages from now on until ctx ends.
func (t *Tail) Run(ctx context.Context) error {
	var r reading
	failures := 0
	for ctx.Err() == nil {
		err := t.anchor(ctx, &r)
		if err == nil {
			err = t.read(&r)
		}
		if err == nil {
			failures = 0
			continue
		}
		if ctx.Err() == nil {
			failures++
			r.consumer = nil
			t.log.Warn("broker away", zap.Int("failures", failures), zap.Error(err))
			pause(ctx, backoff(failures))
		}
	}
	return nil
}

// anchor finds the stream's end when the tail starts, and a consumer behind the
// last message seen. A stream that ends before that is a new one, and is read from
// its beginning.
func (t *Tail) anchor(ctx context.Context, r *reading) error {
	if r.consumer != nil && time.Since(r.anchored) < reanchor {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	stream, err := ensure(ctx, t.js, t.names.stream(), t.names.all(), 1_000_000, 1)
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	switch {
	case !r.begun:
		r.begun, r.last = true, info.State.LastSeq
	case info.State.LastSeq < r.last:
		r.last, r.consumer = 0, nil
	}
	r.anchored = time.Now()
	if r.consumer != nil {
		return nil
	}
	r.consumer, err = stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: r.last + 1,
	})
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	return nil
}

func (t *Tail) read(r *reading) error {
	batch, err := r.consumer.Fetch(500, jetstream.FetchMaxWait(t.block))
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		if meta.Sequence.Stream > r.last { // one that was fetched twice is old
			r.last = meta.Sequence.Stream
			t.each(t.names.message(m))
		}
	}
	if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
		return fmt.Errorf("read the stream: %w", err)
	}
	return nil
}

// Log reads what the stream holds, for an audit.
type Log struct {
	names names
	js    jetstream.JetStream
}

var _ ticket.BrokerLog = (*Log)(nil)

// NewLog makes a reader of the stream under a prefix, "" for the default "wr".
func NewLog(prefix string, conn *nats.Conn) (*Log, error) {
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("nats log: %w", err)
	}
	return &Log{names: newNames(prefix), js: js}, nil
}

// Records calls each for every message that the stream holds when it is called,
// oldest first. Only headers are read.
func (l *Log) Records(ctx context.Context, each func(ticket.LogRecord)) error {
	stream, err := l.js.Stream(ctx, l.names.stream())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	last := stream.CachedInfo().State.LastSeq
	if stream.CachedInfo().State.Msgs == 0 {
		return nil
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy, HeadersOnly: true})
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	for at := uint64(0); at < last; {
		batch, err := consumer.Fetch(500, jetstream.FetchMaxWait(2*time.Second))
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		got := false
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			if err != nil {
				return fmt.Errorf("read the stream: %w", err)
			}
			if at >= last {
				continue
			}
			got = true
			at = meta.Sequence.Stream
			if meta.NumPending == 0 {
				last = at // the last ones were dropped meanwhile
			}
			x := l.names.message(m)
			each(ticket.LogRecord{Event: x.Event, DedupID: x.DedupID, Key: x.Key, Topic: x.Topic, At: meta.Timestamp})
		}
		if !got {
			return fmt.Errorf("read the stream: nothing came behind message %d of %d: %w", at, last, errors.Join(batch.Error(), ctx.Err()))
		}
	}
	return nil
}
