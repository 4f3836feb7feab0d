package ticket

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// spot is one seat as this node knows it.
type spot struct {
	Seat
	ord   int64 // the seat's place in the map
	bench *bench
	// picked: a reservation that is being committed on this node wants it.
	picked bool
}

func (s *spot) open() bool { return s.Status == SeatFree && !s.picked }

// usual says whether the server may choose a seat for anybody.
func (s *spot) usual() bool { return s.Kind == SeatUsual && s.open() }

// bench is a row of a section, in the order of its numbers.
type bench struct {
	block *block
	spots []spot
	open  int // usual ones
}

// block is a section. Its spots are one piece of memory, of which its benches are
// parts, so that the garbage collector has few things to look at.
type block struct {
	Section
	ord     int64
	benches []*bench
	spots   []spot
	changed bool
}

// item is a stock, a slot or a course as this node knows it.
type item struct {
	Item
	ord      int64
	meetings []Meeting
}

// hall is what one event sells, as this node knows it: as new as the node's own
// changes, and at most a poll behind those of others. The database decides; the
// hall only spares it the question.
type hall struct {
	event    string
	reserves *gather[*ask]
	wary     atomic.Int32 // groups that are not bold for now
	returns  atomic.Int32 // bold ones that look for the shares of who has some

	mu      sync.Mutex // guards all below
	cat     Catalogue
	version int64 // of the catalogue
	created int64 // of the catalogue, too: another one is another hall
	blocks  []*block
	spots   map[string]*spot
	items   map[string]*item
	inItems []*item // in the order of the map
	// companions are the seats that belong to a wheelchair place, by its id.
	companions map[string][]*spot
	free       int64  // free seats, picked ones too
	content    uint64 // grows out of all seats and versions: the same on every node
	shown      *Map
	etag       string
	changed    bool
	journal    journal
}

// mark hashes one thing's version, so that the sum over all names the content. It
// takes a hash whose results are far apart for versions that are next to each other:
// with FNV two seats sold together left the sum as it was, one time in four.
func mark(id string, version int64) uint64 {
	var room [64]byte
	b := append(append(room[:0], id...), 0)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(b, uint64(version))) //nolint:gosec // any number will do
	return binary.BigEndian.Uint64(sum[:])
}

// seatRow is a seat as the database has it.
type seatRow struct {
	id      string
	status  SeatStatus
	version int64
}

// seat puts a block's spots into the hall, row by row; the caller holds mu.
func (h *hall) seat(b *block) {
	for i := range b.spots {
		sp := &b.spots[i]
		if n := len(b.benches); n == 0 || b.benches[n-1].spots[0].Row != sp.Row {
			b.benches = append(b.benches, &bench{block: b, spots: b.spots[i:i]})
		}
		sp.bench = b.benches[len(b.benches)-1]
		sp.bench.spots = sp.bench.spots[:len(sp.bench.spots)+1]
		h.spots[sp.ID] = sp
		if sp.Kind == SeatCompanion {
			if h.companions == nil {
				h.companions = map[string][]*spot{}
			}
			h.companions[sp.CompanionOf] = append(h.companions[sp.CompanionOf], sp)
		}
		h.count(sp, 1)
	}
}

// count adds a spot to the sums, or with -1 takes it out.
func (h *hall) count(sp *spot, sign int) {
	if sp.usual() {
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
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range rows {
		sp := h.spots[r.id]
		if sp == nil || r.version <= sp.Version {
			continue
		}
		h.journal.note(r.id, now)
		h.count(sp, -1)
		sp.Status, sp.Version = r.status, r.version
		h.count(sp, 1)
		sp.bench.block.changed, h.changed = true, true
	}
}

// learnStock is learn for items.
func (h *hall) learnStock(rows []stockRow) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range rows {
		it := h.items[r.id]
		if it == nil || r.version <= it.Version {
			continue
		}
		h.journal.note(r.id, now)
		h.content += mark(it.ID, r.version) - mark(it.ID, it.Version)
		it.Free, it.Total, it.Version, it.Closed = r.open(), r.total, r.version, r.closed
		h.changed = true
	}
}

// show gives the map and its ETag. Only sections that changed are copied.
func (h *hall) show() (*Map, string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shown != nil && !h.changed {
		return h.shown, h.etag
	}
	h.journal.tag(h.version, h.content, time.Now(), false)
	m := &Map{Event: h.event, Kind: h.cat.Kind, PerUser: h.cat.PerUser, Left: h.free, Sections: make([]Section, len(h.blocks))}
	for i, b := range h.blocks {
		if b.changed || b.Seats == nil {
			b.Seats = make([]Seat, len(b.spots))
			for j := range b.spots {
				b.Seats[j] = b.spots[j].Seat
			}
			b.changed = false
		}
		m.Sections[i] = b.Section
	}
	for _, it := range h.inItems {
		m.Items = append(m.Items, it.Item)
		m.Left += it.Free
	}
	h.shown, h.changed = m, false
	h.etag = `"` + contentTag(h.version, h.content) + `"`
	return h.shown, h.etag
}

// left is the number of free seats and tickets.
func (h *hall) left() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leftNow()
}

// leftNow is left for who holds mu.
func (h *hall) leftNow() int64 {
	n := h.free
	for _, it := range h.inItems {
		n += it.Free
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
			sum += sp.bench.block.PriceCents
		} else if it := h.items[id]; it != nil {
			sum += it.PriceCents
		}
	}
	return sum
}

// inOrder sorts seats by their place in the map.
func (h *hall) inOrder(ids []string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	sorted := slices.Clone(ids)
	slices.SortFunc(sorted, func(a, b string) int { return cmp.Compare(h.ord(a), h.ord(b)) })
	return sorted
}

// ord is the place of a seat or an item in the map; the caller holds mu.
func (h *hall) ord(id string) int64 {
	if sp := h.spots[id]; sp != nil {
		return sp.ord
	}
	if it := h.items[id]; it != nil {
		return it.ord
	}
	return 0
}

// timetable gives the meetings of some courses.
func (h *hall) timetable(ids []string) []Meeting {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []Meeting
	for _, id := range ids {
		if it := h.items[id]; it != nil {
			all = append(all, it.meetings...)
		}
	}
	return all
}

// itemIDs are all items in the order of the map.
func (h *hall) itemIDs() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := make([]string, len(h.inItems))
	for i, it := range h.inItems {
		ids[i] = it.ID
	}
	return ids
}

// known is the version of the catalogue that the hall was built from.
func (h *hall) known() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.version
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
