package admission

import (
	"math"
	"slices"
)

// The target law keeps the usage at a set point although whoever is let in loads the
// site only after a time that nobody tells the law: 5 to 60 s.
//
// It does not guess that time, it bounds it. Once everybody under way has arrived,
// the usage will be that of now times the rate of now over the rate of then; and
// "then" is some moment of the last minute. The largest and the smallest rate of
// that minute give the least and the most that may be coming. The rate climbs only
// while even the most is below the target, and falls while even the least is above
// it. So turns that are promised and not used yet count as load, an effect that is
// still on its way is never taken for none, and once the rate has stood still for a
// minute least and most are one. All of it is ratios: how much of the site one
// person takes need not be known, and may change.
//
// The constants are those that came out best on the grid of package law, whose
// documentation has the comparison with the laws that lost.
const (
	// horizon is the longest time in seconds from an admission to its full load: a
	// minute, and what smoothing and a purchase add.
	horizon = 75
	// climbing is the pace at which the rate grows, parts a second; blind is the pace
	// while no load is seen yet, so that what is let in before the first effect is
	// seen stays within bounds.
	climbing, blind = 0.05, 0.015
	// falling is the pace of going down per part above the target; easing is that
	// while only the most that may come is above.
	falling, easing = 0.12, 0.02
	// unseen is the usage below which no load is seen yet.
	unseen = 0.03
	// smoothing is the time in seconds over which the usage is averaged.
	smoothing = 4
	// band is how far from the target the usage may be coming without an answer, and
	// ease how far above it the most may, as a part of it.
	band, ease = 0.015, 1.1
	// full is the usage from which a pool says no more than "at least this". What it
	// is taken for grows with the seconds that it lasts, up to worst.
	full, excess, worst, lasting = 0.95, 1.4, 4, 30
	// first is the part of its own rate with which an event begins of whose load
	// nothing was learnt yet, unless the floor is higher.
	first = 0.01
	// swing is the least time in seconds in which the rate goes from nothing to the
	// event's own.
	swing = 60
	// forgotten is after how many seconds of unknown load the bound is learnt anew.
	forgotten = 60
	// sharing is the pace, parts of the way a second, at which events that load the same
	// site come to let in as many each.
	sharing = 1.0 / 240
	// leastShow is the least share of turns that are used that is reckoned with.
	leastShow = 0.2
)

// targetState is what the target law remembers. Rates are of people who will use
// their turn, a second. The zero value has learnt nothing.
type targetState struct {
	begun       bool
	bound       float64          // the rate that the load allows
	usage       float64          // smoothed; NaN before the first
	busy        float64          // seconds for which the usage has been full
	past, taken [horizon]float64 // of each of the last seconds: the bound, and what was used of it
	newest      int              // the place of the last second in them
	low, high   float64          // the least and the highest bound in past
	least       float64          // the least in taken
	part        float64          // of the second that runs
	asked, used float64          // smoothed people a tick: allowed, and let in
	lost        float64          // seconds for which the load has been unknown
	back        float64          // the rate on its way back to the bound after that; 0: is there
	show        float64          // share of turns that are used
	heard       float64          // what the leader before let in a second; 0: not known
}

// resume is a law that has been at a bound for a long time.
func (s targetState) resume(bound float64) targetState {
	s = targetState{begun: true, bound: bound, usage: math.NaN(), show: s.show}
	for i := range s.past {
		s.past[i], s.taken[i] = bound, bound
	}
	s.low, s.high, s.least = bound, bound, bound
	return s
}

// next is the rate of this tick of dt seconds, before the event's own bounds it.
func (s targetState) next(sig Signals, usage, dt float64, lim Limits) (float64, targetState) {
	s.show = 1
	if sig.Show > 0 && sig.Show <= 1 {
		s.show = max(leastShow, sig.Show)
	}
	own, floor := rate(lim.RatePerS)*s.show, min(rate(lim.FloorPerS), rate(lim.RatePerS))*s.show
	if !s.begun && s.heard > 0 {
		s = s.resume(min(s.heard*s.show, own))
	}
	if !s.begun {
		s = s.resume(max(floor, own*first))
	}
	if s.lost > 0 {
		s = s.recover(usage, own, floor, lim.Target)
	}
	if sig.Open && dt > 0 {
		s = s.note(float64(sig.Asked), float64(sig.Given), dt)
		s = s.follow(usage, lim.Target, own, dt)
		if sig.Peers > 0 {
			s.bound += (sig.Peers*s.show - s.bound) * sharing * dt
		}
	}
	s.bound = min(max(s.bound, floor), own)
	if s.back > 0 {
		if s.back += own / swing * dt; s.back < s.bound && s.usage <= lim.Target {
			return s.back / s.show, s
		}
		s = s.resume(min(s.bound, s.back))
	}
	return s.bound / s.show, s
}

