package main

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// These tests ask a running service what the contract promises, as anybody outside
// may: by HTTP, sockets and the command line only.

// request is one call as a client writes it.
type request struct {
	method, path, body string
	header             map[string]string
}

// send makes the call on an instance; a body is JSON unless the header says otherwise.
func (r request) send(t *testing.T, s *instance) (int, http.Header, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.method, s.url+r.path, strings.NewReader(r.body))
	require.NoError(t, err)
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	client := oneCall()
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, res.Header, raw
}

// refused wants a refusal as RFC 9457 writes it, with a time to come back exactly
// where trying again is of use.
func (r request) refused(t *testing.T, s *instance, status int, code string) map[string]any {
	t.Helper()
	got, header, raw := r.send(t, s)
	require.Equal(t, status, got, "%s %s: %s", r.method, r.path, raw)
	require.Equal(t, "application/problem+json", header.Get("Content-Type"))
	require.Equal(t, "no-store", header.Get("Cache-Control"))
	var body map[string]any
	require.NoError(t, json.Unmarshal(raw, &body), string(raw))
	require.Equal(t, code, body["code"], string(raw))
	require.EqualValues(t, status, body["status"])
	if ms, again := body["retry_after_ms"].(float64); again {
		seconds, err := strconv.Atoi(header.Get("Retry-After"))
		require.NoError(t, err)
		require.InDelta(t, ms/1000, seconds, 1)
	} else {
		require.Empty(t, header.Get("Retry-After"))
	}
	if status == http.StatusUnauthorized {
		require.Equal(t, "Bearer", header.Get("WWW-Authenticate"))
	}
	if code == "invalid" {
		require.NotEmpty(t, body["errors"], "each wrong field is named")
	}
	return body
}

// bearerOf is the header that carries a token.
func bearerOf(token string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + token}
}

// facts are settings of an event, as the ops API takes them.
type facts map[string]any

// create makes an event by the ops API.
func (s *instance) create(id string, with facts) map[string]any {
	s.t.Helper()
	body := facts{"id": id, "rate_per_s": 1000}
	maps.Copy(body, with)
	status, answer := s.ops(http.MethodPost, "", body)
	require.Equal(s.t, http.StatusCreated, status, answer)
	return answer
}

// patch changes an event by the ops API.
func (s *instance) patch(id string, change facts) {
	s.t.Helper()
	status, answer := s.ops(http.MethodPatch, "/"+id, change)
	require.Equal(s.t, http.StatusOK, status, answer)
}

// public is the event as everybody sees it.
func (s *instance) public(id string) map[string]any {
	s.t.Helper()
	status, _, body := call(s.t, http.MethodGet, s.url+"/v1/events/"+id, nil, nil)
	require.Equal(s.t, http.StatusOK, status, body)
	return body
}

// inside asks until the person is let in.
func (p *person) inside(s *instance) *buyer {
	p.t.Helper()
	b := &buyer{person: p}
	until(p.t, time.Minute, "let in", func() bool {
		b.pass, _ = p.me(s)["entry_token"].(string)
		return b.pass != ""
	})
	return b
}

// newBuyer joins and waits to be let in.
func newBuyer(t *testing.T, s *instance, event string) *buyer {
	t.Helper()
	return join(t, s, event).inside(s)
}

// passes asks the gate.
func (b *buyer) passes(s *instance) int {
	b.t.Helper()
	status, _, _ := call(b.t, http.MethodGet, s.url+"/v1/gate/"+b.event, nil, b.header(""))
	return status
}

