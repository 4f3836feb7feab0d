package waitroom

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// HeartbeatTTL is how long a node counts as alive after its last Here or heartbeat; a
// node says one of them at least every third of it.
const HeartbeatTTL = 15 * time.Second

// presenceBatch bounds the entries of one Here or Away call of the store.
const presenceBatch = 500

// Here says that this node holds sockets of these entries: their graces stop.
// Errors: ErrNoEvent, ErrUnavailable; after an error it may hold for a part.
func (l *Line) Here(ctx context.Context, event EventID, entries []EntryID) error {
	for batch := range slices.Chunk(entries, presenceBatch) {
		r, err := l.here(ctx, event, batch)
		if err != nil {
			return err
		}
		if r.outcome == outcomeNew {
			l.forgotten(event)
		}
	}
	return nil
}

// beat says that this node lives. It answers false when the store did not know so:
// then whatever this node said with Here before counts no more, and must be said
// again. Errors: ErrNoEvent, ErrUnavailable.
func (l *Line) beat(ctx context.Context, event EventID) (known bool, err error) {
	r, err := l.here(ctx, event, nil)
	if err != nil {
		return false, err
	}
	return !l.wasForgotten(event) && r.outcome == outcomeKnown, nil
}

// forgotten notes for the next heartbeat that a Here found this node not listed.
func (l *Line) forgotten(event EventID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlisted[event] = true
}

func (l *Line) wasForgotten(event EventID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.unlisted[event]
	delete(l.unlisted, event)
	return was
}

// here is the one caller of here.lua.
func (l *Line) here(ctx context.Context, event EventID, entries []EntryID) (reply, error) {
	args := []any{l.cfg.Node, HeartbeatTTL.Milliseconds()}
	for _, e := range entries {
		args = append(args, string(e))
	}
	r, err := l.call(ctx, scriptHere, event, []string{l.keys.here(event, l.cfg.Node)}, args...)
	if err != nil {
		return reply{}, fmt.Errorf("here in %s: %w", event, err)
	}
	return r, nil
}

// Away says that this node lost the sockets of these entries: their graces begin,
// the longer one for phones. Errors: ErrNoEvent, ErrUnavailable; after an error it
// may hold for a part.
func (l *Line) Away(ctx context.Context, event EventID, entries, mobile []EntryID) error {
	for batch := range slices.Chunk(entries, presenceBatch) {
		if err := l.away(ctx, event, "", batch); err != nil {
			return err
		}
	}
	for batch := range slices.Chunk(mobile, presenceBatch) {
		if err := l.away(ctx, event, "m", batch); err != nil {
			return err
		}
	}
	return nil
}

// away is the one caller of away.lua.
func (l *Line) away(ctx context.Context, event EventID, flags string, entries []EntryID) error {
	args := []any{flags}
	for _, e := range entries {
		args = append(args, string(e))
	}
	if _, err := l.call(ctx, scriptAway, event, []string{l.keys.here(event, l.cfg.Node)}, args...); err != nil {
		return fmt.Errorf("away in %s: %w", event, err)
	}
	return nil
}
