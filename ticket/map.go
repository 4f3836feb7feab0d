package ticket

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Map gives an event's map and its ETag, from memory: as new as this node's own
// changes, and at most Config.Poll behind those of others while Run runs. Nobody
// may change it. ErrWrongMode: the event sells nothing. ErrUnavailable: it was
// never read, and the database is away.
func (s *Store) Map(ctx context.Context, event string) (*Map, string, error) {
	h, err := s.hall(ctx, event)
	if err != nil {
		return nil, "", err
	}
	m, etag := h.show()
	return m, etag, nil
}

// SeatsLeft is the number of free seats or tickets, from memory only; false when
// the event's map was not read yet or the event sells nothing.
func (s *Store) SeatsLeft(event string) (int64, bool) {
	h := s.known(event)
	if h == nil {
		return 0, false
	}
	return h.left(), true
}

// absence is how long the absence of a catalogue is believed.
const absence = time.Second

// hall gives an event's hall, reading it the first time.
func (s *Store) hall(ctx context.Context, event string) (*hall, error) {
	s.mu.Lock()
	h, since := s.halls[event], s.absent[event]
	s.mu.Unlock()
	if h != nil {
		return h, nil
	}
	if time.Since(since) < absence {
		return nil, fmt.Errorf("%s sells nothing: %w", event, ErrWrongMode)
	}
	loaded, err, _ := s.loading.Do(event, func() (any, error) {
		// One caller reads for all, so that its leaving must not end the reading.
		ctx, cancel := s.deadline(context.WithoutCancel(ctx))
		defer cancel()
		fresh := &hall{event: event, journal: journal{next: s.rows.Add(1) << 40}}
		fresh.reserves = &gather[*ask]{
			lanes: s.cfg.Lanes, most: s.cfg.Group, bound: s.cfg.Queue,
			run: func(ctx context.Context, asks []*ask) { s.reserveAll(ctx, fresh, asks) },
		}
		found, err := s.read(ctx, fresh)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if !found {
			s.absent[event] = time.Now()
			return nil, fmt.Errorf("%s sells nothing: %w", event, ErrWrongMode)
		}
		if h := s.halls[event]; h != nil {
			return h, nil
		}
		s.halls[event] = fresh
		return fresh, nil
	})
	if err != nil {
		return nil, err
	}
	return loaded.(*hall), nil
}

// reload reads a hall anew. Where its event sells nothing any more, or was made
// again since, the hall is forgotten: ErrWrongMode.
func (s *Store) reload(ctx context.Context, h *hall) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	found, err := s.read(ctx, h)
	if err != nil || found {
		return err
	}
	s.forget(h)
	return fmt.Errorf("%s does not sell this any more: %w", h.event, ErrWrongMode)
}

// forget drops a hall; whoever still holds it is refused by the database.
func (s *Store) forget(h *hall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.halls[h.event] == h {
		delete(s.halls, h.event)
	}
}

// read takes everything that the database knows of an event into its hall;
// false when it sells nothing, or not what the hall was made of.
func (s *Store) read(ctx context.Context, h *hall) (bool, error) {
	var in intake
	err := s.db.look(ctx, func(ctx context.Context, t tx) error { return in.read(ctx, t, h.event) })
	if err != nil {
		return false, fmt.Errorf("read the map of %s: %w", h.event, err)
	}
	if in.version == 0 || !h.of(in) {
		return false, nil
	}
	h.take(in)
	return true, nil
}

// intake is a whole event as read from the database.
type intake struct {
	cat              Catalogue
	version, created int64
	imported         bool
	sections         []*block
	seats            []seatPlace
	items            []itemPlace
}

type seatPlace struct {
	seatRow
	section, row string
	number       int
	ord          int64
	kind         SeatKind
	companionOf  string
}

type itemPlace struct {
	stockRow
	name         string
	ord          int64
	price        int64 // below 0 the catalogue's
	starts, ends int64
	meetings     []string
}

func (in *intake) read(ctx context.Context, t tx, event string) error {
	err := t.query(ctx, func(scan func(...any) error) error {
		var hold, imported int64
		err := scan(&in.cat.Kind, &in.cat.PriceCents, &in.cat.Currency, &in.cat.PerUser, &hold,
			&in.cat.Locking, &in.cat.OnBreakerOpen, &in.version, &in.created, &imported)
		in.cat.HoldTTL, in.imported = time.Duration(hold)*time.Millisecond, imported != 0
		return err
	}, `SELECT kind, price_cents, currency, per_user, hold_ms, locking, on_breaker_open, version, created_ms, imported
		FROM catalogues WHERE event = $1`, nil, event)
	if err != nil || in.version == 0 {
		return err
	}
	err = t.query(ctx, func(scan func(...any) error) error {
		b := &block{}
		err := scan(&b.ID, &b.Name, &b.PriceCents, &b.ord)
		b.Currency = in.cat.Currency
		in.sections = append(in.sections, b)
		return err
	}, `SELECT id, name, price_cents, ord FROM sections WHERE event = $1 ORDER BY ord, id`, nil, event)
	if err != nil {
		return err
	}
	words := wordsOfSeats()
	err = t.query(ctx, func(scan func(...any) error) error {
		var p seatPlace
		err := scan(&p.id, &p.section, &p.row, &p.number, &p.ord, &p.status, &p.version, &p.kind, &p.companionOf)
		p.section, p.row, p.companionOf = once(words, p.section), once(words, p.row), once(words, p.companionOf)
		p.status, p.kind = once(words, p.status), once(words, p.kind)
		in.seats = append(in.seats, p)
		return err
	}, `SELECT id, section, row_name, number, ord, status, version, kind, companion_of
		FROM seats WHERE event = $1 ORDER BY ord, id`, nil, event)
	if err != nil {
		return err
	}
	return t.query(ctx, func(scan func(...any) error) error {
		var p itemPlace
		var meetings string
		var closed int64
		err := scan(&p.id, &p.total, &p.free, &p.version, &p.name, &p.ord, &p.price, &p.starts, &p.ends, &meetings, &closed)
		p.closed = closed != 0
		if err == nil && meetings != "" {
			err = json.Unmarshal([]byte(meetings), &p.meetings)
		}
		in.items = append(in.items, p)
		return err
	}, `SELECT id, total, free, version, name, ord, price_cents, starts_ms, ends_ms, meetings, closed
		FROM items WHERE event = $1 ORDER BY ord, id`, nil, event)
}

