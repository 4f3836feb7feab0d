package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/waitroom-dev/waitroom/web/identity"
)

// Server answers HTTP. Its handlers may be called concurrently.
type Server struct {
	cfg     Config
	deps    Deps
	log     *zap.Logger
	echo    *echo.Echo
	rules   rules
	metrics *metrics
	pages   map[string]page
	table   map[route]bool
	seats   seatCache
	limits  limitRules
	drawn   drawCache
	guesses guesses
	// warmed is when a seat map was last read only to count what is left, in ns.
	warmed atomic.Int64
	// away bounds the log while a store is away and thousands are refused.
	away rate.Sometimes
	// draining turns /readyz away, so that a balancer stops sending people here.
	draining atomic.Bool
	identity *identity.Verifier
}

// New checks the configuration and builds the routes; it connects to nothing and
// starts nothing.
func New(cfg Config, deps Deps) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := errors.Join(cfg.Validate(), deps.validate()); err != nil {
		return nil, err
	}
	rules, err := newRules(cfg)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, err
	}
	verifier, err := identity.New(cfg.Identity)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, deps: deps, log: deps.Log.Named("web"), rules: rules, metrics: m, identity: verifier, guesses: newGuesses()}
	s.away.Interval = time.Second
	if s.pages, err = loadPages(deps.Pages); err != nil {
		return nil, err
	}
	s.echo = echo.New()
	s.echo.HTTPErrorHandler = s.refuse
	s.echo.Pre(anyMethod)
	s.echo.Use(s.observe, s.recoverPanic, s.setHeaders, s.checkRoute, s.checkOrigin, s.readBody, s.setDeadline)
	s.routes(s.echo)
	s.table = tableOf(s.echo)
	return s, nil
}

// Handler is the whole of the HTTP side.
func (s *Server) Handler() http.Handler { return s.echo }

// The server's time limits. Sockets are not bound by them: they are taken over,
// and the hub sets deadlines of its own.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 75 * time.Second
	maxHeaderBytes    = 16 << 10
)

// Run serves on the listener until ctx ends, then lets running requests finish
// for at most ShutdownTimeout. Sockets that the hub has taken over are the hub's
// to close; server-sent events end when the hub's Run does.
func (s *Server) Run(ctx context.Context) error {
	if s.deps.Listener == nil {
		return errors.New("web needs a listener to run")
	}
	srv := &http.Server{
		Handler:           s.echo,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          zap.NewStdLog(s.log),
		// Requests outlive ctx: they are let finish below.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	group, stop := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := srv.Serve(s.deps.Listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve http: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-stop.Done()
		s.draining.Store(true)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.ShutdownTimeout)
		defer cancel()
		if err := srv.Shutdown(grace); err != nil {
			s.log.Warn("requests cut at shutdown", zap.Error(err))
			return srv.Close()
		}
		return nil
	})
	return group.Wait()
}

// setDeadline bounds what a handler may wait for. What stays open has none.
func (s *Server) setDeadline(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if isLive(c) {
			return next(c)
		}
		limit := s.cfg.CallTimeout
		if c.Path() == routeBooks || c.Path() == routeSheet || c.Path() == routeAudit {
			limit = max(limit, booksTimeout)
		}
		ctx, cancel := context.WithTimeout(c.Request().Context(), limit)
		defer cancel()
		c.SetRequest(c.Request().WithContext(ctx))
		return next(c)
	}
}
