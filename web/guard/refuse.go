package guard

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// RefusedError is why somebody does not pass.
type RefusedError struct {
	// Status is the answer's HTTP status.
	Status int
	// Code is the stable name, one of those that the package lists.
	Code string
	// Detail is a sentence for people.
	Detail string
	// RetryAfter is when to try again, in seconds; 0: it is of no use.
	RetryAfter int
}

// Error is the code and the sentence.
func (r *RefusedError) Error() string { return r.Code + ": " + r.Detail }

var refusals = func() map[string]*RefusedError {
	table := make(map[string]*RefusedError)
	for _, r := range []RefusedError{
		{http.StatusUnauthorized, "token_required", "this needs an entry token", 0},
		{http.StatusUnauthorized, "token_invalid", "the entry token is not valid here", 0},
		{http.StatusUnauthorized, "token_expired", "the entry token's time is over", 0},
		{http.StatusForbidden, "token_wrong_event", "the entry token belongs to another event", 0},
		{http.StatusForbidden, "token_revoked", "the entry token has been revoked", 0},
		{http.StatusConflict, "token_used", "the entry token has been used here already", 0},
		{http.StatusServiceUnavailable, "unavailable", "nobody can be let in at the moment; try again", 2},
	} {
		table[r.Code] = &r
	}
	return table
}()

// refusalOf is the refusal in an error; one without says that the service is away.
func refusalOf(err error) *RefusedError {
	if r, ok := errors.AsType[*RefusedError](err); ok {
		return r
	}
	return refusals["unavailable"]
}

// Refuse answers somebody who does not pass: a browser on its way without a good
// token goes to the waiting page, which sends it back here; anything else reads
// application/problem+json.
func (g *Guard) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	refuse := refusalOf(err)
	w.Header().Set("Cache-Control", "no-store")
	if refuse.Status == http.StatusUnauthorized && navigates(r) {
		w.Header().Set("Location", g.waitingPage(r))
		w.WriteHeader(http.StatusFound)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	if refuse.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(refuse.RetryAfter))
	}
	w.WriteHeader(refuse.Status)
	problem := map[string]any{
		"type": "about:blank", "title": http.StatusText(refuse.Status), "status": refuse.Status,
		"code": refuse.Code, "detail": refuse.Detail,
	}
	if refuse.RetryAfter > 0 {
		problem["retry_after_ms"] = refuse.RetryAfter * 1000 //nolint:mnd // seconds to ms
	}
	_ = json.NewEncoder(w).Encode(problem) // who hung up reads no refusal
}

// navigates tells a person's step from a program's call.
func navigates(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		strings.Contains(r.Header.Get("Accept"), "text/html")
}

// waitingPage is where to wait, with the path to come back to. The service takes
// only hosts that it is configured for. Who comes without a token straight from the
// waiting page was just given one: their browser keeps no cookie of ours, and the
// page says so instead of sending them round again.
func (g *Guard) waitingPage(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	back := url.URL{Scheme: scheme, Host: r.Host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	query := url.Values{"return_to": {back.String()}}
	if r.Referer() == g.cfg.Service+"/" {
		query.Set("cookies", "blocked")
	}
	return g.cfg.Service + "/e/" + g.cfg.Event + "?" + query.Encode()
}
