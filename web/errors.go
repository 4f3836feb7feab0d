package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web/challenge"
	"github.com/waitroom-dev/waitroom/web/operators"
)

// Refusals that have their cause here, or that a part which this package only
// knows by its interface returns.
var (
	// ErrForbidden: the caller is known, but may not do this.
	ErrForbidden = errors.New("forbidden")
	// ErrRateLimited: too many requests; wrap it with After to say how long to wait.
	ErrRateLimited = errors.New("rate limited")
	// ErrChallengeRequired: a challenge must be solved first.
	ErrChallengeRequired = errors.New("challenge required")

	errNotFound        = errors.New("no such thing")
	errMethod          = errors.New("method not allowed")
	errBodyTooLarge    = errors.New("body too large")
	errBadJSON         = errors.New("not JSON")
	errUnsupportedType = errors.New("unsupported media type")
	errInternal        = errors.New("internal")
)

// refusal is how one kind of error looks outside.
type refusal struct {
	is     error
	status int
	code   string
	detail string
	// retry is when to try again; 0 means that trying again is of no use.
	retry time.Duration
}

// refusals is the one map from errors to answers. The first that matches wins;
// internal stands last and matches everything.
var refusals = []refusal{
	{waitroom.ErrTokenRequired, http.StatusUnauthorized, "token_required", "this call needs a token", 0},
	{waitroom.ErrTokenInvalid, http.StatusUnauthorized, "token_invalid", "the token is not valid here", 0},
	{waitroom.ErrTokenExpired, http.StatusUnauthorized, "token_expired", "the token's time is over", 0},
	{waitroom.ErrWrongEvent, http.StatusForbidden, "token_wrong_event", "the token belongs to another event", 0},
	{waitroom.ErrRevoked, http.StatusForbidden, "token_revoked", "the token has been revoked", 0},
	{ErrForbidden, http.StatusForbidden, "forbidden", "this caller may not do that", 0},
	{waitroom.ErrBlocked, http.StatusForbidden, "blocked", "this entry has been blocked", 0},
	{waitroom.ErrNotOpen, http.StatusForbidden, "not_open", "the event is not open yet", 30 * time.Second},
	{waitroom.ErrClosed, http.StatusForbidden, "closed", "the event is closed", 0},
	{waitroom.ErrLobbyOver, http.StatusForbidden, "closed", "the lobby has closed, and with it all parties", 0},
	{waitroom.ErrNotEligible, http.StatusForbidden, "not_eligible", "it is not your window", 0},
	{ErrChallengeRequired, http.StatusForbidden, "challenge_required", "a challenge must be solved first", 0},
	{challenge.ErrFailed, http.StatusForbidden, "challenge_failed", "the challenge was not solved", 0},
	{ErrRateLimited, http.StatusTooManyRequests, "rate_limited", "too many requests", time.Second},
	{waitroom.ErrExhausted, http.StatusConflict, "exhausted", "none is left now, but some may come back", 5 * time.Second},

	{waitroom.ErrUsed, http.StatusConflict, "token_used", "the token has been used already", 0},
	{ticket.ErrTokenUsed, http.StatusConflict, "token_used", "the token has a reservation already", 0},
	{ticket.ErrSeatTaken, http.StatusConflict, "seat_taken", "somebody else has the seat", 0},
	{ticket.ErrSoldOut, http.StatusConflict, "sold_out", "not as much is left as was asked for", 0},
	{ticket.ErrAlreadyReserved, http.StatusConflict, "already_reserved", "that is more than one person may have", 0},
	{ticket.ErrHoldExpired, http.StatusConflict, "hold_expired", "the hold has ended", 0},
	{ticket.ErrTimetableClash, http.StatusConflict, "timetable_clash", "it meets at the same time as another of yours", 0},
	{ticket.ErrCompanion, http.StatusUnprocessableEntity, "invalid", "a companion's seat is sold only with its wheelchair place", 0},
	{ticket.ErrContended, http.StatusConflict, "contended", "others were faster each time, but something is left", time.Second},
	{ticket.ErrNotCancellable, http.StatusConflict, "not_cancellable", "it is paid, or being paid", 0},
	{waitroom.ErrSoldOut, http.StatusConflict, "sold_out", "nothing is left", 0},
	{waitroom.ErrWrongMode, http.StatusConflict, "wrong_mode", "the event does not work this way", 0},
	{ticket.ErrWrongMode, http.StatusConflict, "wrong_mode", "the event does not work this way", 0},
	{ticket.ErrInProgress, http.StatusConflict, "idempotency_in_progress", "the first call with this key still runs", time.Second},
	{ticket.ErrIdempotencyMismatch, http.StatusUnprocessableEntity, "idempotency_mismatch", "the idempotency key was used with another body", 0},
	{waitroom.ErrFull, http.StatusConflict, "full", "as many are inside as may be", 5 * time.Second},
	{waitroom.ErrPartyFull, http.StatusConflict, "full", "the party has as many members as it may", 0},
	{waitroom.ErrInParty, http.StatusConflict, "exists", "you are in another party; leave that first", 0},
	{operators.ErrExists, http.StatusConflict, "exists", "an operator of this name exists already", 0},
	{waitroom.ErrExists, http.StatusConflict, "exists", "an event with this id exists already", 0},

	{waitroom.ErrNoEvent, http.StatusNotFound, "not_found", "no such event", 0},
	{operators.ErrNone, http.StatusNotFound, "not_found", "no such operator", 0},
	{waitroom.ErrNoGroup, http.StatusNotFound, "not_found", "no such group with codes", 0},
	{waitroom.ErrNoParty, http.StatusNotFound, "not_found", "no such party", 0},
	{waitroom.ErrNotDrawn, http.StatusNotFound, "not_found", "nothing was drawn here, or not yet", 0},
	{waitroom.ErrNoEntry, http.StatusNotFound, "not_found", "no such entry", 0},
	{ticket.ErrNoSeat, http.StatusNotFound, "not_found", "no such seat", 0},
	{ticket.ErrNoReservation, http.StatusNotFound, "not_found", "no such reservation", 0},
	{errNotFound, http.StatusNotFound, "not_found", "nothing is here", 0},
	{errMethod, http.StatusMethodNotAllowed, "method_not_allowed", "this address does not take this method", 0},

	{errBodyTooLarge, http.StatusRequestEntityTooLarge, "body_too_large", "the body is too large", 0},
	{errBadJSON, http.StatusBadRequest, "bad_json", "the body is not JSON", 0},
	{errUnsupportedType, http.StatusUnsupportedMediaType, "unsupported_media_type", "the body's type is not one that this call takes", 0},

	{waitroom.ErrUnavailable, http.StatusServiceUnavailable, codeUnavailable, "the service is busy with itself; nothing is lost", 2 * time.Second},
	{ticket.ErrUnavailable, http.StatusServiceUnavailable, codeUnavailable, "the database does not answer; nothing was done", 2 * time.Second},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, codeUnavailable, "that took too long; try again", 2 * time.Second},
	{context.Canceled, http.StatusServiceUnavailable, codeUnavailable, "the call was given up; try again", 2 * time.Second},
	{errInternal, http.StatusInternalServerError, "internal", "something went wrong on our side", 0},
}

