package hub

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom"
)

const (
	// presenceEvery is how long the line may wait to hear who came and went.
	presenceEvery = 100 * time.Millisecond
	// presenceBatch is the most entries in one call.
	presenceBatch = 256
	// presenceAgain is the longest time between two times that the line is told of
	// everybody who is here; it is a third of the grace where that is shorter. A store
	// that lost its last second to a failover would else let people expire whose
	// sockets are open.
	presenceAgain = 30 * time.Second
	// presenceFactor times MaxSockets is how many changes may wait while the store is
	// away. Beyond it further ones are dropped; who came is told of again in time.
	presenceFactor = 4
)

// whereabouts is the last that is known of an entry's sockets on this node.
type whereabouts int8

const (
	here whereabouts = iota
	awayDesktop
	awayMobile
)

// presence gathers who came and went until the line is told. Only the latest
// change of an entry counts.
type presence struct {
	mu      sync.Mutex // guards the following
	pending map[waitroom.EventID]map[waitroom.EntryID]whereabouts
	count   int
	limit   int
}

// note remembers a change.
func (p *presence) note(event waitroom.EventID, entry waitroom.EntryID, w whereabouts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(event, entry, w)
}

// put is note for who holds mu.
func (p *presence) put(event waitroom.EventID, entry waitroom.EntryID, w whereabouts) {
	m := p.pending[event]
	if m == nil {
		m = make(map[waitroom.EntryID]whereabouts)
		p.pending[event] = m
	}
	if _, known := m[entry]; !known {
		if p.count >= p.limit {
			return
		}
		p.count++
	}
	m[entry] = w
}

// takeAll empties p.
func (p *presence) takeAll() map[waitroom.EventID]map[waitroom.EntryID]whereabouts {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.pending
	p.pending, p.count = make(map[waitroom.EventID]map[waitroom.EntryID]whereabouts), 0
	return all
}

// putBack returns what could not be told, unless something newer is known.
func (p *presence) putBack(event waitroom.EventID, entry waitroom.EntryID, w whereabouts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, newer := p.pending[event][entry]; !newer {
		p.put(event, entry, w)
	}
}

// tellPresence tells the line every presenceEvery, until ctx ends.
func (h *Hub) tellPresence(ctx context.Context) {
	tick := time.NewTicker(presenceEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			h.flushPresence(ctx)
		}
	}
}

// flushPresence tells the line all there is to tell, in batches. The first call
// that fails ends the round; what is left is told in the next.
func (h *Hub) flushPresence(ctx context.Context) {
	failed := false
	for event, m := range h.presence.takeAll() {
		var b batch
		for entry, w := range m {
			if failed {
				h.presence.putBack(event, entry, w)
				continue
			}
			b.add(entry, w)
			if b.size() == presenceBatch {
				failed = h.tellBatch(ctx, event, &b)
			}
		}
		if !failed {
			failed = h.tellBatch(ctx, event, &b)
		}
	}
}

// tellBatch tells the line of one batch and empties it; if that fails, the batch
// goes back.
func (h *Hub) tellBatch(ctx context.Context, event waitroom.EventID, b *batch) (failed bool) {
	defer func() { *b = batch{} }()
	call, cancel := context.WithTimeout(ctx, h.cfg.StoreTimeout)
	defer cancel()
	var err error
	if len(b.here) > 0 {
		err = h.deps.Presence.Here(call, event, b.here)
	}
	if err == nil && len(b.desktop)+len(b.mobile) > 0 {
		err = h.deps.Presence.Away(call, event, b.desktop, b.mobile)
	}
	if err == nil || errors.Is(err, waitroom.ErrNoEvent) {
		return false
	}
	h.log.Debug("presence not told", zap.String("event", string(event)), zap.Error(err))
	for _, e := range b.here {
		h.presence.putBack(event, e, here)
	}
	for _, e := range b.desktop {
		h.presence.putBack(event, e, awayDesktop)
	}
	for _, e := range b.mobile {
		h.presence.putBack(event, e, awayMobile)
	}
	return true
}

// batch is what one pair of calls tells.
type batch struct{ here, desktop, mobile []waitroom.EntryID }

func (b *batch) add(e waitroom.EntryID, w whereabouts) {
	switch w {
	case here:
		b.here = append(b.here, e)
	case awayDesktop:
		b.desktop = append(b.desktop, e)
	case awayMobile:
		b.mobile = append(b.mobile, e)
	}
}

func (b *batch) size() int { return len(b.here) + len(b.desktop) + len(b.mobile) }