// wordsOfSeats are those that every hall has, as the program has them.
func wordsOfSeats() map[string]string {
	words := map[string]string{}
	for _, s := range []SeatStatus{SeatFree, SeatHeld, SeatSold, SeatBlocked} {
		words[string(s)] = string(s)
	}
	for _, k := range []SeatKind{SeatWheelchair, SeatCompanion} {
		words[string(k)] = string(k)
	}
	return words
}

// once gives the first string that said the same, so that a hall holds each word once.
func once[T ~string](words map[string]string, word T) T {
	first, known := words[string(word)]
	if !known {
		first = string(word)
		words[first] = first
	}
	return T(first)
}

// joined puts the ids of seats into one string, of which each is a part.
func joined(seats []seatPlace) {
	var all strings.Builder
	for _, p := range seats {
		all.WriteString(p.id)
	}
	rest := all.String()
	for i := range seats {
		n := len(seats[i].id)
		seats[i].id, rest = rest[:n], rest[n:]
	}
}

// of says whether an intake is of the catalogue that the hall was made of.
func (h *hall) of(in intake) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.version == 0 || h.created == in.created
}

// take builds the hall from an intake, or brings it up to it. What the hall knows
// already is kept where it is newer.
func (h *hall) take(in intake) {
	h.mu.Lock()
	if in.version != h.version || len(in.seats) != len(h.spots) || len(in.items) != len(h.items) {
		if in.version >= h.version { // not one that was read before a newer one
			h.build(in)
		}
		h.mu.Unlock()
		return
	}
	h.mu.Unlock()
	rows, stock := make([]seatRow, len(in.seats)), make([]stockRow, len(in.items))
	for i, p := range in.seats {
		rows[i] = p.seatRow
	}
	for i, p := range in.items {
		stock[i] = p.stockRow
	}
	h.learn(rows)
	h.learnStock(stock)
}

// build makes the hall anew; the caller holds mu.
func (h *hall) build(in intake) {
	old, oldItems := h.spots, h.items
	h.cat, h.version, h.created, h.changed = in.cat, in.version, in.created, true
	h.blocks, h.spots, h.companions = in.sections, make(map[string]*spot, len(in.seats)), nil
	h.items, h.inItems = make(map[string]*item, len(in.items)), nil
	h.free, h.content = 0, 0
	joined(in.seats)
	h.journal.cut()
	byID, sizes := map[string]*block{}, map[string]int{}
	for _, p := range in.seats {
		sizes[p.section]++
	}
	for _, b := range in.sections {
		byID[b.ID] = b
		b.spots = make([]spot, 0, sizes[b.ID])
	}
	for _, p := range in.seats {
		b := byID[p.section]
		if b == nil {
			continue
		}
		seat := Seat{
			ID: p.id, Row: p.row, Number: p.number, Status: p.status, Version: p.version,
			Kind: p.kind, CompanionOf: p.companionOf,
		}
		picked := false
		if was := old[p.id]; was != nil {
			picked = was.picked
			if was.Version > p.version {
				seat.Status, seat.Version = was.Status, was.Version
			}
		}
		b.spots = append(b.spots, spot{Seat: seat, ord: p.ord, picked: picked})
	}
	for _, b := range in.sections {
		h.seat(b)
	}
	for i, p := range in.items {
		it := p.item(in.cat, int64(i))
		if was := oldItems[p.id]; was != nil && was.Version > p.version {
			it.Free, it.Total, it.Version, it.Closed = was.Free, was.Total, was.Version, was.Closed
		}
		h.content += mark(it.ID, it.Version)
		h.items[it.ID] = it
		h.inItems = append(h.inItems, it)
	}
}

// item is what the map says of it.
func (p itemPlace) item(c Catalogue, ord int64) *item {
	it := &item{ord: ord, Item: Item{
		ID: p.id, Name: p.name, Total: p.total, Free: p.open(), Closed: p.closed, Version: p.version,
		PriceCents: c.PriceCents, Currency: c.Currency, Meetings: p.meetings,
	}}
	if p.price >= 0 {
		it.PriceCents = p.price
	}
	if p.starts != 0 || p.ends != 0 {
		it.StartsAt, it.EndsAt = millis(p.starts).Format(moment), millis(p.ends).Format(moment)
	}
	for _, text := range p.meetings {
		if m, err := ParseMeeting(text); err == nil { // they were written by Meeting
			it.meetings = append(it.meetings, m)
		}
	}
	return it
}

// moment is how times are written.
const moment = "2006-01-02T15:04:05.000Z07:00"
