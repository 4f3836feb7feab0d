package load

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// lane of the i-th of the crowd, by its weights; none where the crowd has no lanes. It
// has a generator of its own, so that an event's lanes change nobody's habits.
func (c Crowd) lane(i int) string {
	names := slices.Sorted(maps.Keys(c.Lanes))
	sum := 0.0
	for _, name := range names {
		sum += c.Lanes[name]
	}
	at := rand.New(rand.NewPCG(^c.Seed, uint64(i))).Float64() * sum //nolint:gosec // i counts from 0
	last := ""
	for _, name := range names {
		if c.Lanes[name] == 0 {
			continue
		}
		if last = name; at < c.Lanes[name] {
			break
		}
		at -= c.Lanes[name]
	}
	return last
}

// laneBody is what somebody says when they join.
func laneBody(lane string) string {
	if lane == "" {
		return ""
	}
	b, _ := json.Marshal(map[string]string{"lane": lane}) // text is always JSON
	return string(b)
}

// lanesOf divides the crowd over the lanes that people of the event may choose: evenly,
// if nothing else was said; only lanes that it has may be named.
func (e event) lanesOf(said map[string]float64) (map[string]float64, error) {
	all := make(map[string]float64)
	if len(e.Groups) == 0 { // else these say who stands where
		for _, l := range e.Lanes {
			all[l.Name] = 1
		}
	}
	for name := range said {
		if _, known := all[name]; !known {
			return nil, fmt.Errorf("--lanes: %s has no lane %q that people may choose", e.ID, name)
		}
	}
	if len(said) > 0 {
		return said, nil
	}
	return all, nil
}

// byLane is what is known of the people of each lane; all of them, under no name, where
// the event has none.
func byLane(facts []fact) map[string][]fact {
	of := make(map[string][]fact)
	for _, f := range facts {
		of[f.Lane] = append(of[f.Lane], f)
	}
	return of
}
