package ticket

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// Validate names every wrong field of a catalogue.
func (c Catalogue) Validate() error {
	c = c.orDefaults()
	faults := []error{
		within("per_user", c.PerUser, 1, 1000),
		within("hold_ttl", c.HoldTTL.Milliseconds(), 1, 24*60*60*1000),
		within("price_cents", c.PriceCents, 0, 1e12),
	}
	if c.Locking != Optimistic && c.Locking != Pessimistic {
		faults = append(faults, fmt.Errorf("locking %q: must be optimistic or pessimistic", c.Locking))
	}
	if c.OnBreakerOpen != "wait" && c.OnBreakerOpen != "cancel" {
		faults = append(faults, fmt.Errorf("on_breaker_open %q: must be wait or cancel", c.OnBreakerOpen))
	}
	switch c.Kind {
	case KindStock:
		faults = append(faults, within("stock", c.Stock, 0, 1e9))
	case KindSeats:
		seats := 0
		names := map[string]bool{}
		for _, s := range c.Sections {
			if s.ID == "" || names[s.ID] {
				faults = append(faults, fmt.Errorf("section %q: must be named, and once", s.ID))
			}
			names[s.ID] = true
			faults = append(faults, within("rows", s.Rows, 1, 10_000), within("seats_per_row", s.SeatsPerRow, 1, 10_000))
			seats += s.Rows * s.SeatsPerRow
		}
		faults = append(faults, within("seats", seats, 1, 500_000))
	default:
		faults = append(faults, fmt.Errorf("kind %q: must be seats or stock", c.Kind))
	}
	return errors.Join(faults...)
}

// putChunk is the most seats written by one statement.
const putChunk = 5000

// Put makes an event sell what c says. It is idempotent: what is missing is
// added, terms and prices are changed, and no seat that exists is touched. A
// stock grows or shrinks, though never below what is held and sold. The kind of
// an event that exists stays; another one is ErrWrongMode.
func (s *Store) Put(ctx context.Context, event string, c Catalogue) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("catalogue of %s: %w", event, err)
	}
	c = c.orDefaults()
	// Half a million seats take longer than a call of the sale may.
	ctx, cancel := context.WithTimeout(ctx, 30*s.cfg.CallTimeout)
	defer cancel()
	err := s.db.change(ctx, func(ctx context.Context, t tx) error {
		n, err := t.exec(ctx, `INSERT INTO catalogues
			(event, kind, price_cents, currency, per_user, hold_ms, locking, on_breaker_open, version)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1)
			ON CONFLICT (event) DO UPDATE SET price_cents = excluded.price_cents, currency = excluded.currency,
				per_user = excluded.per_user, hold_ms = excluded.hold_ms, locking = excluded.locking,
				on_breaker_open = excluded.on_breaker_open, version = catalogues.version + 1
			WHERE catalogues.kind = excluded.kind
				AND (catalogues.price_cents, catalogues.currency, catalogues.per_user, catalogues.hold_ms, catalogues.locking, catalogues.on_breaker_open)
				<> (excluded.price_cents, excluded.currency, excluded.per_user, excluded.hold_ms, excluded.locking, excluded.on_breaker_open)`, nil,
			event, c.Kind, c.PriceCents, c.Currency, c.PerUser, c.HoldTTL.Milliseconds(), c.Locking, c.OnBreakerOpen)
		if err != nil {
			return err
		}
		if n == 0 {
			if err := sameKind(ctx, t, event, c.Kind); err != nil {
				return err
			}
		}
		if c.Kind == KindStock {
			return putStock(ctx, t, event, c.Stock)
		}
		return putSeats(ctx, t, event, c)
	})
	if err != nil {
		return fmt.Errorf("put %s: %w", event, err)
	}
	s.mu.Lock()
	delete(s.absent, event)
	h := s.halls[event]
	s.mu.Unlock()
	if h != nil {
		return s.reload(ctx, h)
	}
	return nil
}

// sameKind is ErrWrongMode when the event sells another kind of thing already.
func sameKind(ctx context.Context, t tx, event, kind string) error {
	var is string
	err := t.query(ctx, func(scan func(...any) error) error { return scan(&is) },
		`SELECT kind FROM catalogues WHERE event = $1`, nil, event)
	if err == nil && is != kind {
		return fmt.Errorf("%s sells %s: %w", event, is, ErrWrongMode)
	}
	return err
}

func putStock(ctx context.Context, t tx, event string, total int64) error {
	_, err := t.exec(ctx, `INSERT INTO items (event, id, total, free, ord, version) VALUES ($1, $2, $3, $3, 0, 1)
		ON CONFLICT (event, id) DO UPDATE SET version = items.version + 1,
			total = CASE WHEN excluded.total < items.total - items.free THEN items.total - items.free ELSE excluded.total END,
			free  = CASE WHEN excluded.total < items.total - items.free THEN 0 ELSE items.free + excluded.total - items.total END
		WHERE items.total <> excluded.total`, nil, event, StockItem, total)
	return err
}

func putSeats(ctx context.Context, t tx, event string, c Catalogue) error {
	var ord int64
	for i, spec := range c.Sections {
		price := spec.PriceCents
		if price == 0 {
			price = c.PriceCents
		}
		name := spec.Name
		if name == "" {
			name = spec.ID
		}
		if _, err := t.exec(ctx, `INSERT INTO sections (event, id, name, price_cents, ord) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (event, id) DO UPDATE SET name = excluded.name, price_cents = excluded.price_cents, ord = excluded.ord`,
			nil, event, spec.ID, name, price, i); err != nil {
			return err
		}
		var ids, rows []string
		var numbers, ords []int64
		flush := func() error {
			_, err := t.exec(ctx, `INSERT INTO seats (event, id, section, row_name, number, ord, status, version)
				SELECT $1, r.id, $2, r.row_name, r.number, r.ord, 'free', 1 FROM {rows} WHERE true
				ON CONFLICT (event, id) DO UPDATE SET ord = excluded.ord WHERE seats.ord <> excluded.ord`,
				table("id", ids).column("row_name", rows).column("number", numbers).column("ord", ords), event, spec.ID)
			ids, rows, numbers, ords = nil, nil, nil, nil
			return err
		}
		for row := range spec.Rows {
			for number := range spec.SeatsPerRow {
				ord++
				ids = append(ids, spec.seat(row+1, number+1))
				rows = append(rows, strconv.Itoa(row+1))
				numbers, ords = append(numbers, int64(number+1)), append(ords, ord)
				if len(ids) == putChunk {
					if err := flush(); err != nil {
						return err
					}
				}
			}
		}
		if len(ids) > 0 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// seat is the id of a seat.
func (s SectionSpec) seat(row, number int) string {
	if s.Rows == 1 {
		return s.ID + "-" + strconv.Itoa(number)
	}
	return s.ID + "-" + strconv.Itoa(row) + "-" + strconv.Itoa(number)
}
