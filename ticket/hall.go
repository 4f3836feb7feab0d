package ticket

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
)

// spot is one seat as this node knows it.
type spot struct {
	Seat
	ord   int64 // the seat's place in the map
	block *block
	bench *bench
	// picked: a reservation that is being committed on this node wants it.
	picked bool
}

func (s *spot) open() bool { return s.Status == SeatFree && !s.picked }

// bench is a row of a section, in the order of its numbers.
type bench struct {
	spots []*spot
	open  int
}

// block is a section.
type block struct {
	Section
	ord     int64
	benches []*bench
	spots   []*spot
	changed bool
}

// stock is an item with the version that this node knows.
type stock struct {
	Item
	version int64
}

// hall is what one event sells, as this node knows it: as new as the node's own
// changes, and at most a poll behind those of others. The database decides; the
// hall only spares it the question.
type hall struct {
	event    string
	reserves *gather[*ask]

	mu      sync.Mutex // guards all below
	cat     Catalogue
	version int64 // of the catalogue
	blocks  []*block
	spots   map[string]*spot
	stocks  []*stock
	free    int64  // free seats, picked ones too
	content uint64 // grows out of all seats and versions: the same on every node
	shown   *Map
	etag    string
	changed bool
}

// mark hashes one thing's version, so that the sum over all names the content.
func mark(id string, version int64) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%d", id, version)
	return h.Sum64()
}

// seatRow is a seat as the database has it.
type seatRow struct {
	id      string
	status  SeatStatus
	version int64
}

// add puts a seat into the hall; the caller holds mu.
func (h *hall) add(b *block, ord int64, s Seat, picked bool) {
	sp := &spot{Seat: s, ord: ord, block: b, picked: picked}
	if n := len(b.benches); n == 0 || b.benches[n-1].spots[0].Row != s.Row {
		b.benches = append(b.benches, &bench{})
	}
	sp.bench = b.benches[len(b.benches)-1]
	sp.bench.spots = append(sp.bench.spots, sp)
	b.spots = append(b.spots, sp)
	h.spots[s.ID] = sp
	h.count(sp, 1)
}

// count adds a spot to the sums, or with -1 takes it out.
func (h *hall) count(sp *spot, sign int) {
	if sp.open() {
		sp.bench.open += sign
	}
	if sp.Status == SeatFree {
		h.free += int64(sign)
	}
	h.content += uint64(sign) * mark(sp.ID, sp.Version) //nolint:gosec // wraps on purpose
}

// learn takes in rows that are newer than what is known; older ones are ignored,
// so that any order and any repetition is harmless.
func (h *hall) learn(rows []seatRow) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range rows {
		sp := h.spots[r.id]
		if sp == nil || r.version <= sp.Version {
			continue
		}
		h.count(sp, -1)
		sp.Status, sp.Version = r.status, r.version
		h.count(sp, 1)
		sp.block.changed, h.changed = true, true
	}
}

// learnStock is learn for items.
func (h *hall) learnStock(rows []stockRow) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range rows {
		for _, s := range h.stocks {
			if s.ID == r.id && r.version > s.version {
				h.content += mark(s.ID, r.version) - mark(s.ID, s.version)
				s.Free, s.Total, s.version = r.free, r.total, r.version
				h.changed = true
			}
		}
	}
}

// show gives the map and its ETag. Only sections that changed are copied.
func (h *hall) show() (*Map, string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shown != nil && !h.changed {
		return h.shown, h.etag
	}
	m := &Map{Event: h.event, Left: h.free, Sections: make([]Section, len(h.blocks))}
	for i, b := range h.blocks {
		if b.changed || b.Seats == nil {
			b.Seats = make([]Seat, len(b.spots))
			for j, sp := range b.spots {
				b.Seats[j] = sp.Seat
			}
			b.changed = false
		}
		m.Sections[i] = b.Section
	}
	for _, s := range h.stocks {
		m.Items = append(m.Items, s.Item)
		m.Left += s.Free
	}
	h.shown, h.changed = m, false
	h.etag = fmt.Sprintf(`"%x-%x"`, h.version, h.content)
	return h.shown, h.etag
}

