package admission

import (
	"context"
	"math"
	"time"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// pacing is what the law remembers of one lane, or of an event without lanes, from tick
// to tick.
type pacing struct {
	state    State
	unserved int
	asked    int // at the last tick
	given    int
	turns    Turns
}

// resume goes on from what the leader before had decided, lane by lane.
func (r *run) resume(ev *waitroom.Event, heard Standing, known bool) {
	r.paces = make([]pacing, max(1, len(ev.Lanes)))
	if !known {
		return
	}
	for i := range r.paces {
		s := heard
		if len(ev.Lanes) > 0 {
			if i >= len(heard.Lanes) {
				return
			}
			s = heard.Lanes[i]
		}
		if s.Reason != ReasonNotOpen && s.Reason != ReasonUnknown {
			r.paces[i].state = Resume(s.RatePerS)
		}
	}
}

// decide decides on one lane, or on an event without lanes, and lets in.
func (r *run) decide(ctx context.Context, ev waitroom.Event, lane int) Standing {
	p := &r.paces[lane]
	asking, cancel := context.WithTimeout(ctx, r.cfg.Tick/2)
	load := gather(asking, r.deps.Sources, ev)
	cancel()
	d, state := Decide(Signals{
		Tick: r.tick, Open: r.open, Unserved: p.unserved,
		Burst:    ev.Burst > 0 && r.opened > 0 && time.Duration(r.tick-r.opened)*r.cfg.Tick < time.Second,
		Expected: load.expected, Known: load.known, Usage: load.usage, Wanted: load.wanted,
		Asked: p.asked, Given: p.given, Show: p.turns.Show(ev.Entered, ev.Unclaimed),
		Peers: r.shares.mean(ev.ID, ev.Lane),
	}, LimitsOf(ev.Settings, r.cfg.Tick), p.state)
	p.state, p.unserved = state, 0
	s := Standing{
		Event: ev.ID, Lane: ev.Lane, Decision: d, Load: load.detail, Signals: load.signals, Fence: r.term.Fence, Leader: r.cfg.Node,
		Waiting: ev.Waiting, Inside: ev.Inside, At: ev.Now, Head: r.head.Load(),
		PassThrough: r.open && ev.PassThrough,
	}
	if ev.Lane == "" && ev.Starts.On() && !ev.PassThrough {
		r.begins(ev, load, &s)
	}
	r.shares.note(ev, d, s.PassThrough)
	if s.PassThrough || d.N > 0 && ev.Waiting > 0 { // who joined since the last look passes too
		s = r.call(ctx, s, lane)
	}
	p.asked, p.given = d.N, s.Given
	return s
}

// together is an event by its lanes: what they let in is added up, and the reason is
// that of the one whose load is highest.
func together(ev waitroom.Event, lanes []Standing) Standing {
	s := lanes[0]
	s.Lane, s.Lanes = "", lanes
	s.N, s.RatePerS, s.Given, s.Waiting, s.Inside = 0, 0, 0, 0, 0
	for _, l := range lanes {
		s.N, s.RatePerS, s.Given = s.N+l.N, s.RatePerS+l.RatePerS, s.Given+l.Given
		s.Waiting, s.Inside = s.Waiting+l.Waiting, s.Inside+l.Inside
		if l.Usage > s.Usage || math.IsNaN(s.Usage) && !math.IsNaN(l.Usage) {
			s.Usage, s.Reason, s.Load, s.Signals = l.Usage, l.Reason, l.Load, l.Signals
		}
	}
	s.RatePerS = min(s.RatePerS, ev.RatePerS)
	return s
}
