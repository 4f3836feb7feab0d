package admission

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Why a decision is what it is, and the values of Decision.Reason.
const (
	// ReasonRate: the event's own rate; the load asks for no less.
	ReasonRate = "rate"
	// ReasonBusy: a step of the law is in force.
	ReasonBusy = "database_busy"
	// ReasonUnknown: the load is not known; the rate is the floor.
	ReasonUnknown = "load_unknown"
	// ReasonRecovering: the load allows more, and the rate climbs to it.
	ReasonRecovering = "recovering"
	// ReasonTarget: the usage is at its set point, and the rate keeps it there.
	ReasonTarget = "target"
	// ReasonNotOpen: nobody is let in in the event's state.
	ReasonNotOpen = "not_open"
)

const (
	// hysteresis is how far the usage must fall below a step before the step ends:
	// else a load right at a step would flip the rate every tick.
	hysteresis = 0.05
	// recovery is the time in which the rate climbs from nothing to the event's own.
	// People who were let in load the site some seconds later, so a rate that jumped
	// back would meet its own effect too late.
	recovery = 5 * time.Second
	// micro is a person in the carried fractions. They are whole numbers, since sums
	// of binary fractions drift.
	micro = 1_000_000
	// maxRate is the highest rate that is decided on, far above any event's.
	maxRate = 10_000_000
)

// Signals are what is known at one tick.
type Signals struct {
	// Tick numbers the ticks of this leadership, missed ones counted: a tick is
	// decided once, and one that was missed is never made up for.
	Tick int64
	// Open is whether anybody is let in in the event's state.
	Open bool
	// Unserved is how many of the tick before were asked for and held back by the
	// store's cap alone, whose clock ticks a little apart from the loop's. They are
	// asked for again, if this tick follows that one at once.
	Unserved int
	// Burst is true in the second after an opening that has a burst: the store adds
	// it to a call, so that there must be one even where the rate alone makes nobody.
	Burst bool
	// Expected is whether there should be a load figure at all. An event that sells
	// nothing here and whose site never reported has none, and then only its own
	// rate counts, as with law none.
	Expected bool
	// Known is whether a figure was had that is not too old; Usage is the highest of
	// those. A Usage that is negative or no number counts as not known.
	Known bool
	Usage float64
	// Wanted is the highest of the figures that the target law goes by: connections
	// wanted over connections there are, where a source knows them; 0 is the Usage.
	Wanted float64
	// Asked and Given are the tick before: how many it allowed, and how many were let in.
	Asked, Given int
	// Peers is the mean rate of all events, this one among them, that load the same site,
	// go by law target, and have people for whom they find no room: the rates move
	// towards it, so that what the site can bear is shared evenly whoever opened first.
	// 0: there are no others.
	Peers float64
	// Show is the share of turns that are used, by this event's own claims; 0: not
	// known, and all are.
	Show float64
}

// Limits are an event's settings as far as the law needs them.
type Limits struct {
	Tick      time.Duration
	RatePerS  float64
	Burst     int
	Law       string // "steps", "target" or "none"
	Steps     []Step
	Target    float64 // the usage that law target keeps
	FloorPerS float64
}

// Step bounds the rate from a usage on.
type Step struct{ At, RatePerS float64 }

// State is what one decision hands to the next. The zero value is a new leader's.
type State struct {
	tick    int64   // the last tick decided
	begun   bool    // tick is set
	carry   int64   // millionths of a person, below one whole person
	level   int     // steps in force
	bound   float64 // people a second that the load allows, while bounded
	bounded bool
	met     bool // a good figure was had before
	target  targetState
}

// Resume is the state of a new leader that heard what rate the one before it had
// decided on: law target goes on from there instead of from the beginning.
func Resume(ratePerS float64) State {
	return State{target: targetState{heard: rate(ratePerS)}}
}

// Decision is how many to let in now, and why.
type Decision struct {
	// N is how many to promote in this tick.
	N int
	// RatePerS is the rate behind N.
	RatePerS float64
	Reason   string
	// Usage is the figure that it is based on, 0 to 1; NaN when unknown.
	Usage float64
}

