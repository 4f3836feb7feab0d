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

// person is one who joined: the index is the sequence, less one.
type person struct {
	at     where
	joined int64 // ms
	let    int64 // ms; when admitted
	until  int64 // ms; end of claim or session
}

// line is waitroom's line in plain words and virtual time: no store, no node, no
// receipt; the same order, counts and cap. A property test holds it equal to the
// real one. Times are in ms of the event's clock.
type line struct {
	rate            float64
	maxActive       int
	claim, session  int64
	burst           int
	burstUntil      int64
	people          []person
	front           int // nobody before it waits
	waiting, inside int
	came, missed    int64 // entered, and claims that ended unused
	tokens          float64
	refilled        int64
	slots           []slot
	due             map[int64][]int32 // by tick: whose claim or session may end
	swept           int64             // the tick that is being swept
}

// slot is how many were let in by the rate in 25 ms.
type slot struct {
	at int64
	n  int
}

func newLine(s waitroom.Settings) *line {
	return &line{
		rate: s.RatePerS, maxActive: s.MaxActive, burst: s.Burst, burstUntil: math.MinInt64,
		claim: int64(s.ClaimTTL) / 1e6, session: int64(s.SessionTTL) / 1e6,
		due: make(map[int64][]int32),
	}
}

// open is the opening, from which on the burst lasts a second.
func (l *line) open(now int64) { l.burstUntil = now + 1000 }

// join gives the next place.
func (l *line) join(now int64) int32 {
	l.people = append(l.people, person{at: waiting, joined: now})
	l.waiting++
	return int32(len(l.people) - 1) //nolint:gosec // people are bounded by mostPeople
}

// leave gives a place or a grant up.
func (l *line) leave(i int32) {
	switch p := &l.people[i]; p.at {
	case waiting:
		l.waiting--
		p.at = nowhere
	case admitted, entered:
		l.end(p)
	case nowhere:
	}
}

func (l *line) end(p *person) {
	l.inside--
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

// promote lets at most n in, as far as the cap allows, and says what kept it below.
func (l *line) promote(n int, now int64, take func(i int32)) (given int, held string) {
	passed := float64(max(0, min(float64(now-l.refilled), l.mostPassed())))
	l.tokens = min(l.tokens+l.rate*passed/1000, l.rate*lateMS/1000+1)
	at, oldest := now/slotMS, floorDiv(now-1000, slotMS)
	recent, kept := 0, l.slots[:0]
	for _, s := range l.slots {
		if s.at >= oldest {
			recent += s.n
			kept = append(kept, s)
		}
	}
	l.slots = kept
	most := int(math.Ceil(l.rate + l.rate*tickMS/1000 - 1e-9))
	allowed := max(0, min(int(math.Floor(l.tokens+1e-9)), most-recent))
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
	limit(l.waiting, "empty")
	by := (now + l.claim + 999) / 1000 * 1000
	for ; given < want; l.front++ {
		p := &l.people[l.front]
		if p.at != waiting {
			continue
		}
		p.at, p.let, p.until = admitted, now, by
		i := int32(l.front) //nolint:gosec // people are bounded by mostPeople
		l.remind(i, by)
		l.waiting--
		l.inside++
		given++
		if take != nil {
			take(i)
		}
	}
	bursting := min(given, burst)
	l.burst -= bursting
	if given > 0 {
		if n := given - bursting; n > 0 {
			l.tokens -= float64(n)
			if k := len(l.slots) - 1; k >= 0 && l.slots[k].at == at {
				l.slots[k].n += n
			} else {
				l.slots = append(l.slots, slot{at, n})
			}
		}
	}
	// The store keeps six places.
	l.tokens, _ = strconv.ParseFloat(strconv.FormatFloat(l.tokens, 'f', 6, 64), 64)
	l.refilled = now
	return given, held
}

func (l *line) mostPassed() float64 {
	if l.rate > 0 {
		return max(lateMS, 1000/l.rate)
	}
	return lateMS
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
