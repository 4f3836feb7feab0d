package ticket

import (
	"context"
	"database/sql"
	"slices"
	"strings"
)

// live are the states of a reservation that has its seats.
const live = `status IN ('held', 'payment_pending', 'paid')`

// ending are the states of a reservation that ends by the clock.
const ending = `status IN ('held', 'payment_pending')`

// inEvent is event = $1 for who looks along the ends of holds. As it stands there the
// planner may go through all tokens that ever bought anything, for the event in them.
const inEvent = `event || '' = $1`

// stored is an answer found under an idempotency key.
type stored struct {
	bodyHash []byte
	answer   Answer
}

// stockRow is an item as the database has it.
type stockRow struct {
	id          string
	total, free int64
	version     int64
	closed      bool // by an operator: nothing of it is sold
}

// open is what may be sold of it.
func (r stockRow) open() int64 {
	if r.closed {
		return 0
	}
	return r.free
}

// facts are what the database says of a group's requests, before it is judged.
type facts struct {
	now       int64
	catalogue int64             // its version, 0 when it is gone
	due       bool              // some hold of the event has ended, and was not swept yet
	answers   map[string]stored // by key
	used      map[string]bool   // tokens that have bought
	shares    map[string]int64  // what persons hold and own
	seats     map[string]seatRow
	stock     map[string]stockRow
	// open is how many items have a place left, where one that is asked for may have none.
	open int64
	// bookings are the slots or courses that persons hold and own, and versions
	// those of the persons' shares when that was read.
	bookings map[string][]string
	versions map[string]int64
	// vouched are the seats of which only the hall says that they are free.
	vouched map[string]bool
	// among, when set, are the free seats that this transaction has locked.
	among map[string]bool
}

// The kinds of rows in the answer to the one question that is asked.
const (
	rowClock = iota
	rowAsk
	rowStock
)

// question asks all but seats, slots and courses in one round trip. Tokens, shares and answers
// are looked up one by one, each in a query of its own that can only go by an
// index: of a join the planner makes a scan of the table, or of all that the event
// has, when it knows the table as empty.
const question = `
SELECT 0 AS kind, 0 AS i, {now} + $2 AS a,
	(SELECT ends_ms FROM reservations WHERE ` + ending + ` AND ends_ms <= (SELECT {now} + $2) AND ` + inEvent + ` ORDER BY ends_ms LIMIT 1) AS b,
	(SELECT version FROM catalogues WHERE event = $1) AS c, '' AS name
UNION ALL
SELECT 1, r.i, (SELECT count(*) FROM reservations t WHERE t.event = r.event AND t.jti = r.jti AND t.` + live + `),
	coalesce((SELECT s.n FROM shares s WHERE s.event = r.event AND s.person = r.person), 0),
	coalesce((SELECT a.status FROM answers a WHERE a.key = r.key), 0), '' FROM {rows}
UNION ALL
SELECT 2, 0, i.free * (1 - i.closed), i.total, i.version, i.id FROM items i WHERE i.event = $1 AND i.id = '` + StockItem + `'`

// rows starts a list of n rows about this event.
func (h *hall) rows(n int) *list { return table("event", slices.Repeat([]string{h.event}, n)) }

