package main

import (
	"context"

	"github.com/waitroom-dev/waitroom/admission"
	"github.com/waitroom-dev/waitroom/ticket/number"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// buildNumbering makes what numbers the people of events with mode buffered, where
// this process works. One process does it at a time.
func (s *service) buildNumbering(context.Context) error {
	if s.store == nil || !s.cfg.has(roleWorker) {
		return nil
	}
	lease, err := admission.NewLease(admission.LeaseConfig{Prefix: keyPrefix + ":numbers"}, s.rdb, s.log)
	if err != nil {
		return err
	}
	numberer, err := number.New(number.Config{}, numberedLine{s.line, s.planter.ears, s.requests}, s.store, numberLease{lease}, s.log)
	if err != nil {
		return err
	}
	s.back = append(s.back, numberer.Run)
	return nil
}

// numberLease is the lease as the numberer sees it.
type numberLease struct{ lease *admission.Lease }

func (l numberLease) Run(ctx context.Context, lead func(context.Context, int64)) error {
	return l.lease.Run(ctx, func(ctx context.Context, term admission.Term) { lead(ctx, term.Fence) })
}

// numberedLine is the line as the numberer sees it.
type numberedLine struct {
	line *waitroom.Line
	ears *ears
	// requests wait in a queue of their own; nil: in the line's store only. What was
	// asked before there was one comes first.
	requests *outsideQueue
}

var _ number.Queue = numberedLine{}

func (l numberedLine) Events() []number.Event {
	var events []number.Event
	for _, ev := range l.ears.events() {
		if ev.Mode == waitroom.ModeBuffered {
			events = append(events, number.Event{ID: string(ev.ID), Winners: ev.Winners})
		}
	}
	return events
}

func (l numberedLine) Queued(ctx context.Context, event string, limit int) ([]number.Request, error) {
	waiting, err := l.line.Queued(ctx, waitroom.EventID(event), limit)
	if err == nil && len(waiting) == 0 && l.requests != nil {
		return l.requests.Queued(ctx, event, limit)
	}
	requests := make([]number.Request, len(waiting))
	for i, w := range waiting {
		requests[i] = number.Request{Record: w.Record, NumberRequest: numberRequest(w)}
	}
	return requests, err
}

func (l numberedLine) Numbered(ctx context.Context, event string, results []number.Result) error {
	done := make([]waitroom.NumberedRequest, len(results))
	for i, r := range results {
		record := r.Record
		if l.requests != nil && l.requests.Holds(record) {
			record = waitroom.Outside
		}
		done[i] = waitroom.NumberedRequest{Record: record, Result: waitroom.Result{Entry: waitroom.EntryID(r.Entry), Seq: r.Seq, Winner: r.Winner}}
	}
	if err := l.line.Numbered(ctx, waitroom.EventID(event), done); err != nil || l.requests == nil {
		return err
	}
	return l.requests.Done(ctx, event, l.requests.outside(results))
}
