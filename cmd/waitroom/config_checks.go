package main

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waitroom-dev/waitroom/web/challenge"
)

// challengeSecrets reads KIND=SECRET; a secret is not repeated.
func challengeSecrets(list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	secrets := make(map[string]string)
	for _, pair := range list {
		kind, secret, _ := strings.Cut(pair, "=")
		if !slices.Contains(challenge.Kinds(), kind) || secret == "" {
			return nil, fmt.Errorf("challenge-secrets: wants KIND=SECRET, with KIND one of %s", strings.Join(challenge.Kinds(), ", "))
		}
		secrets[kind] = secret
	}
	return secrets, nil
}

// networks reads the proxies.
func networks(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range list {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("proxies: %q is no network such as 10.0.0.0/8", text)
		}
		out = append(out, p)
	}
	return out, nil
}

func oneOf(key, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s: %q is none of %s", key, value, strings.Join(allowed, ", "))
}

func checkAddr(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("addr: %q is no HOST:PORT", addr)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("addr: port %q is no number from 0 to 65535", port)
	}
	return nil
}

// checkRetention asks for what ticket.Config takes.
func checkRetention(value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d < time.Minute || d > 365*24*time.Hour {
		return fmt.Errorf("retention: %q is no duration from 1m to 8760h", value)
	}
	return nil
}

func checkURL(key, value string, schemes ...string) error {
	if value == "" {
		return nil
	}
	u, err := url.Parse(value)
	if err != nil || !slices.Contains(schemes, u.Scheme) || (u.Host == "" && u.Query().Get("host") == "") {
		// The value itself may hold a password: it is not repeated.
		return fmt.Errorf("%s: wants a URL such as %s://host:port", key, schemes[0])
	}
	return nil
}

func checkOrigin(key, value string) error {
	if value == "" {
		return nil
	}
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%s: %q wants the form https://host or https://host:port", key, value)
	}
	return nil
}

// checkKeys wants a file, a directory, or a variable.
func checkKeys(path string) error {
	name, variable := strings.CutPrefix(path, keysVariable)
	if !variable {
		return checkPath("keys", path)
	}
	if os.Getenv(name) == "" {
		return fmt.Errorf("keys: the variable %q is empty", name)
	}
	return nil
}

func checkPath(key, path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}
