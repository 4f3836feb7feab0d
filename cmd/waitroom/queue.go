package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/natsbroker"
	"github.com/waitroom-dev/waitroom/ticket/number"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// queueSchemes are the URLs that --queue takes.
var queueSchemes = []string{"nats", "tls"}

// openQueue makes the queue of mode buffered, where it is not the line's own store.
func (s *service) openQueue(context.Context) error {
	if s.cfg.Queue == "" {
		return nil
	}
	stream, err := openNATS(s.cfg.Queue, brokerDeps{s.node, s.log.Named("queue"), s.metrics})
	if err != nil {
		return usage(err)
	}
	s.closers = append(s.closers, stream.close)
	q, err := natsbroker.NewRequests(natsbroker.RequestsConfig{Prefix: keyPrefix, Replicas: stream.replicas}, stream.conn)
	if err != nil {
		return usage(err)
	}
	s.requests = &outsideQueue{q}
	return nil
}

// outsideQueue is a broker's queue as the line sees it.
type outsideQueue struct{ *natsbroker.Requests }

var _ waitroom.RequestQueue = (*outsideQueue)(nil)

// Put takes a request.
func (q *outsideQueue) Put(ctx context.Context, event waitroom.EventID, r waitroom.QueuedRequest) error {
	err := q.Requests.Put(ctx, string(event), numberRequest(r))
	if errors.Is(err, natsbroker.ErrFull) {
		return fmt.Errorf("%w: %w", waitroom.ErrBusy, err)
	}
	return err
}

// Forget drops what an event's people asked for.
func (q *outsideQueue) Forget(ctx context.Context, event waitroom.EventID) error {
	return q.Requests.Forget(ctx, string(event))
}

// numberRequest is a request as the books know it. A key is one person's: another's
// with the same one is another request.
func numberRequest(r waitroom.QueuedRequest) ticket.NumberRequest {
	return ticket.NumberRequest{Entry: string(r.Entry), Request: string(r.Entry) + "/" + r.Request, Person: r.Subject}
}

// outside are the records of an outside queue among the results of one batch.
func (q *outsideQueue) outside(results []number.Result) []string {
	var records []string
	for _, r := range results {
		if q.Holds(r.Record) {
			records = append(records, r.Record)
		}
	}
	return records
}
