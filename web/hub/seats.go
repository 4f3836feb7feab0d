package hub

import (
	"context"
	"strconv"
	"time"

	"github.com/waitroom-dev/waitroom/ticket"
)

// Seats answers what changed on an event's map. At and Changes answer from memory.
type Seats interface {
	// Step is the present moment of the map.
	Step(ctx context.Context, event string) (ticket.Step, error)
	// At is where a version of the map stands in the row of changes; 0: not known.
	At(event, version string) int64
	// Changes is what changed between two moments.
	Changes(event string, from, to int64) ticket.Delta
}

// unplaced is where a shopper stands whose map nobody here knows.
const unplaced = -1

// delta is a message with what changed from one moment to another, made once for all
// of a shard who are told it.
type delta struct {
	from   int64
	step   *ticket.Step
	at     int64
	reload bool
	text   []byte
}

// followSeats makes the steps of the maps that somebody here chooses from: so many
// messages a second and no more, whatever is sold.
func (h *Hub) followSeats(ctx context.Context) {
	if h.deps.Seats == nil {
		return
	}
	tick := time.NewTicker(h.cfg.SeatsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, r := range h.rooms.occupied() {
			if r.shoppers.Load() > 0 {
				h.step(ctx, r)
			}
		}
	}
}

// step has the room's shoppers told what changed since the last step, if anything
// did or somebody waits for a word. An event that sells nothing, or whose map cannot
// be read now, has no steps: its shoppers go on asking for the map.
func (h *Hub) step(ctx context.Context, r *room) {
	call, cancel := context.WithTimeout(ctx, h.cfg.StoreTimeout)
	defer cancel()
	step, err := h.deps.Seats.Step(call, string(r.id))
	if err != nil {
		return
	}
	asked := r.asked.Swap(false)
	if last := r.step.Load(); last != nil && last.At == step.At && !asked {
		return
	}
	r.step.Store(&step)
	for _, s := range h.shards {
		s.notify(news{kind: newsSeats, room: r})
	}
}

// shop makes c one of those who are told what changes, from the version that it has.
func (s *shard) shop(c *client, version string) {
	if c.person == nil || s.h.deps.Seats == nil {
		return // it must say hello first
	}
	ps := s.people(c.room)
	if c.shops == 0 {
		if ps.shoppers == nil {
			ps.shoppers = make(map[*client]struct{})
		}
		ps.shoppers[c] = struct{}{}
		c.room.shoppers.Add(1)
	}
	c.shops = s.h.deps.Seats.At(string(c.room.id), version)
	if c.shops == 0 {
		c.shops = unplaced
	}
	c.curious = true
	c.room.asked.Store(true) // answered with the next step
}

// shopped ends that.
func (s *shard) shopped(c *client) {
	if c.shops == 0 {
		return
	}
	c.shops, c.curious = 0, false
	c.owes &^= owesSeats
	delete(s.people(c.room).shoppers, c)
	c.room.shoppers.Add(-1)
}

// stepped has the room's shoppers brought to its new step, a few at a time.
func (s *shard) stepped(r *room) {
	ps := s.rooms[r]
	if ps == nil {
		return
	}
	at := r.step.Load().At
	for c := range ps.shoppers {
		if c.endBy != 0 || c.shops == at && !c.curious {
			continue
		}
		c.owes |= owesSeats
		if !c.waits {
			c.waits = true
			s.backlog = append(s.backlog, c)
		}
	}
}

// changes is what c is told now; nil where it knows more than the last step.
func (s *shard) changes(c *client) []byte {
	step := c.room.step.Load()
	if c.shops == 0 || step == nil || c.shops > step.At {
		return nil
	}
	ps := s.people(c.room)
	if d := &ps.delta; d.from != c.shops || d.step != step {
		found := s.h.deps.Seats.Changes(string(c.room.id), c.shops, step.At)
		*d = delta{c.shops, step, found.At, found.Reload, appendSeats(d.text[:0], step.Version, found)}
	}
	c.shops, c.curious = ps.delta.at, false
	if ps.delta.reload {
		c.curious = true // for what its new map may lack
		c.room.asked.Store(true)
	}
	return ps.delta.text
}

// appendSeats tells what changed, or that the map is to be read anew.
func appendSeats(b []byte, version string, d ticket.Delta) []byte {
	b = append(b, `{"type":"seats","seats_left":`...)
	b = strconv.AppendInt(b, d.Left, 10)
	if d.Reload {
		return append(b, `,"reload":true}`...)
	}
	b = append(b, `,"version":`...)
	b = appendString(b, version)
	for i, seat := range d.Seats {
		if i == 0 {
			b = append(b, `,"seats":[`...)
		}
		b = append(b, `{"id":`...)
		b = appendString(b, seat.ID)
		b = append(b, `,"status":`...)
		b = appendString(b, string(seat.Status))
		b = append(b, `,"version":`...)
		b = strconv.AppendInt(b, seat.Version, 10)
		b = append(b, "},"...)
	}
	if len(d.Seats) > 0 {
		b[len(b)-1] = ']'
	}
	for i, item := range d.Items {
		if i == 0 {
			b = append(b, `,"items":[`...)
		}
		b = append(b, `{"id":`...)
		b = appendString(b, item.ID)
		b = append(b, `,"total":`...)
		b = strconv.AppendInt(b, item.Total, 10)
		b = append(b, `,"free":`...)
		b = strconv.AppendInt(b, item.Free, 10)
		b = append(b, `,"version":`...)
		b = strconv.AppendInt(b, item.Version, 10)
		b = append(b, "},"...)
	}
	if len(d.Items) > 0 {
		b[len(b)-1] = ']'
	}
	return append(b, '}')
}
