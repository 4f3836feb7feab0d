package load

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// limits are what is known of an event's rules. Negative numbers are not known.
type limits struct {
	fifo       bool
	burst      int
	maxActive  int
	perUser    int
	sessionTTL time.Duration
	opensAt    int64 // unix seconds; 0: no set time
	rates      []rateSeen
	lanes      map[string][]rateSeen // of each lane
}

// rateSeen is the event's rate at a moment of its own clock.
type rateSeen struct {
	at   int64 // unix seconds
	rate float64
}

// Tolerances. Facts of several processes and sockets have small errors of their own;
// none of these bounds weakens a promise, they only leave doubtful cases out.
const (
	clockSlack   = 2_000     // µs: between the clocks of two worker processes
	messageSlack = 5_000_000 // µs: a position may have been under way for so long
	holdSlack    = 2_000_000 // µs: the service's clock against ours
	rateSlack    = 3         // seconds: a change of the rate between two looks
)

// judge makes the checks that need the whole crowd.
func judge(t *tally, facts []fact, l limits) {
	lanes := byLane(facts)
	for _, name := range slices.Sorted(maps.Keys(lanes)) {
		judgeOrder(t, lanes[name], l)
		if own := l; name != "" && len(l.lanes[name]) > 0 {
			own.rates = l.lanes[name]
			judgeCap(t, lanes[name], own)
		}
	}
	judgeCap(t, facts, l)
	judgeInside(t, facts, l)
	judgeGrants(t, facts)
	judgeSeats(t, facts)
	judgeShares(t, facts, l)
	t.note(promiseOutbox, "not visible from outside")
	t.note(promiseClosed, "not put to the test: it needs the store to be taken away")
}

// judgeOrder: if A's join was answered before B's was sent, A is not admitted after
// B while A stays, within a lane. Admissions are compared by the token's iat, the service's own
// second; for an A that still waits, its last sign of waiting against B's token in
// hand, both by our clock.
func judgeOrder(t *tally, facts []fact, l limits) {
	if !l.fifo {
		t.note(promiseOrder, "not checked: the event's order is not fifo")
		return
	}
	var as, bs []fact
	for _, f := range facts {
		if f.IAT > 0 {
			bs = append(bs, f)
		}
		if f.Answered > 0 && (f.IAT > 0 || f.End == endWaiting) {
			as = append(as, f)
		}
	}
	slices.SortFunc(as, func(a, b fact) int { return cmp.Compare(a.Answered, b.Answered) })
	slices.SortFunc(bs, func(a, b fact) int { return cmp.Compare(a.Sent, b.Sent) })
	var latest, patient fact // of all A so far: admitted last; seen waiting last, never admitted
	next := 0
	for _, b := range bs {
		for ; next < len(as) && as[next].Answered+clockSlack < b.Sent; next++ {
			a := as[next]
			if a.IAT > latest.IAT {
				latest = a
			}
			if a.IAT == 0 && a.Waiting > patient.Waiting {
				patient = a
			}
		}
		if next == 0 {
			continue // B was the first: nothing to compare with
		}
		switch {
		case latest.IAT > b.IAT:
			t.check(promiseOrder, false, "user %d joined before user %d and was admitted %d s after it", latest.User, b.User, latest.IAT-b.IAT)
		case patient.Waiting > b.Admitted+messageSlack:
			t.check(promiseOrder, false, "user %d joined before user %d and still waited %.1f s after it was admitted",
				patient.User, b.User, float64(patient.Waiting-b.Admitted)/1e6)
		default:
			t.check(promiseOrder, true, "")
		}
	}
}

// perSecond counts admissions by the second of their iat.
func perSecond(facts []fact) map[int64]int64 {
	out := map[int64]int64{}
	for _, f := range facts {
		if f.IAT > 0 {
			out[f.IAT]++
		}
	}
	return out
}

// judgeCap: no second admits more than the rate and one tick's rounding; the
// opening's burst comes on top where it may fall into that second.
func judgeCap(t *tally, facts []fact, l limits) {
	checkCap(t, perSecond(facts), l)
	checkWindows(t, facts, l)
}

// checkWindows looks at every window of a second, not only the clock's own seconds:
// where the service tells the milliseconds of its promotions.
func checkWindows(t *tally, facts []fact, l limits) {
	if len(l.rates) == 0 {
		return
	}
	var at []int64
	for _, f := range facts {
		if f.Promoted > 0 {
			at = append(at, f.Promoted)
		} else if f.IAT > 0 {
			t.note(promiseCap, "some are checked by the clock's own seconds only: the service does not tell a promotion's milliseconds (admitted_at)")
		}
	}
	slices.Sort(at)
	first := 0
	for i, ms := range at {
		for at[first] <= ms-1000 {
			first++
		}
		second := ms / 1000
		if l.burst != 0 && l.opensAt != 0 && second >= l.opensAt && second <= l.opensAt+2 {
			continue // the opening's seconds are judged whole
		}
		n, allowed := int64(i-first+1), allowedIn(second, l.rates)
		t.check(promiseCap, n <= allowed, "%d admitted in the second before %d ms, at most %d allowed", n, ms, allowed)
	}
}

func checkCap(t *tally, admitted map[int64]int64, l limits) {
	if len(l.rates) == 0 {
		t.note(promiseCap, "not checked: the event's rate was not to be had")
		return
	}
	for second, n := range admitted {
		allowed := allowedIn(second, l.rates)
		if l.burst != 0 && l.opensAt != 0 && second >= l.opensAt && second <= l.opensAt+1 {
			if l.burst < 0 {
				t.note(promiseCap, "the opening second is not checked: the burst is not known (--burst)")
				continue
			}
			allowed += int64(l.burst)
		}
		t.check(promiseCap, n <= allowed, "%d admitted in second %d, at most %d allowed", n, second, allowed)
	}
}

