package web

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// quiet keeps no logs: a fuzzer makes too many.
func quiet(_ *Config, d *Deps) { d.Log = zap.NewNop() }

// ownAnswer checks what holds for every answer whatever was sent: promise 4.
func ownAnswer(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	require.NotEqual(t, http.StatusInternalServerError, w.Code, "%s", w.Body)
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	if w.Code >= 400 {
		p := problemIn(t, w)
		require.Equal(t, w.Code, p.Status)
		require.NotEmpty(t, p.Code)
	}
}

func FuzzBodies(f *testing.F) {
	for _, body := range []string{
		`{"seats":["A-1"]}`, `{"quantity":2}`, `{"seats":["A-1","A-1"]}`, `{"seats":[""],"quantity":1}`, `{`, `null`, `[]`, `"x"`,
		`{"seats":{"a":1}}`, `{"quantity":-0}`, `{"quantity":1e400}`, `{"":1}`, "{\"\xff\":1}", `{"seats":["\ud800"]}`, `{"pool_usage":0.5}`,
		`{"method":"approve"}`, `{"count":1}`, `{"entry_id":"x"}`, `{"id":"a","tickets":{"kind":"stock","stock":1}}`, strings.Repeat("[", 500),
	} {
		f.Add(body)
	}
	r := newRig(f, quiet)
	f.Fuzz(func(t *testing.T, body string) {
		for _, c := range []call{
			joining, reserving, paying, loading, ops.by("POST"), ops.by("PATCH").at("/v1/ops/events/demo"),
			ops.by("POST").at("/v1/ops/events/demo/admit"), ops.by("POST").at("/v1/ops/events/demo/block"), ops.by("POST").at("/v1/ops/events/demo/revoke"),
		} {
			ownAnswer(t, r.do(t, c.saying(body)))
		}
		var seats []string
		if decodeObject([]byte(body), []field{{"seats", &seats, seatsWanted}}) == nil {
			require.True(t, json.Valid([]byte(body)), "only JSON decodes")
		}
	})
}

func FuzzHeaders(f *testing.F) {
	f.Add("Bearer "+goodReceipt, "waitroom_place_demo="+goodReceipt, "k", "1", testPublicURL, `"v1"`, "application/json")
	f.Add("bearer", "waitroom_entry_demo=;;", "", "-1", "null", "*", "application/json; charset=\"")
	f.Add("Basic x", "a=b; a", strings.Repeat("k", 300), "99999999999999999999", "https://evil", "W/", ";")
	r := newRig(f, quiet)
	f.Fuzz(func(t *testing.T, authorization, cookies, key, attempt, origin, match, kind string) {
		for _, c := range []call{
			joining, asking, asking.by("DELETE"), reserving, paying, passing, ops, loading,
			asking.at("/v1/events/demo"), asking.at("/v1/events/demo/live"), asking.at("/v1/events/demo/reservations/res-1"),
		} {
			ownAnswer(t, r.do(t, c.with(
				"Authorization", authorization, "Cookie", cookies, "Idempotency-Key", key, "X-Attempt", attempt,
				"Origin", origin, "If-None-Match", match, "Content-Type", kind)))
		}
	})
}

// FuzzForwardedAddresses: whatever a proxy or an attacker says the address was,
// nobody is sent anywhere but to the waiting page, and from there to allowed hosts.
func FuzzForwardedAddresses(f *testing.F) {
	f.Add("https", "shop.example", "/cart", "")
	f.Add("https", "shop.example", "//evil.example", "https://evil.example")
	f.Add("javascript", "shop.example@evil", `\evil`, "https://shop.example\t@evil")
	f.Add("", "shop.example:443", "?x", "https://shop.example%00.evil.example/")
	f.Add("https", "SHOP.EXAMPLE", "/%zz", "HTTPS://shop.example#@evil.example/")
	r := newRig(f, quiet)
	f.Fuzz(func(t *testing.T, proto, host, uri, whole string) {
		c := passing.at("/v1/gate/demo?redirect=1").with("X-Entry-Token", "",
			"X-Forwarded-Proto", proto, "X-Forwarded-Host", host, "X-Forwarded-Uri", uri, "X-Original-URL", whole)
		w := r.do(t, c)
		require.Equal(t, http.StatusFound, w.Code)
		location, err := url.Parse(w.Header().Get("Location"))
		require.NoError(t, err)
		require.Equal(t, "https://wait.example/e/demo", location.Scheme+"://"+location.Host+location.Path)
		allowed(t, location.Query().Get("return_to"))

		for _, wanted := range []string{whole, uri, proto + "://" + host + uri} {
			got := r.destination(wanted)
			if strings.HasPrefix(got, "/") {
				require.False(t, strings.HasPrefix(got, "//") || strings.ContainsAny(got, "\\\r\n\t"), "%q", got)
				continue
			}
			allowed(t, got)
		}
	})
}

// allowed reads an address as a browser would: a backslash is a slash, tabs and
// line ends are not there.
func allowed(t *testing.T, address string) {
	t.Helper()
	if address == "" {
		return
	}
	seen := strings.NewReplacer("\\", "/", "\t", "", "\n", "", "\r", "").Replace(address)
	u, err := url.Parse(seen)
	require.NoError(t, err, "%q", address)
	require.True(t, u.Scheme == "http" || u.Scheme == "https", "%q", address)
	require.Nil(t, u.User)
	require.True(t, slices.Contains([]string{"wait.example", "shop.example"}, strings.ToLower(u.Host)), "%q leads to %q", address, u.Host)
}

func FuzzPaths(f *testing.F) {
	for _, p := range []string{"/v1/events/demo", "/v1/events/%2e%2e/seats", "/assets/../x", "/e/%00", "/v1/gate/demo/%2f..", "//", "/v1/events/demo/reservations/%ff", "/v1/ops/events/demo/audit?limit=x&after=%00"} {
		f.Add(p)
	}
	r := newRig(f, quiet)
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || u.Host != "" || !strings.HasPrefix(path, "/") {
			return
		}
		for _, method := range []string{"GET", "POST", "DELETE"} {
			req := httptest.NewRequestWithContext(t.Context(), method, "/", http.NoBody)
			req.URL = u
			req.Header.Set("Authorization", "Bearer "+testOperator)
			w := httptest.NewRecorder()
			r.Handler().ServeHTTP(w, req)
			ownAnswer(t, w)
		}
	})
}
