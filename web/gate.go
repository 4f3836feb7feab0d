package web

import (
	"cmp"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// gate is the verdict for a proxy in front of the site: whoever holds a good entry
// token passes, and has entered from then on. The view answers from memory about
// whoever has entered.
func (s *Server) gate(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	pass, grant, err := s.inside(c, id, s.deps.View)
	if err != nil {
		verdict := &gateError{err}
		redirect := c.QueryParam("redirect") == "1" || c.Request().Header.Get(headerRedirect) == "1"
		if redirect && problemOf(verdict).Status == http.StatusUnauthorized {
			return c.Redirect(http.StatusFound, s.waitingPage(id, c.Request(), askedFor(c)))
		}
		return verdict
	}
	h := c.Response().Header()
	h.Set("X-Waitroom-User", pass.Subject)
	h.Set("X-Waitroom-Entry", string(grant.Entry))
	if grant.Unchecked {
		s.metrics.unchecked.Inc()
		h.Set(headerUnchecked, "1")
	}
	if c.Request().Header.Get(headerOK) == "200" {
		return c.NoContent(http.StatusOK)
	}
	return noContent(c)
}

// What a proxy that cannot change the address asks with, such as Envoy: headerRedirect
// is redirect=1, and headerOK wants a 200 instead of a 204, which it takes for a refusal.
const (
	headerRedirect = "X-Waitroom-Redirect"
	headerOK       = "X-Waitroom-OK"
)

// headerUnchecked tells the site of a pass that nobody could check: the store is away,
// and the event's fail is open.
const headerUnchecked = "X-Waitroom-Unchecked"

// waitingPage is where somebody without a token waits, and the address to come
// back to where its host is allowed. Who comes without a token straight from the
// waiting page was just given one: their browser keeps no cookie of the site, and
// the page says so instead of sending them round again.
func (s *Server) waitingPage(id waitroom.EventID, r *http.Request, asked string) string {
	query := url.Values{}
	if back, ok := s.rules.returnAddress(asked); ok {
		query.Set("return_to", back)
	}
	if from, err := url.Parse(r.Header.Get("Referer")); err == nil && from.Scheme+"://"+from.Host == s.rules.origins[0] {
		query.Set("cookies", "blocked")
	}
	address := s.cfg.PublicURL + "/e/" + string(id)
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	return address
}

// askedFor is what the browser wanted: what the proxy says, or, of one that hands the
// visitor's own host and path on, what stands below the gate's address.
func askedFor(c echo.Context) string {
	r := c.Request()
	if said := originalAddress(r.Header); said != "" || r.Header.Get(headerRedirect) == "" {
		return said
	}
	_, below, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), gatePrefix), "/")
	address := cmp.Or(r.Header.Get("X-Forwarded-Proto"), "https") + "://" + r.Host + "/" + below
	if r.URL.RawQuery != "" {
		address += "?" + r.URL.RawQuery
	}
	return address
}

// originalAddress is what the browser asked the proxy for, as the proxy says.
// Anyone may send these headers, so that it must be checked before it is used.
func originalAddress(h http.Header) string {
	if whole := h.Get("X-Original-URL"); whole != "" {
		return whole
	}
	host := h.Get("X-Forwarded-Host")
	if host == "" {
		return ""
	}
	path := h.Get("X-Forwarded-Uri")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return cmp.Or(h.Get("X-Forwarded-Proto"), "https") + "://" + host + path
}

// enter takes the entry token by a form of the waiting page, on the site's own
// host, and keeps it there as a cookie.
func (s *Server) enter(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	form, err := formOf(c)
	if err != nil {
		return err
	}
	token := form.Get("entry_token")
	if token == "" {
		return waitroom.ErrTokenRequired
	}
	pass, err := s.deps.Passes.Verify(token, id)
	if err != nil {
		return err
	}
	grant, err := s.deps.View.Enter(c.Request().Context(), id, pass)
	if errors.Is(err, waitroom.ErrNoEntry) {
		return waitroom.ErrTokenExpired
	}
	if err != nil {
		return err
	}
	if grant.Unchecked {
		s.metrics.unchecked.Inc()
	}
	s.setCookie(c, entryCookie+string(id), token, sessionLeft(grant))
	return c.Redirect(http.StatusSeeOther, s.destination(form.Get("return_to")))
}

// sessionLeft is how long the cookie may live. The proxy asks for every request,
// so that a cookie that lives too long lets nobody through. Who comes in unchecked has
// no session yet.
func sessionLeft(g waitroom.Grant) time.Duration {
	const atLeast = time.Minute
	ends := g.SessionEnds
	if ends.IsZero() {
		ends = g.ClaimBy
	}
	return max(atLeast, ends.Sub(g.AdmittedAt))
}

// destination is a path of the site's own host, or an address on an allowed one;
// anything else becomes the site's front page.
func (s *Server) destination(wanted string) string {
	if localPath(wanted) {
		return wanted
	}
	if address, ok := s.rules.returnAddress(wanted); ok {
		return address
	}
	return "/"
}

func formOf(c echo.Context) (url.Values, error) {
	kind, _, err := mime.ParseMediaType(c.Request().Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, errUnsupportedType
	}
	form, err := url.ParseQuery(string(bodyOf(c)))
	if err != nil {
		return nil, wrongField("body", "must be a form")
	}
	return form, nil
}
