package law

import "math"

// tick is the length of a decision in seconds, that of the real loop.
const tick = 0.1

// stages is the number of equal steps in which a spread lag passes: an Erlang
// distribution whose deviation is a third of its mean.
const stages = 9

// site is what the laws are tried on: a pool whose connections are wanted by whoever
// was let in a lag before, each for a hold on average. People are a fluid here; the
// people-by-people model is package simulate.
type site struct {
	lag, hold float64 // seconds
	spread    bool    // the lag varies from person to person
	capacity  float64 // connections

	under  []float64 // way of a fixed lag: a ring of ticks
	next   int
	steps  [stages]float64 // way of a spread lag
	load   float64         // connections wanted
	served float64         // people who are done
}

// step lets people in who will come, and is the usage a tick later.
func (s *site) step(people float64) float64 {
	come := people
	if s.spread {
		part := min(1, tick*stages/s.lag)
		for i := range s.steps {
			on := s.steps[i] * part
			s.steps[i] += come - on
			come = on
		}
	} else {
		if s.under == nil {
			s.under = make([]float64, max(1, int(math.Round(s.lag/tick))))
		}
		come, s.under[s.next] = s.under[s.next], people
		s.next = (s.next + 1) % len(s.under)
	}
	done := min(s.load, s.capacity) * tick / s.hold
	s.load += come - done
	s.served += done
	return min(1, s.load/s.capacity)
}
