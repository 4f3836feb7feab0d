package web

import (
	"context"
	_ "embed" // the OpenAPI document
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// openAPIDocument is kept by hand; a test holds it against routes and codes.
//
//go:embed openapi.json
var openAPIDocument []byte

// healthz says that the process lives. It asks nobody, so that no platform
// restarts a healthy process because its store is away.
func (s *Server) healthz(c echo.Context) error {
	return c.Blob(http.StatusOK, mimeJSON, []byte(`{"status":"ok"}`))
}

// readyTimeout is how long /readyz waits for all its checks together.
const readyTimeout = 2 * time.Second

var errDraining = errors.New("draining")

// readyz says whether people should be sent here.
func (s *Server) readyz(c echo.Context) error {
	if s.draining.Load() {
		return fmt.Errorf("%w: %w", waitroom.ErrUnavailable, errDraining)
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), readyTimeout)
	defer cancel()
	var group errgroup.Group
	for _, check := range s.deps.Ready {
		group.Go(func() error {
			if err := check.Ping(ctx); err != nil {
				return fmt.Errorf("%w: %s: %w", waitroom.ErrUnavailable, check.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return c.Blob(http.StatusOK, mimeJSON, []byte(`{"status":"ready"}`))
}

// exposition is for Prometheus.
func (s *Server) exposition(c echo.Context) error {
	open := s.cfg.OpenMetrics || s.cfg.MetricsToken != "" && secret(c.Request(), s.cfg.MetricsToken) == nil
	if !open {
		if _, err := s.tokenOf(c); err != nil {
			return err
		}
	}
	promhttp.HandlerFor(s.deps.Gatherer, promhttp.HandlerOpts{}).ServeHTTP(c.Response(), c.Request())
	return nil
}

func (s *Server) openAPI(c echo.Context) error {
	c.Response().Header().Set("Cache-Control", "public, max-age=300")
	return c.Blob(http.StatusOK, mimeJSON, openAPIDocument)
}
