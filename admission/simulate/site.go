package simulate

import (
	"time"

	"github.com/waitroom-dev/waitroom/admission"
)

// site is the shop behind the line: a pool of connections, and a queue before it.
type site struct {
	max, busy int
	queue     []int32
	next      int // of the queue
	ring      [10]admission.PoolStats
	at        int
	published admission.PoolStats
}

// want takes a connection, or a place in the queue; true when it was taken.
func (s *site) want(i int32) bool {
	if s.busy < s.max {
		s.busy++
		return true
	}
	s.queue = append(s.queue, i)
	return false
}

// release gives a connection back, and says who has it now.
func (s *site) release() (int32, bool) {
	if s.next == len(s.queue) {
		s.busy--
		return 0, false
	}
	i := s.queue[s.next]
	if s.next++; s.next > 4096 && s.next*2 > len(s.queue) {
		s.queue, s.next = append(s.queue[:0], s.queue[s.next:]...), 0
	}
	return i, true
}

// look samples the pool at a tick; the mean of a second is published every half.
func (s *site) look(tick int64) {
	s.ring[s.at] = admission.PoolStats{InUse: float64(s.busy), Max: float64(s.max), Waiting: float64(len(s.queue) - s.next)}
	s.at = (s.at + 1) % len(s.ring)
	if tick%5 != 0 {
		return
	}
	var sum admission.PoolStats
	n := 0.0
	for _, p := range s.ring {
		if p.Max > 0 {
			sum.InUse, sum.Waiting = sum.InUse+p.InUse, sum.Waiting+p.Waiting
			n++
		}
	}
	s.published = admission.PoolStats{InUse: sum.InUse / n, Max: float64(s.max), Waiting: sum.Waiting / n}
}

// signals are what the law sees of the site.
func (s *site) signals() admission.Signals {
	if s.max == 0 {
		return admission.Signals{}
	}
	return admission.Signals{Expected: true, Known: true, Usage: s.published.Usage(), Wanted: s.published.Wanted()}
}

// ms is a duration in the event's own unit.
func ms(d time.Duration) int64 { return d.Milliseconds() }
