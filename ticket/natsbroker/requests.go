package natsbroker

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/number"
)

// ErrFull means that an event has as many requests in the queue as it may have.
var ErrFull = errors.New("the queue of requests is full")

// RequestsConfig says how a queue of requests is kept. The zero value of a field is
// its default.
type RequestsConfig struct {
	// Prefix begins the names of stream, subjects and consumers. Default "wr".
	Prefix string
	// Most is the most requests of one event that wait, if this queue makes the stream;
	// more are refused with ErrFull. Default 1,000,000.
	Most int64
	// Replicas of the stream, if this queue makes it. Default 1, at most 5.
	Replicas int
	// Timeout bounds each call of the server. Default 5s.
	Timeout time.Duration
}

// Requests are the requests for numbers of mode buffered, in a stream of their own with
// a subject for each event. Put may be called concurrently; the other methods are one
// numberer's.
type Requests struct {
	cfg   RequestsConfig
	names names
	js    jetstream.JetStream

	mu   sync.Mutex // guards made
	made bool       // the stream was there

	heads map[string]*head // by event; the numberer's own
}

// head is what was read of an event's queue and is not numbered yet.
type head struct {
	consumer jetstream.Consumer
	last     uint64 // the newest sequence that was read
	waiting  []waitingRequest
}

type waitingRequest struct {
	number.Request
	msg jetstream.Msg
}

// requestBody is a request on its way.
type requestBody struct {
	Entry   string `json:"entry"`
	Request string `json:"request"`
	Person  string `json:"person"`
}

// NewRequests makes a queue on a connection; the stream is made when it is needed.
func NewRequests(cfg RequestsConfig, conn *nats.Conn) (*Requests, error) {
	cfg.Most = cmp.Or(cfg.Most, 1_000_000)
	cfg.Replicas = cmp.Or(cfg.Replicas, 1)
	cfg.Timeout = cmp.Or(cfg.Timeout, 5*time.Second)
	var errs []error
	if cfg.Most < 0 {
		errs = append(errs, fmt.Errorf("most %d: must be positive", cfg.Most))
	}
	if cfg.Replicas < 1 || cfg.Replicas > 5 {
		errs = append(errs, fmt.Errorf("replicas %d: must be 1 to 5", cfg.Replicas))
	}
	if cfg.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout %s: must be positive", cfg.Timeout))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("nats requests: %w", err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("nats requests: %w", err)
	}
	return &Requests{cfg: cfg, names: newNames(cfg.Prefix), js: js, heads: make(map[string]*head)}, nil
}

// recordPrefix begins the records of this queue, so that those of another one are
// told apart.
const recordPrefix = "nats/"

// Holds tells whether a record is of this queue.
func (*Requests) Holds(record string) bool { return strings.HasPrefix(record, recordPrefix) }

// Put adds a request to an event's queue, and returns when the server has it. The same
// entry again within the duplicate window adds nothing; later, it is numbered once all
// the same. Errors: ErrFull, and whatever keeps the server from answering.
func (q *Requests) Put(ctx context.Context, event string, r ticket.NumberRequest) error {
	ctx, cancel := context.WithTimeout(ctx, q.cfg.Timeout)
	defer cancel()
	if err := q.ready(ctx); err != nil {
		return err
	}
	body, err := json.Marshal(requestBody{Entry: r.Entry, Request: r.Request, Person: r.Person})
	if err != nil {
		return fmt.Errorf("request of %s: %w", event, err)
	}
	_, err = q.js.PublishMsg(ctx, &nats.Msg{
		Subject: q.names.request(event), Data: body, Header: nats.Header{nats.MsgIdHdr: {event + "/" + r.Entry}},
	})
	const tooMany = 10077 // the server's code for what a stream does not take
	switch api := (&jetstream.APIError{}); {
	case errors.As(err, &api) && api.ErrorCode == tooMany:
		return fmt.Errorf("request of %s: %w: %w", event, ErrFull, err)
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		q.mu.Lock()
		q.made = false // it may be gone: look before the next one
		q.mu.Unlock()
	}
	if err != nil {
		return fmt.Errorf("request of %s: %w", event, err)
	}
	return nil
}

// ready makes the stream where there is none.
func (q *Requests) ready(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.made {
		return nil
	}
	_, err := q.js.Stream(ctx, q.names.requests())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = q.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: q.names.requests(), Subjects: []string{q.names.request("*")}, Storage: jetstream.FileStorage, Replicas: q.cfg.Replicas,
			Retention: jetstream.WorkQueuePolicy, Duplicates: duplicates,
			MaxMsgsPerSubject: q.cfg.Most, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
		})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another node was first
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", q.names.requests(), err)
	}
	q.made = true
	return nil
}