// facts reads what the group's judgement needs. Seats that the hall knows as
// free are not asked for: the guard of the update finds out.
func (s *Store) facts(ctx context.Context, t tx, h *hall, asks []*ask, how manner) (*facts, error) {
	n := len(asks)
	f := &facts{
		used: map[string]bool{}, shares: map[string]int64{},
		seats: make(map[string]seatRow, n), stock: map[string]stockRow{}, vouched: make(map[string]bool, n),
		bookings: map[string][]string{}, versions: map[string]int64{},
	}
	if how.bold {
		if ok, err := s.suppose(ctx, t, h, asks, f); err != nil || ok {
			return f, err
		}
		return nil, errGuess
	}
	if how.locked {
		if err := s.lock(ctx, t, h, asks, f); err != nil {
			return nil, err
		}
	}
	jtis, persons, keys, at := make([]string, n), make([]string, n), make([][]byte, n), make([]int64, n)
	for i, a := range asks {
		jtis[i], persons[i], keys[i], at[i] = a.JTI, a.Person, a.key, int64(i)
		if a.key == nil {
			keys[i] = []byte{}
		}
	}
	var known [][]byte
	err := t.query(ctx, func(scan func(...any) error) error {
		var kind, i int
		var a int64
		var b, c sql.NullInt64
		var name string
		if err := scan(&kind, &i, &a, &b, &c, &name); err != nil {
			return err
		}
		switch kind {
		case rowClock:
			f.now, f.due, f.catalogue = a, b.Valid, c.Int64
		case rowAsk:
			f.used[asks[i].JTI], f.shares[asks[i].Person] = a > 0, b.Int64
			if c.Int64 > 0 {
				known = append(known, asks[i].key)
			}
		case rowStock:
			f.stock[name] = stockRow{id: name, total: b.Int64, free: a, version: c.Int64}
		}
		return nil
	}, question, h.rows(n).column("i", at).column("jti", jtis).column("person", persons).column("key", keys), h.event, s.skew.Load())
	if err == nil {
		f.answers, err = answered(ctx, t, known)
	}
	if err != nil {
		return nil, err
	}
	switch kind := h.catalogue().Kind; {
	case booked(kind):
		err = s.bookings(ctx, t, h, asks, f)
	case kind == KindSeats:
		err = s.seats(ctx, t, h, asks, how, f)
	}
	return f, err
}

// answered reads the answers that are stored under keys.
func answered(ctx context.Context, t tx, keys [][]byte) (map[string]stored, error) {
	found := map[string]stored{}
	if len(keys) == 0 {
		return found, nil
	}
	err := t.query(ctx, func(scan func(...any) error) error {
		var key, hash, body []byte
		var status sql.NullInt64
		if err := scan(&key, &status, &hash, &body); err != nil {
			return err
		}
		if status.Valid { // else swept since it was seen
			found[string(key)] = stored{hash, Answer{Status: int(status.Int64), Body: body, Replayed: true}}
		}
		return nil
	}, `SELECT r.key, (SELECT a.status FROM answers a WHERE a.key = r.key), (SELECT a.body_hash FROM answers a WHERE a.key = r.key),
		(SELECT a.body FROM answers a WHERE a.key = r.key) FROM {rows}`, table("key", keys))
	return found, err
}

// bookings reads what the persons have of slots or courses, and the places left of
// those that are asked for. A share's version is of the same moment as its
// bookings.
func (s *Store) bookings(ctx context.Context, t tx, h *hall, asks []*ask, f *facts) error {
	persons := make([]string, len(asks))
	for i, a := range asks {
		persons[i] = a.Person
	}
	slices.Sort(persons)
	persons = slices.Compact(persons)
	err := t.query(ctx, func(scan func(...any) error) error {
		var person, items string
		var version int64
		err := scan(&person, &version, &items)
		f.versions[person], f.bookings[person] = version, strings.Fields(items)
		return err
	}, `SELECT r.person, coalesce((SELECT s.version FROM shares s WHERE s.event = r.event AND s.person = r.person), 0),
		coalesce((SELECT string_agg(b.item, ' ') FROM bookings b WHERE b.event = r.event AND b.person = r.person), '') FROM {rows}`,
		h.rows(len(persons)).column("person", persons))
	if err != nil {
		return err
	}
	ids := wantedItems(h, asks)
	err = t.query(ctx, func(scan func(...any) error) error {
		var r stockRow
		var total, free, version sql.NullInt64
		err := scan(&r.id, &total, &free, &version)
		if version.Valid { // else there is no such item
			f.stock[r.id] = stockRow{id: r.id, total: total.Int64, free: free.Int64, version: version.Int64}
		}
		return err
	}, `SELECT r.id, (SELECT i.total FROM items i WHERE i.event = r.event AND i.id = r.id),
		(SELECT i.free * (1 - i.closed) FROM items i WHERE i.event = r.event AND i.id = r.id),
		(SELECT i.version FROM items i WHERE i.event = r.event AND i.id = r.id) FROM {rows}`,
		h.rows(len(ids)).column("id", ids))
	if err != nil || !f.short(asks) {
		return err
	}
	return t.query(ctx, func(scan func(...any) error) error { return scan(&f.open) },
		`SELECT count(*) FROM items WHERE event = $1 AND free > 0 AND closed = 0`, nil, h.event)
}

