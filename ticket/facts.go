package ticket

import (
	"context"
	"slices"
)

// live are the states of a reservation that has its seats.
const live = `status IN ('held', 'payment_pending', 'paid')`

// ending are the states of a reservation that ends by the clock.
const ending = `status IN ('held', 'payment_pending')`

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
}

// facts are what the database says of a group's requests, before it is judged.
type facts struct {
	now     int64
	due     bool              // some hold of the event has ended, and was not swept yet
	answers map[string]stored // by key
	used    map[string]bool   // tokens that have bought
	shares  map[string]int64  // what persons hold and own
	seats   map[string]seatRow
	stock   map[string]stockRow
	// vouched are the seats of which only the hall says that they are free.
	vouched map[string]bool
	// among, when set, are the free seats that this transaction has locked.
	among map[string]bool
}

// The kinds of rows in the answer to the one question that is asked.
const (
	rowClock = iota
	rowToken
	rowShare
	rowStock
	rowAnswer
)

// question asks all but the seats in one round trip.
const question = `
SELECT 0 AS kind, '' AS name, {now} + $2 AS a,
	CASE WHEN EXISTS (SELECT 1 FROM reservations WHERE event = $1 AND ` + ending + ` AND ends_ms <= {now} + $2) THEN 1 ELSE 0 END AS b,
	0 AS c, CAST(NULL AS BYTEA) AS key, CAST(NULL AS BYTEA) AS body_hash, CAST(NULL AS BYTEA) AS body
UNION ALL
SELECT 1, t.jti, 0, 0, 0, NULL, NULL, NULL FROM {rows} JOIN reservations t ON t.event = $1 AND t.jti = r.jti AND t.` + live + `
UNION ALL
SELECT 2, s.person, s.n, 0, 0, NULL, NULL, NULL FROM {rows} JOIN shares s ON s.event = $1 AND s.person = r.person
UNION ALL
SELECT 3, i.id, i.free, i.total, i.version, NULL, NULL, NULL FROM items i WHERE i.event = $1
UNION ALL
SELECT 4, '', a.status, 0, 0, a.key, a.body_hash, a.body FROM {rows} JOIN answers a ON a.key = r.key`

// facts reads what the group's judgement needs. Seats that the hall knows as
// free are not asked for: the guard of the update finds out.
func (s *Store) facts(ctx context.Context, t tx, h *hall, asks []*ask, how manner) (*facts, error) {
	f := &facts{
		answers: map[string]stored{}, used: map[string]bool{}, shares: map[string]int64{},
		seats: map[string]seatRow{}, stock: map[string]stockRow{}, vouched: map[string]bool{},
	}
	if how.locked {
		if err := s.lock(ctx, t, h, asks, f); err != nil {
			return nil, err
		}
	}
	var jtis, persons []string
	var keys [][]byte
	for _, a := range asks {
		jtis, persons = append(jtis, a.JTI), append(persons, a.Person)
		if a.key == nil {
			keys = append(keys, []byte{})
			continue
		}
		keys = append(keys, a.key)
	}
	err := t.query(ctx, func(scan func(...any) error) error {
		var kind int
		var name string
		var a, b, c int64
		var key, hash, body []byte
		if err := scan(&kind, &name, &a, &b, &c, &key, &hash, &body); err != nil {
			return err
		}
		switch kind {
		case rowClock:
			f.now, f.due = a, b == 1
		case rowToken:
			f.used[name] = true
		case rowShare:
			f.shares[name] = a
		case rowStock:
			f.stock[name] = stockRow{name, b, a, c}
		case rowAnswer:
			f.answers[string(key)] = stored{hash, Answer{Status: int(a), Body: body, Replayed: true}}
		}
		return nil
	}, question, table("jti", jtis).column("person", persons).column("key", keys), h.event, s.skew.Load())
	if err != nil {
		return nil, err
	}
	return f, s.seats(ctx, t, h, asks, how, f)
}

// lock takes the rows that a group is about, in one order.
func (s *Store) lock(ctx context.Context, t tx, h *hall, asks []*ask, f *facts) error {
	none := func(scan func(...any) error) error { return nil }
	if ids := wanted(asks); len(ids) > 0 {
		// Only free ones: a seat of somebody else's is not ours to hold up.
		err := t.query(ctx, none, `SELECT s.id FROM seats s WHERE s.event = $1 AND s.status = 'free'
			AND s.id IN (SELECT r.id FROM {rows}) ORDER BY s.id {lock}`, table("id", ids), h.event)
		if err != nil {
			return err
		}
	}
	most := 0
	for _, a := range asks {
		most += a.Quantity
	}
	if most > 0 {
		f.among = map[string]bool{}
		var rows []seatRow
		err := t.query(ctx, func(scan func(...any) error) error {
			r := seatRow{status: SeatFree}
			err := scan(&r.id, &r.version)
			f.among[r.id] = true
			rows = append(rows, r)
			return err
		}, `SELECT id, version FROM seats WHERE event = $1 AND status = 'free' ORDER BY ord LIMIT $2 {skip}`,
			nil, h.event, 4*most+64)
		if err != nil {
			return err
		}
		h.learn(rows)
	}
	return t.query(ctx, none, `SELECT id FROM items WHERE event = $1 ORDER BY id {lock}`, nil, h.event)
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
	}, `SELECT s.id, s.status, s.version FROM {rows} JOIN seats s ON s.event = $1 AND s.id = r.id`, table("id", ids), h.event)
	h.learn(rows)
	return err
}
