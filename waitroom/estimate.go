package waitroom

import (
	"math"
	"time"
)

// maxEstimate is the longest wait that is told; beyond it nobody knows.
const maxEstimate = 24 * time.Hour

// Flow is how fast a line moves, as far as it is known.
type Flow struct {
	// PerS is how many are let in a second: the event's cap, or what was really let
	// in, whichever is lower. 0: nobody.
	PerS float64
	// Spread is how uneven that is: the standard deviation of the rate, as a part of it.
	Spread float64
	// HalfOff and MostOff are what the event's own estimates have taught: the logarithms
	// of the factors by which the two times have to be longer (or, below zero, shorter)
	// so that half and nine of ten are in by then. 0: nothing. They count from -0.3 to 0.25.
	HalfOff, MostOff float64
}

// Estimate is how long the person at a position (1 is the front) has yet to wait: a
// time that half of the people in that position stay below, and one that nine of
// ten do, in whole seconds from one up. There is none, and ok is false, while the
// line does not move, when a number is not sound, and beyond a day.
//
// The number let in while one waits varies for two reasons: by chance from person
// to person, which matters near the front (a deviation of √pos), and with the rate
// as a whole, which matters far behind (Spread).
func Estimate(pos int64, f Flow) (eta, p90 time.Duration, ok bool) {
	half, most, ok := f.plain(pos)
	if !ok || math.IsNaN(f.HalfOff) || math.IsNaN(f.MostOff) {
		return 0, 0, false
	}
	most = corrected(most, f.MostOff)
	half = min(corrected(half, f.HalfOff), most)
	if half > maxEstimate.Seconds() {
		return 0, 0, false
	}
	return whole(half), min(whole(most), maxEstimate), true
}

// plain is what the pace alone says of a position, in seconds.
func (f Flow) plain(pos int64) (half, most float64, ok bool) {
	if pos < 1 || !(f.PerS > 0) || math.IsInf(f.PerS, 0) || !(f.Spread >= 0) {
		return 0, 0, false
	}
	const quantile90 = 1.2816 // of the normal distribution
	n := float64(pos)
	half = n / f.PerS
	return half, half*(1+quantile90*min(f.Spread, 1)) + quantile90*math.Sqrt(n)/f.PerS, true
}

// leastOff and mostOff bound what is learnt: an estimate is never cut to less than
// 74 % of what the pace says, nor longer by more than 28 %. Much that is late at once
// tells of one event, such as a site that broke down, not of the next hour.
const (
	leastOff = -0.3
	mostOff  = 0.25
)

func corrected(seconds, off float64) float64 {
	return seconds * math.Exp(min(max(off, leastOff), mostOff))
}

// whole rounds up to a second; it stays far from what a Duration holds.
func whole(seconds float64) time.Duration {
	return time.Duration(max(1, math.Ceil(min(seconds, 10*maxEstimate.Seconds())))) * time.Second
}

const (
	// paceWindow is how far back a rate is looked for, and paceLongest how far where
	// so few are let in that a window would be empty between two of them.
	paceWindow  = 30
	paceLongest = 300
	// paceLeast is how many seconds must have been seen before they say anything.
	paceLeast = 3
	// paceSpread is the unevenness that is assumed until one was seen.
	paceSpread = 0.25
)

// pace is how many were let in in each of the last seconds by the event's clock,
// and whether somebody waited all through it. Only such seconds tell how fast the
// line moves: in the others, it was the arrivals that were slow.
type pace struct {
	seconds [paceLongest]paceSecond
	newest  int64
}

type paceSecond struct {
	admitted int64
	waited   bool
	polls    int
}

// at is the second of a moment (ms), or nil for one that is too long ago.
func (p *pace) at(moment int64) *paceSecond {
	s := moment / 1000
	if s <= p.newest-paceLongest || s < 0 {
		return nil
	}
	if s >= p.newest+paceLongest {
		*p = pace{newest: s - 1}
	}
	for p.newest < s {
		p.newest++
		p.seconds[p.newest%paceLongest] = paceSecond{waited: true}
	}
	return &p.seconds[s%paceLongest]
}

// admit counts n let in at a moment.
func (p *pace) admit(moment int64, n int) {
	if s := p.at(moment); s != nil {
		s.admitted += int64(n)
	}
}

// look notes whether somebody waits to be let in at a moment.
func (p *pace) look(moment int64, waits bool) {
	if moment/1000 <= p.newest-paceLongest { // the clock was set back: begin anew
		*p = pace{}
	}
	if s := p.at(moment); s != nil {
		s.polls++
		s.waited = s.waited && waits
	}
}

// flow is what the last seconds before a moment say, under a cap.
func (p *pace) flow(moment int64, perS float64) Flow {
	if !(perS > 0) {
		return Flow{}
	}
	now := moment / 1000
	span := int64(min(max(5/perS, paceWindow), paceLongest-1))
	var seconds, admitted int64
	var group, groups, inGroup, sum, squares float64
	for s := now - 1; s >= now-span && s > p.newest-paceLongest && s >= 0; s-- {
		if s > p.newest {
			continue
		}
		at := p.seconds[s%paceLongest]
		if !at.waited || at.polls == 0 {
			continue
		}
		seconds++
		admitted += at.admitted
		group += float64(at.admitted)
		if inGroup++; inGroup == 5 {
			groups, sum, squares = groups+1, sum+group, squares+group*group
			group, inGroup = 0, 0
		}
	}
	if seconds < paceLeast {
		return Flow{PerS: perS, Spread: paceSpread}
	}
	f := Flow{PerS: min(perS, float64(admitted)/float64(seconds)), Spread: paceSpread}
	if groups >= 3 && sum > 0 {
		mean := sum / groups
		chance := mean // what varies by chance alone is counted by Estimate
		f.Spread = min(1, max(0.05, math.Sqrt(max(0, squares/groups-mean*mean-chance))/mean))
	}
	return f
}