// left is the number of free seats and tickets.
func (h *hall) left() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.free
	for _, s := range h.stocks {
		n += s.Free
	}
	return n
}

// catalogue gives the terms of sale.
func (h *hall) catalogue() Catalogue {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cat
}

// knows gives what is known of a seat.
func (h *hall) knows(id string) (seatRow, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sp := h.spots[id]
	if sp == nil {
		return seatRow{}, false
	}
	return seatRow{sp.ID, sp.Status, sp.Version}, true
}

// price adds up what the seats cost.
func (h *hall) price(ids []string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	var sum int64
	for _, id := range ids {
		if sp := h.spots[id]; sp != nil {
			sum += sp.block.PriceCents
		} else {
			sum += h.cat.PriceCents
		}
	}
	return sum
}

// pick chooses the n best free seats and marks them, so that no other group of
// this node chooses them too; nil when there are not so many. With among, only
// those are chosen from. Every pick ends with unpick.
//
// Best is: side by side, in the first row of the map that has them, nearest to
// its middle; where no row has n side by side, the first free ones in order,
// in one section if one has enough.
func (h *hall) pick(n int, among map[string]bool) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	chosen := h.together(n, among)
	if chosen == nil {
		chosen = h.scattered(n, among)
	}
	ids := make([]string, 0, n)
	for _, sp := range chosen {
		sp.picked = true
		sp.bench.open--
		ids = append(ids, sp.ID)
	}
	return ids
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
		if sp.open() {
			sp.bench.open--
		}
		sp.picked = true
		marked = append(marked, id)
	}
	return marked
}

// inOrder sorts seats by their place in the map.
func (h *hall) inOrder(ids []string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	sorted := slices.Clone(ids)
	slices.SortFunc(sorted, func(a, b string) int { return cmp.Compare(h.ord(a), h.ord(b)) })
	return sorted
}

// ord is a seat's place in the map; the caller holds mu.
func (h *hall) ord(id string) int64 {
	if sp := h.spots[id]; sp != nil {
		return sp.ord
	}
	return 0
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
		sp.picked = false
		if sp.open() {
			sp.bench.open++
		}
	}
}

func (h *hall) together(n int, among map[string]bool) []*spot {
	for _, b := range h.blocks {
		for _, row := range b.benches {
			if row.open < n {
				continue
			}
			if run := row.run(n, among); run != nil {
				return run
			}
		}
	}
	return nil
}

// run is the row's n neighbours nearest to its middle.
func (b *bench) run(n int, among map[string]bool) []*spot {
	var best []*spot
	least, length := 0, 0
	for i, sp := range b.spots {
		if !sp.open() || among != nil && !among[sp.ID] {
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
		if best == nil || off < least {
			best, least = b.spots[i-n+1:i+1], off
		}
	}
	return best
}

func (h *hall) scattered(n int, among map[string]bool) []*spot {
	var all []*spot
	for _, b := range h.blocks {
		start := len(all)
		for _, sp := range b.spots {
			if sp.open() && (among == nil || among[sp.ID]) {
				all = append(all, sp)
			}
		}
		if here := all[start:]; len(here) >= n {
			return here[:n]
		}
	}
	if len(all) < n {
		return nil
	}
	return all[:n]
}

// orDefaults fills in what a catalogue leaves out.
func (c Catalogue) orDefaults() Catalogue {
	c.PerUser = cmp.Or(c.PerUser, 2)
	c.HoldTTL = cmp.Or(c.HoldTTL, defaultHold)
	c.Locking = cmp.Or(c.Locking, Optimistic)
	c.OnBreakerOpen = cmp.Or(c.OnBreakerOpen, "wait")
	c.Currency = cmp.Or(c.Currency, "EUR")
	return c
}
