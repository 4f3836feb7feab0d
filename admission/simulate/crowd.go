package simulate

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/waitroom-dev/waitroom/deploy/events"
)

// mostPeople bounds a crowd.
const mostPeople = 10_000_000

// ReadArrivals reads a file of arrivals: one line an arrival, or a time and how many
// came then. The time is a number of seconds or RFC 3339, the first of them is zero;
// a first line without a number is a heading.
func ReadArrivals(r io.Reader) ([]time.Duration, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord, in.ReuseRecord, in.TrimLeadingSpace = -1, true, true
	var all []time.Duration
	for n := 1; ; n++ {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("arrivals: %w", err)
		}
		at, err := moment(record[0])
		if err != nil {
			if n == 1 {
				continue
			}
			return nil, fmt.Errorf("arrivals: line %d: %q is no time: want seconds, or a time like 2026-05-01T18:00:00Z", n, record[0])
		}
		count := 1
		if len(record) > 1 && record[1] != "" {
			if count, err = strconv.Atoi(record[1]); err != nil || count < 0 || count > mostPeople {
				return nil, fmt.Errorf("arrivals: line %d: %q is no number of people", n, record[1])
			}
		}
		if len(all)+count > mostPeople {
			return nil, fmt.Errorf("arrivals: more than %d people", mostPeople)
		}
		for range count {
			all = append(all, at)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("arrivals: nobody comes")
	}
	slices.Sort(all)
	first := all[0]
	for i := range all {
		all[i] -= first
	}
	return all, nil
}

func moment(s string) (time.Duration, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if !(math.Abs(f) < 1e9) {
			return 0, errors.New("out of range")
		}
		return time.Duration(f * float64(time.Second)), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	return time.Duration(t.UnixNano()), err
}

// arrivals are the times of a crowd, in order.
func arrivals(c events.Crowd, seed uint64) []time.Duration {
	all := make([]time.Duration, c.People)
	for i := range all {
		q := (float64(i) + luck{seed, uint64(i), 7}.draw(0)) / float64(c.People)
		switch c.Shape {
		case "burst": // an exponential cut off at the end: 63 % in the first fifth
			q = -math.Log1p(-q*(1-math.Exp(-5))) / 5
		case "flash":
			q = max(0, q-0.5) / 5
		}
		all[i] = time.Duration(q * float64(c.Over))
	}
	return all
}

// luck is what is left to chance for one person: the same for the same seed,
// whatever happens to others.
type luck struct{ seed, who, salt uint64 }

// draw is the n-th number from 0 to 1.
func (l luck) draw(n uint64) float64 {
	var p rand.PCG
	p.Seed(l.seed*0x9e3779b97f4a7c15^l.salt, l.who<<8|n)
	p.Uint64()
	return float64(p.Uint64()>>11) / (1 << 53)
}

// wait is an exponential time, at most six times its mean.
func (l luck) wait(n uint64, mean time.Duration) int64 {
	x := min(6, -math.Log1p(-l.draw(n)))
	return int64(x * float64(mean.Milliseconds()))
}
