package challenge

import (
	"sync"
	"time"

	"github.com/waitroom-dev/waitroom/waitroom"
)

const (
	// held is how long an event stays above after the last second that was.
	held = 10 * time.Second
	// calm is the pace per second up to which a puzzle is easiest, where the event
	// does not say above_per_s.
	calm = 100
	// hardest is the most that the effort grows by.
	hardest = 8
	// mostPaced bounds the events that are counted; beyond it all begin anew.
	mostPaced = 10_000
)

// pace counts the strangers of one event, second by second.
type pace struct {
	second    int64 // the second that counts
	now, last int   // strangers in it, and in the one before it
	until     time.Time
}

// count adds a stranger and is the pace with them: that of the last whole second, or
// of the one that runs if it is more already.
func (p *pace) count(now time.Time, strangers int) int {
	switch second := now.Unix(); {
	case second == p.second+1:
		p.second, p.last, p.now = second, p.now, 0
	case second != p.second:
		p.second, p.last, p.now = second, 0, 0
	}
	p.now += strangers
	return max(p.last, p.now)
}

// above tells whether the pace is above most a second, or was until a while ago.
func (p *pace) above(now time.Time, rate int, most float64) bool {
	if float64(rate) > most {
		p.until = now.Add(held)
	}
	return now.Before(p.until)
}

// effortAt is the most tries of a puzzle at a pace: the least up to basis, growing with
// the pace beyond it.
func effortAt(least, rate int, basis float64) int {
	if basis <= 0 {
		basis = calm
	}
	return int(float64(least) * min(max(float64(rate)/basis, 1), hardest))
}

// paces are those of all events.
type paces struct {
	mu    sync.Mutex // guards below, and every pace in it
	known map[waitroom.EventID]*pace
}

// of calls with the event's pace, which nobody else has meanwhile.
func (p *paces) of(event waitroom.EventID, with func(*pace)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is, ok := p.known[event]
	if !ok {
		if p.known == nil || len(p.known) >= mostPaced {
			p.known = make(map[waitroom.EventID]*pace)
		}
		is = new(pace)
		p.known[event] = is
	}
	with(is)
}
