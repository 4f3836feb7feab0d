package ticket

import (
	"context"
	"fmt"
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
	s.mu.Lock()
	h := s.halls[event]
	s.mu.Unlock()
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
		fresh := &hall{event: event}
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

// reload reads a hall anew.
func (s *Store) reload(ctx context.Context, h *hall) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	_, err := s.read(ctx, h)
	return err
}

// read takes everything that the database knows of an event into its hall;
// false when it sells nothing.
func (s *Store) read(ctx context.Context, h *hall) (bool, error) {
	var in intake
	err := s.db.look(ctx, func(ctx context.Context, t tx) error { return in.read(ctx, t, h.event) })
	if err != nil {
		return false, fmt.Errorf("read the map of %s: %w", h.event, err)
	}
	if in.version == 0 {
		return false, nil
	}
	h.take(in)
	return true, nil
}

// intake is a whole event as read from the database.
type intake struct {
	cat      Catalogue
	version  int64
	sections []*block
	seats    []seatPlace
	stock    []stockRow
}

type seatPlace struct {
	seatRow
	section, row string
	number       int
	ord          int64
}

func (in *intake) read(ctx context.Context, t tx, event string) error {
	err := t.query(ctx, func(scan func(...any) error) error {
		var hold int64
		err := scan(&in.cat.Kind, &in.cat.PriceCents, &in.cat.Currency, &in.cat.PerUser, &hold,
			&in.cat.Locking, &in.cat.OnBreakerOpen, &in.version)
		in.cat.HoldTTL = time.Duration(hold) * time.Millisecond
		return err
	}, `SELECT kind, price_cents, currency, per_user, hold_ms, locking, on_breaker_open, version
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
	err = t.query(ctx, func(scan func(...any) error) error {
		var p seatPlace
		err := scan(&p.id, &p.section, &p.row, &p.number, &p.ord, &p.status, &p.version)
		in.seats = append(in.seats, p)
		return err
	}, `SELECT id, section, row_name, number, ord, status, version FROM seats WHERE event = $1 ORDER BY ord, id`, nil, event)
	if err != nil {
		return err
	}
	return t.query(ctx, func(scan func(...any) error) error {
		var r stockRow
		err := scan(&r.id, &r.total, &r.free, &r.version)
		in.stock = append(in.stock, r)
		return err
	}, `SELECT id, total, free, version FROM items WHERE event = $1 ORDER BY ord, id`, nil, event)
}

// take builds the hall from an intake, or brings it up to it. What the hall knows
// already is kept where it is newer.
func (h *hall) take(in intake) {
	h.mu.Lock()
	if in.version != h.version || len(in.seats) != len(h.spots) || len(in.stock) != len(h.stocks) {
		h.build(in)
		h.mu.Unlock()
		return
	}
	h.mu.Unlock()
	rows := make([]seatRow, len(in.seats))
	for i, p := range in.seats {
		rows[i] = p.seatRow
	}
	h.learn(rows)
	h.learnStock(in.stock)
}

// build makes the hall anew; the caller holds mu.
func (h *hall) build(in intake) {
	old, oldStock := h.spots, h.stocks
	h.cat, h.version, h.changed = in.cat, in.version, true
	h.blocks, h.spots, h.stocks = in.sections, make(map[string]*spot, len(in.seats)), nil
	h.free, h.content = 0, 0
	byID := map[string]*block{}
	for _, b := range in.sections {
		byID[b.ID] = b
	}
	for _, p := range in.seats {
		b := byID[p.section]
		if b == nil {
			continue
		}
		seat := Seat{ID: p.id, Row: p.row, Number: p.number, Status: p.status, Version: p.version}
		picked := false
		if was := old[p.id]; was != nil {
			picked = was.picked
			if was.Version > p.version {
				seat.Status, seat.Version = was.Status, was.Version
			}
		}
		h.add(b, p.ord, seat, picked)
	}
	for _, r := range in.stock {
		st := &stock{Item: Item{ID: r.id, Total: r.total, Free: r.free, PriceCents: in.cat.PriceCents, Currency: in.cat.Currency}, version: r.version}
		for _, was := range oldStock {
			if was.ID == r.id && was.version > r.version {
				st.Free, st.Total, st.version = was.Free, was.Total, was.version
			}
		}
		h.content += mark(st.ID, st.version)
		h.stocks = append(h.stocks, st)
	}
}
