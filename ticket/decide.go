package ticket

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// result is what one ask of a group comes to.
type result struct {
	answer Answer
	err    error
}

// plan is what a group's transaction will write, and answer when it has.
type plan struct {
	results []result
	// refusals: somebody is refused something that an ended hold may free.
	// soldOut: somebody is refused for want of any seat in the hall.
	// unsure: somebody is refused after a look at seats that only the hall vouches
	// for, so that an earlier reason may hold.
	refusals, soldOut, unsure bool

	made   []purchase
	picked []string
	seats  []claim
	shares map[string]int64
	taken  map[string]int64    // from items
	booked map[string][]string // items by person, where each is booked once
	books  []booking
	store  []storing

	held  []seatRow  // what the hall learns afterwards
	stock []stockRow // likewise
}

// purchase is a reservation that a token buys.
type purchase struct {
	Reservation
	jti string
}

// claim is a seat that a reservation takes.
type claim struct {
	seatRow
	reservation string
}

// booking is an item that a person gets by a reservation.
type booking struct{ person, item, reservation string }

// storing is an answer to keep.
type storing struct {
	key      []byte
	bodyHash [32]byte
	answer   Answer
}

// decide judges each ask in the order of arrival, against the facts and against
// what those before it took.
func decide(h *hall, f *facts, asks []*ask) *plan {
	n := len(asks)
	p := &plan{
		results: make([]result, n),
		shares:  make(map[string]int64, n), taken: map[string]int64{}, booked: map[string][]string{},
		made: make([]purchase, 0, n), seats: make([]claim, 0, n), store: make([]storing, 0, n),
	}
	cat := h.catalogue()
	tokens, seats := make(map[string]bool, n), make(map[string]bool, n)
	names := namesFor(asks, f.now)
	for i, a := range asks {
		if found, ok := f.answers[string(a.key)]; ok && a.key != nil {
			p.results[i] = result{answer: found.answer}
			if !bytes.Equal(found.bodyHash, a.Key.BodyHash[:]) {
				p.results[i] = result{err: ErrIdempotencyMismatch}
			}
			continue
		}
		ids, refusal := p.judge(h, cat, f, a, tokens, seats)
		var r Reservation
		if refusal == nil {
			r = Reservation{
				ID: names[i], Event: h.event, Person: a.Person, Status: Held, Seats: ids,
				AmountCents: h.price(ids), Currency: cat.Currency,
				ExpiresAt: millis(f.now + cat.HoldTTL.Milliseconds()),
			}
			tokens[a.JTI] = true
			p.take(h, cat, f, r, a.JTI, seats)
		}
		status, body := a.Encode(r, refusal)
		answer := Answer{Status: status, Body: body}
		p.results[i] = result{answer: answer}
		if a.key != nil {
			p.store = append(p.store, storing{a.key, a.Key.BodyHash, answer})
		}
	}
	return p
}

// judge finds the seats for one ask, or the reason against it.
func (p *plan) judge(h *hall, cat Catalogue, f *facts, a *ask, tokens, seats map[string]bool) ([]string, error) {
	for _, id := range a.Seats {
		if cat.Kind == KindSeats {
			if _, ok := f.seats[id]; !ok {
				return nil, fmt.Errorf("%s: %w", id, ErrNoSeat)
			}
		} else if _, ok := f.stock[id]; !ok {
			return nil, fmt.Errorf("%s: %w", id, ErrNoSeat)
		}
	}
	n := a.Quantity + len(a.Seats)
	if n < 1 || a.Quantity > 0 && len(a.Seats) > 0 || cat.Kind != KindSeats && (a.Section != "" || a.Wheelchair) {
		return nil, fmt.Errorf("%d seats and a quantity of %d: %w", len(a.Seats), a.Quantity, ErrWrongMode)
	}
	if f.used[a.JTI] || tokens[a.JTI] {
		p.refusals = true
		return nil, ErrTokenUsed
	}
	ids, err := p.find(h, cat, f, a, seats)
	if err != nil {
		p.refusals = true
		return nil, err
	}
	if f.shares[a.Person]+p.shares[a.Person]+int64(n) > int64(cat.PerUser) {
		if cat.Kind == KindSeats && a.Quantity > 0 {
			h.unpick(ids)
		}
		p.refusals = true
		p.unsure = p.unsure || slices.ContainsFunc(a.Seats, func(id string) bool { return f.vouched[id] })
		return nil, ErrAlreadyReserved
	}
	if booked(cat.Kind) {
		if err := p.bookable(h, f, a.Person, ids, cat.Kind); err != nil {
			p.refusals = true
			return nil, err
		}
	}
	if cat.Kind == KindSeats {
		if a.Quantity == 0 {
			p.picked = append(p.picked, h.claim(ids)...)
		} else {
			p.picked = append(p.picked, ids...)
		}
	}
	return ids, nil
}