// short says whether a slot or a course has fewer places left than are asked for by name.
func (f *facts) short(asks []*ask) bool {
	want := map[string]int64{}
	for _, a := range asks {
		for _, id := range a.Seats {
			if want[id]++; want[id] > f.stock[id].free {
				return true
			}
		}
	}
	return false
}

// wantedItems are the slots or courses that asks are about: those that they name,
// and all where the server picks.
func wantedItems(h *hall, asks []*ask) []string {
	if !slices.ContainsFunc(asks, func(a *ask) bool { return a.Quantity > 0 }) {
		return wanted(asks)
	}
	ids := append(h.itemIDs(), wanted(asks)...)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// none is for statements whose rows say nothing new.
func none(func(...any) error) error { return nil }

// lock takes the rows that a group is about, in one order.
func (s *Store) lock(ctx context.Context, t tx, h *hall, asks []*ask, f *facts) error {
	switch h.catalogue().Kind {
	case KindSeats:
		return s.lockSeats(ctx, t, h, asks, f)
	case KindStock:
		return t.query(ctx, none, `SELECT id FROM items WHERE event = $1 ORDER BY id {lock}`, nil, h.event)
	}
	persons := make([]string, len(asks))
	for i, a := range asks {
		persons[i] = a.Person
	}
	err := t.query(ctx, none, `SELECT s.person FROM {rows} JOIN shares s ON s.event = r.event AND s.person = r.person
		ORDER BY s.person {lock s}`, h.rows(len(persons)).column("person", persons))
	if err != nil {
		return err
	}
	ids := wantedItems(h, asks)
	return t.query(ctx, none, `SELECT i.id FROM {rows} JOIN items i ON i.event = r.event AND i.id = r.id
		ORDER BY i.id {lock i}`, h.rows(len(ids)).column("id", ids))
}

// lockSeats locks the seats that are named, and some that may be picked.
func (s *Store) lockSeats(ctx context.Context, t tx, h *hall, asks []*ask, f *facts) error {
	if ids := wanted(asks); len(ids) > 0 {
		// Only free ones: a seat of somebody else's is not ours to hold up.
		err := t.query(ctx, none, `SELECT s.id FROM {rows} JOIN seats s ON s.event = r.event AND s.id = r.id
			WHERE s.status = 'free' ORDER BY s.id {lock s}`, h.rows(len(ids)).column("id", ids))
		if err != nil {
			return err
		}
	}
	most := map[wish]int{} // by where and what, without the number
	for _, a := range asks {
		if a.Quantity > 0 {
			most[wish{section: a.Section, wheelchair: a.Wheelchair}] += a.Quantity
		}
	}
	if len(most) == 0 {
		return nil
	}
	f.among = map[string]bool{}
	var rows []seatRow
	for w, n := range most {
		err := t.query(ctx, func(scan func(...any) error) error {
			r := seatRow{status: SeatFree}
			err := scan(&r.id, &r.version)
			f.among[r.id] = true
			rows = append(rows, r)
			return err
		}, `SELECT id, version FROM seats WHERE event = $1 AND status = 'free' AND (kind <> '') = $3
			AND ($4 = '' OR section = $4) ORDER BY ord LIMIT $2 {skip}`,
			nil, h.event, 4*n+64, w.wheelchair, w.section)
		if err != nil {
			return err
		}
	}
	h.learn(rows)
	return nil
}

// seats reads the chosen seats that the hall cannot vouch for.
func (s *Store) seats(ctx context.Context, t tx, h *hall, asks []*ask, how manner, f *facts) error {
	ids := wanted(asks)
	if !how.locked && !how.sure {
		ids = slices.DeleteFunc(ids, func(id string) bool {
			r, ok := h.knows(id)
			if ok && r.status == SeatFree {
				f.seats[id], f.vouched[id] = r, true
				return true
			}
			return false
		})
	}
	if len(ids) == 0 {
		return nil
	}
	var rows []seatRow
	err := t.query(ctx, func(scan func(...any) error) error {
		var r seatRow
		err := scan(&r.id, &r.status, &r.version)
		rows = append(rows, r)
		f.seats[r.id] = r
		return err
	}, `SELECT s.id, s.status, s.version FROM {rows} JOIN seats s ON s.event = r.event AND s.id = r.id`,
		h.rows(len(ids)).column("id", ids))
	h.learn(rows)
	return err
}
