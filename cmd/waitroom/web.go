package main

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"

	"github.com/waitroom-dev/waitroom/web"
	"github.com/waitroom-dev/waitroom/web/challenge"
	"github.com/waitroom-dev/waitroom/web/limit"
	"github.com/waitroom-dev/waitroom/web/operators"
	"github.com/waitroom-dev/waitroom/web/pages"
)

// buildWeb makes the HTTP side of what all steps before it have made.
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

// localURL is where a browser on this machine finds a listener.
func localURL(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err != nil || ip == nil || ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
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
