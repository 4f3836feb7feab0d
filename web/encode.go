package web

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	mimeJSON    = "application/json"
	mimeProblem = "application/problem+json"
)

// stamp is a time as the contract writes it: RFC 3339, UTC, milliseconds.
type stamp time.Time

const stampFormat = "2006-01-02T15:04:05.000Z"

// MarshalJSON writes the time in the contract's form.
func (s stamp) MarshalJSON() ([]byte, error) {
	return time.Time(s).UTC().AppendFormat(nil, `"`+stampFormat+`"`), nil
}

func stampOf(t *time.Time) *stamp {
	if t == nil {
		return nil
	}
	return new(stamp(*t))
}

// wholeSeconds is a duration for a field that ends in _s, rounded up, so that
// nobody is told zero while there is still time to go.
func wholeSeconds(d time.Duration) int64 {
	return int64(math.Ceil(d.Seconds()))
}

func writeJSON(c echo.Context, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return c.Blob(status, mimeJSON, b)
}

// setRetryAfter rounds up to the header's whole seconds.
func setRetryAfter(h http.Header, d time.Duration) {
	if d > 0 {
		h.Set("Retry-After", strconv.FormatInt(max(1, wholeSeconds(d)), 10))
	}
}

// writeProblem answers a refusal.
func writeProblem(c echo.Context, p problem) error {
	setRetryAfter(c.Response().Header(), time.Duration(p.RetryAfterMS)*time.Millisecond)
	if p.Status == http.StatusUnauthorized {
		c.Response().Header().Set("WWW-Authenticate", "Bearer")
	}
	return c.Blob(p.Status, mimeProblem, p.body())
}
