package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/singleflight"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/waitroom/draw"
)

// drawCache keeps the bundle that was asked for last, as JSON: a million places are
// 70 MB, so that there is one.
type drawCache struct {
	flight singleflight.Group

	mu   sync.Mutex // guards what follows
	of   draw.Seed
	body []byte
}

func (d *drawCache) kept(seed draw.Seed) ([]byte, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.body, d.of == seed && d.body != nil
}

func (d *drawCache) keep(seed draw.Seed, body []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of, d.body = seed, body
}

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
	if ev.Draw == nil || ev.Draw.Seed == nil {
		return waitroom.ErrNotDrawn
	}
	seed := *ev.Draw.Seed
	if notModified(c, `W/"`+seed.String()+`"`, "public, max-age=3600") {
		return nil
	}
	body, ok := s.drawn.kept(seed)
	if !ok {
		made, err, _ := s.drawn.flight.Do(seed.String(), func() (any, error) {
			bundle, err := s.deps.Draws.Bundle(c.Request().Context(), ev)
			if err != nil {
				return nil, err
			}
			return json.Marshal(bundle)
		})
		if err != nil {
			return fmt.Errorf("draw of %s: %w", id, err)
		}
		body = made.([]byte) //nolint:forcetypeassert // Do gives back what the function gave
		s.drawn.keep(seed, body)
	}
	return c.Blob(http.StatusOK, mimeJSON, body)
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
