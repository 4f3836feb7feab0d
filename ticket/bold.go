package ticket

import "context"

// A group is bold when it asks nothing before it writes but the time and the
// catalogue's version: it supposes
// that nobody has bought or asked before, that shares are left and that the hall is
// right, and the guards of its writes find out. Under load nearly every group is
// right, and the question is a fifth of what a group costs the database. Where a
// guard says no, or somebody would have to be refused, nothing is written and the
// group asks.

// caution is the number of groups that ask after a bold one that was wrong.
const caution = 16

// bold says whether a group may be bold.
func (h *hall) bold() bool {
	c := h.catalogue()
	if c.Locking == Pessimistic || c.Kind != KindSeats && c.Kind != KindStock {
		return false
	}
	return h.wary.Load() <= 0
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
