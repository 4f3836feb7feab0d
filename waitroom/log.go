package waitroom

import (
	"context"
	"errors"
	"fmt"
)

// ErrStaleLog is the answer to a seal of a log that is another one by now, since
// the store lost it, or has fewer leaves than were sealed.
var ErrStaleLog = errors.New("the log is another one now")

// LogPage is a part of an event's admission log. What its leaves mean, and how
// they are chained, is in package admission/ledger.
type LogPage struct {
	// Chain names this log: an event that a store has lost begins another.
	Chain string
	// Order is the event's: fifo or draw.
	Order string
	// First is how many leaves are gone from the front of a very long log, Start the
	// chain's hash behind them, and Length how many leaves there ever were.
	First, Length int64
	Start         string
	// Head is the newest sealed head as it was given to Seal, or empty.
	Head string
	// From is how many leaves stand before the first of Leaves.
	From   int64
	Leaves []string
}

// mostLeaves bounds one page of the log.
const mostLeaves = 1000

// Log is a page of an event's admission log: at most so many leaves behind the first
// from. Errors: ErrNoEvent, ErrUnavailable.
func (l *Line) Log(ctx context.Context, event EventID, from int64, most int) (LogPage, error) {
	from, most = max(0, from), max(0, min(most, mostLeaves))
	r, err := l.call(ctx, scriptLog, event, []string{l.keys.log(event), l.keys.seals(event)}, from, most)
	if err == nil {
		err = r.want(6)
	}
	if err != nil {
		return LogPage{}, fmt.Errorf("log of %s: %w", event, err)
	}
	n, err := numbers(r.rest[2], r.rest[3])
	if err != nil {
		return LogPage{}, fmt.Errorf("log of %s: %w", event, err)
	}
	return LogPage{
		Chain: r.rest[0], Order: r.rest[1], First: n[0], Length: n[1], Start: r.rest[4], Head: r.rest[5],
		From: max(from, n[0]), Leaves: r.rest[6:],
	}, nil
}

// Seal is a head of the admission log.
type Seal struct {
	Chain string
	// N is how many leaves the head covers.
	N    int64
	Head string
	// Mark is the chain's hash at N where the log may be cut later; empty elsewhere.
	Mark string
	// Step is how many leaves there are between marks, and Keep the most that stay.
	Step, Keep int64
}

// SealLog stores a head, and drops the leaves before the oldest mark when there are
// more than the seal keeps. Errors: ErrStaleLog, ErrNoEvent, ErrUnavailable.
func (l *Line) SealLog(ctx context.Context, event EventID, s Seal) error {
	r, err := l.call(ctx, scriptSeal, event, []string{l.keys.log(event), l.keys.seals(event)},
		s.Chain, s.N, s.Head, s.Mark, s.Step, s.Keep)
	if err != nil {
		return fmt.Errorf("seal log of %s: %w", event, err)
	}
	if r.outcome == outcomeStale {
		return fmt.Errorf("seal log of %s at %d: %w", event, s.N, ErrStaleLog)
	}
	return nil
}
