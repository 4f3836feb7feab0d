package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/waitroom-dev/waitroom/waitroom"
)

const (
	// promEvery is how often the expression is asked for, and promTimeout how long an
	// answer may take.
	promEvery   = time.Second
	promTimeout = 2 * time.Second
	// eventLabel tells whose load a sample is, where there are several.
	eventLabel = model.LabelName("event")
)

// Prometheus is a load that a Prometheus-compatible server computes: the value of
// one PromQL expression, from 0, idle, to 1, full. One sample without a label
// "event" is the load of every event; samples with one are those events' own.
// Anything else leaves the load unknown: no sample, several of one event, a value
// below zero or that is no number.
//
// A server that answers with the same moment again is frozen, or a cache before it:
// the figure keeps its first age, and grows stale. Whether the target behind it is
// still scraped is the server's to know: its samples end soon after it fails.
type Prometheus struct {
	api       promv1.API
	transport *http.Transport
	query     string

	mu     sync.Mutex // guards the fields below
	answer promAnswer
	moment time.Time // the server's, of the last answer
	at     time.Time // ours, when that moment was first seen
	had    map[waitroom.EventID]bool
}

// promAnswer is the last answer: what is wrong with it, or a value for all or by
// event.
type promAnswer struct {
	err  error
	all  *float64
	each map[waitroom.EventID]float64
}

// NewPrometheus checks the address and connects nothing.
func NewPrometheus(url, query string) (*Prometheus, error) {
	if query == "" {
		return nil, errors.New("prometheus: the query is empty")
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1, IdleConnTimeout: time.Minute}
	client, err := api.NewClient(api.Config{Address: url, RoundTripper: transport})
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	return &Prometheus{api: promv1.NewAPI(client), transport: transport, query: query, had: make(map[waitroom.EventID]bool), answer: promAnswer{err: errors.New("not asked yet")}}, nil
}

// Run asks until ctx ends. A server that is away is no reason to end.
func (p *Prometheus) Run(ctx context.Context) error {
	defer p.transport.CloseIdleConnections()
	return every(ctx, promEvery, p.ask)
}

// Forget drops what is known of an event that is deleted.
func (p *Prometheus) Forget(_ context.Context, event waitroom.EventID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.had, event)
	return nil
}

// Usage is the last answer's value for this event.
func (p *Prometheus) Usage(_ context.Context, ev waitroom.Event) (Reading, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answer.err != nil {
		return Reading{}, fmt.Errorf("prometheus: %w", p.answer.err)
	}
	r := Reading{At: p.at, Detail: "prometheus"}
	if v, ok := p.answer.each[ev.ID]; ok {
		r.Usage = v
		return r, nil
	}
	if p.answer.all == nil && p.had[ev.ID] {
		return Reading{}, errors.New("prometheus: the query gives no sample of this event any more")
	}
	if p.answer.all == nil {
		return Reading{}, ErrNoSignal // others have theirs, this one never had
	}
	r.Usage = *p.answer.all
	return r, nil
}

// ask is one query. An answer that did not come leaves the figure before, which
// grows old; one that makes no sense replaces it.
func (p *Prometheus) ask(ctx context.Context) {
	asked := time.Now()
	call, cancel := context.WithTimeout(ctx, promTimeout)
	defer cancel()
	value, _, _, err := p.api.Query(call, p.query, time.Time{}, promv1.WithTimeout(promTimeout))
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		refused, ok := errors.AsType[*promv1.Error](err)
		said := ok && refused.Type != promv1.ErrClient && refused.Type != promv1.ErrServer && refused.Type != promv1.ErrTimeout
		if said || p.at.IsZero() { // it says that the expression is wrong, or never said anything
			p.answer = promAnswer{err: err}
		}
		return
	}
	answer, moment := readValue(value)
	if !moment.Equal(p.moment) {
		p.moment, p.at = moment, asked
	}
	p.answer = answer
	for event := range answer.each {
		p.had[event] = true
	}
}

// readValue takes the samples apart.
func readValue(v model.Value) (promAnswer, time.Time) {
	wrong := func(format string, args ...any) (promAnswer, time.Time) {
		return promAnswer{err: fmt.Errorf(format, args...)}, time.Time{}
	}
	var samples model.Vector
	switch v := v.(type) {
	case *model.Scalar:
		samples = model.Vector{{Value: v.Value, Timestamp: v.Timestamp}}
	case model.Vector:
		samples = v
	default:
		return wrong("the query gives a %s, want one number", v.Type())
	}
	if len(samples) == 0 {
		return wrong("the query gives no sample")
	}
	a := promAnswer{each: make(map[waitroom.EventID]float64)}
	for _, s := range samples {
		value := float64(s.Value)
		event, labelled := s.Metric[eventLabel]
		_, twice := a.each[waitroom.EventID(event)]
		switch {
		case labelled && !twice:
			a.each[waitroom.EventID(event)] = value
		case !labelled && len(samples) == 1:
			a.all = &value
		default:
			return wrong("the query gives %d samples, want one, or one with a label event for each event", len(samples))
		}
	}
	return a, samples[0].Timestamp.Time()
}