// Checks run in the contract's order, and each refusal is the table's.
func TestContractRefusals(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	s.create("shut", facts{"state": "closed"})
	s.create("drains", facts{"state": "draining"})
	s.create("later", facts{"opens_at": "2099-01-01T00:00:00Z", "lobby_opens_at": "2098-01-01T00:00:00Z"})
	s.create("sells-nothing", nil)
	s.create("other", nil)
	b := newBuyer(t, s, "demo")
	stranger := newBuyer(t, s, "other")
	revoked := newBuyer(t, s, "demo")
	status, _ := s.ops(http.MethodPost, "/demo/revoke", map[string]any{"jti": claimsOf(t, revoked.pass)["jti"]})
	require.Equal(t, http.StatusNoContent, status)
	blocked := join(t, s, "demo")
	status, _ = s.ops(http.MethodPost, "/demo/block", map[string]any{"entry_id": blocked.entry})
	require.Equal(t, http.StatusNoContent, status)

	huge := strings.Repeat("x", 64<<10+1)
	operator, site := bearerOf(operatorToken), bearerOf(siteKey)
	entry := func(token, key string) map[string]string {
		return map[string]string{"X-Entry-Token": token, "Idempotency-Key": key}
	}
	typed := func(kind string, header map[string]string) map[string]string {
		out := map[string]string{"Content-Type": kind}
		maps.Copy(out, header)
		return out
	}
	const (
		entries = "/v1/events/demo/entries"
		buy     = "/v1/events/demo/reservations"
		events  = "/v1/ops/events"
	)
	rows := []struct {
		name, method, path, body string
		header                   map[string]string
		status                   int
		code                     string
	}{
		{"route", "GET", "/v1/nothing", "", nil, 404, "not_found"},
		{"route before size", "POST", "/v1/nothing", huge, nil, 404, "not_found"},
		{"method", "PUT", entries, "", nil, 405, "method_not_allowed"},
		{"method before size", "PUT", entries, huge, nil, 405, "method_not_allowed"},
		{"method of ops before token", "PUT", events, "", nil, 405, "method_not_allowed"},
		{"event id that cannot be", "GET", "/v1/events/DEMO", "", nil, 404, "not_found"},
		{"broken event id", "GET", "/v1/events/%ff", "", nil, 404, "not_found"},
		{"no such event", "GET", "/v1/events/nope", "", nil, 404, "not_found"},
		{"no such event to join", "POST", "/v1/events/nope/entries", "", nil, 404, "not_found"},
		{"no such event's seats", "GET", "/v1/events/nope/seats", "", nil, 404, "not_found"},
		{"no such event's socket", "GET", "/v1/events/nope/live", "", nil, 404, "not_found"},
		{"no such page", "GET", "/e/demo/nothing", "", nil, 404, "not_found"},

		{"size before token", "POST", events, huge, nil, 413, "body_too_large"},
		{"size of join", "POST", entries, huge, nil, 413, "body_too_large"},
		{"token before body", "POST", buy, "{", nil, 401, "token_required"},
		{"ops token before body", "POST", events, "{", nil, 401, "token_required"},
		{"body before existence", "POST", "/v1/events/nope/entries", `{"x":1}`, nil, 422, "invalid"},
		{"body before existence of patch", "PATCH", events + "/nope", `{"x":1}`, operator, 422, "invalid"},
		{"body before existence of admit", "POST", events + "/nope/admit", `{"count":0}`, operator, 422, "invalid"},
		{"body before mode", "POST", "/v1/events/demo/tokens", `{"x":1}`, nil, 422, "invalid"},
		{"key before existence", "POST", buy + "/nope/payment", "", entry(b.pass, ""), 422, "invalid"},

		{"no place token", "GET", entries + "/me", "", nil, 401, "token_required"},
		{"bad place token", "GET", entries + "/me", "", bearerOf("x"), 401, "token_invalid"},
		{"place token of another event", "GET", entries + "/me", "", bearerOf(stranger.token), 401, "token_invalid"},
		{"entry token is no place token", "GET", entries + "/me", "", bearerOf(b.pass), 401, "token_invalid"},
		{"no place token to leave", "DELETE", entries + "/me", "", nil, 401, "token_required"},
		{"no entry token", "POST", buy, `{"quantity":1}`, nil, 401, "token_required"},
		{"bad entry token", "POST", buy, `{"quantity":1}`, entry("x", "k"), 401, "token_invalid"},
		{"place token is no entry token", "POST", buy, `{"quantity":1}`, entry(b.token, "k"), 401, "token_invalid"},
		{"entry token of another event", "POST", buy, `{"quantity":1}`, entry(stranger.pass, "k"), 403, "token_wrong_event"},
		{"revoked entry token", "POST", buy, `{"quantity":1}`, entry(revoked.pass, "k"), 403, "token_revoked"},
		{"gate without token", "GET", "/v1/gate/demo", "", nil, 401, "token_required"},
		{"gate with a place token", "GET", "/v1/gate/demo", "", bearerOf(b.token), 401, "token_invalid"},
		{"gate of another event", "GET", "/v1/gate/demo", "", bearerOf(stranger.pass), 403, "token_wrong_event"},
		{"gate, revoked", "GET", "/v1/gate/demo", "", bearerOf(revoked.pass), 403, "token_revoked"},
		{"operator token missing", "GET", events, "", nil, 401, "token_required"},
		{"site key is no operator token", "GET", events, "", site, 401, "token_invalid"},
		{"place token is no operator token", "GET", events, "", bearerOf(b.token), 401, "token_invalid"},
		{"entry token is no operator token", "GET", events, "", bearerOf(b.pass), 401, "token_invalid"},
		{"operator token is no site key", "PUT", "/v1/events/demo/load", `{"pool_usage":0.5}`, operator, 401, "token_invalid"},
		{"site key missing", "POST", "/v1/events/demo/sessions/x/complete", "", nil, 401, "token_required"},
		{"metrics without the token", "GET", "/metrics", "", nil, 401, "token_required"},
		{"write from a foreign page", "POST", entries, "", map[string]string{"Origin": "https://evil.example"}, 403, "forbidden"},

		{"not JSON", "POST", buy, `{"quantity":`, entry(b.pass, "k"), 400, "bad_json"},
		{"two JSON values", "POST", buy, `{"quantity":1}{}`, entry(b.pass, "k"), 400, "bad_json"},
		{"broken UTF-8", "POST", buy, "{\"seats\":[\"\xff\"]}", entry(b.pass, "k"), 400, "bad_json"},
		{"broken UTF-8 in join", "POST", entries, "{\"\xff\":1}", nil, 400, "bad_json"},
		{"broken UTF-8 in ops", "POST", events, "{\"id\":\"\xff\"}", operator, 400, "bad_json"},
		{"not application/json", "POST", buy, `{"quantity":1}`, typed("text/plain", entry(b.pass, "k")), 415, "unsupported_media_type"},
		{"join with a form", "POST", entries, "a=b", typed("application/x-www-form-urlencoded", nil), 415, "unsupported_media_type"},
		{"no object", "POST", buy, `[]`, entry(b.pass, "k"), 422, "invalid"},
		{"unknown field", "POST", buy, `{"quantity":1,"x":1}`, entry(b.pass, "k"), 422, "invalid"},
		{"field of another case", "POST", buy, `{"Quantity":1}`, entry(b.pass, "k"), 422, "invalid"},
		{"null", "POST", buy, `{"quantity":null}`, entry(b.pass, "k"), 422, "invalid"},
		{"wrong type", "POST", buy, `{"quantity":"1"}`, entry(b.pass, "k"), 422, "invalid"},
		{"half a ticket", "POST", buy, `{"quantity":0.5}`, entry(b.pass, "k"), 422, "invalid"},
		{"no ticket", "POST", buy, `{"quantity":0}`, entry(b.pass, "k"), 422, "invalid"},
		{"seats and quantity", "POST", buy, `{"quantity":1,"seats":["A-1-1"]}`, entry(b.pass, "k"), 422, "invalid"},
		{"neither", "POST", buy, `{}`, entry(b.pass, "k"), 422, "invalid"},
		{"a seat twice", "POST", buy, `{"seats":["A-1-1","A-1-1"]}`, entry(b.pass, "k"), 422, "invalid"},
		{"no idempotency key", "POST", buy, `{"quantity":1}`, entry(b.pass, ""), 422, "invalid"},
		{"key too long", "POST", buy, `{"quantity":1}`, entry(b.pass, strings.Repeat("k", 300)), 422, "invalid"},
		{"absurd load", "PUT", "/v1/events/demo/load", `{"pool_usage":1e9}`, site, 422, "invalid"},
		{"load that is none", "PUT", "/v1/events/demo/load", `{}`, site, 422, "invalid"},

		{"no such seat", "POST", buy, `{"seats":["Z-99"]}`, entry(b.pass, "k-seat"), 404, "not_found"},
		{"no such reservation", "GET", buy + "/nope", "", entry(b.pass, ""), 404, "not_found"},
		{"no such reservation to pay", "POST", buy + "/nope/payment", "", entry(b.pass, "k-pay"), 404, "not_found"},
		{"no such reservation to cancel", "DELETE", buy + "/nope", "", entry(b.pass, ""), 404, "not_found"},
		{"no such session", "POST", "/v1/events/demo/sessions/nope/complete", "", site, 404, "not_found"},
		{"load of no event", "PUT", "/v1/events/nope/load", `{"pool_usage":0.5}`, site, 404, "not_found"},
		{"patch of no event", "PATCH", events + "/nope", `{"rate_per_s":1}`, operator, 404, "not_found"},
		{"delete of no event", "DELETE", events + "/nope", "", operator, 404, "not_found"},
		{"metrics of no event", "GET", events + "/nope/metrics", "", operator, 404, "not_found"},
		{"admit of no entry", "POST", events + "/demo/admit", `{"entry_id":"nope"}`, operator, 404, "not_found"},
		{"revoke of no token", "POST", events + "/demo/revoke", `{"jti":"nope"}`, operator, 404, "not_found"},
		{"instant in a queue", "POST", "/v1/events/demo/tokens", "", nil, 409, "wrong_mode"},
		{"map of what sells nothing", "GET", "/v1/events/sells-nothing/seats", "", nil, 409, "wrong_mode"},

		{"not open yet", "POST", "/v1/events/later/entries", "", nil, 403, "not_open"},
		{"closed", "POST", "/v1/events/shut/entries", "", nil, 403, "closed"},
		{"draining", "POST", "/v1/events/drains/entries", "", nil, 403, "closed"},
		{"blocked", "POST", entries, "", bearerOf(blocked.token), 403, "blocked"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			body := request{row.method, row.path, row.body, row.header}.refused(t, s, row.status, row.code)
			again := row.code == "not_open"
			_, has := body["retry_after_ms"]
			require.Equal(t, again, has, "only what may be tried again says when")
		})
	}
}

