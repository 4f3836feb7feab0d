package waitroom

import (
	"context"
	"fmt"
	"strings"
)

// Swept is what a sweep did.
type Swept struct {
	// Departed is how many left the line because their grace was over; Ended is how
	// many grants ended because their claim time or session was over.
	Departed, Ended int
	// More is true when the bound ended the sweep and not the work.
	More bool
}

const (
	sweepBatch  = 500 // of each kind in one script
	sweepRounds = 10  // scripts in one Sweep
)

// Sweep ends what is over by the store's clock (graces, claims, sessions, nodes
// that died) and makes the moves of the schedule. It is bounded: at most 5,000 of
// each in one call, in scripts of 500. Errors: ErrNoEvent, ErrUnavailable; what was
// swept before an error stays swept.
func (l *Line) Sweep(ctx context.Context, event EventID) (Swept, error) {
	var s Swept
	for range sweepRounds {
		nodes, err := l.nodes(ctx, event)
		if err != nil {
			return s, fmt.Errorf("sweep %s: %w", event, err)
		}
		s.More, err = l.sweep(ctx, event, nodes, &s)
		if err != nil {
			return s, fmt.Errorf("sweep %s: %w", event, err)
		}
		if !s.More {
			break
		}
	}
	return s, nil
}

// nodes are the nodes that the store lists.
func (l *Line) nodes(ctx context.Context, event EventID) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	nodes, err := l.rdb.ZRange(ctx, l.keys.nodes(event), 0, -1).Result()
	if err != nil {
		return nil, unavailable(err)
	}
	return nodes, nil
}

// sweep is the one caller of sweep.lua; more says that a bound was reached.
func (l *Line) sweep(ctx context.Context, event EventID, nodes []string, s *Swept) (more bool, err error) {
	args := []any{sweepBatch}
	var here []string
	for _, n := range nodes {
		args = append(args, n)
		here = append(here, l.keys.here(event, n))
	}
	r, err := l.call(ctx, scriptSweep, event, here, args...)
	if err != nil {
		return false, err
	}
	switch r.outcome { //nolint:exhaustive // the outcomes of sweep.lua; the rest is odd
	case outcomeStale:
		return true, nil
	case outcomeOK:
	default:
		return false, r.odd()
	}
	if err := r.want(4); err != nil {
		return false, err
	}
	n, err := numbers(r.rest[0], r.rest[1])
	if err != nil {
		return false, err
	}
	s.Departed += int(n[0])
	s.Ended += int(n[1])
	more = r.rest[2] == string(outcomeMore)
	for lost := range strings.FieldsSeq(r.rest[3]) {
		left, err := l.sweepLost(ctx, event, lost)
		if err != nil {
			return false, err
		}
		more = more || left
	}
	return more, nil
}

// sweepLost begins the graces of those whose node died; more says that some are
// left. It is the one caller of lost.lua, which looks at the heartbeat once more.
func (l *Line) sweepLost(ctx context.Context, event EventID, node string) (more bool, err error) {
	r, err := l.call(ctx, scriptLost, event, []string{l.keys.here(event, node)}, node, sweepBatch)
	if err != nil {
		return false, err
	}
	switch r.outcome { //nolint:exhaustive // the outcomes of lost.lua; the rest is odd
	case outcomeAlive, outcomeDone:
		return false, nil
	case outcomeMore:
		return true, nil
	default:
		return false, r.odd()
	}
}
