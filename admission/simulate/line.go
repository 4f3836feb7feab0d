package simulate

import (
	"math"
	"strconv"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// The store's own figures; promote.lua says why.
const (
	tickMS, lateMS, slotMS = 100, 150, 25
	mostGrants             = 5000
)

// where somebody is in the line.
type where uint8

const (
	nowhere where = iota
	waiting
	admitted
	entered
)

// person is one who joined, in the order of joining.
type person struct {
	at     where
	lane   uint8
	joined int64 // ms
	let    int64 // ms; when admitted
	until  int64 // ms; end of claim or session
}

// line is waitroom's line in plain words and virtual time: no store, no node, no
// receipt; the same order, counts and caps. A property test holds it equal to the
// real one. Times are in ms of the event's clock.
type line struct {
	cap             bucket
	maxActive       int
	claim, session  int64
	burst           int
	burstUntil      int64
	people          []person
	lanes           []lane // one, where the event has none
	waiting, inside int
	came, missed    int64             // entered, and claims that ended unused
	due             map[int64][]int32 // by tick: whose claim or session may end
	swept           int64             // the tick that is being swept
}

// lane is a line of its own in the event's.
type lane struct {
	cap             *bucket // nil: none but the event's
	max             int     // inside; 0: no bound but the event's
	queue           []int32 // who joined it; the index is the sequence in it, less one
	front           int     // nobody before it waits
	waiting, inside int
}

func newLine(s waitroom.Settings) *line {
	l := &line{
		cap: bucket{rate: s.RatePerS}, maxActive: s.MaxActive, burst: s.Burst, burstUntil: math.MinInt64,
		claim: int64(s.ClaimTTL) / 1e6, session: int64(s.SessionTTL) / 1e6,
		due: make(map[int64][]int32), lanes: make([]lane, max(1, len(s.Lanes))),
	}
	for i, of := range s.Lanes {
		l.lanes[i].max = of.MaxActive
		if of.RatePerS != nil || of.Share > 0 || of.Paused {
			l.lanes[i].cap = &bucket{rate: s.LaneRate(of)}
		}
	}
	return l
}

// open is the opening, from which on the burst lasts a second.
func (l *line) open(now int64) { l.burstUntil = now + 1000 }

// join gives the next place in a lane.
func (l *line) join(in int, now int64) int32 {
	i := int32(len(l.people))                                                      //nolint:gosec // people are bounded by mostPeople
	l.people = append(l.people, person{at: waiting, lane: uint8(in), joined: now}) //nolint:gosec // lanes are 16 at most
	of := &l.lanes[in]
	of.queue = append(of.queue, i)
	of.waiting++
	l.waiting++
	return i
}

// leave gives a place or a grant up.
func (l *line) leave(i int32) {
	switch p := &l.people[i]; p.at {
	case waiting:
		l.waiting--
		l.lanes[p.lane].waiting--
		p.at = nowhere
	case admitted, entered:
		l.end(p)
	case nowhere:
	}
}

func (l *line) end(p *person) {
	l.inside--
	l.lanes[p.lane].inside--
	p.at = nowhere
}

// enter uses a grant; false when its time is over.
func (l *line) enter(i int32, now int64) bool {
	p := &l.people[i]
	if (p.at == admitted || p.at == entered) && p.until <= now {
		l.over(p)
	}
	switch p.at {
	case admitted:
		p.at, p.until = entered, now+l.session
		l.came++
		l.remind(i, p.until)
	case entered:
	case nowhere, waiting:
		return false
	}
	return true
}

// over ends a grant whose time is up.
func (l *line) over(p *person) {
	if p.at == admitted {
		l.missed++
	}
	l.end(p)
}

// complete ends a session.
func (l *line) complete(i int32) {
	if p := &l.people[i]; p.at == admitted || p.at == entered {
		l.end(p)
	}
}

// remind has a sweep look at somebody in the tick in which a deadline lies.
func (l *line) remind(i int32, until int64) {
	l.due[until/tickMS] = append(l.due[until/tickMS], i)
}

// sweep ends what is over; it is called at each tick.
func (l *line) sweep(now int64) {
	for ; l.swept <= now/tickMS; l.swept++ {
		later := l.due[l.swept][:0]
		for _, i := range l.due[l.swept] {
			p := &l.people[i]
			switch {
			case p.at != admitted && p.at != entered:
			case p.until <= now:
				l.over(p)
			case p.until/tickMS == l.swept:
				later = append(later, i)
			}
		}
		if l.swept == now/tickMS && len(later) > 0 {
			l.due[l.swept] = later
			return
		}
		delete(l.due, l.swept)
		if l.swept == now/tickMS {
			return // more may still fall into this tick
		}
	}
}

// promote lets at most n of a lane in, as far as the caps allow, and says what kept it
// below.
func (l *line) promote(in, n int, now int64, take func(i int32)) (given int, held string) {
	of := &l.lanes[in]
	allowed := l.cap.allow(now)
	if of.cap != nil {
		allowed = min(allowed, of.cap.allow(now))
	}
	burst := 0
	if n > 0 && now < l.burstUntil {
		burst = min(l.burst, mostGrants-n)
	}
	want := n + burst
	limit := func(to int, why string) {
		if to < want {
			want, held = max(0, to), why
		}
	}
	limit(min(allowed, n)+burst, "rate_cap")
	if l.maxActive > 0 {
		limit(l.maxActive-l.inside, "max_active")
	}
	if of.max > 0 {
		limit(of.max-of.inside, "max_active")
	}
	limit(of.waiting, "empty")
	by := (now + l.claim + 999) / 1000 * 1000
	for ; given < want; of.front++ {
		i := of.queue[of.front]
		p := &l.people[i]
		if p.at != waiting {
			continue
		}
		p.at, p.let, p.until = admitted, now, by
		l.remind(i, by)
		of.waiting, l.waiting = of.waiting-1, l.waiting-1
		of.inside, l.inside = of.inside+1, l.inside+1
		given++
		if take != nil {
			take(i)
		}
	}
	bursting := min(given, burst)
	l.burst -= bursting
	l.cap.take(given-bursting, now)
	if of.cap != nil {
		of.cap.take(given-bursting, now)
	}
	return given, held
}

// bucket is a rate's: tokens that accrue, and who was let in in the last second.
type bucket struct {
	rate     float64
	tokens   float64
	refilled int64
	slots    []slot
}

// slot is how many were let in by the rate in 25 ms.
type slot struct {
	at int64
	n  int
}

// allow lets tokens accrue, and says how many may come in.
func (b *bucket) allow(now int64) int {
	longest := float64(lateMS)
	if b.rate > 0 {
		longest = max(longest, 1000/b.rate)
	}
	passed := max(0, min(float64(now-b.refilled), longest))
	b.tokens = min(b.tokens+b.rate*passed/1000, b.rate*lateMS/1000+1)
	oldest := floorDiv(now-1000, slotMS)
	recent, kept := 0, b.slots[:0]
	for _, s := range b.slots {
		if s.at >= oldest {
			recent += s.n
			kept = append(kept, s)
		}
	}
	b.slots, b.refilled = kept, now
	most := int(math.Ceil(b.rate + b.rate*tickMS/1000 - 1e-9))
	return max(0, min(int(math.Floor(b.tokens+1e-9)), most-recent))
}

// take is that n came in.
func (b *bucket) take(n int, now int64) {
	if n > 0 {
		b.tokens -= float64(n)
		if at, k := now/slotMS, len(b.slots)-1; k >= 0 && b.slots[k].at == at {
			b.slots[k].n += n
		} else {
			b.slots = append(b.slots, slot{at, n})
		}
	}
	// The store keeps six places.
	b.tokens, _ = strconv.ParseFloat(strconv.FormatFloat(b.tokens, 'f', 6, 64), 64)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
