package number

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
)

// Event is an event whose people are numbered, and the numbers that win.
type Event struct {
	ID      string
	Winners []int64
}

// Request waits for a number; Record is its place in the queue.
type Request struct {
	Record string
	ticket.NumberRequest
}

// Result is a request's number.
type Result struct {
	Record string
	ticket.Number
}

// Queue is where requests wait, in the order of their arrival. A broker's queue may
// take its place.
type Queue interface {
	Events() []Event
	// Queued are the first requests; they stay until Numbered.
	Queued(ctx context.Context, event string, limit int) ([]Request, error)
	// Numbered takes requests out, and tells their people.
	Numbered(ctx context.Context, event string, results []Result) error
}

// Books keep the numbers; *ticket.Store does.
type Books interface {
	Number(ctx context.Context, event string, fence int64, requests []ticket.NumberRequest, winners []int64) ([]ticket.Number, error)
}

// Leadership calls lead while this process may work, with a fence that only grows.
type Leadership interface {
	Run(ctx context.Context, lead func(ctx context.Context, fence int64)) error
}

// Config are the settings. The zero value of each means its default.
type Config struct {
	// Every is how often the queue is looked at. Default 20ms; 1ms to 1m.
	Every time.Duration
	// Limit is the most requests in one transaction. Default 256; 1 to 1000.
	Limit int
}

// Numberer numbers the queues of all events, while it leads.
type Numberer struct {
	cfg     Config
	queue   Queue
	books   Books
	leads   Leadership
	log     *zap.Logger
	failing map[string]bool // events whose last try failed; the term's own
}

// New checks the settings and starts nothing.
func New(cfg Config, queue Queue, books Books, leads Leadership, log *zap.Logger) (*Numberer, error) {
	cfg.Every = cmp.Or(cfg.Every, 20*time.Millisecond)
	cfg.Limit = cmp.Or(cfg.Limit, 256)
	if cfg.Every < time.Millisecond || cfg.Every > time.Minute {
		return nil, fmt.Errorf("numberer: every %v: must be 1ms to 1m", cfg.Every)
	}
	if cfg.Limit < 1 || cfg.Limit > 1000 {
		return nil, fmt.Errorf("numberer: limit %d: must be 1 to 1000", cfg.Limit)
	}
	return &Numberer{cfg: cfg, queue: queue, books: books, leads: leads, log: log.Named("number"), failing: make(map[string]bool)}, nil
}

// Run stands by and numbers in turn until ctx ends.
func (n *Numberer) Run(ctx context.Context) error { return n.leads.Run(ctx, n.lead) }

// lead works for one term.
func (n *Numberer) lead(ctx context.Context, fence int64) {
	tick := time.NewTicker(n.cfg.Every)
	defer tick.Stop()
	for {
		for _, ev := range n.queue.Events() {
			err := n.number(ctx, ev, fence)
			if errors.Is(err, ticket.ErrFenced) {
				return
			}
			n.note(ctx, ev.ID, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// number empties an event's queue.
func (n *Numberer) number(ctx context.Context, ev Event, fence int64) error {
	for {
		waiting, err := n.queue.Queued(ctx, ev.ID, n.cfg.Limit)
		if err != nil || len(waiting) == 0 {
			return err
		}
		requests := make([]ticket.NumberRequest, len(waiting))
		for i, w := range waiting {
			requests[i] = w.NumberRequest
		}
		numbers, err := n.books.Number(ctx, ev.ID, fence, requests, ev.Winners)
		if err != nil {
			return err
		}
		results := make([]Result, len(numbers))
		for i, number := range numbers {
			results[i] = Result{Record: waiting[i].Record, Number: number}
		}
		if err := n.queue.Numbered(ctx, ev.ID, results); err != nil {
			return err
		}
	}
}

// note says the first of a row of failures, and the recovery.
func (n *Numberer) note(ctx context.Context, event string, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil && !n.failing[event]:
		n.failing[event] = true
		n.log.Warn("nobody is numbered", zap.String("event", event), zap.Error(err))
	case err == nil && n.failing[event]:
		delete(n.failing, event)
		n.log.Info("people are numbered again", zap.String("event", event))
	}
}
