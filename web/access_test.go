package web

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
	"github.com/waitroom-dev/waitroom/web/limit"
	"github.com/waitroom-dev/waitroom/web/operators"
)

// staffed is a rig with a real store of operators, and limits.
func staffed(t *testing.T) *rig {
	t.Helper()
	rdb := redistest.Mini(t)
	limiter, err := limit.New(limit.Config{CallTimeout: 20 * time.Second}, rdb, zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	return newRig(t, func(c *Config, d *Deps) {
		d.Operators, d.Limiter = operators.New(rdb, "", testOperator), limiter
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	})
}

// hire makes an operator by the owner's call, and gives their token.
func (r *rig) hire(t *testing.T, name string, role operators.Role) string {
	t.Helper()
	w := r.do(t, ops.by("POST").at("/v1/ops/operators").saying(fmt.Sprintf(`{"name":%q,"role":%q,"expires_in":"1h"}`, name, role)))
	require.Equal(t, http.StatusCreated, w.Code, "%s", w.Body)
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	var body struct {
		Token     string `json:"token"`
		CreatedBy string `json:"created_by"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	require.Equal(t, "operator", body.CreatedBy)
	return body.Token
}

// signedIn is the cookie of a session.
func (r *rig) signedIn(t *testing.T, token string) string {
	t.Helper()
	w := r.do(t, call{method: "POST", path: "/v1/ops/session"}.with("Authorization", "Bearer "+token))
	require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
	set := w.Header().Get("Set-Cookie")
	for _, attribute := range []string{"HttpOnly", "SameSite=Strict", "Path=/v1/ops", "Secure", "Max-Age="} {
		require.Contains(t, set, attribute)
	}
	require.NotContains(t, set, token)
	pair, _, _ := strings.Cut(set, ";")
	return pair
}

// doc.go promise 14: every call of the ops API needs a role, and one that may not is
// told so, by token and by session alike.
func TestPromise14RolesDecide(t *testing.T) {
	t.Parallel()
	r := staffed(t)
	tokens := map[operators.Role]string{}
	for _, role := range operators.Roles() {
		tokens[role] = r.hire(t, "the-"+string(role), role)
	}
	table := map[operators.Role][]call{
		operators.Viewer: {
			ops, ops.at("/v1/ops/events/demo"), ops.at("/v1/ops/events/demo/audit"), ops.at("/v1/ops/events/demo/audit?format=csv"),
			ops.at("/v1/ops/events/demo/metrics"), ops.at("/v1/ops/session"), ops.at("/v1/ops/events/demo/books"),
		},
		operators.Runner: {
			ops.by("PATCH").at("/v1/ops/events/demo").saying(`{"rate_per_s":5}`), ops.by("POST").saying(`{"id":"new"}`),
			ops.by("POST").at("/v1/ops/events/demo/admit").saying(`{"count":1}`), ops.by("POST").at("/v1/ops/events/demo/block").saying(`{"entry_id":"x"}`),
		},
		operators.Owner: {
			ops.by("DELETE").at("/v1/ops/events/demo"), ops.at("/v1/ops/operators"), ops.at("/v1/ops/operators/audit?limit=5"),
			ops.by("POST").at("/v1/ops/operators").saying(`{"name":"x","role":"owner"}`), ops.by("DELETE").at("/v1/ops/operators/x"),
		},
	}
	for _, role := range operators.Roles() {
		session := r.signedIn(t, tokens[role])
		for need, calls := range table {
			for _, c := range calls {
				for _, c := range []call{c.with("Authorization", "Bearer "+tokens[role]), c.with("Authorization", "", "Cookie", session)} {
					w := r.do(t, c)
					if role.May(need) {
						require.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, w.Code, "%s: %s %s: %s", role, c.method, c.path, w.Body)
						continue
					}
					require.Equal(t, "forbidden", problemIn(t, w).Code, "%s: %s %s", role, c.method, c.path)
				}
			}
		}
	}
	for route := range r.table { // no route of the ops API was forgotten
		if !strings.HasPrefix(route.path, routeOps) || route.path == routeSession {
			continue
		}
		path := strings.NewReplacer(":event", "demo", ":name", "heap").Replace(route.path)
		require.Equal(t, http.StatusUnauthorized, r.do(t, call{method: route.method, path: path}).Code, "%v", route)
	}
	require.Equal(t, http.StatusUnauthorized, r.do(t, call{method: "GET", path: "/v1/ops/session"}).Code)
}

// The trail names the operator, and the token's end ends everything.
func TestTheTrailNamesTheOperator(t *testing.T) {
	t.Parallel()
	r := staffed(t)
	token := r.hire(t, "bob", operators.Runner)
	session := r.signedIn(t, token)
	patch := ops.by("PATCH").at("/v1/ops/events/demo").saying(`{"rate_per_s":5}`)
	require.Equal(t, http.StatusOK, r.do(t, patch.with("Authorization", "", "Cookie", session)).Code)
	require.Equal(t, "bob", r.ops.by)
	require.Equal(t, http.StatusOK, r.do(t, patch).Code)
	require.Equal(t, "operator", r.ops.by, "the token of the start")

	live := ops.at("/v1/ops/events/demo/live")
	for _, mine := range []call{live, live.with("Authorization", "Bearer "+token), live.with("Authorization", "", "Cookie", session)} {
		require.Equal(t, "ops demo", r.do(t, mine).Body.String())
	}
	fired := func() { require.NoError(t, r.deps.Operators.Revoke(t.Context(), "bob", "ann")) }
	r.deps.Hub = fakeHub{fired}
	require.Equal(t, "ops demo until then", r.do(t, live.with("Authorization", "Bearer "+token)).Body.String(), "an open socket ends too")
	r.deps.Hub = fakeHub{}
	token = r.hire(t, "bob", operators.Runner)
	session = r.signedIn(t, token)
	r.deps.Hub = fakeHub{fired}
	require.Equal(t, "ops demo until then", r.do(t, live.with("Authorization", "", "Cookie", session)).Body.String())
	r.deps.Hub = fakeHub{}
	token = r.hire(t, "bob", operators.Runner)
	session = r.signedIn(t, token)

	require.Equal(t, http.StatusNoContent, r.do(t, ops.by("DELETE").at("/v1/ops/operators/bob")).Code)
	require.Equal(t, http.StatusUnauthorized, r.do(t, patch.with("Authorization", "Bearer "+token)).Code)
	require.Equal(t, http.StatusUnauthorized, r.do(t, patch.with("Authorization", "", "Cookie", session)).Code)
	r.refusedFor(t, ops.by("DELETE").at("/v1/ops/operators/bob"), "not_found")
	r.hire(t, "bob", operators.Viewer)
	r.refusedFor(t, ops.by("POST").at("/v1/ops/operators").saying(`{"name":"bob","role":"viewer"}`), "exists")
	r.refusedFor(t, ops.by("POST").at("/v1/ops/operators").saying(`{"name":"eve","role":"god"}`), "invalid")
	r.refusedFor(t, ops.by("POST").at("/v1/ops/operators").saying(`{"name":"eve","role":"viewer","expires_in":"soon"}`), "invalid")
	for _, entry := range r.logs.All() {
		require.NotContains(t, fmt.Sprint(entry), token)
	}
}

// doc.go promise 15: an operator's cookie counts for our own pages only, whatever
// origins may use the fans' API, and signing out ends it.
func TestPromise15TheConsolesCookieIsOurPagesOwn(t *testing.T) {
	t.Parallel()
	r := staffed(t)
	session := r.signedIn(t, testOperator)
	patch := ops.by("PATCH").at("/v1/ops/events/demo").saying(`{"rate_per_s":5}`).with("Authorization", "", "Cookie", session)
	live := ops.at("/v1/ops/events/demo/live").with("Authorization", "", "Cookie", session)
	for why, from := range map[string][]string{
		"an origin of the fans'": {"Origin", "https://shop.example"},
		"another port":           {"Origin", "https://wait.example:8443"},
		"a neighbour":            {"Origin", "https://evil.wait.example", "Sec-Fetch-Site", "same-site"},
		"anybody":                {"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"},
		"a sandboxed frame":      {"Origin", "null"},
	} {
		for _, c := range []call{patch, live} {
			require.Equal(t, "forbidden", problemIn(t, r.do(t, c.with(from...))).Code, why)
		}
	}
	for _, from := range [][]string{{}, {"Origin", testPublicURL}, {"Origin", testPublicURL, "Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"}} {
		require.Equal(t, http.StatusOK, r.do(t, patch.with(from...)).Code, "%v", from)
		require.Equal(t, http.StatusOK, r.do(t, live.with(from...)).Code, "%v", from)
	}
	w := r.do(t, call{method: "DELETE", path: "/v1/ops/session"}.with("Cookie", session))
	require.Equal(t, http.StatusNoContent, w.Code)
	require.Contains(t, w.Header().Get("Set-Cookie"), "Max-Age=0")
	r.refusedFor(t, patch, "token_expired")
}

// Thirty wrong tokens a minute from one address, then none is looked at for a moment;
// who has the right one of the start is never locked out.
func TestSignInIsLimited(t *testing.T) {
	t.Parallel()
	r := staffed(t)
	bob := r.hire(t, "bob", operators.Viewer)
	from := func(addr, token string) *httptest.ResponseRecorder {
		return r.do(t, call{method: "POST", path: "/v1/ops/session"}.with("Authorization", "Bearer "+token, "X-Forwarded-For", addr))
	}
	wrong := "wrop-bob-" + strings.Repeat("A", 26)
	for tries := 1; ; tries++ {
		w := from("198.51.100.7", wrong)
		if w.Code == http.StatusTooManyRequests {
			require.Greater(t, tries, 30)
			require.NotEmpty(t, w.Header().Get("Retry-After"))
			break
		}
		require.Equal(t, http.StatusUnauthorized, w.Code)
		require.Less(t, tries, 5000)
	}
	require.Equal(t, http.StatusOK, from("198.51.100.8", bob).Code, "another address")
	require.Equal(t, http.StatusOK, from("198.51.100.7", testOperator).Code)
}

// The whole trail as a file that other programs read.
func TestAuditExport(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ops.trail = []waitroom.AuditRecord{
		{ID: "1-0", At: testNow, By: "bob", What: "patch", Before: `{"rate_per_s":1}`, After: `{"message":"a, \"b\"` + "\n" + `c"}`},
		{ID: "2-0", At: testNow, By: "=cmd", What: "block", After: "x"},
	}
	w := r.do(t, ops.at("/v1/ops/events/demo/audit?format=csv"))
	require.Equal(t, "text/csv; charset=utf-8", w.Header().Get("Content-Type"))
	require.Equal(t, `attachment; filename="demo-audit.csv"`, w.Header().Get("Content-Disposition"))
	rows, err := csv.NewReader(w.Body).ReadAll()
	require.NoError(t, err)
	require.Equal(t, [][]string{
		{"id", "at", "by", "what", "before", "after"},
		{"1-0", "2026-05-01T12:00:00.250Z", "bob", "patch", `{"rate_per_s":1}`, `{"message":"a, \"b\"` + "\n" + `c"}`},
		{"2-0", "2026-05-01T12:00:00.250Z", "'=cmd", "block", "", "x"},
	}, rows)
	w = r.do(t, ops.at("/v1/ops/events/demo/audit?format=jsonl"))
	lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	require.Len(t, lines, 2)
	require.JSONEq(t, `{"id":"2-0","at":"2026-05-01T12:00:00.250Z","by":"=cmd","what":"block","before":"","after":"x"}`, lines[1])
	r.refusedFor(t, ops.at("/v1/ops/events/demo/audit?format=xml"), "invalid")

	r.ops.trail = []waitroom.AuditRecord{}
	for _, form := range []string{"", "?format=csv", "?format=jsonl"} {
		require.Equal(t, http.StatusOK, r.do(t, ops.at("/v1/ops/events/demo/audit"+form)).Code, "it is there")
		r.refusedFor(t, ops.at("/v1/ops/events/nosuch/audit"+form), "not_found")
	}
}
