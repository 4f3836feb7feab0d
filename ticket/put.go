package ticket

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// putChunk is the most seats written by one statement.
const putChunk = 5000

// Put makes an event sell what c says. It is idempotent: what is missing is
// added, terms and prices are changed, and no seat that exists is touched. A
// stock, a slot or a course grows or shrinks, though never below what is held and
// sold. Where the places came by Import only the terms are changed. The kind may
// change while nobody holds or owns anything; else it is ErrWrongMode. The error
// may be an *InvalidError.
func (s *Store) Put(ctx context.Context, event string, c Catalogue) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("catalogue of %s: %w", event, err)
	}
	c = c.orDefaults()
	err := s.againWithin(ctx, putCalls*s.cfg.CallTimeout, func(ctx context.Context, t tx) error {
		now, err := s.now(ctx, t)
		if err != nil {
			return err
		}
		terms, err := putTerms(ctx, t, event, c, now)
		if err != nil {
			return err
		}
		var changed int64
		switch {
		case c.Kind == KindStock:
			changed, err = putItems(ctx, t, event, []ItemSpec{{ID: StockItem, Capacity: c.Stock}})
		case terms.imported:
		case c.Kind == KindSeats:
			changed, err = putSeats(ctx, t, event, c)
		default:
			changed, err = putItems(ctx, t, event, c.Items)
		}
		if err != nil || terms.fresh || changed == 0 && !terms.changed {
			return err
		}
		return announceCatalogue(ctx, t, event, now)
	})
	if err != nil {
		return fmt.Errorf("put %s: %w", event, err)
	}
	return s.renewed(ctx, event)
}

// putCalls is how many times as long as a call of the sale a change of the
// catalogue may take: half a million seats are many.
const putCalls = 30

// renewed brings this node up to a catalogue that was changed.
func (s *Store) renewed(ctx context.Context, event string) error {
	s.mu.Lock()
	delete(s.absent, event)
	h := s.halls[event]
	s.mu.Unlock()
	s.news.poke()
	if h != nil {
		return s.reload(ctx, h)
	}
	return nil
}

// terms is what putting a catalogue's own row has come to.
type terms struct {
	fresh    bool // nobody can know an older one
	changed  bool
	imported bool // the places came from a file
}

// putTerms writes the catalogue's own row.
func putTerms(ctx context.Context, t tx, event string, c Catalogue, now int64) (terms, error) {
	was, found, err := lockCatalogue(ctx, t, event)
	if err != nil {
		return terms{}, err
	}
	other := found && was.kind != c.Kind
	if other {
		if err := unsold(ctx, t, event); err != nil {
			return terms{}, err
		}
		if err := wipe(ctx, t, event); err != nil {
			return terms{}, err
		}
	}
	if !found || other {
		return terms{fresh: !found, changed: true}, t.insert(ctx, 1, `INSERT INTO catalogues
			(event, kind, price_cents, currency, per_user, hold_ms, locking, on_breaker_open, version, created_ms)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9) ON CONFLICT DO NOTHING`, nil,
			event, c.Kind, c.PriceCents, c.Currency, c.PerUser, c.HoldTTL.Milliseconds(), c.Locking, c.OnBreakerOpen, now)
	}
	n, err := t.exec(ctx, `UPDATE catalogues SET price_cents = $2, currency = $3, per_user = $4, hold_ms = $5,
			locking = $6, on_breaker_open = $7 WHERE event = $1
			AND (price_cents, currency, per_user, hold_ms, locking, on_breaker_open) <> ($2, $3, $4, $5, $6, $7)`, nil,
		event, c.PriceCents, c.Currency, c.PerUser, c.HoldTTL.Milliseconds(), c.Locking, c.OnBreakerOpen)
	return terms{changed: n > 0, imported: was.imported}, err
}

// announceCatalogue tells all nodes to read an event's catalogue again.
func announceCatalogue(ctx context.Context, t tx, event string, now int64) error {
	if err := t.insert(ctx, 1, `UPDATE catalogues SET version = version + 1 WHERE event = $1`, nil, event); err != nil {
		return err
	}
	return notice(ctx, t, TopicCatalogue, event, nil, now)
}

