package main

import (
	"context"
	"encoding/json"
	"math"
	"sync"
	"time"

	"github.com/waitroom-dev/waitroom/admission"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// sample is what an operator sees of an event each second.
type sample struct {
	Event    waitroom.EventID `json:"event"`
	State    waitroom.State   `json:"state"`
	Reason   string           `json:"reason,omitempty"`
	Now      string           `json:"now"` // the store's clock
	Waiting  int64            `json:"waiting"`
	Lanes    []laneSample     `json:"lanes,omitempty"`
	Inside   int64            `json:"inside"`
	Admitted int64            `json:"admitted"` // since the event was made
	// AdmittedPerS is how many were let in a second, over the last seconds.
	AdmittedPerS float64 `json:"admitted_per_s"`
	// RatePerS is what the operator set; Decision.RatePerS what the law makes of it.
	RatePerS  float64 `json:"rate_per_s"`
	MaxActive int     `json:"max_active"`
	// PassThrough is what the operator set; Decision.PassThrough what the leader does.
	PassThrough bool `json:"pass_through"`
	// PoolUsage is how loaded the site is, 0 to 1; absent while unknown.
	PoolUsage *float64            `json:"pool_usage,omitempty"`
	Decision  *admission.Standing `json:"decision,omitempty"`
	SeatsLeft *int64              `json:"seats_left,omitempty"`
	// EstimateKept is the share of a sample of people who were in by the P90 that they
	// were shown, of EstimateTold; absent before the first had their turn.
	EstimateKept *float64 `json:"estimate_kept,omitempty"`
	EstimateTold int64    `json:"estimate_told,omitempty"`
	// Sockets are those of the node that answers.
	Sockets int    `json:"sockets"`
	Node    string `json:"node"`
	Leading bool   `json:"leading"`
}

// laneSample is a lane of an event; Decision.Lanes says why it goes as it does.
type laneSample struct {
	waitroom.LaneCounts
	MaxActive    int     `json:"max_active"`
	AdmittedPerS float64 `json:"admitted_per_s"`
	// EtaS and EtaP90S are what somebody who joins the lane now would be told; absent
	// while there is no estimate.
	EtaS    *int64 `json:"eta_s,omitempty"`
	EtaP90S *int64 `json:"eta_p90_s,omitempty"`
}

// laneSamples are an event's lanes, in their order.
func (s *service) laneSamples(ev waitroom.Event) []laneSample {
	var lanes []laneSample
	for i, l := range ev.LaneCounts {
		out := laneSample{LaneCounts: l, MaxActive: ev.Lanes[i].MaxActive, AdmittedPerS: s.sampler.rate(ev.ID+"/"+waitroom.EventID(l.Name), ev.Now, l.Admitted)}
		if eta, p90, ok := s.view.Estimate(ev.ID, ev.LaneStart(i), l.Waiting+1); ok {
			seconds := func(d time.Duration) *int64 { return new(int64(math.Ceil(d.Seconds()))) }
			out.EtaS, out.EtaP90S = seconds(eta), seconds(p90)
		}
		lanes = append(lanes, out)
	}
	return lanes
}

// sampler remembers what it needs to tell a rate.
type sampler struct {
	mu     sync.Mutex // guards points
	points map[waitroom.EventID][]admittedPoint
}

// admittedPoint is how many had been let in by a moment of the store's clock.
type admittedPoint struct {
	at       time.Time
	admitted int64
}

// rateWindow is the time over which admissions are counted.
const rateWindow = 5 * time.Second

// rate takes one more point and tells the admissions a second over the window.
func (s *sampler) rate(id waitroom.EventID, now time.Time, admitted int64) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.points == nil {
		s.points = make(map[waitroom.EventID][]admittedPoint)
	}
	points := append(s.points[id], admittedPoint{now, admitted})
	for len(points) > 2 && now.Sub(points[1].at) > rateWindow {
		points = points[1:]
	}
	const most = 64 // askers may be many; the window needs few
	if len(points) > most {
		points = append(points[:1], points[len(points)-most/2:]...)
	}
	s.points[id] = points
	first := points[0]
	if span := now.Sub(first.at).Seconds(); span > 0 {
		return float64(max(0, admitted-first.admitted)) / span
	}
	return 0
}

// sample is what there is to see of an event right now, from this node's memory, as
// JSON.
func (s *service) sample(ctx context.Context, id waitroom.EventID) ([]byte, error) {
	ev, err := s.view.Event(ctx, id)
	if err != nil {
		return nil, err
	}
	out := sample{
		Event: id, State: ev.State, Reason: ev.Reason, Now: ev.Now.UTC().Format("2006-01-02T15:04:05.000Z"), Waiting: ev.Waiting, Inside: ev.Inside, Lanes: s.laneSamples(ev),
		Admitted: ev.Admitted, AdmittedPerS: s.sampler.rate(id, ev.Now, ev.Admitted),
		RatePerS: ev.RatePerS, MaxActive: ev.MaxActive, PassThrough: ev.PassThrough,
		Sockets: s.hub.Sockets(), Node: s.node, Leading: s.controller.Leading(),
	}
	if standing, ok := s.controller.Decision(id); ok {
		out.Decision = &standing
		if !math.IsNaN(standing.Usage) {
			out.PoolUsage = &standing.Usage
		}
	}
	if c, ok := s.view.Coverage(id); ok {
		out.EstimateKept, out.EstimateTold = &c.By90, c.Told
	}
	if left, ok := s.seatsLeft(id); ok {
		out.SeatsLeft = &left
	}
	return json.Marshal(out)
}
