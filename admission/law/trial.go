package law

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// change is what happens to a site in the middle of a trial.
type change string

const (
	steady change = "steady"
	// halved: a third into the trial half of the capacity goes, and comes back at
	// two thirds.
	halved change = "halved"
	// surge: a line in which nobody waits is met by the trial's demand at one third.
	surge change = "surge"
)

// Trial is one cell of the grid.
type Trial struct {
	Lag     float64 `json:"lag_s"`
	Spread  bool    `json:"spread"` // the lag varies from person to person
	Demand  float64 `json:"demand"` // people who would come, over what the whole site can serve
	NoShows float64 `json:"no_shows"`
	Noise   float64 `json:"noise"` // standard deviation of a reading, in usage
	Change  change  `json:"change"`
	PerS    float64 `json:"per_s"` // what the whole site can serve, people a second
}

// String names the cell.
func (t Trial) String() string {
	kind := "fixed"
	if t.Spread {
		kind = "spread"
	}
	return fmt.Sprintf("lag %v s %s, demand %v, no-shows %v, noise %v, %s, %v a second",
		t.Lag, kind, t.Demand, t.NoShows, t.Noise, t.Change, t.PerS)
}

const (
	length   = 3000 // seconds of a trial
	hold     = 8    // seconds that a connection is held on average
	setPoint = 0.75
	// settled is after how many seconds a law must have settled, and settling what it
	// has beside the lag to end an overload that a sudden change brought.
	settled  = 300
	settling = 120
	// within is the distance from the set point that is allowed, over the usage that
	// must not be exceeded for long.
	within, over = 0.10, 0.95
)

// Score is how a law did in a trial.
type Score struct {
	// Near is the share of the samples within 10 points of the set point, five minutes
	// after the start and each sudden change; Strict counts from the start alone.
	Near, Strict float64
	// Over is the longest time in a row, in seconds, above 95 %, the lag and two
	// minutes after the start and each sudden change apart.
	Over float64
	// Swing is the shortest time, in seconds, in which the rate went from a tenth of
	// its highest to nine tenths of it, or back while nothing sudden had happened.
	Swing float64
	// Through is the number of people served over what the best constant rate serves
	// that, chosen with hindsight, never takes the usage above the set point.
	Through float64
	// Peak is the highest demand for connections, over those that there are.
	Peak float64
	// Usage and Rate are a sample each second, the rate as a part of what the whole
	// site can serve.
	Usage, Rate []float64
}

// Meets says whether the bars are met. Where demand stays below the capacity only
// the overload and the throughput count: there is nothing to hold a usage up with.
func (s Score) Meets(t Trial) bool {
	return (t.Demand <= setPoint || s.Near >= 0.9) && s.Over <= 10 && s.Swing >= 60 && s.Through >= 0.95
}

// run tries a law on a cell.
func run(l law, t Trial) Score {
	random := rand.New(rand.NewPCG(uint64(t.Lag*1000+t.Demand*10), uint64(t.NoShows*100+t.Noise*10)))
	whole := t.PerS * hold
	s := site{lag: t.Lag, hold: hold, spread: t.Spread, capacity: whole}
	own := 20 * t.PerS / (1 - t.NoShows)
	var (
		waiting, asked, given, came, inside, mark, row float64
		score                                          = Score{Swing: math.Inf(1)}
		lows, highs                                    []int
		near, strict, samples, all, base               float64
	)
	for k := range int(length / tick) {
		at := float64(k) * tick
		demand := t.Demand
		switch t.Change {
		case halved:
			s.capacity = whole
			if at >= length/3 && at < 2*length/3 {
				s.capacity = whole / 2
			}
			if k == length/3/tick || k == 2*length/3/tick {
				mark = at
			}
		case surge:
			if at < length/3 {
				demand = min(demand, 0.4)
			} else if k == length/3/tick {
				mark = at
			}
		case steady:
		}
		waiting += demand * t.PerS / (1 - t.NoShows) * tick
		usage := s.step(given * (1 - t.NoShows))
		came = s.load
		inside += given*(1-t.NoShows) - min(s.load, s.capacity)*tick/hold
		seen := max(0, min(1, usage+t.Noise*random.NormFloat64()))
		r := l.rate(view{
			usage: seen, open: true, own: own, floor: min(1, t.PerS/10), target: setPoint,
			asked: asked, given: given, entered: came, promised: max(0, inside-came),
		})
		asked = r * tick
		given = min(asked, waiting)
		waiting -= given

		score.Peak = max(score.Peak, s.load/s.capacity)
		if usage > over {
			row += tick
		} else {
			row = 0
		}
		if at-mark > t.Lag+settling {
			score.Over = max(score.Over, min(row, at-mark-t.Lag-settling))
		}
		if k == settled/tick {
			base = s.served
		}
		if k%int(1/tick) != 0 {
			continue
		}
		score.Usage = append(score.Usage, usage)
		score.Rate = append(score.Rate, given/tick*(1-t.NoShows)/t.PerS)
		if demand > setPoint && at >= settled {
			all++
			ok := math.Abs(usage-setPoint) <= within
			if ok {
				strict++
			}
			if at-mark >= settled {
				samples++
				if ok {
					near++
				}
			}
		}
	}
	if samples > 0 {
		score.Near, score.Strict = near/samples, strict/all
	}
	lows, highs = extremes(score.Rate)
	score.Swing = swing(lows, highs, t)
	score.Through = (s.served - base) / best(t)
	return score
}

// best is what the best constant rate serves from the fifth minute on.
func best(t Trial) float64 {
	r := setPoint
	if t.Change == halved {
		r /= 2
	}
	n := 0.0
	for at := settled; at < length; at++ {
		demand := t.Demand
		if t.Change == surge && at < length/3 {
			demand = min(demand, 0.4)
		}
		n += min(r, demand) * t.PerS
	}
	return n
}

// extremes are the seconds in which a rate was at a tenth of its highest or below,
// and at nine tenths or above.
func extremes(rates []float64) (lows, highs []int) {
	top := 0.0
	for _, r := range rates {
		top = max(top, r)
	}
	for i, r := range rates {
		if r <= top*0.1 {
			lows = append(lows, i)
		}
		if r >= top*0.9 {
			highs = append(highs, i)
		}
	}
	return lows, highs
}

// swing is the shortest way from low to high, and from high to low where no sudden
// change came shortly before.
func swing(lows, highs []int, t Trial) float64 {
	shortest := math.Inf(1)
	way := func(from, to []int, counts func(at int) bool) {
		i := 0
		for _, at := range to {
			for i+1 < len(from) && from[i+1] < at {
				i++
			}
			if i < len(from) && from[i] < at && counts(at) {
				shortest = min(shortest, float64(at-from[i]))
			}
		}
	}
	sudden := func(at int) bool {
		for _, mark := range []int{0, length / 3, 2 * length / 3} {
			if (t.Change != steady || mark == 0) && at >= mark && float64(at-mark) <= t.Lag+settling {
				return true
			}
		}
		return false
	}
	way(lows, highs, func(at int) bool { return !sudden(at) || t.Change != surge || at < length/3 })
	way(highs, lows, func(at int) bool { return !sudden(at) })
	return shortest
}
