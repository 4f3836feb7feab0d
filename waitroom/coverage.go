package waitroom

import "math/rand/v2"

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

// coverage holds estimates against what came. It is bounded: at most 512 people are
// noted at a time, and a new one then waits for room.
type coverage struct {
	noted  map[Seq]promise
	newest Seq   // the last that was let in
	last   int64 // when somebody was noted
	told   float64
	by     [2]float64
	all    int64
}

// promise is by when somebody is to be in, in ms of the event's clock.
type promise struct{ half, most int64 }

// note takes in one of those who wait, at random, and what they are shown now.
func (c *coverage) note(moment int64, newest Seq, position func(Seq) (int64, bool), flow Flow) {
	if moment-c.last < coverEvery && moment >= c.last || len(c.noted) >= mostNoted || newest <= c.newest {
		return
	}
	c.last = moment
	for range coverTries {
		seq := c.newest + 1 + Seq(rand.Int64N(int64(newest-c.newest)))
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
			c.noted[seq] = promise{moment + eta.Milliseconds(), moment + p90.Milliseconds()}
		}
		return
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
	c.all++
	if c.told++; c.told > mostJudged { // what is long ago counts ever less
		keep := float64(mostJudged) / c.told
		c.told, c.by[0], c.by[1] = c.told*keep, c.by[0]*keep, c.by[1]*keep
	}
	for i, by := range []int64{p.half, p.most} {
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
	return f.state.cover.figures()
}
