package admission

import (
	"math"
	"time"
)

// PoolStats is a moment of one node's database pool, or the mean of several.
type PoolStats struct {
	InUse   float64 // connections at work
	Max     float64 // connections that there may be
	Waiting float64 // callers that wait for one
}

// quietTop is the usage of a full pool for which nobody waits. It lies below the
// steps of system A: connections that are all at work are a busy shop, not an
// overload; only callers who wait for one are.
const quietTop = 0.75

// Usage is how loaded a pool is, from 0 to 1. It is the larger of two figures:
//
//   - quiet: in use / max, times 0.75. So SQLite's single writer at work, or a full
//     pool with nobody waiting, is 0.75 at most, below every usual step.
//   - queue: the utilisation at which a pool of this size has, on average, so many
//     callers waiting. For c servers the mean queue at utilisation u is about
//     u^sqrt(2(c+1)) / (1-u) (Sakasegawa's approximation; exact for c = 1), and
//     this is its inverse. One connection is at 0.8 with 3.2 callers waiting and at
//     0.9 with 8.1; ten are at 0.8 with 1.8 and at 0.9 with 6.1; a hundred at 0.8
//     with 0.2 and at 0.9 with 2.2.
//
// The figures should be means over about a second: a queue of one moment says little.
// A pool without a maximum, or with a figure that is negative or no number, has no
// usage: NaN, which the law takes for unknown.
func (s PoolStats) Usage() float64 {
	for _, v := range []float64{s.InUse, s.Max, s.Waiting} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return math.NaN()
		}
	}
	if s.Max == 0 {
		return math.NaN() // 0 of 0 is no idle pool
	}
	quiet := quietTop * min(s.InUse/s.Max, 1)
	return max(quiet, utilisation(s.Waiting, s.Max))
}

// Wanted is the share of the connections that are wanted: in use or waited for. The
// target law goes by it, since it grows evenly with the people inside; more than full
// is 1. A pool without sound figures has none: NaN.
func (s PoolStats) Wanted() float64 {
	if math.IsNaN(s.Usage()) {
		return math.NaN()
	}
	return min(1, (s.InUse+s.Waiting)/s.Max)
}

// Busy is the part that is in use, and the callers that wait on top of it, of what
// there may be: 0 to 1 and above. Without a maximum, or with a figure that makes no
// sense, it is NaN.
func (s PoolStats) Busy() float64 {
	if math.IsNaN(s.Usage()) {
		return math.NaN()
	}
	return (s.InUse + s.Waiting) / s.Max
}

// utilisation finds the u in [0, 1) with u^sqrt(2(c+1)) / (1-u) = waiting. The left
// side grows with u, so halving the interval finds it.
func utilisation(waiting, c float64) float64 {
	if waiting == 0 {
		return 0
	}
	exponent := math.Sqrt(2 * (c + 1))
	low, high := 0.0, 1.0
	for range 40 {
		u := (low + high) / 2
		if math.Pow(u, exponent) > waiting*(1-u) {
			high = u
		} else {
			low = u
		}
	}
	return low
}

// add sums two pools of one installation.
func (s PoolStats) add(o PoolStats) PoolStats {
	return PoolStats{InUse: s.InUse + o.InUse, Max: s.Max + o.Max, Waiting: s.Waiting + o.Waiting}
}

// Reading is what a source says of the load, once.
type Reading struct {
	// Usage is from 0, idle, to 1, full. More than 1 counts as 1; less than 0 and no
	// number count as unknown.
	Usage float64
	// Wanted is the figure for the target law, where it is another: the share of the
	// connections that are in use or waited for. 0: the Usage.
	Wanted float64
	// At is when that was so, on this process's clock: a source whose figure carries
	// the store's time takes the age by the store's clock from its own now.
	At time.Time
	// Detail says in a few words where the figure comes from, for log and console.
	Detail string
}
