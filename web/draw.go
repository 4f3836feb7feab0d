package web

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"
)

// draw answers everything that was published of a finished draw, so that anyone can
// check it. It never changes again.
func (s *Server) draw(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	ev, err := s.deps.View.Event(c.Request().Context(), id)
	if err != nil {
		return err
	}
	bundle, err := s.deps.Draws.Bundle(c.Request().Context(), ev)
	if err != nil {
		return err
	}
	if notModified(c, `W/"`+bundle.Seed.String()+`"`, "public, max-age=3600") {
		return nil
	}
	c.Response().Header().Set("Content-Type", mimeJSON)
	c.Response().WriteHeader(http.StatusOK)
	return json.NewEncoder(c.Response()).Encode(bundle) // a million places are 70 MB
}

// drawProof shows the caller that they were in the draw.
func (s *Server) drawProof(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	place, err := s.placeOf(c, id)
	if err != nil {
		return err
	}
	ev, err := s.deps.View.Event(c.Request().Context(), id)
	if err != nil {
		return err
	}
	proof, err := s.deps.Draws.Proof(c.Request().Context(), ev, place.Entry)
	if err != nil {
		return fmt.Errorf("proof of %s: %w", id, err)
	}
	return writeJSON(c, http.StatusOK, proof)
}
