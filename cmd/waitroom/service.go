package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/admission"
	"github.com/waitroom-dev/waitroom/cmd/waitroom/heap"
	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web"
	"github.com/waitroom-dev/waitroom/web/hub"
)

// keyPrefix begins every key of ours in the store.
const keyPrefix = "wr"

// service is one process of the installation, built and not yet running.
type service struct {
	cfg       serveConfig
	log       *zap.Logger
	node      string // this process's name among those that share the store
	publicURL string
	token     string // the operator's
	metrics   *prometheus.Registry
	rdb       redis.UniversalClient
	planter   *planter
	sampler   sampler

	keys       *admission.Keys
	passes     *admission.Passes
	line       *waitroom.Line
	view       *waitroom.View
	hub        *hub.Hub
	controller *admission.Controller
	notary     *admission.Notary
	board      *admission.PoolBoard
	reports    *admission.Reports
	db         *ticket.DB
	store      *ticket.Store
	broker     broker
	requests   *outsideQueue                                                             // nil: the requests of mode buffered wait in the line's store
	webhooks   map[string]func(ctx context.Context, signature string, body []byte) error // by provider

	inWork atomic.Int64 // requests that the HTTP side works on

	front, back, base []runner
	closers           []func() error
}

// blueprint is what a service is built from.
type blueprint struct {
	cfg      serveConfig
	plan     plan
	keys     *admission.Keys // the operator's own; nil: made and shared
	listener net.Listener
}

// build opens the stores, makes every component and connects them. On an error
// everything opened so far is closed again.
func build(ctx context.Context, b blueprint, log *zap.Logger) (*service, error) {
	s := &service{
		cfg: b.cfg, keys: b.keys, log: log, node: rand.Text()[:8], metrics: prometheus.NewRegistry(),
		publicURL: cmp.Or(b.cfg.PublicURL, localURL(b.listener.Addr())),
		token:     cmp.Or(b.cfg.OperatorToken, rand.Text()),
	}
	s.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, step := range []func(context.Context) error{
		s.openStore, s.openKeys, s.openBroker, s.openQueue, s.buildTickets, s.buildLine, s.buildAdmission, s.buildIssuing, s.buildNumbering,
		func(ctx context.Context) error { return s.plant(ctx, b.plan) },
		func(context.Context) error { return s.buildWeb(b.listener) }, //nolint:contextcheck // handlers have their requests' contexts
	} {
		if err := step(ctx); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

// close ends what run does not: the connections, last opened first.
func (s *service) close() {
	for _, closer := range slices.Backward(s.closers) {
		if err := closer(); err != nil {
			s.log.Warn("close", zap.Error(err))
		}
	}
	s.closers = nil
}

func (s *service) openStore(ctx context.Context) error {
	if s.cfg.Redis == "" {
		s.log.Warn("embedded store: for trying, tests and small events on one machine; a real event takes --redis and --database")
		embedded, err := startEmbeddedRedis()
		if err != nil {
			return err
		}
		s.closers = append(s.closers, func() error { embedded.close(); return nil })
		s.base = append(s.base, embedded.Run)
		s.rdb = embedded.client()
	} else {
		if short := s.cfg.guessable(); len(short) > 0 { // the embedded default is for trying, and may have any
			s.log.Warn("secrets can be guessed; at least 8 characters are better, and no well-known word", zap.Strings("keys", short))
		}
		rdb, err := redisClient(s.cfg.Redis)
		if err != nil {
			return usage(err)
		}
		s.rdb = rdb
	}
	slack, err := heap.New(s.cfg.HeapSlack)
	if err != nil {
		return usage(err)
	}
	s.base = append(s.base, slack.Run)
	s.closers = append(s.closers, s.rdb.Close)
	return reachRedis(ctx, s.rdb)
}

// openBroker makes what the outbox is published to.
func (s *service) openBroker(context.Context) (err error) {
	s.broker, err = openBroker(s.cfg.Broker, s.rdb, brokerDeps{s.node, s.log, s.metrics})
	if err != nil {
		return usage(err)
	}
	s.closers = append(s.closers, s.broker.close)
	return nil
}

// sells tells whether this process needs the database.
func (s *service) sells() bool { return s.cfg.has(roleTicket) || s.cfg.has(roleWorker) }

func (s *service) buildLine(context.Context) (err error) {
	cfg := waitroom.Config{Prefix: keyPrefix, Node: s.node, ReceiptKeys: s.keys.ReceiptKeys(), SubjectKey: s.keys.SubjectKey()}
	if s.requests != nil {
		cfg.Requests = s.requests
	}
	s.line, err = waitroom.New(cfg, s.rdb, s.log)
	if err != nil {
		return err
	}
	ears := newEars()
	s.planter = &planter{s: s, ears: ears, kept: s.cfg.keptPath()}
	if s.view, err = waitroom.NewView(s.line, ears); err != nil {
		return err
	}
	if err := s.metrics.Register(estimates{s.view}); err != nil {
		return err
	}
	s.back = append(s.back, s.view.Run, s.planter.Run)
	origins, err := s.webConfig().OwnOrigins()
	if err != nil {
		return usage(err)
	}
	deps := hub.Deps{
		Line: s.line, Presence: s.line, View: s.view, Passes: s.passes, Ping: s.line.Ping,
		SeatsLeft: s.seatsLeft, Holding: s.holding, Sample: s.sample, Refuse: web.Refuse,
		Log: s.log, Registerer: s.metrics,
	}
	if s.store != nil {
		deps.Seats = s.store
	}
	if s.hub, err = hub.New(hub.Config{Origins: origins}, deps); err != nil {
		return err
	}
	ears.hub = s.hub
	s.front = append(s.front, s.hub.Run)
	return s.followOutcomes()
}

func (s *service) seatsLeft(event waitroom.EventID) (int64, bool) {
	if s.store == nil {
		return 0, false
	}
	return s.store.SeatsLeft(string(event))
}

// databaseError tells a wrong address from a database that is away.
func databaseError(err error) error {
	if errors.Is(err, ticket.ErrUnavailable) {
		return fmt.Errorf("database cannot be reached: %w", err)
	}
	return usage(fmt.Errorf("database: %w", err))
}
