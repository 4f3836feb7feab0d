package main

import (
	"cmp"
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/admission"
	"github.com/waitroom-dev/waitroom/cmd/waitroom/heap"
	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/waitroom/draw/drand"
	"github.com/waitroom-dev/waitroom/web"
	"github.com/waitroom-dev/waitroom/web/challenge"
	"github.com/waitroom-dev/waitroom/web/hub"
	"github.com/waitroom-dev/waitroom/web/limit"
	"github.com/waitroom-dev/waitroom/web/operators"
	"github.com/waitroom-dev/waitroom/web/pages"
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

// localURL is where a browser on this machine finds a listener.
func localURL(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err != nil || ip == nil || ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// webConfig is what the HTTP side and the hub are told of addresses and secrets.
// Whoever may be sent back to after waiting is one of the origins, and a browser
// on this machine may write its name in three ways.
func (s *service) webConfig() web.Config {
	cfg := web.Config{
		PublicURL: s.publicURL, Origins: slices.Clone(s.cfg.Origins), OperatorToken: s.token, SiteKey: s.cfg.SiteKey,
		Identity:     s.cfg.Identity,
		MetricsToken: s.cfg.MetricsToken, OpenMetrics: s.cfg.MetricsToken == "" && s.cfg.OperatorToken == "",
	}
	defaults := s.cfg.defaults()
	cfg.Defaults = &defaults
	cfg.TrustedProxies, _ = networks(s.cfg.Proxies) // checked when they were read
	for _, origin := range s.cfg.Origins {
		if u, err := url.Parse(origin); err == nil {
			cfg.AllowedRedirectHosts = append(cfg.AllowedRedirectHosts, u.Host)
		}
	}
	if u, err := url.Parse(s.publicURL); err == nil && s.cfg.PublicURL == "" {
		for _, name := range []string{"localhost", "127.0.0.1", "[::1]"} {
			if origin := "http://" + name + ":" + u.Port(); origin != s.publicURL {
				cfg.Origins = append(cfg.Origins, origin)
			}
		}
	}
	return cfg
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

// openKeys finds the keys: the operator's own; or on the embedded default a file
// beside the database, so that receipts outlive the store; or the store's, which
// all nodes share.
func (s *service) openKeys(ctx context.Context) (err error) {
	issuer := s.publicURL
	switch {
	case s.keys != nil:
	case s.cfg.Redis == "":
		if _, err := sqliteURL(s.cfg.Data); err != nil { // makes the directory
			return err
		}
		if s.keys, err = admission.KeepKeys(filepath.Join(s.cfg.Data, "keys.json")); err != nil {
			return err
		}
	default:
		s.log.Warn("keys are kept in the store, where whoever reads it can sign; --keys takes your own")
		if s.keys, err = admission.SharedKeys(ctx, s.rdb, keyPrefix); err != nil {
			return err
		}
		s.back = append(s.back, func(ctx context.Context) error { return s.keys.KeepShared(ctx, s.rdb, keyPrefix, s.log) })
	}
	if s.cfg.PublicURL == "" && s.cfg.Redis != "" {
		if issuer, err = sharedIssuer(ctx, s.rdb, issuer); err != nil {
			return err
		}
	}
	s.passes, err = admission.NewPasses(s.keys, issuer)
	return err
}

// sharedIssuer is the issuer of instances that were not told a public URL: the
// address of the first, so that all mint and accept the same tokens.
func sharedIssuer(ctx context.Context, rdb redis.UniversalClient, own string) (string, error) {
	key := keyPrefix + ":issuer"
	if err := rdb.SetNX(ctx, key, own, 0).Err(); err != nil {
		return "", fmt.Errorf("issuer: %w", err)
	}
	issuer, err := rdb.Get(ctx, key).Result()
	if err != nil {
		return "", fmt.Errorf("issuer: %w", err)
	}
	return issuer, nil
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

// holding is why an open event lets in fewer than its rate, where it is for load, and
// since when by the event's clock.
func (s *service) holding(event waitroom.EventID) (reason string, since time.Time) {
	if s.controller == nil {
		return "", time.Time{}
	}
	d, _ := s.controller.Decision(event)
	if !d.PassThrough && (d.Reason == admission.ReasonBusy || d.Reason == admission.ReasonUnknown) {
		return d.Reason, d.Since
	}
	return "", time.Time{}
}

func (s *service) buildAdmission(context.Context) error {
	s.board = admission.NewPoolBoard(s.rdb, keyPrefix, s.node)
	s.reports = admission.NewReports(s.rdb, keyPrefix)
	if s.store != nil && s.cfg.has(roleTicket) {
		s.board.Publish(admission.Pool{Ping: s.store.Ping, Stats: func() admission.PoolStats {
			u := s.store.Usage()
			return admission.PoolStats{InUse: float64(u.InUse), Max: float64(u.Max), Waiting: float64(u.Waiting)}
		}})
	}
	s.back = append(s.back, s.board.Run, s.reports.Run)
	sources, err := s.moreSources()
	if err != nil {
		return err
	}
	leaseConfig := admission.LeaseConfig{Prefix: keyPrefix}
	if s.cfg.Redis == "" {
		// Nobody else can lead: the store ends with this process. So the lease only has
		// to outlast a machine so busy that nothing runs for a while.
		leaseConfig.TTL = embeddedLease
	}
	lease, err := admission.NewLease(leaseConfig, s.rdb, s.log)
	if err != nil {
		return err
	}
	var leadership admission.Leadership = lease
	if !s.cfg.has(roleAdmission) {
		leadership = bystander{}
	}
	s.notary = admission.NewNotary(s.line, s.keys)
	s.controller, err = admission.New(admission.Config{Node: s.node}, admission.Deps{
		Line: s.line, Leadership: leadership, Sources: append(sources, s.board, s.reports),
		Bulletin: admission.NewBulletin(s.rdb, keyPrefix), Notary: s.notary, Log: s.log, Metrics: s.metrics,
	})
	if err != nil {
		return err
	}
	s.front = append(s.front, s.controller.Run)
	if s.cfg.has(roleAdmission) {
		beacons := &http.Client{Timeout: beaconTimeout}
		drawer := waitroom.NewDrawer(s.line, s.view, func(url string) waitroom.Beacon { return drand.New(url, beacons) }, s.log)
		s.front = append(s.front, drawer.Run)
	}
	return nil
}

// beaconTimeout ends one question to a drand network.
const beaconTimeout = 5 * time.Second

// bystander never leads: the process has not the role.
type bystander struct{}

// Run waits for ctx.
func (bystander) Run(ctx context.Context, _ func(context.Context, admission.Term)) error {
	<-ctx.Done()
	return nil
}

func (s *service) buildWeb(listener net.Listener) (err error) {
	deps := web.Deps{
		Line: s.line, Draws: s.line, Operations: s.line, View: s.view, Passes: s.passes, Load: s.reports,
		AdmissionLog: publicLog{s.notary, s.controller}, Sample: s.sample, Hub: s.hub, Holding: s.holding,
		Pages: pages.Files(), Ready: []web.Check{{Name: "store", Ping: s.line.Ping}},
		InWork: &s.inWork, Listener: listener, Log: s.log, Registerer: s.metrics, Gatherer: s.metrics,
	}
	if s.store != nil && s.cfg.has(roleTicket) {
		deps.Tickets = s.store
		deps.Ready = append(deps.Ready, web.Check{Name: "database", Ping: s.store.Ping})
	}
	deps.Webhooks = s.webhooks
	if s.store != nil {
		log, err := s.broker.log()
		if err != nil {
			return err
		}
		deps.Books = auditor{store: s.store, broker: log, line: s.line}
	}
	if s.cfg.Limits {
		limiter, err := s.limiter()
		if err != nil {
			return err
		}
		deps.Limiter = limiter
	}
	deps.Operators = operators.New(s.rdb, keyPrefix, s.token)
	if deps.Challenges, err = s.challenges(); err != nil {
		return usage(err)
	}
	server, err := web.New(s.webConfig(), deps)
	if err != nil {
		return usage(err)
	}
	s.front = append(s.front, server.Run)
	return nil
}

// challenges are checked with a key that all instances have, and that outlives a
// rotation, as the one it is derived from does.
func (s *service) challenges() (*challenge.Challenger, error) {
	key, err := hkdf.Key(sha256.New, s.keys.SubjectKey(), nil, "waitroom challenges", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("challenge key: %w", err)
	}
	cfg := challenge.Config{Key: key, Prefix: keyPrefix, Secrets: s.cfg.Challenges}
	for _, address := range append([]string{s.publicURL}, s.cfg.Origins...) {
		if u, err := url.Parse(address); err == nil {
			cfg.Hosts = append(cfg.Hosts, u.Hostname())
		}
	}
	return challenge.New(cfg, s.rdb, s.log, s.metrics)
}

// limiter counts calls in the store. On the embedded default, which is for trying,
// this machine's own addresses are exempt.
func (s *service) limiter() (*limit.Limiter, error) {
	cfg := limit.Config{Prefix: keyPrefix}
	if s.cfg.Redis == "" {
		cfg.Exempt = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
	return limit.New(cfg, s.rdb, s.log, s.metrics)
}

// databaseError tells a wrong address from a database that is away.
func databaseError(err error) error {
	if errors.Is(err, ticket.ErrUnavailable) {
		return fmt.Errorf("database cannot be reached: %w", err)
	}
	return usage(fmt.Errorf("database: %w", err))
}
