package main

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// minSecret is the least length of a secret that nobody guesses: 8 characters.
const minSecret = 8

// wellKnown are words that stand in examples, and that whoever attacks tries first.
var wellKnown = []string{
	"admin123", "administrator", "changeit", "changeme", "default", "default-token", "letmein123",
	"operator", "operator-token", "password", "password1", "password123", "qwertyuiop",
	"secretkey", "site-key", "testtest", "test-token", "topsecret", "waitroom", "12345678", "123456789", "1234567890",
}

// secrets are those that somebody chose, by key.
func (c serveConfig) secrets() map[string]string {
	return map[string]string{
		"operator-token": c.OperatorToken, "metrics-token": c.MetricsToken, "site-key": c.SiteKey, "identity-secret": c.Identity.Secret, "webhook-secret": c.WebhookSecret,
	}
}

// guessable names the secrets that can be guessed: short, repeated or well known.
func (c serveConfig) guessable() []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(c.secrets())) {
		secret := c.secrets()[key]
		if secret != "" && !strings.HasPrefix(secret, "file:") && weak(secret) {
			keys = append(keys, key)
		}
	}
	return keys
}

func weak(secret string) bool {
	return len(secret) < minSecret || strings.Count(secret, secret[:1]) == len(secret) ||
		slices.Contains(wellKnown, strings.ToLower(secret))
}

// checkSecrets refuses secrets that can be guessed where others can reach the service.
// The embedded default and a service for this machine alone, which are for trying, may
// have any.
func (c serveConfig) checkSecrets() error {
	keys := c.guessable()
	if len(keys) == 0 || c.Redis == "" || c.private() {
		return nil
	}
	return fmt.Errorf("%s: can be guessed; wants at least %d characters, and no well-known word", strings.Join(keys, ", "), minSecret)
}

// private tells whether only this machine reaches the service.
func (c serveConfig) private() bool {
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil || !loopback(host) {
		return false
	}
	u, err := url.Parse(c.PublicURL)
	return c.PublicURL == "" || err == nil && loopback(u.Hostname())
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}
