package web

import (
	"crypto/rand"
	"net/http"

	"github.com/labstack/echo/v4"
)

// complete is the site's word that a person is done.
func (s *Server) complete(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	jti := c.Param("jti")
	if err := optional(c); err != nil {
		return err
	}
	if !isName(jti) {
		return errNotFound
	}
	if err := s.deps.Line.Complete(c.Request().Context(), id, jti); err != nil {
		return err
	}
	return noContent(c)
}

// use is the site's question whether a token may be used here: the first time, yes.
// An Idempotency-Key makes a repeated question the same one.
func (s *Server) use(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	jti, key := c.Param("jti"), c.Request().Header.Get(headerIdempotencyKey)
	if err := optional(c); err != nil {
		return err
	}
	if !isName(jti) {
		return errNotFound
	}
	switch {
	case key == "":
		key = rand.Text()
	case len(key) > longestKey || !printable(key):
		return wrongField(headerIdempotencyKey, keyRule)
	}
	if err := s.deps.Line.Use(c.Request().Context(), id, jti, key); err != nil {
		return err
	}
	return noContent(c)
}

// mostChecked bounds one question about sessions.
const mostChecked = 1000

// check is the question of a gate on the site's side that keeps its verdicts: which
// of these people, all of whom have come by since it last asked, pass no longer?
func (s *Server) check(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	var jtis []string
	if err := required(c, field{"jtis", &jtis, "an array of strings"}); err != nil {
		return err
	}
	if len(jtis) == 0 || len(jtis) > mostChecked || !allNames(jtis) {
		return wrongField("jtis", "must be 1 to 1000 ids of entry tokens")
	}
	if _, err := s.deps.View.Event(c.Request().Context(), id); err != nil {
		return err
	}
	refused := make(map[string]string)
	for i, err := range s.deps.View.Check(c.Request().Context(), id, jtis) {
		if err != nil {
			refused[jtis[i]] = problemOf(over(err)).Code
		}
	}
	return c.JSON(http.StatusOK, map[string]any{"refused": refused})
}

func allNames(ids []string) bool {
	for _, id := range ids {
		if !isName(id) {
			return false
		}
	}
	return true
}

// report takes the site's own load. A usage that cannot be one is refused; the
// line then goes by the last good one until that is stale.
func (s *Server) report(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	var usage *float64
	var lane string
	if err := required(c, field{"pool_usage", &usage, "a number from 0 to 1"}, field{"lane", &lane, "the name of a lane"}); err != nil {
		return err
	}
	if usage == nil || *usage < 0 || *usage > 1 {
		return wrongField("pool_usage", "must be a number from 0 to 1")
	}
	ev, err := s.deps.View.Event(c.Request().Context(), id)
	if err != nil {
		return err
	}
	if lane != "" {
		if _, err := ev.ChooseLane(lane, nil); err != nil {
			return err
		}
	}
	if err := s.deps.Load.ReportLane(c.Request().Context(), id, lane, *usage); err != nil {
		return err
	}
	return noContent(c)
}

// jwks is what anyone needs to verify an entry token.
func (s *Server) jwks(c echo.Context) error {
	c.Response().Header().Set("Cache-Control", "public, max-age=300")
	return c.Blob(http.StatusOK, mimeJSON, s.deps.Passes.JWKS())
}
