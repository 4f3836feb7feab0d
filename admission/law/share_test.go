package law

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Two events that load one site, the second of which opens a quarter of an hour later:
// the site stays at its target, and soon both let in as many (without Peers the first
// one keeps 60 of 76 a second for good).
func TestEventsThatShareASiteShareItEvenly(t *testing.T) {
	t.Parallel()
	const late, settledBy, end = 900, 1800, 2700 // seconds
	s := site{lag: 15, hold: hold, spread: true, capacity: 800}
	laws := [2]law{&chosen{}, &chosen{}}
	var let [2]float64
	near, all := 0, 0
	for k := range int(end / tick) {
		at := float64(k) * tick
		usage, peers := s.step(let[0]+let[1]), (let[0]+let[1])/2/tick
		if at < late {
			peers = 0
		}
		for i, l := range laws {
			if i == 1 && at < late {
				continue
			}
			let[i] = tick * l.rate(view{usage: usage, open: true, own: 2000, floor: 10, target: setPoint, asked: let[i], given: let[i], peers: peers})
		}
		if at >= settled {
			all++
			if usage > setPoint-within && usage < setPoint+within {
				near++
			}
			require.Less(t, usage, over)
		}
		if at >= settledBy {
			require.InDelta(t, let[0], let[1], 0.1*let[0], "second %v", at)
		}
	}
	require.Greater(t, float64(near)/float64(all), 0.9)
}
