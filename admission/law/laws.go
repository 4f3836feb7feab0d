package law

import (
	"math"

	"github.com/waitroom-dev/waitroom/admission"
)

// view is what a law sees at a tick.
type view struct {
	usage        float64
	open         bool
	own, floor   float64 // people a second
	target       float64
	asked, given float64 // people, the tick before
	entered      float64 // people inside who have come
	promised     float64 // people inside who have not, yet or ever
	peers        float64 // mean rate of the laws that share the site; 0: alone
}

// law is a rate from what is seen, tick after tick.
type law interface{ rate(v view) float64 }

// contestant is a law that is compared.
type contestant struct {
	name string
	make func() law
}

// contestants are the laws, the chosen one first. Each loser has the gains that did
// best on the grid.
func contestants() []contestant {
	return []contestant{
		{"target", func() law { return &chosen{} }},
		{"pi", func() law { return &pi{kp: 2, ki: 0.01} }},
		{"aimd", func() law { return &aimd{up: 0.0002, down: 0.85, every: 60} }},
		{"smith", func() law { return &smith{lag: 45, pace: 0.01} }},
		{"little", func() law { return &little{} }},
		{"steps", func() law { return &steps{} }},
	}
}

// chosen is the law that runs: admission.Decide with law target.
type chosen struct {
	st   admission.State
	tick int64
}

func (c *chosen) rate(v view) float64 {
	c.tick++
	d, st := admission.Decide(
		admission.Signals{
			Tick: c.tick, Open: v.open, Expected: true, Known: true, Usage: v.usage,
			Asked: int(math.Round(v.asked * grain)), Given: int(math.Round(v.given * grain)), Peers: v.peers,
		},
		admission.Limits{
			Tick: admission.DefaultTick, RatePerS: v.own, FloorPerS: v.floor, Law: "target", Target: v.target,
		}, c.st)
	c.st = st
	return d.RatePerS
}

const (
	// grain makes whole numbers of the fluid's people; only their ratio counts.
	grain = 1e6
)

// steps is system A's table.
type steps struct {
	st   admission.State
	tick int64
}

func (s *steps) rate(v view) float64 {
	s.tick++
	d, st := admission.Decide(
		admission.Signals{Tick: s.tick, Open: v.open, Expected: true, Known: true, Usage: v.usage},
		admission.Limits{
			Tick: admission.DefaultTick, RatePerS: v.own, FloorPerS: v.floor, Law: "steps",
			Steps: []admission.Step{{At: 0.8, RatePerS: v.own * 0.4}, {At: 0.9, RatePerS: 0}},
		}, s.st)
	s.st = st
	return d.RatePerS
}

// pi is a proportional-integral law in velocity form on the logarithm of the rate,
// so that its gain fits a site of any size. Where less is used than it allows, it
// does not climb (anti-windup).
type pi struct {
	kp, ki float64
	r, e   float64
	begun  bool
}

func (p *pi) rate(v view) float64 {
	e := (v.target - v.usage) / v.target
	if !p.begun {
		p.begun, p.r, p.e = true, max(v.floor, v.own*0.01), e
	}
	step := p.kp*(e-p.e)*tick + p.ki*e*tick
	p.e = e
	if step < 0 || v.given >= v.asked/2 {
		p.r *= math.Exp(step)
	}
	p.r = min(max(p.r, v.floor), v.own)
	return p.r
}

// aimd adds a part of the event's own rate a second, and at most every so often
// takes a part of its rate away.
type aimd struct {
	up, down, every float64
	r, since        float64
}

func (a *aimd) rate(v view) float64 {
	if a.r == 0 {
		a.r = max(v.floor, v.own*0.01)
	}
	a.since += tick
	switch {
	case v.usage > v.target:
		if a.since >= a.every {
			a.r, a.since = a.r*a.down, 0
		}
	case v.given >= v.asked/2:
		a.r += v.own * a.up * tick
	}
	a.r = min(max(a.r, v.floor), v.own)
	return a.r
}

// smith is a Smith predictor: it takes the lag for known, and what one person loads
// for the usage over the rate of a lag ago.
type smith struct {
	lag, pace float64
	r         float64
	past      []float64
	i         int
}

func (s *smith) rate(v view) float64 {
	if s.past == nil {
		s.r = max(v.floor, v.own*0.01)
		s.past = make([]float64, int(s.lag/tick))
		for i := range s.past {
			s.past[i] = s.r
		}
	}
	coming := v.usage * s.r / s.past[s.i]
	if coming > v.target || v.given >= v.asked/2 {
		s.r *= math.Exp(s.pace * min(1, max(-2, 1-coming/v.target)) * tick)
	}
	s.r = min(max(s.r, v.floor), v.own)
	s.past[s.i] = s.r
	s.i = (s.i + 1) % len(s.past)
	return s.r
}

// little goes by Little's law: it learns what one session takes of the pool from
// those who have come, and lets in until those inside, promised turns counted,
// would take the target.
type little struct{ cost float64 }

func (l *little) rate(v view) float64 {
	if v.entered > 1 && v.usage > 0.05 && v.usage < 0.95 {
		if l.cost == 0 {
			l.cost = v.usage / v.entered
		}
		l.cost += (v.usage/v.entered - l.cost) * tick / 20
	}
	if l.cost <= 0 {
		return max(v.floor, v.own*0.01)
	}
	room := v.target/l.cost - v.entered - v.promised
	return min(max(room/10, v.floor), v.own)
}
