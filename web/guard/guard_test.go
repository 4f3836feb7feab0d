package guard

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
)

func TestHoldersPass(t *testing.T) {
	t.Parallel()
	s := newService(t)
	h, token := newGuard(t, s, nil), s.token(t, nil)
	for name, header := range map[string][]string{
		"header":                       {"X-Entry-Token", token},
		"bearer":                       {"Authorization", "Bearer " + token},
		"cookie":                       {"Cookie", "waitroom_entry_sale=" + token},
		"beside the site's own bearer": {"Authorization", "Bearer site-jwt", "Cookie", "waitroom_entry_sale=" + token},
	} {
		w := visit(h, "/", header...)
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", name, w.Body)
		require.Equal(t, "ann entry-of-ann", w.Body.String(), name)
	}
	require.EqualValues(t, 1, s.asked.Load(), "one verdict for all within a second")

	e := echo.New()
	e.Use(echo.WrapMiddleware(newGuard2(t, s)))
	e.GET("/cart", func(c echo.Context) error {
		who, _ := FromContext(c.Request().Context())
		return c.String(http.StatusOK, who.User)
	})
	w := visit(e, "/cart", "X-Entry-Token", token)
	require.Equal(t, "ann", w.Body.String())
	require.Equal(t, "token_required", codeOf(t, visit(e, "/cart")))
}

// newGuard2 is the middleware itself.
func newGuard2(t *testing.T, s *service) func(http.Handler) http.Handler {
	t.Helper()
	g, err := New(Config{Service: s.URL, Event: event})
	require.NoError(t, err)
	t.Cleanup(g.cfg.Client.CloseIdleConnections)
	return g.Handler
}

// doc.go promises 1 and 4: what the service did not sign for this event does not
// pass, and asks it nothing.
func TestForgeriesAskNothing(t *testing.T) {
	t.Parallel()
	s := newService(t)
	h := newGuard(t, s, nil)
	_, stranger, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	forged := s.token(t, nil)
	forged = forged[:strings.LastIndex(forged, ".")+1] + strings.Repeat("A", 86)
	byStranger := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{"iss": s.URL, "aud": event, "sub": "x", "jti": "x", "iat": 1, "nbf": 1, "exp": 9999999999})
	byStranger.Header["kid"] = "k1"
	strange, err := byStranger.SignedString(stranger)
	require.NoError(t, err)
	byStranger.Header["kid"] = "k9"
	unknown, err := byStranger.SignedString(stranger)
	require.NoError(t, err)
	hs, err := jwt.NewWithClaims(jwt.SigningMethodHS256, byStranger.Claims).SignedString([]byte(s.public["k1"]))
	require.NoError(t, err)
	none, err := jwt.NewWithClaims(jwt.SigningMethodNone, byStranger.Claims).SignedString(jwt.UnsafeAllowNoneSignatureType)
	require.NoError(t, err)
	drop := func(name string) string {
		return s.token(t, func(c jwt.MapClaims, _ *jwt.Token) { delete(c, name) })
	}
	set := func(name string, value any) string {
		return s.token(t, func(c jwt.MapClaims, _ *jwt.Token) { c[name] = value })
	}
	for name, token := range map[string]string{
		"no token": "", "nonsense": "x", "three dots": "a.b.c", "long": strings.Repeat("a", longestToken+1),
		"signature changed": forged, "signed by a stranger": strange, "of an unknown key": unknown,
		"the public key as a secret": hs, "unsigned": none,
		"another issuer": set("iss", "https://evil.example"), "no issuer": drop("iss"), "no subject": drop("sub"),
		"no id": drop("jti"), "no exp": drop("exp"), "no iat": drop("iat"), "no nbf": drop("nbf"),
		"of the future": set("nbf", time.Now().Add(time.Hour).Unix()), "two audiences": set("aud", []string{event, "other"}),
		"line break": s.token(t, nil) + "\n",
	} {
		w := visit(h, "/", "Cookie", "waitroom_entry_sale="+url.PathEscape(token))
		require.Equal(t, http.StatusUnauthorized, w.Code, name)
		w = visit(h, "/", "X-Entry-Token", token)
		require.Equal(t, http.StatusUnauthorized, w.Code, name)
		require.Contains(t, []string{"token_required", "token_invalid"}, codeOf(t, w), name)
	}
	require.Equal(t, "token_wrong_event", codeOf(t, visit(h, "/", "X-Entry-Token", set("aud", "other"))))
	for range 100 {
		visit(h, "/", "X-Entry-Token", forged)
		visit(h, "/", "X-Entry-Token", unknown)
	}
	require.Zero(t, s.asked.Load())
	require.LessOrEqual(t, s.fetched.Load(), int64(2), "at first, and for the unknown key once")
}

func TestRotatedKeysAreFetched(t *testing.T) {
	t.Parallel()
	s := newService(t)
	h := newGuard(t, s, nil)
	old := s.token(t, nil)
	require.Equal(t, http.StatusOK, visit(h, "/", "X-Entry-Token", old).Code)
	s.rotate(t, "k2")
	require.Equal(t, http.StatusOK, visit(h, "/", "X-Entry-Token", s.token(t, nil)).Code)
	require.Equal(t, http.StatusOK, visit(h, "/", "X-Entry-Token", old).Code, "both keys are good")
}