// Queued are an event's first requests, in the order of arrival; they stay until Done.
// Whoever reads first, or again after a failure, takes the event's one consumer away
// from whoever had it, and begins at the head: so what a numberer that died had in hand
// comes first, and at once.
func (q *Requests) Queued(ctx context.Context, event string, limit int) ([]number.Request, error) {
	ctx, cancel := context.WithTimeout(ctx, q.cfg.Timeout)
	defer cancel()
	h, err := q.head(ctx, event)
	if err == nil && len(h.waiting) < limit {
		err = h.read(ctx, limit)
	}
	if err != nil {
		delete(q.heads, event)
		return nil, fmt.Errorf("requests of %s: %w", event, err)
	}
	requests := make([]number.Request, min(limit, len(h.waiting)))
	for i := range requests {
		requests[i] = h.waiting[i].Request
	}
	return requests, nil
}

func (q *Requests) head(ctx context.Context, event string) (*head, error) {
	if h := q.heads[event]; h != nil {
		return h, nil
	}
	if err := q.ready(ctx); err != nil {
		return nil, err
	}
	if err := q.takeAway(ctx, event); err != nil {
		return nil, err
	}
	consumer, err := q.js.CreateConsumer(ctx, q.names.requests(), jetstream.ConsumerConfig{
		Durable: q.names.numberer(event) + rand.Text(), FilterSubject: q.names.request(event), DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour, MaxDeliver: -1, MaxAckPending: -1,
	})
	if err != nil {
		return nil, err
	}
	h := &head{consumer: consumer}
	q.heads[event] = h
	return h, nil
}

// takeAway ends the event's consumer, whoever has it. Each has a name of its own: whoever
// led before must fail to read on, and not take requests out of another's hands.
func (q *Requests) takeAway(ctx context.Context, event string) error {
	stream, err := q.js.Stream(ctx, q.names.requests())
	if err != nil {
		return err
	}
	var others []string
	all := stream.ConsumerNames(ctx)
	for name := range all.Name() {
		if strings.HasPrefix(name, q.names.numberer(event)) {
			others = append(others, name)
		}
	}
	err = all.Err()
	for _, name := range others {
		if gone := stream.DeleteConsumer(ctx, name); !errors.Is(gone, jetstream.ErrConsumerNotFound) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// unanswered is how long a server takes at most to say that nobody waits. Of a consumer
// that is gone it says nothing, and the client's patience, a second, ends like an answer.
const unanswered = 500 * time.Millisecond

// read reads on until limit requests wait or there are no more.
func (h *head) read(ctx context.Context, limit int) error {
	asked, had := time.Now(), h.last
	batch, err := h.consumer.FetchNoWait(limit - len(h.waiting))
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case m, more := <-batch.Messages():
			if !more {
				err := batch.Error()
				if err == nil && h.last == had && time.Since(asked) > unanswered {
					_, err = h.consumer.Info(ctx) // it may be taken away
				}
				return err
			}
			if err := h.take(m); err != nil {
				return err
			}
		}
	}
}

func (h *head) take(m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	if meta.Sequence.Stream <= h.last { // in hand already
		return nil
	}
	h.last = meta.Sequence.Stream
	var body requestBody
	if err := json.Unmarshal(m.Data(), &body); err != nil || body.Entry == "" {
		return m.Term() // not ours; it would stand in the way for ever
	}
	h.waiting = append(h.waiting, waitingRequest{msg: m, Request: number.Request{
		Record:        recordPrefix + strconv.FormatUint(meta.Sequence.Stream, 10),
		NumberRequest: ticket.NumberRequest{Entry: body.Entry, Request: body.Request, Person: body.Person},
	}})
	return nil
}

// Done takes requests out of an event's queue. One that comes back all the same (the
// word was lost, or the server was killed before it had written it down) is numbered once more, with the number that it has.
func (q *Requests) Done(_ context.Context, event string, records []string) error {
	h := q.heads[event]
	if h == nil {
		return nil
	}
	done := make(map[string]bool, len(records))
	for _, r := range records {
		done[r] = true
	}
	left := h.waiting[:0]
	var failed error
	for _, w := range h.waiting {
		if !done[w.Record] {
			left = append(left, w)
		} else if err := w.msg.Ack(); err != nil {
			failed = err
		}
	}
	clear(h.waiting[len(left):])
	h.waiting = left
	if failed != nil {
		delete(q.heads, event) // from the beginning: what is left is what the server says
		return fmt.Errorf("requests of %s: %w", event, failed)
	}
	return nil
}

// Forget takes all requests of an event that is deleted out of the queue, and out of the
// numberer's hands.
func (q *Requests) Forget(ctx context.Context, event string) error {
	ctx, cancel := context.WithTimeout(ctx, q.cfg.Timeout)
	defer cancel()
	if err := q.ready(ctx); err != nil {
		return err
	}
	stream, err := q.js.Stream(ctx, q.names.requests())
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(q.names.request(event)))
	}
	if err == nil {
		err = q.takeAway(ctx, event)
	}
	if err != nil {
		return fmt.Errorf("requests of %s: %w", event, err)
	}
	return nil
}
