package simulate

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waitroom-dev/waitroom/admission/ledger"
)

// Replay reads the demand of a past event out of its admission log: when people came.
// A leaf says how many sequences had been given out by its moment, so that between two
// leaves it is known how many came, and they are spread evenly; at most a tick is
// between leaves while people are let in by the rate. Those who were there at the first
// leaf are spread over the time of early before it, and the event opens with that leaf.
// Whoever came behind the last leaf is not in the log.
//
// In the leaves of versions that did not say it, somebody had come by the moment at
// which they, or anybody behind them, were let in: there the arrivals are no earlier
// than the admissions, and a higher rate than that of the past finds nobody to let in.
func Replay(b ledger.Bundle, early time.Duration) ([]time.Duration, error) {
	if r := ledger.Check(b); !r.OK() {
		return nil, fmt.Errorf("log of %s: leaf %d: %s", b.Event, r.Faults[0].Leaf, r.Faults[0].What)
	}
	type seen struct {
		at   time.Time
		lane string
		seq  int64 // the highest of the lane that had been given out
	}
	var all []seen
	top := make(map[string]int64) // by lane: below its lowest that was let in
	for _, text := range b.Leaves {
		l, err := ledger.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("log of %s: %w", b.Event, err)
		}
		first, last := l.Runs[0], l.Runs[len(l.Runs)-1]
		if lowest, known := top[l.Lane]; !known || first.First <= lowest {
			top[l.Lane] = first.First - 1
		}
		all = append(all, seen{l.At, l.Lane, last.First + last.Len - 1 + max(0, l.Behind)})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("log of %s: nobody was let in", b.Event)
	}
	// By hand, somebody from behind may have gone first, and clocks may go back.
	slices.SortStableFunc(all, func(a, b seen) int { return a.at.Compare(b.at) })
	var times []time.Duration
	before := make(map[string]time.Duration) // by lane: its leaf before
	for _, s := range all {
		at := s.at.Sub(all[0].at)
		from, known := before[s.lane]
		if !known {
			from = -early
		}
		before[s.lane] = at
		n := s.seq - top[s.lane]
		if n <= 0 {
			continue
		}
		top[s.lane] = s.seq
		if n > lostEpoch { // the store had lost its line: a new epoch begins far above
			continue
		}
		if int64(len(times))+n > mostPeople {
			return nil, fmt.Errorf("log of %s: more than %d people", b.Event, mostPeople)
		}
		for i := range n {
			times = append(times, early+from+time.Duration(float64(at-from)*float64(i+1)/float64(n)))
		}
	}
	slices.Sort(times)
	if len(times) == 0 {
		return nil, errors.New("log: nobody comes")
	}
	return times, nil
}

// lostEpoch is a jump of the sequences that no crowd makes between two leaves.
const lostEpoch = 1_000_000
