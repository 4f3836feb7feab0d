package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// rules are what the configuration says about other hosts, made ready to ask.
type rules struct {
	origins []string // exactly as browsers write them; ours first
	hosts   []string // to which people may be sent
	writes  *http.CrossOriginProtection
	pageCSP string
}

func newRules(cfg Config) (rules, error) {
	origins, err := cfg.OwnOrigins()
	if err != nil {
		return rules{}, err
	}
	r := rules{origins: origins, writes: http.NewCrossOriginProtection()}
	for _, origin := range origins {
		if err := r.writes.AddTrustedOrigin(origin); err != nil {
			return rules{}, err
		}
	}
	public, err := url.Parse(cfg.PublicURL)
	if err != nil {
		return rules{}, err
	}
	r.hosts = append(r.hosts, strings.ToLower(public.Host))
	for _, h := range cfg.AllowedRedirectHosts {
		r.hosts = append(r.hosts, strings.ToLower(h))
	}
	// The waiting page posts the entry token to the site by a form.
	r.pageCSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
		"connect-src 'self'; form-action 'self' " + strings.Join(r.hosts, " ") + "; " +
		"base-uri 'none'; frame-ancestors 'none'"
	return r, nil
}

// ours tells whether an Origin header names an origin of ours, exactly.
func (r rules) ours(origin string) bool { return slices.Contains(r.origins, origin) }

// returnAddress checks where somebody wants to be sent: an address on an allowed
// host, or ok is false.
func (r rules) returnAddress(raw string) (address string, ok bool) {
	const most = 2048
	if raw == "" || len(raw) > most || strings.ContainsFunc(raw, func(c rune) bool {
		return c <= ' ' || c == '\\' || c == 0x7f || c == '\uFFFD'
	}) {
		return "", false
	}
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || u.Opaque != "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", false
	}
	if !slices.Contains(r.hosts, strings.ToLower(u.Host)) {
		return "", false
	}
	u.Fragment = ""
	return u.String(), true
}

// localPath tells whether raw is a path on the host it is used on, and not a way
// to write another host.
func localPath(raw string) bool {
	const most = 2048
	if len(raw) > most || !strings.HasPrefix(raw, "/") || strings.HasPrefix(raw, "//") {
		return false
	}
	if strings.ContainsFunc(raw, func(c rune) bool { return c <= ' ' || c == '\\' || c == 0x7f || c == '\uFFFD' }) {
		return false
	}
	u, err := url.Parse(raw)
	return err == nil && u.Host == "" && u.Scheme == ""
}

// Shared header values; a response never appends to them.
var (
	valueNoSniff  = []string{"nosniff"}
	valueReferrer = []string{"strict-origin"} // a form to the site must carry its Origin
	valueNoStore  = []string{"no-store"}
	valueCSP      = []string{"default-src 'none'; frame-ancestors 'none'"}
	valueResource = []string{"same-origin"}
	valueOrigin   = []string{"Origin"}
)

// setHeaders gives every answer the careful headers; a handler whose answer may
// be cached or shown says so itself.
func (s *Server) setHeaders(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h["X-Content-Type-Options"] = valueNoSniff
		h["Referrer-Policy"] = valueReferrer
		h["Cache-Control"] = valueNoStore
		h["Content-Security-Policy"] = valueCSP
		h["Cross-Origin-Resource-Policy"] = valueResource
		return next(c)
	}
}

// checkOrigin refuses writes from other origins, and lets the configured ones
// read the answers. A proxy's question is neither.
func (s *Server) checkOrigin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if isGateVerdict(c) {
			return next(c)
		}
		r, h := c.Request(), c.Response().Header()
		if len(s.rules.origins) > 1 {
			h["Vary"] = valueOrigin
		}
		origin := r.Header.Get("Origin")
		if origin != "" && s.rules.ours(origin) && !strings.HasPrefix(c.Path(), routeOps) {
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Allow-Credentials", "true")
			h.Set("Access-Control-Expose-Headers", "ETag, Retry-After, Idempotency-Replayed")
			if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
				h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
				h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, X-Entry-Token, X-Attempt, X-Challenge")
				h.Set("Access-Control-Max-Age", "600")
				return noContent(c)
			}
		}
		if err := s.rules.writes.Check(r); err != nil {
			return ErrForbidden
		}
		return next(c)
	}
}
