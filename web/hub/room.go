package hub

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// reasonAway is what waiting pages are told while the store does not answer.
const reasonAway = "store_unavailable"

// reasonSoldOut is what they are told when the last piece is paid.
const reasonSoldOut = "sold_out"

// room is one event with sockets on this node. Its fields are read by all shards.
type room struct {
	id    waitroom.EventID
	event atomic.Pointer[waitroom.Event]
	said  atomic.Pointer[notice]

	shoppers atomic.Int64                // clients who are told what changes on the map
	asked    atomic.Bool                 // somebody waits for the next step
	step     atomic.Pointer[ticket.Step] // of the map, which the shoppers are told of

	holding string    // what people are told slows the line; written by watch under rooms.mu
	since   time.Time // since when it does; likewise
	sockets int       // guarded by rooms.mu
	empty   time.Time // when the last socket went; guarded by rooms.mu

	missing time.Time // since when there is no such event; zero: there is. watch's alone
	counted time.Time // when all who are here were last told of; watch's alone
	slowed  time.Time // since when what is told differs from what holds; watch's alone
}

// notice is the event message that everybody in a room is to have seen. A later
// one replaces it; nobody needs the ones between.
type notice struct {
	number  int64 // grows with each notice of the room
	message []byte
	gone    bool // the event was deleted

	state           waitroom.State
	reason, comment string
}

// pressing is whether somebody who just came must be told.
func (n *notice) pressing() bool {
	return n.state != waitroom.Open || n.reason != "" || n.comment != "" || n.gone
}

// rooms are the events that have sockets on this node.
type rooms struct {
	mu   sync.Mutex // guards the following, and sockets in each room
	byID map[waitroom.EventID]*room
	away bool // the store does not answer
}

// enter counts a socket in and returns its room, made if need be.
func (rs *rooms) enter(ev waitroom.Event) *room {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.byID[ev.ID]
	if r == nil {
		r = &room{id: ev.ID}
		r.event.Store(&ev)
		r.said.Store(&notice{})
		rs.say(r, false)
		rs.byID[ev.ID] = r
	} else if r.sockets == 0 { // nobody watched it meanwhile
		r.event.Store(&ev)
		rs.say(r, false)
	}
	r.sockets++
	return r
}

// leave counts a socket out.
func (rs *rooms) leave(r *room) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r.sockets--; r.sockets == 0 {
		r.empty = time.Now()
	}
}

// occupied returns the rooms with sockets, and forgets those that have had none
// for longer than their people are remembered.
func (rs *rooms) occupied() []*room {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	list := make([]*room, 0, len(rs.byID))
	for id, r := range rs.byID {
		switch {
		case r.sockets > 0:
			list = append(list, r)
		case time.Since(r.empty) > keepFor+time.Second:
			delete(rs.byID, id)
		}
	}
	return list
}

func (rs *rooms) get(id waitroom.EventID) *room {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.byID[id]
}

// update takes in what the view knows of the room's event and reports whether
// people must be told.
func (rs *rooms) update(r *room, ev waitroom.Event) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if old := r.event.Load(); ev.Epoch == old.Epoch && ev.Version < old.Version {
		return false
	}
	r.event.Store(&ev)
	return rs.say(r, false)
}

// slow takes in what slows the line and reports whether people must be told.
func (rs *rooms) slow(r *room, holding string, since time.Time) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.holding, r.since = holding, since
	return rs.say(r, false)
}

// remove says that the event is no more.
func (rs *rooms) remove(r *room) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	ev := *r.event.Load()
	ev.State = waitroom.Closed
	r.event.Store(&ev)
	return rs.say(r, true)
}

// setAway notes whether the store answers and returns the rooms to be told.
func (rs *rooms) setAway(away bool) []*room {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.away == away {
		return nil
	}
	rs.away = away
	var told []*room
	for _, r := range rs.byID {
		if rs.say(r, false) {
			told = append(told, r)
		}
	}
	return told
}

