package ticket

import (
	"cmp"
	"context"
	"maps"
	"slices"
)

// write does what was decided. Every statement takes its rows in one order, the
// tables come in one order too (seats, reservations, shares, bookings, items,
// outbox, answers), and each guard's rows are counted: errConflict when somebody else
// was faster.
func (p *plan) write(ctx context.Context, t tx, h *hall, f *facts, how manner) error {
	var steps []step
	if len(p.made) > 0 {
		slices.SortFunc(p.made, func(a, b purchase) int { return cmp.Compare(a.ID, b.ID) }) // and so by token
		steps = append(steps, p.writeSeats(h)...)
		steps = append(steps, p.writeReservations(f), p.writeShares(h, f, how))
		steps = append(steps, p.writeBookings(h)...)
		steps = append(steps, p.writeStock(h)...)
		var box outgoing
		for i := range p.made {
			box.add(TopicHeld, &p.made[i].Reservation, "", f.now)
		}
		steps = append(steps, box.step(f.now))
	}
	if len(p.store) > 0 {
		steps = append(steps, storingStep(p.store, f.now))
	}
	if len(steps) == 0 {
		return nil
	}
	return t.all(ctx, steps)
}

func (p *plan) writeSeats(h *hall) []step {
	if len(p.seats) == 0 {
		return nil
	}
	slices.SortFunc(p.seats, func(a, b claim) int { return cmp.Compare(a.id, b.id) })
	n := len(p.seats)
	ids, versions, reservations := make([]string, n), make([]int64, n), make([]string, n)
	p.held = make([]seatRow, n)
	for i, c := range p.seats {
		ids[i], versions[i], reservations[i] = c.id, c.version, c.reservation
		p.held[i] = seatRow{c.id, SeatHeld, c.version + 1}
	}
	return []step{{
		statement: `UPDATE {fail} seats SET status = 'held', version = seats.version + 1, reservation = r.reservation
			FROM {rows} WHERE seats.event = r.event AND seats.id = r.id AND seats.version = r.version AND seats.status = 'free'`,
		rows: h.rows(n).column("id", ids).column("version", versions).column("reservation", reservations),
		want: n,
	}}
}

// writeReservations writes what was made: all of one event, on its terms of this moment.
func (p *plan) writeReservations(f *facts) step {
	n := len(p.made)
	ids, persons, jtis, seats := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	ns, amounts := make([]int64, n), make([]int64, n)
	for i := range p.made {
		r := &p.made[i]
		ids[i], persons[i], jtis[i], seats[i] = r.ID, r.Person, r.jti, string(appendSeats(nil, r.Seats))
		ns[i], amounts[i] = int64(len(r.Seats)), r.AmountCents
	}
	return step{
		statement: `INSERT {fail} INTO reservations
			(id, event, person, jti, status, reason, seats, n, amount_cents, currency, created_ms, ends_ms)
			SELECT r.id, $2, r.person, r.jti, 'held', '', r.seats, r.n, r.amount, $3, $1, $4
			FROM {rows} WHERE true {unless}`,
		rows: table("id", ids).column("person", persons).column("jti", jtis).column("seats", seats).
			column("n", ns).column("amount", amounts),
		args: []any{f.now, p.made[0].Event, p.made[0].Currency, p.made[0].ExpiresAt.UnixMilli()},
		want: n,
	}
}

// writeShares adds to what persons have, within the limit. Where each thing is
// booked once, the share must be as it was when the bookings were read.
func (p *plan) writeShares(h *hall, f *facts, how manner) step {
	cat := h.catalogue()
	persons := slices.Sorted(maps.Keys(p.shares))
	ns, versions := make([]int64, len(persons)), make([]int64, len(persons))
	for i, person := range persons {
		ns[i], versions[i] = p.shares[person], f.versions[person]+1
	}
	rest, less := `{unless}`, errReturns
	if !how.first {
		less = nil
		rest = `ON CONFLICT (event, person) DO UPDATE SET n = shares.n + excluded.n, version = shares.version + 1
			WHERE shares.n + excluded.n <= $2`
		if booked(cat.Kind) {
			rest += ` AND shares.version = excluded.version - 1`
		}
	}
	return step{
		statement: `INSERT {fail} INTO shares (event, person, n, version)
			SELECT $1, r.person, r.n, r.version FROM {rows} WHERE r.n <= $2 ` + rest,
		rows: table("person", persons).column("n", ns).column("version", versions),
		args: []any{h.event, cat.PerUser},
		want: len(persons),
		less: less,
	}
}