// doc.go promise 2.
func TestRevokedWithinFresh(t *testing.T) {
	t.Parallel()
	s := newService(t)
	h, token := newGuard(t, s, func(c *Config) { c.Fresh = 50 * time.Millisecond }), s.token(t, nil)
	require.Equal(t, http.StatusOK, visit(h, "/", "X-Entry-Token", token).Code)
	for _, code := range []string{"token_revoked", "token_expired"} {
		s.says(token, refusals[code])
		deadline := time.Now().Add(5 * time.Second)
		for visit(h, "/", "X-Entry-Token", token).Code == http.StatusOK {
			require.True(t, time.Now().Before(deadline), "still passes")
		}
		until := time.Now().Add(60 * time.Millisecond)
		for time.Now().Before(until) { // the last verdict may be the one before
			visit(h, "/", "X-Entry-Token", token)
		}
		w := visit(h, "/", "X-Entry-Token", token)
		require.Equal(t, refusals[code].Status, w.Code)
		require.Equal(t, code, codeOf(t, w))
	}
}

// doc.go promise 2, of a guard that runs: everybody who comes by is asked about
// together, a revocation is felt all the same, and while the service is silent nobody
// passes for longer than without it.
func TestRunKeepsVerdictsFresh(t *testing.T) {
	t.Parallel()
	s := newService(t)
	g, err := New(Config{Service: s.URL, Event: event, Client: s.Client(), SiteKey: siteKey, Fresh: 1200 * time.Millisecond})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	h := g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	tokens := make([]string, 50)
	began := time.Now()
	for i := range tokens {
		tokens[i] = s.token(t, nil)
		require.Equal(t, http.StatusOK, visit(h, "/", "X-Entry-Token", tokens[i]).Code)
	}
	every := func(what string, cond func(code int) bool) {
		deadline := time.Now().Add(20 * time.Second)
		for good := 0; good < len(tokens); {
			require.True(t, time.Now().Before(deadline), what)
			good = 0
			for _, token := range tokens {
				if cond(visit(h, "/", "X-Entry-Token", token).Code) {
					good++
				}
			}
		}
	}
	every("confirmed", func(code int) bool { return code == http.StatusOK && s.checked.Load() >= 3 })
	if time.Since(began) < 1200*time.Millisecond { // else the machine stood still for longer than a verdict holds
		require.EqualValues(t, len(tokens), s.asked.Load(), "each was asked about apart once only")
	}
	s.says(tokens[7], refusals["token_revoked"])
	deadline := time.Now().Add(20 * time.Second)
	for visit(h, "/", "X-Entry-Token", tokens[7]).Code != http.StatusForbidden {
		require.True(t, time.Now().Before(deadline), "revoked")
	}
	require.Equal(t, http.StatusOK, visit(h, "/", "X-Entry-Token", tokens[8]).Code)
	s.silent(true)
	every("closed when in doubt", func(code int) bool { return code != http.StatusOK })
	s.silent(false)
	require.Equal(t, http.StatusOK, visit(h, "/", "X-Entry-Token", tokens[8]).Code)
	cancel()
	require.NoError(t, <-ended)

	g, err = New(Config{Service: s.URL, Event: event})
	require.NoError(t, err)
	require.ErrorContains(t, g.Run(t.Context()), "site key")
}

// doc.go promise 3: each of 20 tokens sent 20 times at once to two guards passes once.
func TestSpentOnce(t *testing.T) {
	t.Parallel()
	s := newService(t)
	spends := func(c *Config) {
		c.Spends = func(r *http.Request) bool { return r.URL.Path == "/checkout" }
	}
	guards := []http.Handler{newGuard(t, s, spends), newGuard(t, s, spends)}
	for range 20 {
		token := s.token(t, nil)
		codes := make(chan int, 20)
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() { codes <- visit(guards[i%2], "/checkout", "X-Entry-Token", token).Code })
		}
		all.Wait()
		close(codes)
		count := map[int]int{}
		for code := range codes {
			count[code]++
		}
		require.Equal(t, map[int]int{http.StatusOK: 1, http.StatusConflict: 19}, count)
		require.Equal(t, http.StatusOK, visit(guards[0], "/cart", "X-Entry-Token", token).Code, "other routes spend nothing")
	}
}