// Decide is the control law: how many people to let in at this tick. It is pure.
//
// The event's own rate is the upper bound, whatever the load. Each step from whose
// usage on the figure lies bounds it further, until the figure is 0.05 below the
// step. An unknown figure bounds it to the floor. A bound falls at once and climbs
// back in five seconds. With law target the bound is the rate that keeps the usage at
// the target (rate_target.go). Fractions of people are carried to the next tick; what a
// missed tick would have brought is gone.
func Decide(sig Signals, lim Limits, st State) (Decision, State) {
	own := rate(lim.RatePerS)
	usage, known := sig.usage()
	fresh := !st.begun || sig.Tick > st.tick
	limit, reason := math.Inf(1), ReasonRate
	dt := 0.0
	if fresh {
		dt = lim.Tick.Seconds()
	}
	switch {
	case lim.Law != lawSteps && lim.Law != lawTarget || !sig.Expected:
		st.level, st.bounded, st.target = 0, false, targetState{}
	case !known:
		limit, reason = rate(lim.FloorPerS), ReasonUnknown
		st.target = st.target.missing(dt)
	case lim.Law == lawTarget:
		st.level, st.bounded = 0, false
		limit, st.target = st.target.next(sig, sig.wanted(usage), dt, lim)
		if limit < own {
			reason = st.target.reason(lim.Target)
		}
	default:
		st.target = targetState{}
		st.level = level(lim.steps(), usage, st.level)
		for _, s := range lim.steps()[:st.level] {
			limit = min(limit, rate(s.RatePerS))
		}
		if limit < own {
			reason = ReasonBusy
		}
	}
	r := min(own, limit)
	if lim.Law != lawTarget {
		st = st.follow(limit, own, own*dt/recovery.Seconds(), known)
		if r = own; st.bounded && st.bound < own {
			r = st.bound
			if r < limit && known {
				reason = ReasonRecovering
			}
		}
	}
	d := Decision{RatePerS: r, Reason: reason, Usage: usage}
	if !sig.Open {
		d.RatePerS, d.Reason = 0, ReasonNotOpen
		st.carry = 0
	} else if fresh {
		d.N, st = st.count(d.RatePerS, sig, lim.Tick)
		if sig.Burst && !st.bounded && reason != ReasonUnknown {
			d.N = max(d.N, 1)
		}
	}
	if fresh {
		st.tick, st.begun = sig.Tick, true
	}
	return d, st
}

// The names of the laws; any other law bounds nothing.
const (
	lawSteps  = "steps"
	lawTarget = "target"
)

// wanted is the figure that the target law goes by.
func (s Signals) wanted(usage float64) float64 {
	if s.Wanted > 0 && s.Wanted <= math.MaxFloat64 {
		return min(s.Wanted, 1)
	}
	return usage
}

// usage is the figure to go by, and whether there is one. More than full is full.
func (s Signals) usage() (float64, bool) {
	if !s.Known || math.IsNaN(s.Usage) || math.IsInf(s.Usage, 0) || s.Usage < 0 {
		return math.NaN(), false
	}
	return min(s.Usage, 1), true
}

// steps are in the order of their usages.
func (l Limits) steps() []Step {
	byUsage := func(a, b Step) int { return cmp.Compare(a.At, b.At) }
	if slices.IsSortedFunc(l.Steps, byUsage) {
		return l.Steps
	}
	return slices.SortedFunc(slices.Values(l.Steps), byUsage)
}

// level is how many of the steps are in force: each from its usage on, until the
// figure is clearly below it again.
func level(steps []Step, usage float64, before int) int {
	n := 0
	for i, s := range steps {
		if usage >= s.At || (i < before && usage >= s.At-hysteresis) {
			n = i + 1
		}
	}
	return n
}

// follow moves the bound towards the limit: down at once, up by no more than climb. A first good figure after a start has nothing to
// recover from.
func (s State) follow(limit, own, climb float64, known bool) State {
	switch {
	case !s.bounded && math.IsInf(limit, 1):
	case !s.bounded || limit <= s.bound, known && !s.met:
		s.bound, s.bounded = limit, true
	default:
		s.bound = min(limit, s.bound+climb)
	}
	if s.bounded && math.IsInf(limit, 1) && s.bound >= own {
		s.bounded, s.bound = false, 0
	}
	s.met = s.met || known
	return s
}

// count turns the rate into people, and keeps the fraction for the next tick.
func (s State) count(r float64, sig Signals, tick time.Duration) (int, State) {
	worth := int64(math.Round(r * tick.Seconds() * micro))
	if worth == 0 {
		s.carry = 0
		return 0, s
	}
	sum := s.carry + worth
	if sig.Unserved > 0 && s.begun && sig.Tick == s.tick+1 {
		// A tick of a slow rate is worth less than the one person that it was short of.
		sum += min(int64(sig.Unserved)*micro, max(worth, micro))
	}
	s.carry = sum % micro
	return int(sum / micro), s
}

// rate makes a setting safe to count with.
func rate(r float64) float64 {
	if math.IsNaN(r) || r < 0 {
		return 0
	}
	return min(r, maxRate)
}