// notice writes a message that is about places and not about a reservation.
func notice(ctx context.Context, t tx, topic, event string, places []string, now int64) error {
	var box outgoing
	box.add(topic, &Reservation{ID: newID(now), Event: event, Seats: places}, "", now)
	return box.write(ctx, t, now)
}

// catalogueRow is what a change of a catalogue must know of it.
type catalogueRow struct {
	kind     string
	imported bool
}

// lockCatalogue locks a catalogue's row, so that its changes come one after the
// other; false when the event sells nothing.
func lockCatalogue(ctx context.Context, t tx, event string) (row catalogueRow, found bool, err error) {
	err = t.query(ctx, func(scan func(...any) error) error {
		var imported int64
		err := scan(&row.kind, &imported)
		row.imported, found = imported != 0, true
		return err
	}, `SELECT kind, imported FROM catalogues WHERE event = $1 {lock}`, nil, event)
	return row, found, err
}

// unsold is ErrWrongMode when somebody holds or owns what an event sells.
func unsold(ctx context.Context, t tx, event string) error {
	var taken int64
	err := t.query(ctx, func(scan func(...any) error) error { return scan(&taken) },
		`SELECT count(*) FROM shares WHERE event = $1 AND n > 0`, nil, event)
	if err == nil && taken > 0 {
		return fmt.Errorf("%s has sold already: %w", event, ErrWrongMode)
	}
	return err
}

// wipe deletes what an event sells, and who has which share of it. Reservations
// and payments stay: they are the books.
func wipe(ctx context.Context, t tx, event string) error {
	for _, statement := range []string{
		`DELETE FROM seats WHERE event = $1`, `DELETE FROM sections WHERE event = $1`, `DELETE FROM shares WHERE event = $1`,
		`DELETE FROM bookings WHERE event = $1`, `DELETE FROM items WHERE event = $1`, `DELETE FROM catalogues WHERE event = $1`,
	} {
		if _, err := t.exec(ctx, statement, nil, event); err != nil {
			return err
		}
	}
	return nil
}

// putItems writes stock, slots or courses in the order in which they are listed.
func putItems(ctx context.Context, t tx, event string, items []ItemSpec) (int64, error) {
	n := len(items)
	if n == 0 {
		return 0, nil
	}
	ids, names, meetings := make([]string, n), make([]string, n), make([]string, n)
	totals, prices, ords := make([]int64, n), make([]int64, n), make([]int64, n)
	starts, ends := make([]int64, n), make([]int64, n)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(items[a].ID, items[b].ID) })
	for i, at := range order {
		it := items[at]
		ids[i], names[i], totals[i], ords[i], prices[i] = it.ID, it.Name, it.Capacity, int64(at), inherited
		if it.PriceCents != nil {
			prices[i] = *it.PriceCents
		}
		if !it.StartsAt.IsZero() {
			starts[i], ends[i] = it.StartsAt.UnixMilli(), it.EndsAt.UnixMilli()
		}
		if len(it.Meetings) > 0 {
			packed, err := json.Marshal(meetingTexts(it.Meetings))
			if err != nil {
				return 0, fmt.Errorf("pack meetings: %w", err)
			}
			meetings[i] = string(packed)
		}
	}
	// What somebody has a place of keeps its time.
	return t.exec(ctx, `INSERT INTO items
			(event, id, name, total, free, ord, version, price_cents, starts_ms, ends_ms, meetings)
		SELECT $1, r.id, r.name, r.total, r.total, r.ord, 1, r.price, r.starts, r.ends, r.meetings FROM {rows} WHERE true
		ON CONFLICT (event, id) DO UPDATE SET version = items.version + 1,
			name = excluded.name, ord = excluded.ord, price_cents = excluded.price_cents,
			starts_ms = CASE WHEN items.free = items.total THEN excluded.starts_ms ELSE items.starts_ms END,
			ends_ms = CASE WHEN items.free = items.total THEN excluded.ends_ms ELSE items.ends_ms END,
			meetings = CASE WHEN items.free = items.total THEN excluded.meetings ELSE items.meetings END,
			total = CASE WHEN excluded.total < items.total - items.free THEN items.total - items.free ELSE excluded.total END,
			free  = CASE WHEN excluded.total < items.total - items.free THEN 0 ELSE items.free + excluded.total - items.total END
		WHERE (items.total, items.name, items.ord, items.price_cents, items.starts_ms, items.ends_ms, items.meetings)
			<> (excluded.total, excluded.name, excluded.ord, excluded.price_cents, excluded.starts_ms, excluded.ends_ms, excluded.meetings)`,
		table("id", ids).column("name", names).column("total", totals).column("ord", ords).column("price", prices).
			column("starts", starts).column("ends", ends).column("meetings", meetings), event)
}

