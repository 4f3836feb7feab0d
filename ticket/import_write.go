package ticket

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// write does the works. What is new has the time as its version, since a place of
// the same name may have been there before, and a node that still knows that one
// believes the higher version.
func (w works) write(ctx context.Context, t tx, event string, now int64) error {
	for _, b := range w.sections {
		if err := t.insert(ctx, 1, `INSERT INTO sections (event, id, name, price_cents, ord) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (event, id) DO UPDATE SET name = excluded.name, price_cents = excluded.price_cents, ord = excluded.ord`,
			nil, event, b.ID, b.Name, b.PriceCents, b.ord); err != nil {
			return err
		}
	}
	if err := w.writeSeats(ctx, t, event, now); err != nil {
		return err
	}
	for _, id := range w.noMore {
		if err := t.insert(ctx, 1, `DELETE FROM sections WHERE event = $1 AND id = $2`, nil, event, id); err != nil {
			return err
		}
	}
	return w.writeItems(ctx, t, event, now)
}

// byID is the order in which rows are locked everywhere.
func byID[T any](rows []T, id func(T) string) []T {
	sorted := slices.Clone(rows)
	slices.SortFunc(sorted, func(a, b T) int { return strings.Compare(id(a), id(b)) })
	return sorted
}

func (w works) writeSeats(ctx context.Context, t tx, event string, now int64) error {
	id := func(p seatPlace) string { return p.id }
	for _, do := range []struct {
		seats     []seatPlace
		statement string
	}{
		{w.change, `UPDATE seats SET section = r.section, row_name = r.row_name, number = r.number, status = r.status,
				kind = r.kind, companion_of = r.companion_of, ord = r.ord, version = seats.version + 1
			FROM {rows} WHERE seats.event = r.event AND seats.id = r.id AND seats.version = r.version AND seats.status IN ('free', 'blocked')`},
		{w.reorder, `UPDATE seats SET ord = r.ord FROM {rows} WHERE seats.event = r.event AND seats.id = r.id`},
		{w.add, `INSERT INTO seats (event, id, section, row_name, number, ord, status, version, kind, companion_of)
			SELECT r.event, r.id, r.section, r.row_name, r.number, r.ord, r.status, r.version, r.kind, r.companion_of FROM {rows} WHERE true`},
	} {
		for chunk := range slices.Chunk(byID(do.seats, id), putChunk) {
			if err := t.insert(ctx, len(chunk), do.statement, seatTable(event, chunk, now)); err != nil {
				return err
			}
		}
	}
	for chunk := range slices.Chunk(byID(w.remove, func(r seatRow) string { return r.id }), putChunk) {
		ids, versions := make([]string, len(chunk)), make([]int64, len(chunk))
		for i, r := range chunk {
			ids[i], versions[i] = r.id, r.version
		}
		if err := t.insert(ctx, len(chunk), `DELETE FROM seats WHERE (event, id, version) IN
				(SELECT r.event, r.id, r.version FROM {rows}) AND status IN ('free', 'blocked')`,
			eventTable(event, len(chunk)).column("id", ids).column("version", versions)); err != nil {
			return err
		}
	}
	return nil
}

// eventTable begins a list of n rows of one event.
func eventTable(event string, n int) *list { return table("event", slices.Repeat([]string{event}, n)) }

// seatTable lists seats; one that has no version yet begins at fresh.
func seatTable(event string, seats []seatPlace, fresh int64) *list {
	n := len(seats)
	ids, sections, rows, kinds := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	of, statuses := make([]string, n), make([]string, n)
	numbers, ords, versions := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, p := range seats {
		ids[i], sections[i], rows[i], kinds[i], of[i], statuses[i] = p.id, p.section, p.row, string(p.kind), p.companionOf, string(p.status)
		numbers[i], ords[i], versions[i] = int64(p.number), p.ord, p.version
		if p.version == 0 {
			versions[i] = fresh
		}
	}
	return eventTable(event, n).column("id", ids).column("section", sections).column("row_name", rows).column("kind", kinds).
		column("companion_of", of).column("status", statuses).column("number", numbers).column("ord", ords).column("version", versions)
}

func (w works) writeItems(ctx context.Context, t tx, event string, now int64) error {
	for _, do := range []struct {
		items     []itemPlace
		statement string
	}{
		{w.changeItems, `UPDATE items SET name = r.name, free = items.free + r.total - items.total, total = r.total, ord = r.ord,
				price_cents = r.price, starts_ms = r.starts, ends_ms = r.ends, meetings = r.meetings, version = items.version + 1
			FROM {rows} WHERE items.event = r.event AND items.id = r.id AND items.free + r.total >= items.total`},
		{w.addItems, `INSERT INTO items (event, id, name, total, free, ord, price_cents, starts_ms, ends_ms, meetings, version)
			SELECT r.event, r.id, r.name, r.total, r.total, r.ord, r.price, r.starts, r.ends, r.meetings, r.version FROM {rows} WHERE true`},
	} {
		if len(do.items) == 0 {
			continue
		}
		l, err := itemTable(event, byID(do.items, func(p itemPlace) string { return p.id }), now)
		if err != nil {
			return err
		}
		if err := t.insert(ctx, len(do.items), do.statement, l); err != nil {
			return err
		}
	}
	if n := len(w.removeItems); n > 0 {
		ids := make([]string, n)
		for i, r := range byID(w.removeItems, func(r stockRow) string { return r.id }) {
			ids[i] = r.id
		}
		return t.insert(ctx, n, `DELETE FROM items WHERE (event, id) IN (SELECT r.event, r.id FROM {rows}) AND free = total`,
			eventTable(event, n).column("id", ids))
	}
	return nil
}

func itemTable(event string, items []itemPlace, fresh int64) (*list, error) {
	n := len(items)
	ids, names, meetings := make([]string, n), make([]string, n), make([]string, n)
	totals, ords, prices := make([]int64, n), make([]int64, n), make([]int64, n)
	starts, ends := make([]int64, n), make([]int64, n)
	for i, p := range items {
		ids[i], names[i], totals[i], ords[i], prices[i], starts[i], ends[i] = p.id, p.name, p.total, p.ord, p.price, p.starts, p.ends
		if len(p.meetings) > 0 {
			packed, err := json.Marshal(p.meetings)
			if err != nil {
				return nil, fmt.Errorf("pack meetings: %w", err)
			}
			meetings[i] = string(packed)
		}
	}
	return eventTable(event, n).column("id", ids).column("name", names).column("meetings", meetings).column("total", totals).
		column("ord", ords).column("price", prices).column("starts", starts).column("ends", ends).
		column("version", slices.Repeat([]int64{fresh}, n)), nil
}
