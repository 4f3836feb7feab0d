package ticket

import (
	"context"
	"sync/atomic"
)

// A group is bold when it asks nothing before it writes but the time and the
// catalogue's version: it supposes
// that nobody has bought or asked before, that shares are left and that the hall is
// right, and the guards of its writes find out. Under load nearly every group is
// right, and the question is a fifth of what a group costs the database. Where a
// guard says no, or somebody would have to be refused, nothing is written and the
// group asks.
//
// A bold group also supposes that it is the first that its people get here: then their
// shares are new rows, which cost the database half of what it takes to look for old
// ones first. Where one is old, nothing is written, and the group and the next few look.

// caution is the number of groups that suppose nothing after one that was wrong.
const caution = 16

// manner is how a group is tried first.
func (h *hall) manner() manner {
	c := h.catalogue()
	if c.Locking == Pessimistic || c.Kind != KindSeats && c.Kind != KindStock || !sure(&h.wary) {
		return manner{}
	}
	return manner{bold: true, first: sure(&h.returns)}
}

// sure says that no group has to be wary; one that has is one less.
func sure(wary *atomic.Int32) bool {
	if wary.Load() <= 0 {
		return true
	}
	wary.Add(-1)
	return false
}

// suppose gives the facts of a bold group; false when the hall cannot tell.
func (s *Store) suppose(ctx context.Context, t tx, h *hall, asks []*ask, f *facts) (bool, error) {
	if !h.suppose(asks, f) {
		return false, nil
	}
	return true, t.query(ctx, func(scan func(...any) error) error { return scan(&f.now, &f.catalogue) },
		`SELECT {now} + $2, coalesce((SELECT version FROM catalogues WHERE event = $1), 0)`, nil, h.event, s.skew.Load())
}

// suppose fills in what the hall knows of seats and stock.
func (h *hall) suppose(asks []*ask, f *facts) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, it := range h.inItems {
		f.stock[it.ID] = stockRow{id: it.ID, total: it.Total, free: it.Free, version: it.Version}
	}
	if h.cat.Kind != KindSeats {
		return true
	}
	for _, a := range asks {
		for _, id := range a.Seats {
			sp := h.spots[id]
			if sp == nil || sp.Status != SeatFree {
				return false
			}
			f.seats[id], f.vouched[id] = seatRow{id, sp.Status, sp.Version}, true
		}
	}
	return true
}
