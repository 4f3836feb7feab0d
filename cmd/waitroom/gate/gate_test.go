package gate

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/waitroom-dev/waitroom/web/guard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const rulesFile = `rules:
  - {path: /healthz, do: pass}
  - {path: /static/, do: pass}
  - {path: /static/secret, do: wait}
  - {address: 10.0.0.0/8, do: pass}
  - {header: "X-Probe: blue", method: HEAD, do: pass}
  - {path: /admin/, do: refuse}
`

// newGate guards a site that tells what it was asked; the service is away, so that
// only what a rule lets through reaches the site.
func newGate(t *testing.T, proxies ...netip.Prefix) http.Handler {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s user=%q entry=%q for=%q", r.Method, r.URL.Path,
			r.Header.Get("X-Waitroom-User")+r.Header.Get("X_Waitroom_User"), r.Header.Get("X-Waitroom-Entry")+r.Header.Get("X_Waitroom-Entry"),
			r.Header.Values("X-Forwarded-For"))
	}))
	t.Cleanup(site.Close)
	rules, err := ReadRules([]byte(rulesFile))
	require.NoError(t, err)
	h, err := New(Config{
		Upstream: site.URL, Rules: rules, Proxies: proxies,
		Guard: guard.Config{Service: "http://127.0.0.1:1", Event: "demo"},
	}, zaptest.NewLogger(t))
	require.NoError(t, err)
	return h
}

func ask(t *testing.T, h http.Handler, method, path, from string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	u, err := url.Parse("http://shop.example" + path)
	require.NoError(t, err)
	r := httptest.NewRequestWithContext(t.Context(), method, "http://shop.example/", nil)
	r.URL, r.RemoteAddr = u, from+":4711"
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestRulesDecideInOrder(t *testing.T) {
	t.Parallel()
	h := newGate(t)
	for _, c := range []struct {
		method, path, from string
		header             []string
		want               int
	}{
		{"GET", "/healthz", "192.0.2.1", nil, http.StatusOK},
		{"GET", "/healthz/", "192.0.2.1", nil, http.StatusUnauthorized},
		{"GET", "/static/a.css", "192.0.2.1", nil, http.StatusOK},
		{"GET", "/static/secret", "192.0.2.1", nil, http.StatusOK}, // the first that fits
		{"GET", "/static", "192.0.2.1", nil, http.StatusUnauthorized},
		{"GET", "/cart", "10.1.2.3", nil, http.StatusOK},
		{"GET", "/cart", "11.1.2.3", nil, http.StatusUnauthorized},
		{"HEAD", "/cart", "192.0.2.1", []string{"X-Probe", "blue"}, http.StatusOK},
		{"HEAD", "/cart", "192.0.2.1", []string{"X-Probe", "red"}, http.StatusUnauthorized},
		{"GET", "/cart", "192.0.2.1", []string{"X-Probe", "blue"}, http.StatusUnauthorized},
		{"GET", "/admin/users", "192.0.2.1", nil, http.StatusNotFound},
		{"GET", "/", "192.0.2.1", nil, http.StatusUnauthorized},
	} {
		require.Equal(t, c.want, ask(t, h, c.method, c.path, c.from, c.header...).Code, "%+v", c)
	}
}

// doc.go promise 1.
func TestPromise1NoOtherSpelling(t *testing.T) {
	t.Parallel()
	h := newGate(t)
	for _, path := range []string{
		"/static/../cart", "/static/..%2fcart", "/static/%2e%2e/cart", "//cart", "/static//../cart", "/static/./a", "/healthz/..", "/static/%2E%2E%2Fcart",
	} {
		require.Equal(t, http.StatusBadRequest, ask(t, h, "GET", path, "192.0.2.1").Code, path)
	}
	require.Equal(t, http.StatusOK, ask(t, h, "GET", "/static/a%20b", "192.0.2.1").Code)
}

// doc.go promise 2.
func TestPromise2NobodySpeaksForThemselves(t *testing.T) {
	t.Parallel()
	claims := []string{"X-Waitroom-User", "root", "X-Waitroom-Entry", "root", "X-Forwarded-For", "10.0.0.1"}
	w := ask(t, newGate(t), "GET", "/healthz", "192.0.2.1", claims...)
	require.Equal(t, `GET /healthz user="" entry="" for=["192.0.2.1"]`, w.Body.String())
	w = ask(t, newGate(t), "GET", "/healthz", "192.0.2.1", "X_Waitroom_User", "root", "x_waitroom-entry", "root")
	require.Equal(t, `GET /healthz user="" entry="" for=["192.0.2.1"]`, w.Body.String(), "nor in another spelling")
	require.Equal(t, http.StatusUnauthorized, ask(t, newGate(t), "GET", "/cart", "192.0.2.1", claims...).Code)
	w = ask(t, newGate(t, netip.MustParsePrefix("192.0.2.0/24")), "GET", "/cart", "192.0.2.1", claims...)
	require.Equal(t, `GET /cart user="" entry="" for=["10.0.0.1"]`, w.Body.String(), "a believed proxy does")
}

// doc.go promise 3.
func TestPromise3WrongRulesAreNamed(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"rules: [{path: /a, do: let}]":                       `rule 1: do: "let" is none of`,
		"rules: [{do: pass}]":                                "rule 1: name at least one",
		"rules: [{path: a, do: pass}]":                       `rule 1: path: "a" must begin with /`,
		"rules: [{path: /a/../b, do: pass}]":                 "rule 1: path:",
		"rules: [{path: /, do: pass}, {method: get, do: x}]": `rule 2: do: "x" is none of pass, wait, spend, refuse` + "\n" + `method: "get" must be in capitals`,
		"rules: [{address: ten, do: pass}]":                  `rule 1: address: "ten" is no network`,
		"rules: [{header: \"a b: c\", do: pass}]":            "rule 1: header:",
		"rules: [{paths: /, do: pass}]":                      "field paths not found",
		"rule: []":                                           "field rule not found",
	} {
		_, err := ReadRules([]byte(raw))
		require.ErrorContains(t, err, want, raw)
	}
	rules, err := ReadRules(nil)
	require.NoError(t, err)
	require.Empty(t, rules)
}

func FuzzReadRules(f *testing.F) {
	f.Add([]byte(rulesFile))
	f.Fuzz(func(t *testing.T, raw []byte) {
		rules, err := ReadRules(raw)
		if err != nil {
			return
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/a", nil)
		require.Contains(t, []Deed{Pass, Wait, Spend, Deny}, rules.of(r, netip.IPv4Unspecified()))
	})
}
