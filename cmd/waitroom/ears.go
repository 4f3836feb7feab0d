package main

import (
	"maps"
	"slices"
	"sync"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web/hub"
)

// ears hands on to the hub what the view hears, and remembers the events, so that
// a store that was lost can be told of them again. The hub is set before the view
// runs.
type ears struct {
	hub  *hub.Hub
	lost chan struct{} // capacity 1: an event is gone, deleted or with the whole store
	// changed has capacity 1: settings or state of an event are others now.
	changed chan struct{}

	mu sync.Mutex // guards the fields below
	// known are the events as they were heard of last; gone are those of them that
	// are no more, as long as it is not sure that the store still has its data.
	known, gone map[waitroom.EventID]waitroom.Event
}

func newEars() *ears {
	return &ears{
		lost: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		known: make(map[waitroom.EventID]waitroom.Event), gone: make(map[waitroom.EventID]waitroom.Event),
	}
}

// Admitted hands on.
func (e *ears) Admitted(id waitroom.EventID, grants []waitroom.Grant) { e.hub.Admitted(id, grants) }

// Departed hands on.
func (e *ears) Departed(id waitroom.EventID, gone []waitroom.Departure) { e.hub.Departed(id, gone) }

// Ended hands on.
func (e *ears) Ended(id waitroom.EventID, ends []waitroom.End) { e.hub.Ended(id, ends) }

// Numbered hands on.
func (e *ears) Numbered(id waitroom.EventID, results []waitroom.Result) { e.hub.Numbered(id, results) }

// Parties hands on.
func (e *ears) Parties(id waitroom.EventID, who []waitroom.EntryID) { e.hub.Parties(id, who) }

// Forgotten hands on.
func (e *ears) Forgotten(id waitroom.EventID) { e.hub.Forgotten(id) }

// Changed hands on, and remembers.
func (e *ears) Changed(ev waitroom.Event) {
	e.remember(ev)
	e.hub.Changed(ev)
}

func (e *ears) remember(ev waitroom.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case e.changed <- struct{}{}:
	default: // said already
	}
	if before, ok := e.known[ev.ID]; ok && ev.Reason == waitroom.ReasonDeleted {
		e.gone[ev.ID] = before
		delete(e.known, ev.ID)
		select {
		case e.lost <- struct{}{}:
		default: // said already
		}
		return
	}
	e.known[ev.ID] = ev
	delete(e.gone, ev.ID)
}

// believe is called while the store has its data: what is gone was deleted.
func (e *ears) believe() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.gone)
}

// living are the events that there are.
func (e *ears) living() []waitroom.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Collect(maps.Values(e.known)), func(ev waitroom.Event) bool {
		return ev.Reason == waitroom.ReasonDeleted
	})
}

// events are all that a store which lost its data should have.
func (e *ears) events() []waitroom.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append(slices.Collect(maps.Values(e.known)), slices.Collect(maps.Values(e.gone))...)
}
