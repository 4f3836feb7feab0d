package waitroom

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// PromoteRequest asks to let the front of the line in.
type PromoteRequest struct {
	Event EventID
	// Fence is the number of the caller's leadership.
	Fence int64
	// N is how many to let in this tick, as the law decided; the opening's burst
	// comes on top, once. One call lets in 5,000 at most, and leaves the rest of a
	// larger burst to the next.
	N int
	// Why is what the admission log says of N.
	Why Why
	// Ran is how long the caller's leadership has run by its own clock that never leaps,
	// so that a store's clock that does brings nobody in. 0: not said.
	Ran time.Duration
	// Pass lets everybody in where the event's pass_through says so too, 2,000 a call,
	// outside the rate and inside max_active; N is then what the law would have let in.
	Pass bool
	// Lane is the number of the lane, from 0; of no meaning for an event without lanes.
	Lane int
}

// ran is the time of the term in ms, or nothing.
func (r PromoteRequest) ran() any {
	if r.Ran <= 0 {
		return ""
	}
	return r.Ran.Milliseconds()
}

// PassPerCall is the most that one call lets in while everybody passes.
const PassPerCall = 2000

// Why is how a number came about, for the admission log.
type Why struct {
	// RatePerS is the rate that was decided on, people a second.
	RatePerS float64
	// Reason is a word of a-z and _, at most 32; anything else is written as none.
	Reason string
	// Usage is the load that it was decided by, 0 to 1; NaN is unknown.
	Usage float64
}

// args are the fields as the log writes them.
func (w Why) args() []any {
	usage, reason := "-", "-"
	if w.Usage >= 0 && w.Usage <= 1 {
		usage = strconv.FormatFloat(w.Usage, 'f', 3, 64)
	}
	word := func(c rune) bool { return (c < 'a' || c > 'z') && c != '_' }
	if w.Reason != "" && len(w.Reason) <= 32 && strings.IndexFunc(w.Reason, word) < 0 {
		reason = w.Reason
	}
	rate := math.Max(0, math.Round(w.RatePerS*1000)/1000)
	return []any{strconv.FormatFloat(rate, 'f', -1, 64), reason, usage}
}

// Promotion is what a promote did, and the line as it is after it.
type Promotion struct {
	Grants []Grant
	State  State
	// Waiting and Inside are counts after the promotion.
	Waiting, Inside int64
	// RatePerS is the event's own cap.
	RatePerS float64
	// Reason is what kept the number below N, or somebody out while all pass: rate_cap,
	// max_active, empty, not_open, fenced, or nothing.
	Reason string
	// Now is the event's clock.
	Now time.Time
}

// mostGrants bounds one promote or admit call.
const mostGrants = 5000

// Promote moves people from the front of the line to the grants, as far as the
// cap allows. A call that is sent again has one effect. Errors: ErrFenced (the
// Promotion still tells the line's state), ErrNoEvent, ErrUnavailable.
func (l *Line) Promote(ctx context.Context, req PromoteRequest) (Promotion, error) {
	n := max(0, min(req.N, mostGrants))
	args := append([]any{req.Fence, n, newID(), mostGrants}, req.Why.args()...)
	args = append(args, req.Pass, req.Lane, req.ran())
	r, err := l.call(ctx, scriptPromote, req.Event, []string{l.keys.log(req.Event), l.keys.owed(req.Event)}, args...)
	if err == nil {
		err = r.want(6)
	}
	if err != nil {
		return Promotion{}, fmt.Errorf("promote in %s: %w", req.Event, err)
	}
	p := Promotion{State: State(r.rest[1]), Reason: string(r.outcome)}
	if p.Grants, err = parseGrants(req.Event, r.rest[0]); err != nil {
		return Promotion{}, fmt.Errorf("promote in %s: %w", req.Event, err)
	}
	l.admitted(req.Event, p.Grants)
	counts, err := numbers(r.rest[2], r.rest[3], r.rest[5])
	if err != nil {
		return Promotion{}, fmt.Errorf("promote in %s: %w", req.Event, err)
	}
	p.Waiting, p.Inside, p.Now = counts[0], counts[1], millis(counts[2])
	if p.RatePerS, err = strconv.ParseFloat(r.rest[4], 64); err != nil {
		return Promotion{}, fmt.Errorf("promote in %s: rate: %w", req.Event, unavailable(err))
	}
	if r.outcome == outcomeFenced {
		return p, fmt.Errorf("promote in %s with fence %d: %w", req.Event, req.Fence, ErrFenced)
	}
	return p, nil
}

// AdmitRequest lets people in by hand.
type AdmitRequest struct {
	// RequestID makes a repetition harmless. Default random.
	RequestID string
	// Count is how many from the front, or Entry is who; never both.
	Count int
	Entry EntryID
	// Lane is whose front Count means. Empty: the event's, where its first lanes go first.
	Lane string
	// By is the operator, for the audit trail.
	By string
}

// Admit lets people in by hand: outside the rate, inside max_active. It may let in
// fewer than Count, also none. Errors: ErrNoEntry (a named entry that does not
// wait), ErrFull, ErrClosed, ErrNoEvent, ErrUnavailable, *InvalidError.
func (l *Line) Admit(ctx context.Context, event EventID, req AdmitRequest) ([]Grant, error) {
	if (req.Count > 0) == (req.Entry != "") || req.Count < 0 || req.Count > mostGrants {
		return nil, &InvalidError{Fields: []FieldError{{Field: "count", Detail: fmt.Sprintf("give a count of 1 to %d, or an entry_id", mostGrants)}}}
	}
	id := cmp.Or(req.RequestID, newID())
	r, err := l.call(ctx, scriptAdmit, event, []string{l.keys.log(event)}, id, req.Count, string(req.Entry), req.By, newID(), req.Lane)
	if err != nil {
		return nil, fmt.Errorf("admit in %s: %w", event, err)
	}
	switch r.outcome { //nolint:exhaustive // the outcomes of admit.lua; the rest is odd
	case outcomeOK:
		if err := r.want(1); err != nil {
			return nil, fmt.Errorf("admit in %s: %w", event, err)
		}
		grants, err := parseGrants(event, r.rest[0])
		l.admitted(event, grants)
		return grants, err
	case outcomeNoEntry:
		return nil, fmt.Errorf("admit in %s: %w", event, ErrNoEntry)
	case outcomeFull:
		return nil, fmt.Errorf("admit in %s: %w", event, ErrFull)
	case outcomeClosed:
		return nil, fmt.Errorf("admit in %s: %w", event, ErrClosed)
	default:
		return nil, fmt.Errorf("admit in %s: %w", event, r.odd())
	}
}
