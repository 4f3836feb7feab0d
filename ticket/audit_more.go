package ticket

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// ledgerBooking is who has which slot or course.
type ledgerBooking struct{ person, item string }

// ledgerNumbers is what an event has counted: numbers (mode buffered) and ranks of
// issued tokens (mode instant).
type ledgerNumbers struct {
	counts              bool  // it has a counter
	last                int64 // of the counter
	n, least, most      int64 // of the numbers
	winners             map[int64]int64
	issued, ranks, held int64 // rows, different ranks, the highest
}

func (l *ledger) readBookings(ctx context.Context, t tx) error {
	return t.query(ctx, func(scan func(...any) error) error {
		var b ledgerBooking
		var reservation string
		err := scan(&b.person, &b.item, &reservation)
		l.bookings[b] = reservation
		return err
	}, `SELECT person, item, reservation FROM bookings WHERE event = $1`, nil, l.event)
}

func (l *ledger) readNumbers(ctx context.Context, t tx) error {
	n := &l.numbers
	n.winners = map[int64]int64{}
	for _, q := range []struct {
		read      func(func(...any) error) error
		statement string
	}{
		{func(scan func(...any) error) error { n.counts = true; return scan(&n.last) }, `SELECT last FROM counters WHERE event = $1`},
		{
			func(scan func(...any) error) error { return scan(&n.n, &n.least, &n.most) },
			`SELECT count(*), coalesce(min(seq), 0), coalesce(max(seq), 0) FROM numbers WHERE event = $1`,
		},
		{func(scan func(...any) error) error {
			var seq, at int64
			err := scan(&seq, &at)
			n.winners[seq] = at
			return err
		}, `SELECT seq, determined_ms FROM numbers WHERE event = $1 AND winner = 1`},
		{
			func(scan func(...any) error) error { return scan(&n.issued, &n.ranks, &n.held) },
			`SELECT count(*), count(DISTINCT rank), coalesce(max(rank), 0) FROM issued WHERE event = $1`,
		},
	} {
		if err := t.query(ctx, q.read, q.statement, nil, l.event); err != nil {
			return err
		}
	}
	return nil
}

// bookingSums compare who has which slot or course with what reservations say, and
// count the courses of one person that meet at the same time.
func (l *ledger) bookingSums() []Sum {
	if !booked(l.kind) {
		return nil
	}
	bookings, clashes := newTally("bookings"), newTally("timetable")
	should := map[ledgerBooking]string{}
	courses := map[string][]string{}
	for _, r := range l.reservations {
		if !r.living() || r.before(l) {
			continue
		}
		for _, id := range r.seats {
			b := ledgerBooking{r.person, id}
			should[b] = r.id
			found := int64(0)
			if l.bookings[b] == r.id {
				found = 1
			}
			bookings.count(1, found, r.person+" "+id)
			courses[r.person] = append(courses[r.person], id)
		}
	}
	for b := range l.bookings {
		if _, right := should[b]; !right {
			bookings.count(0, 1, b.person+" "+b.item)
		}
	}
	for person, ids := range courses {
		for i, id := range ids {
			met := int64(0)
			if slices.ContainsFunc(ids[:i], func(other string) bool { return clash(l.meetings[id], l.meetings[other]) }) {
				met = 1
			}
			clashes.count(0, met, person+" "+id)
		}
	}
	return []Sum{bookings.sum(), clashes.sum()}
}

// numberSums compare numbers with their counter, notices of wins with the winners,
// and ranks with tokens. They are there where the event has any.
func (l *ledger) numberSums(keep int64) (sums []Sum) {
	n := l.numbers
	if n.counts {
		numbers := newTally("numbers")
		numbers.count(n.last, n.n, "how many")
		if n.last > 0 {
			numbers.count(1, n.least, "the first")
			numbers.count(n.last, n.most, "the last")
		}
		// Only the row of numbers itself is a sum to print.
		sum := numbers.sum()
		sum.Expected, sum.Found = n.last, n.n
		told := map[string]bool{}
		for _, row := range l.outbox {
			if row.topic == TopicWinner {
				told[row.key] = true
			}
		}
		winners := newTally("winners_told")
		for seq, at := range n.winners {
			key := winKey(l.event, seq, at)
			if told[key] {
				winners.count(1, 1, "")
			} else if l.now-at < keep {
				winners.count(1, 0, key)
			}
		} // a notice without a win may be of an event of this name that was removed
		sums = append(sums, sum, winners.sum())
	}
	if n.issued > 0 {
		ranks := newTally("issued_ranks")
		ranks.count(n.issued, n.ranks, fmt.Sprintf("%d tokens, the highest rank %d", n.issued, n.held))
		sums = append(sums, ranks.sum())
	}
	return sums
}

// readMeetings is the timetable of an item.
func (l *ledger) readMeetings(id, text string) error {
	if text == "" {
		return nil
	}
	var texts []string
	if err := json.Unmarshal([]byte(text), &texts); err != nil {
		return fmt.Errorf("meetings of %s: %w", id, err)
	}
	meetings, err := parseMeetings(texts)
	l.meetings[id] = meetings
	return err
}

// before says whether a reservation is of an event of the same name that was removed.
func (r *ledgerReservation) before(l *ledger) bool { return r.created < l.made }