// invalid is not in the list because it carries its fields.
var invalid = refusal{nil, http.StatusUnprocessableEntity, "invalid", "something in the request is wrong", 0}

const codeUnavailable = "unavailable"

// After says when err may be tried again, instead of its usual time; a wait that is
// over already says nothing.
func After(err error, wait time.Duration) error { return &retryError{err, wait} }

type retryError struct {
	error
	after time.Duration
}

func (e *retryError) Unwrap() error { return e.error }

// gateError makes a refusal that a proxy understands: 401, or else 403.
type gateError struct{ error }

func (e *gateError) Unwrap() error { return e.error }

// problem is a refusal as RFC 9457 writes it.
type problem struct {
	Title  string                `json:"title"`
	Status int                   `json:"status"`
	Code   string                `json:"code"`
	Detail string                `json:"detail"`
	Errors []waitroom.FieldError `json:"errors,omitempty"`
	// RetryAfterMS is absent where trying again is of no use.
	RetryAfterMS int64 `json:"retry_after_ms,omitempty"`
	// Reason tells a program why somebody is not eligible: window_early, window_past,
	// no_group, code_unknown, code_used or party_turn.
	Reason string `json:"reason,omitempty"`
	// OpensAt is when the person's window opens, where it is to come.
	OpensAt *stamp `json:"opens_at,omitempty"`
	// Credit brings whom the service failed inside once more.
	Credit string `json:"credit,omitempty"`
	// Challenge is where a challenge is to be had, where one is wanted.
	Challenge string `json:"challenge,omitempty"`
}