// inherited stands in the database for the catalogue's price.
const inherited = -1

func putSeats(ctx context.Context, t tx, event string, c Catalogue) (changed int64, err error) {
	var ord int64
	for i, spec := range c.Sections {
		price := c.PriceCents
		if spec.PriceCents != nil {
			price = *spec.PriceCents
		}
		n, err := t.exec(ctx, `INSERT INTO sections (event, id, name, price_cents, ord) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (event, id) DO UPDATE SET name = excluded.name, price_cents = excluded.price_cents, ord = excluded.ord
			WHERE (sections.name, sections.price_cents, sections.ord) <> (excluded.name, excluded.price_cents, excluded.ord)`,
			nil, event, spec.ID, cmp.Or(spec.Name, spec.ID), price, i)
		if err != nil {
			return 0, err
		}
		changed += n
		for chunk := range slices.Chunk(spec.seats(), putChunk) {
			n, err := putChunkOf(ctx, t, event, spec.ID, chunk, ord)
			if err != nil {
				return 0, err
			}
			ord += int64(len(chunk))
			changed += n
		}
	}
	return changed, nil
}

// putChunkOf writes some seats of a section, the first of which has the place
// after ord in the map.
func putChunkOf(ctx context.Context, t tx, event, section string, seats []SeatSpec, ord int64) (int64, error) {
	n := len(seats)
	ids, rows, kinds := make([]string, n), make([]string, n), make([]string, n)
	of, statuses := make([]string, n), make([]string, n)
	numbers, ords := make([]int64, n), make([]int64, n)
	for i, s := range seats {
		ids[i], rows[i], kinds[i], of[i], statuses[i] = s.ID, s.Row, string(s.Kind), s.CompanionOf, string(SeatFree)
		numbers[i], ords[i] = int64(s.Number), ord+int64(i)+1
		if s.Blocked {
			statuses[i] = string(SeatBlocked)
		}
	}
	return t.exec(ctx, `INSERT INTO seats (event, id, section, row_name, number, ord, status, version, kind, companion_of)
		SELECT $1, r.id, $2, r.row_name, r.number, r.ord, r.status, 1, r.kind, r.companion_of FROM {rows} WHERE true
		ON CONFLICT (event, id) DO UPDATE SET ord = excluded.ord WHERE seats.ord <> excluded.ord`,
		table("id", ids).column("row_name", rows).column("number", numbers).column("ord", ords).column("status", statuses).
			column("kind", kinds).column("companion_of", of), event, section)
}

// seats are the section's seats, row by row.
func (s SectionSpec) seats() []SeatSpec {
	if len(s.Seats) > 0 {
		return s.Seats
	}
	seats := make([]SeatSpec, 0, s.Rows*s.SeatsPerRow)
	for row := 1; row <= s.Rows; row++ {
		for number := 1; number <= s.SeatsPerRow; number++ {
			seats = append(seats, SeatSpec{ID: s.seat(row, number), Row: strconv.Itoa(row), Number: number})
		}
	}
	return seats
}

// seat is the id of a seat.
func (s SectionSpec) seat(row, number int) string {
	if s.Rows == 1 {
		return s.ID + "-" + strconv.Itoa(number)
	}
	return s.ID + "-" + strconv.Itoa(row) + "-" + strconv.Itoa(number)
}
