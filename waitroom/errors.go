package waitroom

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors a caller branches on. All are wrapped with the event or entry concerned.
var (
	// ErrNoEvent: no event has this id.
	ErrNoEvent = errors.New("no such event")
	// ErrExists: an event with this id exists already.
	ErrExists = errors.New("event exists already")
	// ErrNoEntry: the receipt is good, but its place ended and nothing is known of it.
	ErrNoEntry = errors.New("no such entry")
	// ErrNotOpen: the event is scheduled, and joining has not begun.
	ErrNotOpen = errors.New("event not open yet")
	// ErrClosed: the event is draining or closed, and nobody joins any more.
	ErrClosed = errors.New("event closed")
	// ErrBlocked: an operator has blocked this entry.
	ErrBlocked = errors.New("entry blocked")
	// ErrTokenRequired: a call that needs a token came without one.
	ErrTokenRequired = errors.New("token required")
	// ErrTokenInvalid: a token that is not ours, is damaged, or is of another kind.
	ErrTokenInvalid = errors.New("token invalid")
	// ErrTokenExpired: a token of ours whose time is over.
	ErrTokenExpired = errors.New("token expired")
	// ErrWrongEvent: a good token of another event.
	ErrWrongEvent = errors.New("token of another event")
	// ErrRevoked: a token that an operator has revoked.
	ErrRevoked = errors.New("token revoked")
	// ErrUsed: the token has been used where it may be used once.
	ErrUsed = errors.New("token used already")
	// ErrFull: as many are inside as max_active allows.
	ErrFull = errors.New("no room inside")
	// ErrFenced: the caller's leadership is over; a higher fence has been seen.
	ErrFenced = errors.New("fenced off by a newer leader")
	// ErrWrongMode: the event's people come in another way.
	ErrWrongMode = errors.New("event has another mode")
	// ErrExhausted: no token is left, but one may come back. It comes as an
	// *ExhaustedError.
	ErrExhausted = errors.New("no token is left now")
	// ErrSoldOut: no token is left, and none comes back.
	ErrSoldOut = errors.New("no token is left")
	// ErrNotEligible: it is not this person's window, or no group takes them. It comes
	// as a *NotEligibleError.
	ErrNotEligible = errors.New("not eligible")
	// ErrNoGroup: the event has no group of this name that is chosen by codes.
	ErrNoGroup = errors.New("no such group")
	// ErrNoParty: nobody's party has this code, or this person is in none.
	ErrNoParty = errors.New("no such party")
	// ErrInParty: this person is in another party.
	ErrInParty = errors.New("in another party already")
	// ErrPartyFull: the party has as many members as the event allows.
	ErrPartyFull = errors.New("party full")
	// ErrLobbyOver: the lobby has closed, and its entrants are settled.
	ErrLobbyOver = errors.New("lobby over")
	// ErrNotDrawn: the event's order is not drawn, or not yet.
	ErrNotDrawn = errors.New("order not drawn")
	// ErrUnavailable: the store did not answer in time, or answered with a fault.
	ErrUnavailable = errors.New("store unavailable")
	// ErrBusy: more callers wait for the store than the bound allows. Nothing was
	// done. It is an ErrUnavailable too.
	ErrBusy = fmt.Errorf("too many calls are waiting: %w", ErrUnavailable)
	// ErrNotReplicated: it was done, but no replica of the store has it yet, and the
	// event wants one to. Asking again does nothing twice. It is an ErrUnavailable too.
	ErrNotReplicated = fmt.Errorf("no replica has it yet: %w", ErrUnavailable)
)

// ExhaustedError is ErrExhausted with the time until the first token that may come
// back; zero when that is not known.
type ExhaustedError struct{ Next time.Duration }

// Error says so.
func (e *ExhaustedError) Error() string {
	return fmt.Sprintf("%v; one may come back in %v", ErrExhausted, e.Next)
}

// Is makes it an ErrExhausted.
func (e *ExhaustedError) Is(target error) bool { return target == ErrExhausted }

// Why somebody is not eligible.
const (
	EarlyWindow = "the window of your group opens later"
	PastWindow  = "the window of your group is over"
	NoGroup     = "no group of this event takes you"
	UnknownCode = "the code is not one of this event"
	UsedCode    = "the code has been used"
	PartyTurn   = "your party has had its turn"
)

// NotEligibleError is ErrNotEligible with why, and with when the person's window
// opens, where it is to come: the moment and, by the store's clock, the time until then.
type NotEligibleError struct {
	Why     string
	OpensAt time.Time
	In      time.Duration

	holder EntryID // who has used the code, where it was for one
}

// Error says why.
func (e *NotEligibleError) Error() string { return ErrNotEligible.Error() + ": " + e.Why }

// Is makes it an ErrNotEligible.
func (e *NotEligibleError) Is(target error) bool { return target == ErrNotEligible }

// FieldError says which field of a request or configuration is wrong, and what
// would be right.
type FieldError struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// InvalidError lists every wrong field of one request or configuration.
type InvalidError struct{ Fields []FieldError }

// Error joins all fields into one line.
func (e *InvalidError) Error() string {
	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		parts[i] = f.Field + ": " + f.Detail
	}
	return strings.Join(parts, "; ")
}
