package ticket

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Step is a moment of an event's map on this node: where it is in the row of changes,
// and the ETag, without quotes, of the map as it was then.
type Step struct {
	At      int64
	Version string
}

// Delta is what changed on a map between two moments, each seat and item once and as
// it is now. Whoever takes in what has a higher version than what they have ends with
// the map, however often and in whatever order deltas come.
type Delta struct {
	// At is where the next delta begins.
	At int64
	// Reload: what changed is not known any more, or is so much that the map is
	// shorter. It is to be read anew; the next delta begins some seconds ago, so that
	// it may come from a node or a cache that is behind.
	Reload bool
	Seats  []Seat
	Items  []Item
	// Left is the number of free seats or of tickets left, now.
	Left int64
}

// Step gives the present moment of an event's map, which is read if it never was. The
// errors are those of Map.
func (s *Store) Step(ctx context.Context, event string) (Step, error) {
	h, err := s.hall(ctx, event)
	if err != nil {
		return Step{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return Step{h.journal.tag(h.version, h.content, time.Now(), true), contentTag(h.version, h.content)}, nil
}

// At is where an ETag of Map, or a Step's Version, stands in the row of changes; 0:
// not known here. It answers from memory.
func (s *Store) At(event, version string) int64 {
	h := s.known(event)
	if h == nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.journal.at(strings.Trim(strings.TrimPrefix(version, "W/"), `"`))
}

// Changes is what changed from one moment, not with it, to a later one; from 0 it is
// a Reload. It answers from memory.
func (s *Store) Changes(event string, from, to int64) Delta {
	h := s.known(event)
	if h == nil {
		return Delta{Reload: true, At: to}
	}
	return h.changes(from, to, time.Now())
}

// known is the hall of an event if this node has read it.
func (s *Store) known(event string) *hall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.halls[event]
}

func (h *hall) changes(from, to int64, now time.Time) Delta {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := Delta{At: to, Left: h.leftNow()}
	ids, known := h.journal.between(from, to)
	if !known {
		d.At, d.Reload = h.journal.lately(now), true
		return d
	}
	for _, id := range ids {
		if sp := h.spots[id]; sp != nil {
			d.Seats = append(d.Seats, sp.Seat)
		} else if it := h.items[id]; it != nil {
			d.Items = append(d.Items, it.Item)
		}
	}
	return d
}

const (
	// journalMost is how many changes are remembered, and deltaMost how many seats a
	// delta has at most: beyond it the compressed map is hardly longer.
	journalMost, deltaMost = 4096, 1000
	// overlap is how far a map may be behind: another node's (Config.Poll), a cache's
	// (max-age=1), a page's that took its time.
	overlap = 10 * time.Second
	// tagsMost is how many moments are found again by their ETags, and tagEvery the
	// time between two of them, so that in a rush they reach back for 20 s at least.
	tagsMost, tagEvery = 1024, 20 * time.Millisecond
)

// journal is the row of a hall's last changes, numbered; guarded by the hall's mu.
type journal struct {
	// The changes that are known: first ≤ n < next.
	first, next int64
	most        int      // 0: journalMost
	row         []entry  // a ring; made with the first change
	tags        []tagged // a ring
	tagNext     int
}

// entry is one change.
type entry struct {
	id string
	at int64 // in ms
}

// tagged is a moment that somebody has been told of.
type tagged struct {
	version int64
	content uint64
	at      int64
	when    time.Time
}

// note adds a change.
func (j *journal) note(id string, now time.Time) {
	if j.row == nil {
		j.row = make([]entry, cmp.Or(j.most, journalMost))
	}
	j.begin()
	j.row[j.next%int64(len(j.row))] = entry{id, now.UnixMilli()}
	j.next++
	j.first = max(j.first, j.next-int64(len(j.row)))
}

// begin makes the first moment 1, since 0 is nowhere.
func (j *journal) begin() {
	if j.next == 0 {
		j.first, j.next = 1, 1
	}
}

// cut forgets all: everything may have changed.
func (j *journal) cut() {
	j.begin()
	j.next++
	j.first = j.next
}

// between gives what changed, each once; false when that is not known any more, or
// is too much.
func (j *journal) between(from, to int64) ([]string, bool) {
	if from < j.first || from == 0 || to > j.next {
		return nil, false
	}
	seen := map[string]bool{}
	var ids []string
	for n := from; n < to; n++ {
		id := j.row[n%int64(len(j.row))].id
		if seen[id] {
			continue
		}
		if len(ids) == deltaMost {
			return nil, false
		}
		seen[id] = true
		ids = append(ids, id)
	}
	return ids, true
}

// lately is where the changes of the last seconds begin, or less far back where they
// would be too many for a delta.
func (j *journal) lately(now time.Time) int64 {
	n := j.next
	for n > j.first && j.next-n < deltaMost/2 && now.UnixMilli()-j.row[(n-1)%int64(len(j.row))].at < overlap.Milliseconds() {
		n--
	}
	return n
}

// tag remembers which content the present moment has; unless it must, not so soon
// after the last one. It gives the moment.
func (j *journal) tag(version int64, content uint64, now time.Time, must bool) int64 {
	j.begin()
	t := tagged{version, content, j.next, now}
	switch n := len(j.tags); {
	case n > 0 && j.last().at == t.at:
	case n > 0 && !must && now.Sub(j.last().when) < tagEvery:
	case n < tagsMost:
		j.tags = append(j.tags, t)
	default:
		j.tags[j.tagNext] = t
		j.tagNext = (j.tagNext + 1) % tagsMost
	}
	return t.at
}

func (j *journal) last() tagged {
	return j.tags[(j.tagNext+len(j.tags)-1)%len(j.tags)]
}

// at finds the moment of an ETag; 0: it is not known.
func (j *journal) at(tag string) int64 {
	for _, t := range slices.Backward(j.tags) {
		if t.at >= j.first && t.String() == tag {
			return t.at
		}
	}
	return 0
}

func (t tagged) String() string { return contentTag(t.version, t.content) }

// contentTag names a content, the same on every node.
func contentTag(version int64, content uint64) string { return fmt.Sprintf("%x-%x", version, content) }
