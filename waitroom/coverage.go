package waitroom

import (
	"maps"
	"math"
	"slices"
)

const (
	// coverEvery is how often somebody's estimate is noted, in ms of the event's
	// clock; mostNoted is of how many at a time, and mostJudged how far back it counts.
	coverEvery = 1000
	mostNoted  = 512
	mostJudged = 1000
	// coverTries is how many sequences are tried to find one that waits.
	coverTries = 4
)

// Coverage is how good the estimates are that people were shown, of a sample of them.
type Coverage struct {
	// Told is how many of the sample have had their turn, or are late by now.
	Told int64
	// By50 and By90 are the shares who were in by the time that half, and nine in ten,
	// were to stay below.
	By50, By90 float64
}

// coverage holds estimates against what came, and learns from it. It is bounded: at
// most 512 people are noted at a time, and a new one then waits for room.
//
// It learns each of the two times by itself, as a quantile is found step by step:
// whoever is late by it, as it would be told by now, makes it longer, and whoever is in
// makes it shorter, so that it comes to rest where as many are in as learnAt says,
// whatever makes the line uneven. Somebody is late as soon as the time is over, not
// when their turn comes at last: else the lucky would be heard first.
type coverage struct {
	noted  map[Seq]promise
	newest Seq     // the last that was let in
	last   int64   // when somebody was noted
	looked int64   // when it was looked for who is late
	pick   float64 // of those who wait, from 0 to 1; moves on by the golden section
	off    [2]float64
	told   float64
	by     [2]float64
	all    int64
}

// learnAt is how many are to be in by the two times, and learnStep how much one person
// moves the logarithm of a time. People who are told the same hour are late together,
// so that the longer time aims above the nine in ten that it has to keep. The figures
// are those that kept 85 to 95 % in the grid of package admission/simulate.
var learnAt = [2]float64{0.5, 0.965}

const learnStep = 0.15

// promise is what somebody was told.
type promise struct {
	at     int64      // when, in ms of the event's clock
	by     [2]int64   // when they are to be in
	plain  [2]float64 // seconds, before anything learnt
	learnt [2]bool    // what it teaches has been heard
}

// note takes in one of those who wait, evenly over the line, and what they are shown.
func (c *coverage) note(moment int64, newest Seq, position func(Seq) (int64, bool), flow Flow) {
	if moment-c.last < coverEvery && moment >= c.last || len(c.noted) >= mostNoted || newest <= c.newest {
		return
	}
	c.last = moment
	for range coverTries {
		c.pick = math.Mod(c.pick+math.Phi, 1)
		seq := c.newest + 1 + Seq(c.pick*float64(newest-c.newest))
		if _, known := c.noted[seq]; known {
			continue
		}
		pos, waits := position(seq)
		if !waits {
			continue
		}
		if eta, p90, ok := Estimate(pos, flow); ok {
			if c.noted == nil {
				c.noted = make(map[Seq]promise)
			}
			half, most, _ := flow.plain(pos)
			c.noted[seq] = promise{at: moment, by: [2]int64{moment + eta.Milliseconds(), moment + p90.Milliseconds()}, plain: [2]float64{half, most}}
		}
		return
	}
}

// look learns from those who are late by now, once a second.
func (c *coverage) look(moment int64) {
	if moment-c.looked < coverEvery && moment >= c.looked {
		return
	}
	c.looked = moment
	for _, seq := range slices.Sorted(maps.Keys(c.noted)) { // the order counts, and must be the same each time
		p := c.noted[seq]
		if c.learn(&p, moment, true) {
			c.noted[seq] = p
		}
	}
}

// learn hears what somebody teaches who still waits, or is just let in.
func (c *coverage) learn(p *promise, moment int64, waits bool) (any bool) {
	for i := range p.learnt {
		late := moment-p.at > whole(corrected(p.plain[i], c.off[i])).Milliseconds()
		if p.learnt[i] || waits && !late {
			continue
		}
		p.learnt[i], any = true, true
		step := -learnStep * (1 - learnAt[i])
		if late {
			step = learnStep * learnAt[i]
		}
		c.off[i] = min(max(c.off[i]+step, leastOff), mostOff)
	}
	return any
}

// turn has nobody teach any more who was told something before.
func (c *coverage) turn() {
	for seq, p := range c.noted {
		p.learnt = [2]bool{true, true}
		c.noted[seq] = p
	}
}

// admit judges those who were let in.
func (c *coverage) admit(moment int64, seq Seq) {
	c.newest = max(c.newest, seq)
	p, known := c.noted[seq]
	if !known {
		return
	}
	delete(c.noted, seq)
	c.learn(&p, moment, false)
	c.all++
	if c.told++; c.told > mostJudged { // what is long ago counts ever less
		keep := float64(mostJudged) / c.told
		c.told, c.by[0], c.by[1] = c.told*keep, c.by[0]*keep, c.by[1]*keep
	}
	for i, by := range p.by {
		if moment <= by {
			c.by[i]++
		}
	}
}

// depart forgets somebody who left: nobody's promise was broken.
func (c *coverage) depart(seq Seq) { delete(c.noted, seq) }

// figures are what was seen so far; false before anybody was judged.
func (c *coverage) figures() (Coverage, bool) {
	if c.told == 0 {
		return Coverage{}, false
	}
	return Coverage{Told: c.all, By50: c.by[0] / c.told, By90: c.by[1] / c.told}, true
}

// Coverage is how good an event's estimates have been, as this node saw it; false
// before anybody who was shown one had their turn.
func (v *View) Coverage(id EventID) (Coverage, bool) {
	f := v.follower(id)
	if f == nil {
		return Coverage{}, false
	}
	f.state.mu.RLock()
	defer f.state.mu.RUnlock()
	var all Coverage
	for i := range f.state.lanes {
		c, ok := f.state.lanes[i].outlook.Coverage()
		if !ok {
			continue
		}
		n, more := float64(all.Told), float64(c.Told)
		all.By50 = (all.By50*n + c.By50*more) / (n + more)
		all.By90 = (all.By90*n + c.By90*more) / (n + more)
		all.Told += c.Told
	}
	return all, all.Told > 0
}
