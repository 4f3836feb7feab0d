package ticket

import (
	"context"
	"fmt"
)

// Block holds free seats back from the sale, and puts others that were held back on
// sale, all or nothing; what is so already is no error. Every node's map says it at
// once. A seat that somebody holds or owns, or that is not there, is named by an
// *InvalidError. ErrWrongMode: the event sells no seats.
func (s *Store) Block(ctx context.Context, event string, block, release []string) error {
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
		return err
	}
	var done []seatRow
	err := s.again(ctx, func(ctx context.Context, t tx) error {
		done = nil
		var kind string
		if err := t.query(ctx, func(scan func(...any) error) error { return scan(&kind) },
			`SELECT kind FROM catalogues WHERE event = $1`, nil, event); err != nil {
			return err
		}
		if kind != KindSeats {
			return fmt.Errorf("%s sells no seats: %w", event, ErrWrongMode)
		}
		change, err := blockable(ctx, t, event, want)
		if err != nil || len(change) == 0 {
			return err
		}
		now, err := s.now(ctx, t)
		if err != nil {
			return err
		}
		ids := make([]string, len(change))
		versions, statuses := make([]int64, len(change)), make([]string, len(change))
		for i, r := range change {
			ids[i], versions[i], statuses[i] = r.id, r.version, string(want[r.id])
		}
		if err := t.insert(ctx, len(change), `UPDATE seats SET status = r.status, version = seats.version + 1
			FROM {rows} WHERE seats.event = r.event AND seats.id = r.id AND seats.version = r.version AND seats.status IN ('free', 'blocked')`,
			eventTable(event, len(change)).column("id", ids).column("version", versions).column("status", statuses)); err != nil {
			return err
		}
		for _, r := range change {
			done = append(done, seatRow{r.id, want[r.id], r.version + 1})
		}
		return notice(ctx, t, TopicSeats, event, ids, now)
	})
	if err != nil {
		return fmt.Errorf("block seats of %s: %w", event, err)
	}
	s.mu.Lock()
	h := s.halls[event]
	s.mu.Unlock()
	if h != nil {
		h.learn(done)
	}
	s.news.poke()
	return nil
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
