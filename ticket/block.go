package ticket

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// PlaceChange is what an operator did to a seat, a slot or a course.
type PlaceChange struct {
	ID string
	// Before and After are free and blocked for a seat, open and closed for the others.
	Before, After string
}

// Block holds free seats back from the sale, and puts others that were held back on
// sale; slots, courses and a stock it closes and opens: of a closed one nothing is
// sold, what somebody holds or owns stays, and what comes back waits. It is done all or
// nothing, and what is so already is no error, and no change. Every node's map says it
// at once. A seat that somebody holds or owns, or a place that is not there, is named
// by an *InvalidError. ErrWrongMode: the event sells nothing.
func (s *Store) Block(ctx context.Context, event string, block, release []string) ([]PlaceChange, error) {
	want := make(map[string]SeatStatus, len(block)+len(release))
	var wrong checks
	for _, list := range []struct {
		field  string
		ids    []string
		status SeatStatus
	}{{"block", block, SeatBlocked}, {"release", release, SeatFree}} {
		for _, id := range list.ids {
			if _, twice := want[id]; twice {
				wrong.fault(id, list.field, "%s is named twice", id)
			}
			want[id] = list.status
		}
	}
	if err := wrong.err(); err != nil || len(want) == 0 {
		return nil, err
	}
	var b blocking
	err := s.again(ctx, func(ctx context.Context, t tx) error {
		b = blocking{}
		var kind string
		if err := t.query(ctx, func(scan func(...any) error) error { return scan(&kind) },
			`SELECT kind FROM catalogues WHERE event = $1`, nil, event); err != nil {
			return err
		}
		var err error
		switch kind {
		case "":
			return fmt.Errorf("%s sells nothing: %w", event, ErrWrongMode)
		case KindSeats:
			err = b.seats(ctx, t, event, want)
		default:
			err = b.items(ctx, t, event, want)
		}
		if err != nil || len(b.done) == 0 {
			return err
		}
		now, err := s.now(ctx, t)
		if err != nil {
			return err
		}
		ids := make([]string, len(b.done))
		for i, c := range b.done {
			ids[i] = c.ID
		}
		return notice(ctx, t, TopicSeats, event, ids, now)
	})
	if err != nil {
		return nil, fmt.Errorf("block places of %s: %w", event, err)
	}
	if h := s.known(event); h != nil {
		h.learn(b.rows)
		h.learnStock(b.stock)
	}
	s.news.poke()
	return b.done, nil
}

// blocking is what blocking and releasing has come to.
type blocking struct {
	done  []PlaceChange
	rows  []seatRow
	stock []stockRow
}

func (b *blocking) seats(ctx context.Context, t tx, event string, want map[string]SeatStatus) error {
	change, err := blockable(ctx, t, event, want)
	if err != nil || len(change) == 0 {
		return err
	}
	ids := make([]string, len(change))
	versions, statuses := make([]int64, len(change)), make([]string, len(change))
	for i, r := range change {
		ids[i], versions[i], statuses[i] = r.id, r.version, string(want[r.id])
		b.done = append(b.done, PlaceChange{r.id, string(r.status), statuses[i]})
		b.rows = append(b.rows, seatRow{r.id, want[r.id], r.version + 1})
	}
	return t.insert(ctx, len(change), `UPDATE seats SET status = r.status, version = seats.version + 1
		FROM {rows} WHERE seats.event = r.event AND seats.id = r.id AND seats.version = r.version AND seats.status IN ('free', 'blocked')`,
		eventTable(event, len(change)).column("id", ids).column("version", versions).column("status", statuses))
}

// items closes and opens items. Their rows are locked by the update, in the order of
// their ids; what is sold meanwhile was sold before.
func (b *blocking) items(ctx context.Context, t tx, event string, want map[string]SeatStatus) error {
	words := map[int64]string{0: "open", 1: "closed"}
	ids := byID(slices.Collect(maps.Keys(want)), func(id string) string { return id })
	closed := make([]int64, len(ids))
	for i, id := range ids {
		closed[i] = map[bool]int64{true: 1}[want[id] == SeatBlocked]
	}
	there := map[string]bool{}
	rows := eventTable(event, len(ids)).column("id", ids).column("closed", closed)
	if err := t.query(ctx, func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		there[id] = true
		return err
	}, `SELECT i.id FROM {rows} JOIN items i ON i.event = r.event AND i.id = r.id ORDER BY i.id {lock i}`, rows); err != nil {
		return err
	}
	var wrong checks
	for _, id := range ids {
		if !there[id] {
			wrong.fault(id, map[bool]string{true: "block", false: "release"}[want[id] == SeatBlocked], "%s is no slot or course of the event", id)
		}
	}
	if err := wrong.err(); err != nil {
		return err
	}
	return t.query(ctx, func(scan func(...any) error) error {
		var r stockRow
		var now int64
		err := scan(&r.id, &r.total, &r.free, &r.version, &now)
		r.closed = now != 0
		b.stock = append(b.stock, r)
		b.done = append(b.done, PlaceChange{r.id, words[1-now], words[now]})
		return err
	}, `UPDATE items SET closed = r.closed, version = items.version + 1 FROM {rows}
		WHERE items.event = r.event AND items.id = r.id AND items.closed <> r.closed
		RETURNING items.id, items.total, items.free, items.version, items.closed`, rows)
}

// blockable gives the seats that are not yet as they are wanted, in the order in
// which rows are locked, or names those that cannot be.
func blockable(ctx context.Context, t tx, event string, want map[string]SeatStatus) ([]seatRow, error) {
	ids := make([]string, 0, len(want))
	for id := range want {
		ids = append(ids, id)
	}
	ids = byID(ids, func(id string) string { return id })
	have := make(map[string]seatRow, len(ids))
	err := t.query(ctx, func(scan func(...any) error) error {
		var r seatRow
		err := scan(&r.id, &r.status, &r.version)
		have[r.id] = r
		return err
	}, `SELECT s.id, s.status, s.version FROM {rows} JOIN seats s ON s.event = r.event AND s.id = r.id`,
		eventTable(event, len(ids)).column("id", ids))
	if err != nil {
		return nil, err
	}
	var wrong checks
	var change []seatRow
	for _, id := range ids {
		field := "block"
		if want[id] == SeatFree {
			field = "release"
		}
		switch r, found := have[id]; {
		case !found:
			wrong.fault(id, field, "%s is no seat of the event", id)
		case r.status == SeatHeld || r.status == SeatSold:
			wrong.fault(id, field, "%s is %s", id, r.status)
		case r.status != want[id]:
			change = append(change, r)
		}
	}
	return change, wrong.err()
}