// Wrong settings are refused with their names, and what a later version brings too.
func TestContractSettings(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	rows := []struct{ body, field string }{
		{`{"id":"UPPER"}`, "id"},
		{`{"id":""}`, "id"},
		{`{"id":"` + strings.Repeat("a", 65) + `"}`, "id"},
		{`{"id":"x","colour":"red"}`, "colour"},
		{`{"id":"x","rate_per_s":-1}`, "rate_per_s"},
		{`{"id":"x","rate_per_s":"many"}`, "rate_per_s"},
		{`{"id":"x","burst":0.5}`, "burst"},
		{`{"id":"x","claim_ttl":"soon"}`, "claim_ttl"},
		{`{"id":"x","claim_ttl":300}`, "claim_ttl"},
		{`{"id":"x","opens_at":"tomorrow"}`, "opens_at"},
		{`{"id":"x","opens_at":"2099-01-02T00:00:00Z","closes_at":"2099-01-01T00:00:00Z"}`, "closes_at"},
		{`{"id":"x","state":"asleep"}`, "state"},
		{`{"id":"x","mode":"random"}`, "mode"},
		{`{"id":"x","load":{"steps":[{"at":2,"rate_per_s":1}]}}`, "load.steps[0].at"},
		{`{"id":"x","load":{"law":"guess"}}`, "load.law"},
		{`{"id":"x","tickets":{"kind":"stock"}}`, "tickets.stock"},
		{`{"id":"x","tickets":{"per_user":0}}`, "tickets.per_user"},
		{`{"id":"x","redirect_url":"javascript:alert(1)"}`, "redirect_url"},
		{`{"id":"x","identity":"jwt"}`, "identity"}, // this service was given no secret for it
		{`{"id":"x","limits":{"person":"often"}}`, "limits.person"},
	}
	for _, row := range rows {
		body := request{"POST", "/v1/ops/events", row.body, bearerOf(operatorToken)}.refused(t, s, 422, "invalid")
		require.Equal(t, row.field, body["errors"].([]any)[0].(map[string]any)["field"], row.body)
	}
	made := s.create("defaults", facts{"rate_per_s": 10})
	for name, want := range map[string]any{
		"mode": "queue", "order": "fifo", "identity": "anonymous", "rate_per_s": 10.0, "burst": 0.0, "max_active": 0.0,
		"claim_ttl": "5m", "session_ttl": "10m", "session": "fixed", "grace": "2m", "grace_mobile": "10m", "state": "open",
	} {
		require.Equal(t, want, made[name], name)
	}
	request{"POST", "/v1/ops/events", `{"id":"defaults"}`, bearerOf(operatorToken)}.refused(t, s, 409, "exists")

	demo := s.public("demo")
	require.EqualValues(t, 20, demo["rate_per_s"])
	require.GreaterOrEqual(t, demo["seats_left"], 1900.0)
	_, whole := s.ops(http.MethodGet, "/demo", nil)
	require.GreaterOrEqual(t, whole["max_active"], 1000.0)
	require.EqualValues(t, 2, whole["tickets"].(map[string]any)["per_user"])
}

