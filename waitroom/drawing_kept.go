package waitroom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waitroom-dev/waitroom/waitroom/draw"
)

// KeptDraw is a draw as a store has it that may end with its process, for the store
// that comes after it. Until the seed is published it holds a secret.
type KeptDraw struct {
	Phase     string    `json:"phase"`
	Seed      draw.Seed `json:"seed"`
	Published Drawn     `json:"published"`
	// Base is the highest sequence of the lobby, and ClosedAt the moment of its end.
	Base     int64     `json:"base,omitempty"`
	ClosedAt time.Time `json:"closed_at"`
	// Entrants are the list, ordered by their leaves, once its root is published.
	Entrants []EntryID `json:"entrants,omitempty"`
}

// Listed tells whether the root of the entrants is published: from then on nobody
// enters the draw, and it can only be gone on with.
func (k *KeptDraw) Listed() bool { return k != nil && k.Published.Root != nil }

// Closing tells whether the lobby had closed, and nothing of it was published.
func (k *KeptDraw) Closing() bool { return k != nil && !k.Listed() && k.Phase != drawUndrawn }

// KeepDraw is an event's draw, to be kept outside of the store; nil where the order is
// not drawn. Errors: ErrNoEvent, ErrUnavailable.
func (l *Line) KeepDraw(ctx context.Context, ev Event) (*KeptDraw, error) {
	if ev.Order != OrderDraw || ev.Draw == nil {
		return nil, nil //nolint:nilnil // there is none, and that is no fault
	}
	at, err := l.step(ctx, ev.ID, "", "look")
	if err != nil {
		return nil, err
	}
	k := &KeptDraw{Phase: at.phase, Seed: at.seed, Published: at.drawn, Base: at.base, ClosedAt: at.closed.UTC()}
	if k.Listed() {
		if k.Entrants, err = l.drawList(ctx, ev.ID); err != nil {
			return nil, err
		}
		if len(k.Entrants) != k.Published.Size {
			return nil, fmt.Errorf("draw %s: %d of %d entrants are listed: %w", ev.ID, len(k.Entrants), k.Published.Size, ErrUnavailable)
		}
	}
	return k, nil
}

// Recreate makes an event again in a store that has lost it, with the draw that was
// kept of it: the commitment, and what was published since, are those that people have
// seen. Where the entrants were listed already, the draw goes on by itself, or is done
// again to the same end; whoever was in it and comes back with a receipt stands where
// it put them. Before that the state is the given one, as Create takes it; from then on
// it is the lobby until the draw is done. Errors as Create's.
func (l *Line) Recreate(ctx context.Context, s Settings, state State, k KeptDraw, by string) (Event, error) {
	if s.Order != OrderDraw {
		return Event{}, fmt.Errorf("recreate %s: the order is not drawn", s.ID)
	}
	if k.Listed() {
		state = Lobby
	}
	if _, err := l.create(ctx, s, state, by); err != nil {
		return Event{}, err
	}
	if !k.Listed() { // who was in the lobby comes back to it
		k.Published = Drawn{Commitment: k.Published.Commitment}
	}
	doc, err := json.Marshal(k.Published)
	if err != nil {
		return Event{}, fmt.Errorf("recreate %s: %w", s.ID, err)
	}
	if !k.Listed() {
		_, err = l.step(ctx, s.ID, "", "commit", k.Seed.String(), string(doc))
		return l.recreated(ctx, s.ID, err)
	}
	for chunk := range slices.Chunk(k.Entrants, drawChunk) {
		args := make([]any, len(chunk))
		for i, e := range chunk {
			args[i] = string(e)
		}
		if _, err := l.step(ctx, s.ID, "", "relist", args...); err != nil {
			return Event{}, fmt.Errorf("recreate %s: %w", s.ID, err)
		}
	}
	phase, opened := drawWaiting, 0
	if k.Published.Seed != nil {
		phase = drawPlacing
	}
	if k.Phase == drawDone { // its opening's burst was given
		opened = 1
	}
	_, err = l.step(ctx, s.ID, "", "restore", k.Seed.String(), string(doc), k.Base, k.ClosedAt.UnixMilli(), len(k.Entrants), phase, opened)
	return l.recreated(ctx, s.ID, err)
}

func (l *Line) recreated(ctx context.Context, event EventID, err error) (Event, error) {
	if err != nil && !errors.Is(err, errMovedOn) {
		return Event{}, fmt.Errorf("recreate %s: %w", event, err)
	}
	return l.Event(ctx, event)
}