// missing is a tick without a figure: what was learnt is kept for a while.
func (s targetState) missing(dt float64) targetState {
	if s.begun {
		s.lost += dt
		s.back = 0
	}
	return s
}

// recover goes back to what was learnt, in steps from the floor; after a long time
// it is learnt anew.
func (s targetState) recover(usage, own, floor, target float64) targetState {
	if s.lost >= forgotten {
		return s.resume(max(floor, own*first))
	}
	s.lost, s.usage = 0, usage
	if s.back = max(floor, own*first); s.back >= s.bound || usage > target {
		s = s.resume(min(s.bound, s.back))
	}
	return s
}

// note takes in how many of the tick before were asked for and let in, and moves
// the past on.
func (s targetState) note(asked, given, dt float64) targetState {
	part := min(1, dt/5)
	s.asked += (asked - s.asked) * part
	s.used += (given - s.used) * part
	if s.part += dt; s.part >= 1-1e-9 {
		s.part = 0
		s.newest = (s.newest + 1) % horizon
		s.past[s.newest], s.taken[s.newest] = s.bound, s.bound*s.use()
		s.low, s.high, s.least = slices.Min(s.past[:]), slices.Max(s.past[:]), slices.Min(s.taken[:])
	}
	return s
}

// use is the part of what is allowed that is really let in: less than one where few
// wait, or where another limit holds them back.
func (s targetState) use() float64 {
	if s.asked <= 0 || s.used >= s.asked {
		return 1
	}
	return s.used / s.asked
}

// coming is the least and the most that the usage may be once everybody who was let
// in has arrived.
func (s targetState) coming() (least, most float64) {
	if s.bound <= 0 || s.low <= 0 {
		return s.usage, s.usage
	}
	return s.usage * s.bound / max(s.bound, s.high), s.usage * s.bound / min(s.bound, s.low)
}

// atMost is the most that the usage may be once everybody has arrived and all that is
// allowed is used: what nobody used in the last minute teaches nothing.
func (s targetState) atMost() float64 {
	if s.least <= 0 {
		return math.Inf(1)
	}
	return s.usage * s.bound / min(s.bound, s.least)
}

// follow moves the bound by one tick.
func (s targetState) follow(usage, target, own, dt float64) targetState {
	if math.IsNaN(s.usage) {
		s.usage = usage
	}
	s.usage += (usage - s.usage) * min(1, dt/smoothing)
	least, most := s.coming()
	if s.usage >= full {
		s.busy += dt
		least *= min(worst, excess+s.busy/lasting)
	} else {
		s.busy = 0
	}
	switch {
	case s.atMost() < target-band && s.use() >= 0.5:
		pace := climbing
		if s.usage < unseen {
			pace = blind
		}
		s.bound += min(s.bound*pace*min(1, 2*(1-most/target)), own/swing) * dt
	case least > target+band:
		s.bound -= s.bound * falling * min(1, least/target-1) * dt
	case most > target*ease:
		s.bound -= s.bound * easing * min(1, most/target-ease) * dt
	}
	return s
}

// reason says why the bound is below the event's own rate.
func (s targetState) reason(target float64) string {
	switch _, most := s.coming(); {
	case s.usage > target+2*band:
		return ReasonBusy
	case s.back > 0 || most < target-2*band:
		return ReasonRecovering
	}
	return ReasonTarget
}

// Turns measures which share of the turns are used, from an event's own counts.
type Turns struct {
	begun              bool
	entered, unclaimed int64
	share              float64
}

// memory is how many claims the share of used turns goes back.
const memory = 200

// Show takes in the counts of now: those who came and those whose claim time ended.
// The share is 0 while nothing is known.
func (c *Turns) Show(entered, unclaimed int64) float64 {
	came, missed := entered-c.entered, unclaimed-c.unclaimed
	n := came + missed
	if !c.begun || came < 0 || missed < 0 { // all there is, or an event of the same name
		*c = Turns{share: 1}
		came, missed = entered, unclaimed
		n = came + missed
	}
	if n > 0 {
		c.share += (float64(came)/float64(n) - c.share) * float64(n) / float64(n+memory)
		c.begun = true
	}
	c.entered, c.unclaimed = entered, unclaimed
	if !c.begun {
		return 0
	}
	return c.share
}