// allowedIn is the most that may be admitted in a second: the highest rate that was
// seen around it, and one tick's rounding.
func allowedIn(second int64, rates []rateSeen) int64 {
	highest := 0.0
	before, after := -1, -1
	for i, r := range rates {
		switch {
		case r.at < second-rateSlack:
			before = i
		case r.at > second+rateSlack:
			if after < 0 {
				after = i
			}
		default:
			highest = max(highest, r.rate)
		}
	}
	for _, i := range []int{before, after} { // the neighbours held until, and from, somewhere in between
		if i >= 0 {
			highest = max(highest, rates[i].rate)
		}
	}
	return int64(math.Ceil(highest) + max(1, math.Ceil(highest/10)))
}

// judgeInside: never more than max_active inside. Somebody is surely inside from the
// token in hand until leaving was sent, or the token's time was over unused, or the
// shortest session ended.
func judgeInside(t *tally, facts []fact, l limits) {
	switch {
	case l.maxActive == 0:
		return
	case l.maxActive < 0:
		t.note(promiseCap, "max_active is not checked: it is not known (--max-active or --operator-token)")
		return
	}
	type step struct {
		at int64
		by int
	}
	var steps []step
	for _, f := range facts {
		if f.Admitted == 0 {
			continue
		}
		end := f.Admitted + (f.Expires-f.IAT*1000)*1000 - holdSlack
		if f.Entered > 0 {
			end = f.Entered + max(0, l.sessionTTL.Microseconds()-holdSlack)
		}
		if f.Left > 0 {
			end = min(end, f.Left)
		}
		if end > f.Admitted {
			steps = append(steps, step{f.Admitted, 1}, step{end, -1})
		}
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	inside, most := 0, 0
	for _, s := range steps {
		inside += s.by
		most = max(most, inside)
	}
	t.check(promiseCap, most <= l.maxActive, "%d were inside at once, at most %d allowed", most, l.maxActive)
}

// judgeGrants: one jti a person, and no two people with one entry or one jti.
func judgeGrants(t *tally, facts []fact) {
	entries, jtis := map[string]int{}, map[string]int{}
	for _, f := range facts {
		if f.Entry != "" {
			other, twice := entries[f.Entry]
			t.check(promiseGrant, !twice, "users %d and %d have one entry, %s", other, f.User, f.Entry)
			entries[f.Entry] = f.User
		}
		if f.JTI != "" {
			other, twice := jtis[f.JTI]
			t.check(promiseGrant, !twice, "users %d and %d have one jti, %s", other, f.User, f.JTI)
			jtis[f.JTI] = f.User
		}
	}
}

// owned is one seat in one purchase.
type owned struct {
	seat        string
	user        int
	from, until int64
}

// judgeSeats: at no moment do two people surely have one seat, or more people an item
// than it has places.
func judgeSeats(t *tally, facts []fact) {
	var all []owned
	shared := make(map[string]*sharedItem)
	for _, f := range facts {
		for _, p := range f.Purchases {
			until := p.Until - holdSlack
			if p.Until == 0 {
				until = math.MaxInt64
			}
			for _, seat := range p.Seats {
				if places, ok := p.Places[seat]; ok {
					if shared[seat] == nil {
						shared[seat] = &sharedItem{places: places}
					}
					shared[seat].had(p.Answered+clockSlack, until)
					continue
				}
				all = append(all, owned{seat: seat, user: f.User, from: p.Answered, until: until})
			}
		}
	}
	slices.SortFunc(all, func(a, b owned) int {
		return cmp.Or(cmp.Compare(a.seat, b.seat), cmp.Compare(a.from, b.from))
	})
	for id, item := range shared {
		most := item.most()
		t.check(promiseSeat, most <= item.places, "%d people have a place of %s at once, of which there are %d", most, id, item.places)
	}
	var last owned // of this seat, the one that is surely owned longest
	for _, o := range all {
		both := last.seat == o.seat && o.from+clockSlack < last.until && o.from < o.until
		t.check(promiseSeat, !both, "seat %s belongs to users %d and %d at once", o.seat, last.user, o.user)
		if last.seat != o.seat || o.until > last.until {
			last = o
		}
	}
}

// sharedItem is what many may have a place of, and when its places were surely had.
type sharedItem struct {
	places int64
	turns  []turning
}

// turning is a moment at which the places that are had become more, or fewer.
type turning struct{ at, by int64 }

func (s *sharedItem) had(from, until int64) {
	if from < until {
		s.turns = append(s.turns, turning{from, 1}, turning{until, -1})
	}
}

// most is how many places were surely had at once.
func (s *sharedItem) most() int64 {
	slices.SortFunc(s.turns, func(a, b turning) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	var now, most int64
	for _, turn := range s.turns {
		now += turn.by
		most = max(most, now)
	}
	return most
}

// judgeShares: nobody has more than per_user.
func judgeShares(t *tally, facts []fact, l limits) {
	if l.perUser < 1 {
		t.note(promiseSeat, "per_user is not checked: it is not known (--per-user or --operator-token)")
		return
	}
	for _, f := range facts {
		n := 0
		for _, p := range f.Purchases {
			n += p.Quantity
		}
		if n > 0 {
			t.check(promiseSeat, n <= l.perUser, "user %d has %d, at most %d allowed", f.User, n, l.perUser)
		}
	}
}
