package simulate

import (
	"math"
	"time"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// way is how some of the people come: as one of the event's groups, in whose window they
// join, or into a lane that they choose.
type way struct {
	name          string
	lane          int
	weight        float64
	opens, closes int64   // ms; who comes before hears when to come back
	later         []int64 // when those come back
	people        int
	late          int // came when the window was over
	turnedAway    int // came when all was sold
	waits         counts
}

// parts are what the people are divided over, and what that is called.
func (c Config) parts() (names []string, of string) {
	if len(c.Settings.Groups) > 0 {
		for _, g := range c.Settings.Groups {
			names = append(names, g.Name)
		}
		return names, "the groups"
	}
	for _, l := range c.Settings.Lanes {
		names = append(names, l.Name)
	}
	return names, "the lanes"
}

// ways are the event's, one without a name where everybody is alike.
func (c Config) ways() []way {
	start := c.Start
	if c.Settings.OpensAt != nil {
		start = *c.Settings.OpensAt
	}
	moment := func(at *time.Time, without int64) int64 {
		if at == nil {
			return without
		}
		return at.Sub(start).Milliseconds() + ms(c.Crowd.Early)
	}
	names, _ := c.parts()
	ways := make([]way, max(1, len(names)))
	for i := range ways {
		ways[i] = way{opens: math.MinInt64, closes: math.MaxInt64, weight: 1}
		if len(names) == 0 {
			continue
		}
		w := &ways[i]
		w.name, w.lane = names[i], i
		if len(c.Mix) > 0 {
			w.weight = c.Mix[w.name]
		}
		if len(c.Settings.Groups) > 0 {
			g := c.Settings.Groups[i]
			w.lane = laneOf(c.Settings, g.Lane)
			w.opens, w.closes = moment(g.OpensAt, w.opens), moment(g.ClosesAt, w.closes)
		}
	}
	return ways
}

func laneOf(s waitroom.Settings, name string) int {
	for i, l := range s.Lanes {
		if l.Name == name {
			return i
		}
	}
	return 0
}

// choose is the way of the k-th to come.
func (p *play) choose(k int) uint8 {
	if len(p.ways) == 1 {
		return 0
	}
	sum := 0.0
	for _, w := range p.ways {
		sum += w.weight
	}
	at := luck{p.cfg.Seed, uint64(k), 17}.draw(0) * sum //nolint:gosec // k counts from 0
	last := 0
	for i, w := range p.ways {
		if w.weight == 0 {
			continue
		}
		if last = i; at < w.weight {
			break
		}
		at -= w.weight
	}
	return uint8(last)
}
