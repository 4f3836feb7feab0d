package waitroom

import (
	"context"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/waitroom-dev/waitroom/waitroom/draw"
)

// drawsKept is how many draws a node keeps ready for those who ask for their proof:
// 32 bytes an entrant each. The one that was asked for longest ago is read again
// when it is wanted.
const drawsKept = 4

// draws are the lists of finished draws that this node has read.
type draws struct {
	lists  *lru.Cache[draw.Hash, draw.List] // by their roots
	flight singleflight.Group
}

func newDraws() *draws {
	lists, _ := lru.New[draw.Hash, draw.List](drawsKept) // fails for a size below one only
	return &draws{lists: lists}
}

// entrants is the list of an event's draw. Errors: ErrNotDrawn, ErrUnavailable.
func (l *Line) entrants(ctx context.Context, ev Event) (draw.List, error) {
	if ev.Draw == nil || ev.Draw.Root == nil {
		return nil, fmt.Errorf("draw %s: %w", ev.ID, ErrNotDrawn)
	}
	root := *ev.Draw.Root
	if list, ok := l.draws.lists.Get(root); ok {
		return list, nil
	}
	read, err, _ := l.draws.flight.Do(root.String(), func() (any, error) {
		entries, err := l.drawList(context.WithoutCancel(ctx), ev.ID)
		if err != nil {
			return nil, err
		}
		leaves := make([]draw.Hash, len(entries))
		for i, e := range entries {
			leaves[i] = draw.Leaf(string(ev.ID), string(e))
		}
		list, err := draw.NewList(leaves)
		if err != nil {
			return nil, err
		}
		if list.Root() != root { // the store lost it, or part of it
			return nil, fmt.Errorf("draw %s: the list is not the published one: %w", ev.ID, ErrUnavailable)
		}
		l.draws.lists.Add(root, list)
		return list, nil
	})
	if err != nil {
		return nil, err
	}
	return read.(draw.List), nil //nolint:forcetypeassert // Do gives back what the function gave
}

// Bundle is everything that was published of a finished draw. Errors: ErrNotDrawn,
// ErrUnavailable.
func (l *Line) Bundle(ctx context.Context, ev Event) (draw.Bundle, error) {
	list, err := l.entrants(ctx, ev)
	if err != nil {
		return draw.Bundle{}, err
	}
	order, err := ev.Draw.order(ev.ID)
	if err != nil {
		return draw.Bundle{}, err
	}
	b := draw.Bundle{
		Event: string(ev.ID), Commitment: ev.Draw.Commitment, Root: *ev.Draw.Root, Size: ev.Draw.Size,
		Round: ev.Draw.Round, Beacon: ev.Draw.Beacon, Fallback: ev.Draw.Fallback, Seed: *ev.Draw.Seed,
		Line: make([]draw.Hash, len(list)),
	}
	for i, place := range order.Places() {
		b.Line[place] = list[i]
	}
	return b, nil
}

// Proof shows an entrant that it was in the draw. Errors: ErrNotDrawn (no draw, or
// no entrant of it), ErrUnavailable.
func (l *Line) Proof(ctx context.Context, ev Event, entry EntryID) (draw.Proof, error) {
	list, err := l.entrants(ctx, ev)
	if err != nil {
		return draw.Proof{}, err
	}
	p, ok := list.Proof(draw.Leaf(string(ev.ID), string(entry)))
	if !ok {
		return draw.Proof{}, fmt.Errorf("draw %s: %w", ev.ID, ErrNotDrawn)
	}
	return p, nil
}
