package load

import (
	"math"
	"math/rand/v2"
	"time"
)

// Profile is the shape of a crowd's arrivals over the ramp.
type Profile string

// The shapes of arrivals.
const (
	Steady Profile = "steady" // evenly spread
	Burst  Profile = "burst"  // most come at the beginning, the rest trail off
	Flash  Profile = "flash"  // half at the first moment, the others within a tenth of the ramp
)

func (p Profile) known() bool { return p == Steady || p == Burst || p == Flash }

// burstDecay is how many times the rate of a burst falls by e over the ramp: 63 % of
// the people come in its first fifth.
const burstDecay = 5

// arrival is when user i of the crowd arrives, counted from the start. It never
// falls from one user to the next, and lies within the ramp.
func (c Crowd) arrival(i int) time.Duration {
	jitter := rand.New(rand.NewPCG(c.Seed, uint64(i)^0xa5a5)).Float64() //nolint:gosec // i counts from 0
	q := (float64(i) + jitter) / float64(c.Users)
	switch c.Profile {
	case Burst:
		// The quantile of an exponential that is cut off at the ramp.
		q = -math.Log1p(-q*(1-math.Exp(-burstDecay))) / burstDecay
	case Flash:
		q = max(0, q-0.5) * 2 / 10
	case Steady:
	}
	return time.Duration(q * float64(c.Ramp))
}