// doc.go promise 5.
func TestServiceAway(t *testing.T) {
	t.Parallel()
	s := newService(t)
	short := func(open bool) func(*Config) {
		return func(c *Config) { c.Fresh, c.Open = 50*time.Millisecond, open }
	}
	var unchecked atomic.Int64
	closed, open := newGuard(t, s, short(false)), newGuard(t, s, func(c *Config) {
		short(true)(c)
		c.Unchecked = func(who Person) {
			if who.Unchecked && who.User == "ann" && who.Token != "" {
				unchecked.Add(1)
			}
		}
	})
	inside, fresh, revoked := s.token(t, nil), s.token(t, nil), s.token(t, nil)
	expired := s.token(t, func(c jwt.MapClaims, _ *jwt.Token) { c["exp"] = time.Now().Add(-time.Second).Unix() })
	s.says(revoked, refusals["token_revoked"])
	for _, token := range []string{inside, revoked} {
		visit(closed, "/", "X-Entry-Token", token)
		visit(open, "/", "X-Entry-Token", token)
	}
	s.silent(true)
	deadline := time.Now().Add(5 * time.Second)
	for visit(closed, "/", "X-Entry-Token", inside).Code == http.StatusOK {
		require.True(t, time.Now().Before(deadline), "a verdict that never ages")
	}
	w := visit(closed, "/", "X-Entry-Token", inside)
	require.Equal(t, "unavailable", codeOf(t, w))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "2", w.Header().Get("Retry-After"))
	require.Equal(t, http.StatusServiceUnavailable, visit(closed, "/", "X-Entry-Token", fresh).Code)
	require.Equal(t, http.StatusServiceUnavailable, visit(closed, "/", "X-Entry-Token", fresh, "Accept", "text/html").Code, "waiting does not help")

	for unchecked.Load() == 0 { // its own verdict ages by itself
		require.Equal(t, http.StatusOK, visit(open, "/", "X-Entry-Token", inside).Code)
		require.True(t, time.Now().Before(deadline), "a verdict that never ages")
	}
	require.Equal(t, http.StatusOK, visit(open, "/", "X-Entry-Token", fresh).Code)
	require.EqualValues(t, 2, unchecked.Load(), "each such pass is told of")
	require.NotEqual(t, http.StatusOK, visit(open, "/", "X-Entry-Token", revoked).Code)
	require.Equal(t, http.StatusServiceUnavailable, visit(open, "/", "X-Entry-Token", expired).Code)
	require.Equal(t, http.StatusUnauthorized, visit(open, "/").Code, "a stranger waits as ever")

	s.silent(false)
	require.Equal(t, http.StatusOK, visit(closed, "/", "X-Entry-Token", inside).Code, "it comes back by itself")
	require.Equal(t, http.StatusOK, visit(open, "/", "X-Entry-Token", inside).Code)
	require.EqualValues(t, 2, unchecked.Load())
	s.away(true) // the service answers, its store does not, and the event's fail is open
	require.Equal(t, http.StatusOK, visit(open, "/", "X-Entry-Token", s.token(t, nil)).Code)
	require.EqualValues(t, 3, unchecked.Load())
}

// doc.go promise 6 in part: the address that a browser is sent to holds where it
// wanted to go, and no token.
func TestBrowsersWait(t *testing.T) {
	t.Parallel()
	s := newService(t)
	h := newGuard(t, s, nil)
	forged := s.token(t, nil) + "x"
	w := visit(h, "/cart?a=1&b=%20", "Accept", "text/html,*/*", "Cookie", "waitroom_entry_sale="+forged)
	require.Equal(t, http.StatusFound, w.Code)
	require.Equal(t, s.URL+"/e/sale?return_to="+url.QueryEscape("http://shop.example/cart?a=1&b=%20"), w.Header().Get("Location"))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	w = visit(h, "/", "Accept", "text/html", "Referer", s.URL+"/")
	require.Equal(t, s.URL+"/e/sale?cookies=blocked&return_to="+url.QueryEscape("http://shop.example/"), w.Header().Get("Location"))
	require.Equal(t, http.StatusUnauthorized, visit(h, "/cart", "Accept", "application/json").Code)
	token := s.token(t, nil)
	s.says(token, refusals["token_revoked"])
	require.Equal(t, "token_revoked", codeOf(t, visit(h, "/", "Accept", "text/html", "X-Entry-Token", token)))
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	good := Config{Service: "https://wait.example/", Event: "sale"}
	_, err := New(good)
	require.NoError(t, err)
	for field, change := range map[string]func(*Config){
		"service":  func(c *Config) { c.Service = "wait.example" },
		"asked":    func(c *Config) { c.Asked = "redis://x" },
		"event":    func(c *Config) { c.Event = "a/b" },
		"fresh":    func(c *Config) { c.Fresh = time.Hour },
		"timeout":  func(c *Config) { c.Timeout = -1 },
		"site key": func(c *Config) { c.Spends = func(*http.Request) bool { return true } },
	} {
		bad := good
		change(&bad)
		_, err := New(bad)
		require.ErrorContains(t, err, "guard: "+field+":")
	}
}

// BenchmarkGuard is what a request of somebody inside costs.
func BenchmarkGuard(b *testing.B) {
	t := &testing.T{}
	s := newService(t)
	defer s.Close()
	g, err := New(Config{Service: s.URL, Event: event, Client: s.Client(), Fresh: time.Minute})
	require.NoError(b, err)
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://shop.example/", nil)
	require.NoError(b, err)
	r.Header.Set("X-Entry-Token", s.token(t, nil))
	for b.Loop() {
		if _, err := g.Check(r); err != nil {
			b.Fatal(err)
		}
	}
}