// say makes a new notice if it differs from the last one. The caller holds rs.mu.
func (rs *rooms) say(r *room, gone bool) bool {
	ev, old := r.event.Load(), r.said.Load()
	n := &notice{number: old.number + 1, gone: gone, state: ev.State, reason: ev.Reason, comment: ev.Message}
	since := ev.Since
	if n.state == waitroom.Open && r.holding != "" {
		n.reason, since = r.holding, r.since
	}
	if ev.SoldOut && n.state != waitroom.Closed { // the line is kept for what comes back
		n.reason = reasonSoldOut
	}
	if rs.away && !gone {
		n.reason, since = reasonAway, time.Time{}
	}
	if n.state == old.state && n.reason == old.reason && n.comment == old.comment && gone == old.gone {
		return false
	}
	n.message = appendEvent(nil, n.state, n.reason, since, n.comment)
	r.said.Store(n)
	return true
}

// watchEvery is how old the counts in a position message may be, beside the view's own tick.
const watchEvery = 250 * time.Millisecond

// pingEveryWatches is how many watches lie between two pings of the store.
const pingEveryWatches = 4

// watch keeps the rooms' events fresh and finds out whether the store answers.
func (h *Hub) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	failed := 0
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if n%pingEveryWatches == 0 {
			failed = h.probe(ctx, failed)
		}
		for _, r := range h.rooms.occupied() {
			h.refresh(ctx, r)
			h.sayAgain(r)
		}
	}
}

// probe pings the store. Two failures in a row say that it is away, one answer
// that it is back.
func (h *Hub) probe(ctx context.Context, failed int) int {
	call, cancel := context.WithTimeout(ctx, h.cfg.StoreTimeout)
	err := h.deps.Ping(call)
	cancel()
	if ctx.Err() != nil {
		return failed
	}
	if err != nil {
		failed++
		if failed == 2 {
			h.log.Warn("store away", zap.Error(err))
			h.tell(h.rooms.setAway(true))
		}
		return failed
	}
	if failed >= 2 {
		h.log.Info("store back")
		h.tell(h.rooms.setAway(false))
	}
	return 0
}

func (h *Hub) refresh(ctx context.Context, r *room) {
	call, cancel := context.WithTimeout(ctx, h.cfg.StoreTimeout)
	defer cancel()
	ev, err := h.deps.View.Event(call, r.id)
	switch {
	case errors.Is(err, waitroom.ErrNoEvent):
		if r.missing.IsZero() {
			r.missing = time.Now()
		}
		if time.Since(r.missing) >= h.cfg.GoneAfter && h.rooms.remove(r) {
			h.tell([]*room{r})
		}
	case err == nil:
		r.missing = time.Time{}
		changed := h.rooms.update(r, ev)
		if holding, since := h.holding(r); h.rooms.slow(r, holding, since) || changed {
			h.tell([]*room{r})
		}
	default: // the ping says whether the store is away; the last event stays
	}
}

// heldFor is how long the line must have been slowed, or for another reason, or no
// more, before everybody is told: what changes back within it is nothing to read.
const heldFor = 3 * time.Second

// holding is what r's people are told slows the line, and since when it does.
func (h *Hub) holding(r *room) (string, time.Time) {
	now, since := h.deps.Holding(r.id)
	told := r.holding // watch alone writes it
	if now == told {
		r.slowed = time.Time{}
		return told, r.since
	}
	if r.slowed.IsZero() {
		r.slowed = time.Now()
	}
	if time.Since(r.slowed) < heldFor {
		return told, r.since
	}
	r.slowed = time.Time{}
	return now, since
}

// sayAgain has everybody in r told of to the line when it is time.
func (h *Hub) sayAgain(r *room) {
	every := presenceAgain
	if grace := time.Duration(r.event.Load().Grace); grace > 0 {
		every = min(every, max(grace/3, watchEvery))
	}
	switch {
	case r.counted.IsZero(): // whoever came was told of just now
		r.counted = time.Now()
	case time.Since(r.counted) >= every:
		r.counted = time.Now()
		h.Forgotten(r.id)
	}
}

// tell has every shard push the rooms' notices.
func (h *Hub) tell(told []*room) {
	for _, r := range told {
		for _, s := range h.shards {
			s.notify(news{kind: newsNotice, room: r})
		}
	}
}