// find gives the ids that an ask would take.
func (p *plan) find(h *hall, cat Catalogue, f *facts, a *ask, seats map[string]bool) ([]string, error) {
	switch {
	case cat.Kind == KindStock:
		ids := slices.Clone(a.Seats)
		for range a.Quantity {
			ids = append(ids, StockItem)
		}
		return ids, p.enough(f, ids)
	case booked(cat.Kind) && a.Quantity > 0:
		return p.choose(h, f, a, cat.Kind)
	case booked(cat.Kind):
		ids := h.inOrder(a.Seats)
		err := p.enough(f, ids)
		if err != nil && p.leftBeside(f, ids) {
			err = fmt.Errorf("%v: %w", ids, ErrSeatTaken) // that one is gone, and not everything
		}
		return ids, err
	case a.Quantity > 0:
		ids := h.pick(wish{a.Quantity, a.Section, a.Wheelchair}, f.among)
		if len(ids) < a.Quantity {
			p.soldOut = true
			return nil, ErrSoldOut
		}
		return ids, nil
	}
	for i, id := range a.Seats {
		if f.seats[id].status != SeatFree || seats[id] || slices.Contains(a.Seats[:i], id) {
			return nil, fmt.Errorf("%s: %w", id, ErrSeatTaken)
		}
	}
	if id, alone := h.alone(a.Seats); alone {
		return nil, fmt.Errorf("%s: %w", id, ErrCompanion)
	}
	return h.inOrder(a.Seats), nil
}

// leftBeside says whether other items than these have a place left.
func (p *plan) leftBeside(f *facts, ids []string) bool {
	others := f.open
	for id, r := range f.stock {
		if r.free > 0 {
			others-- // those of the group are looked at one by one
		}
		if !slices.Contains(ids, id) && r.free > p.taken[id] {
			return true
		}
	}
	return others > 0
}

// enough is ErrSoldOut when an item has fewer places left than ids want of it.
func (p *plan) enough(f *facts, ids []string) error {
	want := map[string]int64{}
	for _, id := range ids {
		want[id]++
		if f.stock[id].free-p.taken[id] < want[id] {
			return fmt.Errorf("%s: %w", id, ErrSoldOut)
		}
	}
	return nil
}

// bookable says why a person may not have some slots or courses beside those that
// are held and owned already: each is booked once, and courses must not meet at
// the same time.
func (p *plan) bookable(h *hall, f *facts, person string, ids []string, kind string) error {
	has := slices.Concat(f.bookings[person], p.booked[person])
	for i, id := range ids {
		if slices.Contains(has, id) || slices.Contains(ids[:i], id) {
			return fmt.Errorf("%s: %w", id, ErrAlreadyReserved)
		}
	}
	if kind != KindCourses {
		return nil
	}
	for i, id := range ids {
		if clash(h.timetable([]string{id}), h.timetable(slices.Concat(has, ids[:i]))) {
			return fmt.Errorf("%s: %w", id, ErrTimetableClash)
		}
	}
	return nil
}

// choose gives the first slots or courses that have a place and that the person
// may have; when there are not so many, what stood in the way: a clash of times
// before anything else.
func (p *plan) choose(h *hall, f *facts, a *ask, kind string) ([]string, error) {
	var ids []string
	reason := ErrSoldOut
	for _, id := range h.itemIDs() {
		if p.enough(f, []string{id}) != nil {
			continue
		}
		with := append(slices.Clone(ids), id)
		if err := p.bookable(h, f, a.Person, with, kind); err != nil {
			if !errors.Is(reason, ErrTimetableClash) {
				reason = err
			}
			continue
		}
		if ids = with; len(ids) == a.Quantity {
			return ids, nil
		}
	}
	return nil, reason
}

// take notes what a reservation will write.
func (p *plan) take(h *hall, cat Catalogue, f *facts, r Reservation, jti string, seats map[string]bool) {
	p.made = append(p.made, purchase{r, jti})
	p.shares[r.Person] += int64(len(r.Seats))
	for _, id := range r.Seats {
		if cat.Kind != KindSeats {
			p.taken[id]++
			if booked(cat.Kind) {
				p.booked[r.Person] = append(p.booked[r.Person], id)
				p.books = append(p.books, booking{r.Person, id, r.ID})
			}
			continue
		}
		row, chosen := f.seats[id]
		if !chosen {
			row, _ = h.knows(id)
		}
		seats[id] = true
		p.seats = append(p.seats, claim{row, r.ID})
	}
}

// namesFor makes an id for the reservation of each ask. They grow in the order of the
// tokens, in which reservations are written: rows that come in the order of an index cost
// it less (8 %).
func namesFor(asks []*ask, now int64) []string {
	order, ids, names := make([]int, len(asks)), make([]string, len(asks)), make([]string, len(asks))
	for i := range asks {
		order[i], ids[i] = i, newID(now)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(asks[a].JTI, asks[b].JTI) })
	slices.Sort(ids)
	for i, at := range order {
		names[at] = ids[i]
	}
	return names
}

// newID is unique, hard to guess, and grows with time, so that new rows lie
// beside each other on the disk.
func newID(now int64) string {
	var b [20]byte
	binary.BigEndian.PutUint64(b[:], uint64(now)<<16) //nolint:gosec // a time after 1970
	_, _ = rand.Read(b[6:])                           // never fails
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}
