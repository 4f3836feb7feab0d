package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// metrics are labelled by route pattern, method and code only, so that nobody
// outside can make labels.
type metrics struct {
	requests *prometheus.HistogramVec
	refusals *prometheus.CounterVec
	credits  *prometheus.CounterVec

	unchecked prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "waitroom_http_request_seconds",
			Help:    "Time to answer, by route, method and status.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"route", "method", "status"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waitroom_http_refusals_total",
			Help: "Refusals, by route and code.",
		}, []string{"route", "code"}),
		credits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waitroom_credits_total",
			Help: "Make-good credits: given, admitted, running (the turn still runs), or a refusal's code.",
		}, []string{"result"}),
	}
	m.unchecked = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "waitroom_gate_unchecked_total",
		Help: "Passes of the gate that nobody could check, since the store was away and the event's fail is open.",
	})
	for _, c := range []prometheus.Collector{m.requests, m.refusals, m.credits, m.unchecked} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register http metrics: %w", err)
		}
	}
	return m, nil
}

// observe times and logs every request, by its route and never by its address,
// body or tokens. A refusal is answered here, so that its status is known.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		begun := time.Now()
		if s.deps.InWork != nil && !isLive(c) {
			s.deps.InWork.Add(1)
			defer s.deps.InWork.Add(-1)
		}
		if err := next(c); err != nil {
			c.Error(err)
		}
		if isLive(c) { // the hub answered, and counts for itself
			return nil
		}
		took := time.Since(begun)
		status := c.Response().Status
		s.metrics.requests.WithLabelValues(routeOf(c), methodOf(c), strconv.Itoa(status)).Observe(took.Seconds())
		s.logRequest(c, status, took)
		return nil
	}
}

func (s *Server) logRequest(c echo.Context, status int, took time.Duration) {
	attempt := attemptOf(c.Request())
	level := zapcore.DebugLevel
	if attempt > 1 || isOpsWrite(c) {
		level = zapcore.InfoLevel
	}
	entry := s.log.Check(level, "request")
	if entry == nil {
		return
	}
	fields := []zap.Field{
		zap.String("method", methodOf(c)), zap.String("route", routeOf(c)),
		zap.Int("status", status), zap.Duration("took", took),
	}
	if event := c.Param("event"); isEventID(event) {
		fields = append(fields, zap.String("event", event))
	}
	if attempt > 1 {
		fields = append(fields, zap.Int("attempt", attempt))
		if key := c.Request().Header.Get(headerIdempotencyKey); key != "" {
			fields = append(fields, zap.String("key_hash", keyHash(key)))
		}
	}
	entry.Write(fields...)
}

// refuse is the one place where an error becomes an answer, and where its cause
// is logged.
func (s *Server) refuse(err error, c echo.Context) {
	p := problemOf(err)
	s.metrics.refusals.WithLabelValues(routeOf(c), p.Code).Inc()
	switch {
	case p.Code == refusals[len(refusals)-1].code:
		s.log.Error("request failed", zap.String("route", routeOf(c)), zap.Error(err))
	case errors.Is(err, context.Canceled): // the client hung up
	case p.Code == codeUnavailable:
		s.away.Do(func() { // once a second is enough to know; the metric counts them all
			s.log.Warn("request refused", zap.String("route", routeOf(c)), zap.String("code", p.Code), zap.Error(err))
		})
	}
	if c.Response().Committed {
		return
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	if err := writeProblem(c, p); err != nil {
		s.log.Debug("answer not written", zap.String("route", routeOf(c)), zap.Error(err))
	}
}

// recoverPanic turns a panic into a refusal; the trace stays in the log.
func (s *Server) recoverPanic(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if e, ok := cause.(error); ok && errors.Is(e, http.ErrAbortHandler) {
				panic(cause) // net/http's own way to cut a connection
			}
			s.log.Error("panic in handler", zap.String("route", routeOf(c)),
				zap.Any("panic", cause), zap.ByteString("stack", debug.Stack()))
			err = errInternal
		}()
		return next(c)
	}
}

// routeOf is the matched pattern; everything unknown is one label.
func routeOf(c echo.Context) string {
	if c.Path() == "" {
		return "none"
	}
	return c.Path()
}

const methodOther = "other"

// methodOf is the method, or "other" for one that nobody has heard of.
func methodOf(c echo.Context) string {
	switch m := c.Request().Method; m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return m
	default:
		return methodOther
	}
}

func isOpsWrite(c echo.Context) bool {
	m := c.Request().Method
	return m != http.MethodGet && m != http.MethodHead && len(c.Path()) > len(routeOps) && c.Path()[:len(routeOps)] == routeOps
}

// attemptOf is the number of a retry, as the client counts; 0 where it says nothing.
func attemptOf(r *http.Request) int {
	const most = 1000
	v := r.Header.Get("X-Attempt")
	if v == "" {
		return 0
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > most {
		return 0
	}
	return n
}

// keyHash names an idempotency key in the log without telling it.
func keyHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:6])
}