var notEligible = map[string]string{
	waitroom.EarlyWindow: "window_early", waitroom.PastWindow: "window_past", waitroom.NoGroup: "no_group",
	waitroom.UnknownCode: "code_unknown", waitroom.UsedCode: "code_used", waitroom.PartyTurn: "party_turn",
}

// problemOf finds the answer to an error, however it is wrapped.
func problemOf(err error) problem {
	r, fields := refusalOf(err)
	if e, ok := errors.AsType[*retryError](err); ok && e.after > 0 {
		const least = time.Millisecond // what is told is whole ones, and none would mean never
		r.retry = max(e.after, least)
	}
	if _, ok := errors.AsType[*gateError](err); ok && r.status != http.StatusUnauthorized {
		r.status = http.StatusForbidden
	}
	p := problem{
		Title: http.StatusText(r.status), Status: r.status, Code: r.code, Detail: r.detail,
		Errors: fields, RetryAfterMS: r.retry.Milliseconds(),
	}
	if e, ok := errors.AsType[*waitroom.NotEligibleError](err); ok {
		const near = 10 * time.Minute // who has longer to wait is told the time alone
		p.Detail, p.Reason = e.Why, notEligible[e.Why]
		if !e.OpensAt.IsZero() {
			p.OpensAt = new(stamp(e.OpensAt))
		}
		if e.In > 0 && e.In <= near {
			p.RetryAfterMS = e.In.Milliseconds()
		}
	}
	if e, ok := errors.AsType[*creditError](err); ok {
		p.Credit = e.credit
	}
	if e, ok := errors.AsType[*challengeError](err); ok {
		p.Challenge = e.address
	}
	return p
}

func refusalOf(err error) (refusal, []waitroom.FieldError) {
	if e, ok := errors.AsType[*waitroom.InvalidError](err); ok {
		return invalid, e.Fields
	}
	if fields := catalogueFields(err, ""); fields != nil {
		return invalid, fields
	}
	if e, ok := errors.AsType[*echo.HTTPError](err); ok {
		err = echoError(e)
	}
	for _, r := range refusals {
		if errors.Is(err, r.is) {
			if r.code == invalid.code {
				return r, []waitroom.FieldError{{Field: "seats", Detail: r.detail}}
			}
			return r, nil
		}
	}
	return refusals[len(refusals)-1], nil
}

// echoError is ours for one that the router made.
func echoError(e *echo.HTTPError) error {
	switch e.Code {
	case http.StatusNotFound:
		return errNotFound
	case http.StatusMethodNotAllowed:
		return errMethod
	case http.StatusRequestEntityTooLarge:
		return errBodyTooLarge
	case http.StatusUnsupportedMediaType:
		return errUnsupportedType
	case http.StatusBadRequest:
		return errBadJSON
	default:
		return errInternal
	}
}

// body is the problem's JSON. It depends on nothing but the error, so that a
// refusal that is stored and replayed is the same bytes.
func (p problem) body() []byte {
	b, err := json.Marshal(p)
	if err != nil { // a struct of strings and numbers always marshals
		return []byte(`{"title":"Internal Server Error","status":500,"code":"internal","detail":""}`)
	}
	return b
}

// Refuse answers a refusal with this code on a bare writer, for parts that serve
// connections themselves. A code that the map does not have is internal.
func Refuse(w http.ResponseWriter, _ *http.Request, status int, code string, retry time.Duration) {
	p := problemOf(errInternal)
	for _, r := range slices.Concat([]refusal{invalid}, refusals) { // the most usual one of a code stands first
		if r.code == code {
			p = problem{Title: http.StatusText(status), Status: status, Code: code, Detail: r.detail}
			break
		}
	}
	p.RetryAfterMS = retry.Milliseconds()
	setRetryAfter(w.Header(), retry)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", mimeProblem)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(p.body()) // the peer is refused either way
}

func wrongField(field, detail string) error {
	return &waitroom.InvalidError{Fields: []waitroom.FieldError{{Field: field, Detail: detail}}}
}