// writeBookings notes who has which slots or courses; the key lets nobody have one
// twice.
func (p *plan) writeBookings(h *hall) []step {
	if len(p.books) == 0 {
		return nil
	}
	slices.SortFunc(p.books, func(a, b booking) int {
		return cmp.Or(cmp.Compare(a.person, b.person), cmp.Compare(a.item, b.item))
	})
	n := len(p.books)
	persons, items, reservations := make([]string, n), make([]string, n), make([]string, n)
	for i, b := range p.books {
		persons[i], items[i], reservations[i] = b.person, b.item, b.reservation
	}
	return []step{{
		statement: `INSERT {fail} INTO bookings (event, person, item, reservation)
			SELECT $1, r.person, r.item, r.reservation FROM {rows} WHERE true ON CONFLICT DO NOTHING`,
		rows: table("person", persons).column("item", items).column("reservation", reservations),
		args: []any{h.event},
		want: n,
	}}
}

func (p *plan) writeStock(h *hall) []step {
	var steps []step
	for _, id := range slices.Sorted(maps.Keys(p.taken)) {
		steps = append(steps, step{
			statement: `UPDATE items SET free = free - $3, version = version + 1
				WHERE event = $1 AND id = $2 AND free >= $3 AND closed = 0 RETURNING total, free, version`,
			args: []any{h.event, id, p.taken[id]},
			want: 1,
			each: func(scan func(...any) error) error {
				r := stockRow{id: id}
				err := scan(&r.total, &r.free, &r.version)
				p.stock = append(p.stock, r)
				return err
			},
		})
	}
	return steps
}

// store keeps answers under their keys, in the transaction of the deed.
func store(ctx context.Context, t tx, answers []storing, now int64) error {
	return t.one(ctx, storingStep(answers, now))
}

func storingStep(answers []storing, now int64) step {
	slices.SortFunc(answers, func(a, b storing) int { return slices.Compare(a.key, b.key) })
	n := len(answers)
	keys, hashes, bodies, statuses := make([][]byte, n), make([][]byte, n), make([][]byte, n), make([]int64, n)
	for i, a := range answers {
		keys[i], hashes[i] = a.key, a.bodyHash[:]
		statuses[i], bodies[i] = int64(a.answer.Status), a.answer.Body
		if bodies[i] == nil {
			bodies[i] = []byte{}
		}
	}
	return step{
		statement: `INSERT {fail} INTO answers (key, body_hash, status, body, created_ms)
			SELECT r.key, r.body_hash, r.status, r.body, $1 FROM {rows} WHERE true {unless}`,
		rows: table("key", keys).column("body_hash", hashes).column("status", statuses).column("body", bodies),
		args: []any{now},
		want: n,
	}
}

// outgoing are messages to write to the outbox.
type outgoing struct {
	events, topics, keys []string
	payloads             [][]byte
}

func (o *outgoing) add(topic string, r *Reservation, payment string, now int64) {
	o.events, o.topics, o.keys = append(o.events, r.Event), append(o.topics, topic), append(o.keys, r.ID)
	o.payloads = append(o.payloads, message(topic, r, payment, now))
}

func (o *outgoing) write(ctx context.Context, t tx, now int64) error {
	if len(o.topics) == 0 {
		return nil
	}
	return t.one(ctx, o.step(now))
}

func (o *outgoing) step(now int64) step {
	if n := len(o.topics); n > 1 && alike(o.events) && alike(o.topics) {
		return step{
			statement: `INSERT {fail} INTO outbox (event, topic, key, payload, created_ms)
				SELECT $2, $3, r.key, r.payload, $1 FROM {rows} WHERE true`,
			rows: table("key", o.keys).column("payload", o.payloads),
			args: []any{now, o.events[0], o.topics[0]},
			want: n,
		}
	}
	return step{
		statement: `INSERT {fail} INTO outbox (event, topic, key, payload, created_ms)
			SELECT r.event, r.topic, r.key, r.payload, $1 FROM {rows} WHERE true`,
		rows: table("event", o.events).column("topic", o.topics).column("key", o.keys).column("payload", o.payloads),
		args: []any{now},
		want: len(o.topics),
	}
}

// alike says whether all of them are the same, as they are in a group's messages.
func alike(all []string) bool {
	return !slices.ContainsFunc(all, func(s string) bool { return s != all[0] })
}