// What everybody sees may be cached, and has an ETag that ignores the time.
func TestContractPublic(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	s.create("shown", facts{
		"name": "Shown", "state": "paused", "message": "hold on", "opens_at": "2020-01-01T00:00:00Z", "closes_at": "2099-01-01T00:00:00.5Z",
	})
	until(t, 10*time.Second, "the log of the event has its head", func() bool {
		_, _, body := call(t, http.MethodGet, s.url+"/v1/events/shown", nil, nil)
		return body["log"] != nil
	})
	status, header, raw := request{method: "GET", path: "/v1/events/shown"}.send(t, s)
	require.Equal(t, http.StatusOK, status)
	require.Regexp(t, `^public, max-age=[1-5]$`, header.Get("Cache-Control"))
	require.Empty(t, header.Values("Set-Cookie"))
	var body map[string]any
	require.NoError(t, json.Unmarshal(raw, &body))
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, body["now"])
	delete(body, "now")
	delete(body, "log") // signed, and checked by TestVerifyLog
	delete(body, "reason")
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, body["since"], "since when it is paused")
	delete(body, "since")
	require.Equal(t, map[string]any{
		"id": "shown", "name": "Shown", "mode": "queue", "order": "fifo", "state": "paused", "waiting": 0.0, "rate_per_s": 1000.0,
		"message": "hold on", "opens_at": "2020-01-01T00:00:00.000Z", "closes_at": "2099-01-01T00:00:00.500Z",
	}, body)

	tagged := request{method: "GET", path: "/v1/events/shown", header: map[string]string{"If-None-Match": header.Get("ETag")}}
	status, again, raw := tagged.send(t, s)
	require.Equal(t, http.StatusNotModified, status, "time alone changes nothing")
	require.Empty(t, raw)
	require.Equal(t, header.Get("ETag"), again.Get("ETag"))
	s.patch("shown", facts{"message": "nearly there"})
	until(t, 5*time.Second, "the change is seen", func() bool {
		status, _, _ := tagged.send(t, s)
		return status == http.StatusOK
	})

	for _, path := range []string{"/", "/e/demo", "/e/demo/shop", "/console"} {
		status, header, page := request{method: "GET", path: path}.send(t, s)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "public, max-age=300", header.Get("Cache-Control"), path)
		require.Empty(t, header.Values("Set-Cookie"))
		require.Equal(t, "nosniff", header.Get("X-Content-Type-Options"))
		policy := header.Get("Content-Security-Policy")
		require.Contains(t, policy, "script-src 'self'")
		require.NotContains(t, policy, "unsafe")
		_, _, other := request{method: "GET", path: path, header: map[string]string{"Cookie": "waitroom_place_demo=x", "Accept-Language": "de"}}.send(t, s)
		require.Equal(t, page, other, "the same bytes for everyone")
		require.NotRegexp(t, `<script(?:>|[^>]*[^c]>)[^<]`, string(page), "no inline script")
	}
	for path, want := range map[string]string{"/healthz": "json", "/readyz": "json", "/openapi.json": "json", "/.well-known/jwks.json": "json"} {
		status, header, _ := request{method: "GET", path: path}.send(t, s)
		require.Equal(t, http.StatusOK, status, path)
		require.Contains(t, header.Get("Content-Type"), want)
	}
	status, _, raw = request{method: "GET", path: "/metrics", header: bearerOf(operatorToken)}.send(t, s)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, string(raw), "waitroom_")
}

// Joining 50 times at once with one token keeps one place.
func TestContractJoinAtOnce(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	s.create("still", facts{"state": "paused"})
	p, behind := join(t, s, "still"), join(t, s, "still")
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			status, _, body := call(t, http.MethodPost, s.url+"/v1/events/still/entries", nil, bearerOf(p.token))
			if status != http.StatusOK || body["entry_id"] != p.entry {
				t.Errorf("joining again: %d %v", status, body)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, p.me(s)["position"])
	require.EqualValues(t, 2, behind.me(s)["position"])
	require.EqualValues(t, 2, behind.me(s)["waiting"])
}
