package ticket

import "slices"

// wish is what the server is asked to pick.
type wish struct {
	n int
	// section, if set, is where.
	section string
	// wheelchair wants a wheelchair place, with its companion's seats for the rest.
	wheelchair bool
}

// pick chooses the n best free seats and marks them, so that no other group of
// this node chooses them too; nil when there are not so many. With among, only
// those are chosen from. Every pick ends with unpick.
//
// Best is: side by side, in the first row of the map that has them, where no seat
// is left alone if that can be, nearest to the row's middle; where no row has n
// side by side, the first free ones in order, in one section if one has enough.
// Wheelchair places and companions' seats are chosen only when asked for.
func (h *hall) pick(w wish, among map[string]bool) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var chosen []*spot
	if w.wheelchair {
		chosen = h.accompanied(w, among)
	} else if chosen = h.together(w, among); chosen == nil {
		chosen = h.scattered(w, among)
	}
	ids := make([]string, 0, w.n)
	for _, sp := range chosen {
		h.picks(sp, true)
		ids = append(ids, sp.ID)
	}
	return ids
}

// picks sets or takes off a mark, and keeps the row's sum; the caller holds mu.
func (h *hall) picks(sp *spot, picked bool) {
	was := sp.usual()
	sp.picked = picked
	switch {
	case was && !sp.usual():
		sp.bench.open--
	case !was && sp.usual():
		sp.bench.open++
	}
}

// claim marks chosen seats as pick does, so that nobody after them in the group
// is given them, and gives those that it marked.
func (h *hall) claim(ids []string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	marked := ids[:0:0]
	for _, id := range ids {
		sp := h.spots[id]
		if sp == nil || sp.picked {
			continue
		}
		h.picks(sp, true)
		marked = append(marked, id)
	}
	return marked
}

// unpick takes the marks off again.
func (h *hall) unpick(ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		sp := h.spots[id]
		if sp == nil || !sp.picked {
			continue
		}
		h.picks(sp, false)
	}
}

func (h *hall) together(w wish, among map[string]bool) []*spot {
	for _, b := range h.blocks {
		if w.section != "" && b.ID != w.section {
			continue
		}
		for _, row := range b.benches {
			if row.open < w.n {
				continue
			}
			if run := row.run(w.n, among); run != nil {
				return run
			}
		}
	}
	return nil
}

// run is the row's n neighbours that leave the fewest seats alone, and of those
// the nearest to its middle.
func (b *bench) run(n int, among map[string]bool) []*spot {
	best := -1
	alone, least, length := 0, 0, 0
	for i := range b.spots {
		sp := &b.spots[i]
		if !sp.usual() || among != nil && !among[sp.ID] {
			length = 0
			continue
		}
		if length > 0 && sp.Number != b.spots[i-1].Number+1 {
			length = 0
		}
		length++
		if length < n {
			continue
		}
		// Twice the distance between the run's middle and the row's.
		off := 2*i - n + 1 - (len(b.spots) - 1)
		if off < 0 {
			off = -off
		}
		leaves := b.leaves(i-n+1, -1) + b.leaves(i, 1)
		if best < 0 || leaves < alone || leaves == alone && off < least {
			best, alone, least = i-n+1, leaves, off
		}
	}
	if best < 0 {
		return nil
	}
	chosen := make([]*spot, n)
	for i := range chosen {
		chosen[i] = &b.spots[best+i]
	}
	return chosen
}

// leaves is 1 when taking the seats up to the one at i leaves the next one, in the
// direction of step, alone.
func (b *bench) leaves(i, step int) int {
	if b.free(i, step) && !b.free(i+step, step) {
		return 1
	}
	return 0
}

// free says whether the neighbour of the seat at i is there and open.
func (b *bench) free(i, step int) bool {
	next := i + step
	return next >= 0 && next < len(b.spots) && b.spots[next].usual() && b.spots[next].Number == b.spots[i].Number+step
}

func (h *hall) scattered(w wish, among map[string]bool) []*spot {
	var all []*spot
	for _, b := range h.blocks {
		if w.section != "" && b.ID != w.section {
			continue
		}
		start := len(all)
		for i := range b.spots {
			if sp := &b.spots[i]; sp.usual() && (among == nil || among[sp.ID]) {
				all = append(all, sp)
			}
		}
		if here := all[start:]; len(here) >= w.n {
			return here[:w.n]
		}
	}
	if len(all) < w.n {
		return nil
	}
	return all[:w.n]
}

// accompanied is the first wheelchair place that has enough companions' seats.
func (h *hall) accompanied(w wish, among map[string]bool) []*spot {
	for _, b := range h.blocks {
		if w.section != "" && b.ID != w.section {
			continue
		}
		for i := range b.spots {
			place := &b.spots[i]
			if place.Kind != SeatWheelchair || !place.open() || among != nil && !among[place.ID] {
				continue
			}
			chosen := []*spot{place}
			for _, sp := range h.companions[place.ID] {
				if len(chosen) < w.n && sp.open() && (among == nil || among[sp.ID]) {
					chosen = append(chosen, sp)
				}
			}
			if len(chosen) == w.n {
				return chosen
			}
		}
	}
	return nil
}

// alone says whether a companion's seat is among ids without its wheelchair
// place, and which one.
func (h *hall) alone(ids []string) (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		if sp := h.spots[id]; sp != nil && sp.Kind == SeatCompanion && !slices.Contains(ids, sp.CompanionOf) {
			return id, true
		}
	}
	return "", false
}
