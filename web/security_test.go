package web

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// TestPagesAreTheSameForEveryone holds promise 5 for pages.
func TestPagesAreTheSameForEveryone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for path, title := range map[string]string{
		"/": "wait", "/e/demo": "wait", "/e/nope": "wait", "/e/demo/shop": "shop", "/console": "console",
	} {
		get := call{method: "GET", path: path}
		w := r.do(t, get.with("Cookie", "waitroom_place_demo="+goodReceipt, "Authorization", "Bearer "+goodReceipt))
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Body.String(), title)
		require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
		require.Equal(t, "public, max-age=300", w.Header().Get("Cache-Control"))
		require.Empty(t, w.Header().Values("Set-Cookie"))
		csp := w.Header().Get("Content-Security-Policy")
		require.Contains(t, csp, "script-src 'self';")
		require.NotContains(t, csp, "unsafe")
		require.Contains(t, csp, "form-action 'self' wait.example shop.example;")
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		require.Equal(t, http.StatusNotModified, r.do(t, get.with("If-None-Match", w.Header().Get("ETag"))).Code)
	}
	require.Equal(t, http.StatusNotFound, r.do(t, call{method: "GET", path: "/e/No!"}).Code)
	require.Equal(t, "text/javascript; charset=utf-8", r.do(t, call{method: "GET", path: "/assets/app.js"}).Header().Get("Content-Type"))
}

// TestEverythingPersonalIsNoStore holds promise 5 for the rest.
func TestEverythingPersonalIsNoStore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range []call{joining, asking, asking.by("DELETE"), reserving, paying, passing, ops, loading, asking.at("/v1/events/demo/reservations/res-1")} {
		w := r.do(t, c)
		require.Less(t, w.Code, 400, "%s %s: %s", c.method, c.path, w.Body)
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"), "%s %s", c.method, c.path)
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
	}
}

// TestNoTokenInAddressOrLog holds promise 6.
func TestNoTokenInAddressOrLog(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	secrets := []string{goodReceipt, goodToken, testOperator, testSite, "secret-query", "secret-body", "secret-key"}
	for _, c := range []call{
		joining, asking, reserving.with("Idempotency-Key", "secret-key", "X-Attempt", "3"), passing, ops, loading,
		asking.at("/v1/events/demo?token=secret-query"), asking.at("/nowhere/" + goodToken),
		reserving.saying(`{"secret-body":1}`), passing.at("/v1/gate/demo?redirect=1").with("X-Entry-Token", "x", "Cookie", "a="+goodToken),
	} {
		w := r.do(t, c)
		for _, s := range secrets {
			require.NotContains(t, w.Header().Get("Location"), s)
		}
	}
	r.line.join = func(waitroom.JoinRequest) (waitroom.Place, error) { panic("boom") }
	r.do(t, joining.with("Authorization", "Bearer "+goodReceipt))
	require.NotZero(t, r.logs.Len())
	for _, entry := range r.logs.All() {
		line, err := zapcore.NewJSONEncoder(zapcore.EncoderConfig{}).EncodeEntry(entry.Entry, entry.Context)
		require.NoError(t, err)
		for _, s := range secrets {
			require.NotContains(t, line.String(), s)
		}
	}
	retries := r.logs.FilterField(attemptField(3)).All()
	require.Len(t, retries, 1)
	require.Equal(t, keyHash("secret-key"), retries[0].ContextMap()["key_hash"])
}

// TestWritesFromElsewhere holds promise 7.
func TestWritesFromElsewhere(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		headers []string
		allowed bool
	}{
		"a program":               {nil, true},
		"our page":                {[]string{"Origin", testPublicURL, "Sec-Fetch-Site", "same-origin"}, true},
		"a configured site":       {[]string{"Origin", "https://shop.example", "Sec-Fetch-Site", "cross-site"}, true},
		"another site":            {[]string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, false},
		"another site, old":       {[]string{"Origin", "https://evil.example"}, false},
		"longer name":             {[]string{"Origin", "https://shop.example.evil.example"}, false},
		"longer prefix":           {[]string{"Origin", "https://evilshop.example"}, false},
		"another scheme":          {[]string{"Origin", "http://shop.example"}, false},
		"another port":            {[]string{"Origin", "https://shop.example:444"}, false},
		"a sandboxed frame":       {[]string{"Origin", "null", "Sec-Fetch-Site", "cross-site"}, false},
		"a sibling":               {[]string{"Origin", "https://x.wait.example", "Sec-Fetch-Site", "same-site"}, false},
		"no origin, cross-site":   {[]string{"Sec-Fetch-Site", "cross-site"}, false},
		"typed in the addressbar": {[]string{"Sec-Fetch-Site", "none"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for _, c := range []call{joining, asking.by("DELETE"), reserving, paying, loading, ops.by("PATCH").at("/v1/ops/events/demo").saying("{}")} {
				w := r.do(t, c.with(tc.headers...))
				if tc.allowed {
					require.Less(t, w.Code, 300, "%s", w.Body)
					continue
				}
				require.Equal(t, http.StatusForbidden, w.Code)
				require.Equal(t, "forbidden", problemIn(t, w).Code)
				require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
			}
		})
	}
}

func TestConfiguredSitesMayReadAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const shop = "https://shop.example"
	preflight := joining.by("OPTIONS").with("Origin", shop, "Access-Control-Request-Method", "POST")
	w := r.do(t, preflight)
	require.Equal(t, http.StatusNoContent, w.Code)
	require.Equal(t, shop, w.Header().Get("Access-Control-Allow-Origin"))
	require.Contains(t, w.Header().Get("Access-Control-Allow-Headers"), "Idempotency-Key")
	w = r.do(t, joining.with("Origin", shop))
	require.Equal(t, shop, w.Header().Get("Access-Control-Allow-Origin"))
	require.Equal(t, "true", w.Header().Get("Access-Control-Allow-Credentials"))
	require.Equal(t, "Origin", w.Header().Get("Vary"))

	w = r.do(t, preflight.with("Origin", "https://evil.example"))
	require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
	w = r.do(t, ops.by("OPTIONS").with("Origin", shop, "Access-Control-Request-Method", "POST"))
	require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"), "the ops API is for the console only")
	w = r.do(t, asking.at("/v1/events/demo").with("Origin", ""))
	require.Equal(t, "Origin", w.Header().Get("Vary"), "a cache must not hand one origin's answer to another")
}

// TestPanicIsAnswered holds promise 12.
func TestPanicIsAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.line.join = func(waitroom.JoinRequest) (waitroom.Place, error) { panic("boom in the line") }
	w := r.do(t, joining)
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.NotContains(t, w.Body.String(), "boom")
	require.NotContains(t, w.Body.String(), ".go")
	require.Equal(t, "internal", problemIn(t, w).Code)
	logged := r.logs.FilterMessage("panic in handler").All()
	require.Len(t, logged, 1)
	require.Contains(t, logged[0].ContextMap()["stack"], "security_test.go")
	require.Equal(t, http.StatusOK, r.do(t, asking).Code, "the server goes on")
}

func TestMethodNotAllowedNamesTheAllowed(t *testing.T) {
	t.Parallel()
	w := newRig(t).do(t, joining.by("PUT"))
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
	require.Contains(t, w.Header().Get("Allow"), "POST")
}
