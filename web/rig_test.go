package web

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a server among fakes.
type rig struct {
	*Server
	line    *fakeLine
	ops     *fakeOperations
	view    *fakeView
	tickets *fakeTickets
	load    *fakeLoad
	logs    *observer.ObservedLogs
}

func testPages() fstest.MapFS {
	return fstest.MapFS{
		"index.html":    {Data: []byte("<!doctype html><title>wait</title>")},
		"shop.html":     {Data: []byte("<!doctype html><title>shop</title>")},
		"console.html":  {Data: []byte("<!doctype html><title>console</title>")},
		"assets/app.js": {Data: []byte("export {}")},
	}
}

func newRig(tb testing.TB, change ...func(*Config, *Deps)) *rig {
	tb.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	r := &rig{
		line: &fakeLine{}, ops: &fakeOperations{}, tickets: &fakeTickets{}, load: &fakeLoad{}, logs: logs,
		view: &fakeView{position: 3, event: waitroom.Event{
			Settings: waitroom.Settings{ID: "demo", Name: "Demo", Mode: "queue", Order: "fifo", Identity: "anonymous", RatePerS: 20, Tickets: waitroom.TicketSettings{Kind: "seats"}},
			State:    waitroom.Open, Waiting: 5, Now: testNow,
		}},
	}
	reg := prometheus.NewRegistry()
	cfg := Config{
		PublicURL: testPublicURL, Origins: []string{"https://shop.example"}, AllowedRedirectHosts: []string{"shop.example"},
		OperatorToken: testOperator, OpenMetrics: true, SiteKey: testSite, Identity: identity.Config{Secret: strings.Repeat("k", 32)},
	}
	deps := Deps{
		Line: r.line, Operations: r.ops, View: r.view, Passes: fakePasses{}, Tickets: r.tickets, Books: fakeBooks{}, Webhooks: fakeWebhooks, Load: r.load, Hub: fakeHub{},
		Sample:       func(context.Context, waitroom.EventID) ([]byte, error) { return []byte(`{"waiting":5}`), nil },
		AdmissionLog: fakeAdmissionLog{}, Draws: fakeDraws{}, Pages: testPages(), Log: zap.New(core), Registerer: reg, Gatherer: reg,
	}
	r.view.fakeLine = r.line
	for _, f := range change {
		f(&cfg, &deps)
	}
	s, err := New(cfg, deps)
	require.NoError(tb, err)
	r.Server = s
	return r
}

// call is one request to make, and what it comes with.
type call struct {
	method, path, body string
	headers            map[string]string
}

func (c call) with(pairs ...string) call {
	headers := map[string]string{}
	maps.Copy(headers, c.headers)
	for i := 0; i < len(pairs); i += 2 {
		headers[pairs[i]] = pairs[i+1]
	}
	c.headers = headers
	return c
}

func (r *rig) do(tb testing.TB, c call) *httptest.ResponseRecorder {
	tb.Helper()
	req := httptest.NewRequestWithContext(tb.Context(), c.method, "http://wait.example"+c.path, bytes.NewReader([]byte(c.body)))
	if c.body == "" {
		req.Body, req.ContentLength = http.NoBody, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range c.headers {
		if v == "" {
			req.Header.Del(k)
			continue
		}
		req.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, req)
	return w
}

func problemIn(tb testing.TB, w *httptest.ResponseRecorder) problem {
	tb.Helper()
	require.Equal(tb, mimeProblem, w.Header().Get("Content-Type"), "body: %s", w.Body)
	var p problem
	dec := json.NewDecoder(w.Body)
	dec.DisallowUnknownFields()
	require.NoError(tb, dec.Decode(&p))
	return p
}
