package web

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/waitroom-dev/waitroom/waitroom"
)

const (
	placeCookie = "waitroom_place_"
	entryCookie = "waitroom_entry_"
	entryHeader = "X-Entry-Token"
	// placeCookieAge outlives the browser and any wait.
	placeCookieAge = 30 * 24 * time.Hour
)

// bearer is the token of an Authorization header of that scheme, or "".
func bearer(r *http.Request) string {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

func cookie(r *http.Request, name string) string {
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}

// placeToken is the receipt that a fan shows: said aloud before the cookie.
func placeToken(r *http.Request, event waitroom.EventID) string {
	if t := bearer(r); t != "" {
		return t
	}
	return cookie(r, placeCookie+string(event))
}

// entryPass reads the entry token: X-Entry-Token, which wins, then Authorization,
// then the cookie. A site may use Authorization for tokens of its own, so one that
// is none of ours does not hide a good cookie.
func (s *Server) entryPass(r *http.Request, event waitroom.EventID) (waitroom.Pass, error) {
	if t := r.Header.Get(entryHeader); t != "" {
		return s.deps.Passes.Verify(t, event)
	}
	found := waitroom.ErrTokenRequired
	for _, t := range []string{bearer(r), cookie(r, entryCookie+string(event))} {
		if t == "" {
			continue
		}
		pass, err := s.deps.Passes.Verify(t, event)
		if err == nil || !errors.Is(err, waitroom.ErrTokenInvalid) {
			return pass, err
		}
		found = err
	}
	return waitroom.Pass{}, found
}

// person is who shows a proof for a reservation: the subject of an entry token,
// also a spent or an expired one, the site's own subject, or the entry of a place
// token.
func (s *Server) person(r *http.Request, event waitroom.EventID) (string, error) {
	pass, err := s.entryPass(r, event)
	if err == nil {
		return pass.Subject, nil
	}
	if r.Header.Get(entryHeader) != "" ||
		!errors.Is(err, waitroom.ErrTokenInvalid) && !errors.Is(err, waitroom.ErrTokenRequired) {
		return "", err
	}
	if subject, subjectErr := s.subject(r, event); subject != "" && subjectErr == nil {
		return subject, nil
	}
	for _, t := range []string{bearer(r), cookie(r, placeCookie+string(event))} {
		if t == "" {
			continue
		}
		if entry, _, receiptErr := s.deps.Line.ReadReceipt(event, t); receiptErr == nil {
			return string(entry), nil
		}
		err = waitroom.ErrTokenInvalid
	}
	return "", err
}

// buyer is person, or the party for which the holder of a place token has bought: a
// party's grant, and with it what is bought, is its entry's where people have no names.
func (s *Server) buyer(r *http.Request, event waitroom.EventID) (string, error) {
	person, err := s.person(r, event)
	if err != nil {
		return "", err
	}
	// An event that is not in view keeps nobody from what is in the database.
	if ev, err := s.deps.View.Event(r.Context(), event); err == nil && ev.Party.Size > 0 && ev.Identity != identityJWT {
		return s.buyerOf(r, event, person)
	}
	return person, nil
}

func (s *Server) buyerOf(r *http.Request, event waitroom.EventID, person string) (string, error) {
	for _, t := range []string{bearer(r), cookie(r, placeCookie+string(event))} {
		if own, _, bad := s.deps.Line.ReadReceipt(event, t); bad != nil || string(own) != person {
			continue
		}
		place, err := s.deps.View.Place(r.Context(), event, t)
		switch {
		case errors.Is(err, waitroom.ErrNoEntry), errors.Is(err, waitroom.ErrBlocked):
			return person, nil
		case err != nil:
			return "", err
		case place.Party != nil && place.Party.Buys &&
			(place.State == waitroom.EntryEntered || place.State == waitroom.EntryCompleted):
			return string(place.Entry), nil
		}
		return person, nil
	}
	return person, nil
}

// entering lets the holder of a pass in: the first use enters.
type entering interface {
	Enter(ctx context.Context, event waitroom.EventID, pass waitroom.Pass) (waitroom.Grant, error)
}

// inside verifies the entry token: its signature, and then its session by whoever is
// asked. A purchase asks the line, which asks the store; a gate's verdict the view.
func (s *Server) inside(c echo.Context, event waitroom.EventID, by entering) (waitroom.Pass, waitroom.Grant, error) {
	pass, err := s.entryPass(c.Request(), event)
	if err != nil {
		return waitroom.Pass{}, waitroom.Grant{}, err
	}
	grant, err := by.Enter(c.Request().Context(), event, pass)
	return pass, grant, over(err)
}

// over makes of a session that is no more a token whose time is over.
func over(err error) error {
	if errors.Is(err, waitroom.ErrNoEntry) {
		return fmt.Errorf("%w: %w", waitroom.ErrTokenExpired, err)
	}
	return err
}

// foreign makes a place token of another event what the fan's calls say of it:
// not valid here.
func foreign(err error) error {
	if errors.Is(err, waitroom.ErrWrongEvent) {
		return fmt.Errorf("%w: %w", waitroom.ErrTokenInvalid, err)
	}
	return err
}

// setCookie adds a cookie of ours: names and values have no character that would
// need care, which net/http would look for in each of them.
func (s *Server) setCookie(c echo.Context, name, value string, age time.Duration) {
	b := make([]byte, 0, 256)
	b = append(append(append(b, name...), '='), value...)
	b = append(b, "; Path=/; Max-Age="...)
	b = strconv.AppendInt(b, max(1, int64(age.Seconds())), 10)
	b = append(b, "; HttpOnly"...)
	if strings.HasPrefix(s.cfg.PublicURL, "https:") || c.Scheme() == "https" { // over plain http a browser would drop it
		b = append(b, "; Secure"...)
	}
	b = append(b, "; SameSite=Lax"...)
	c.Response().Header().Add("Set-Cookie", string(b))
}

// secret lets through who shows exactly this Bearer; an empty one nobody shows.
func secret(r *http.Request, want string) error {
	got := bearer(r)
	if got == "" {
		return waitroom.ErrTokenRequired
	}
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	if want == "" || subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		return waitroom.ErrTokenInvalid
	}
	return nil
}

func (s *Server) site(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := secret(c.Request(), s.cfg.SiteKey); err != nil {
			return err
		}
		return next(c)
	}
}

// printable tells whether s is plain text of one line, as ids and keys are.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
