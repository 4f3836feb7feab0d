package web

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web/identity"
)

func attemptField(n int) zap.Field { return zap.Int("attempt", n) }

func TestConfigNamesEveryFault(t *testing.T) {
	t.Parallel()
	err := Config{
		PublicURL: "ftp://x", Origins: []string{"shop.example", "https://shop.example/path"}, AllowedRedirectHosts: []string{"https://shop.example"},
		Identity: identity.Config{Secret: "short"},
	}.Validate()
	for _, want := range []string{"public-url", `origins: "shop.example"`, `origins: "https://shop.example/path"`, "allowed-redirect-hosts", "operator-token", "identity-secret"} {
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, Config{PublicURL: "https://wait.example/", OperatorToken: testOperator, Origins: []string{"http://localhost:3000"}}.Validate())
	require.ErrorContains(t, Config{PublicURL: "https://wait.example/sub", OperatorToken: testOperator}.Validate(), "path")

	_, err = New(Config{PublicURL: testPublicURL, OperatorToken: testOperator}, Deps{})
	require.ErrorContains(t, err, "web needs line")
}

func TestOriginsAreWrittenAsBrowsersDo(t *testing.T) {
	t.Parallel()
	origins, err := Config{PublicURL: "https://Wait.Example:443", Origins: []string{"http://shop.example:80", "http://shop.example:8080"}}.OwnOrigins()
	require.NoError(t, err)
	require.Equal(t, []string{"https://wait.example", "http://shop.example", "http://shop.example:8080"}, origins)
}

func TestPagesMustBeWhole(t *testing.T) {
	t.Parallel()
	_, err := loadPages(fstest.MapFS{"index.html": {Data: []byte("x")}})
	require.ErrorContains(t, err, "shop.html is missing")
}

// TestRunFinishesWhatRuns: a request that runs when the stop comes is answered.
func TestRunFinishesWhatRuns(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := newRig(t, func(_ *Config, d *Deps) { d.Listener = listener })
	arrived, release := make(chan struct{}), make(chan struct{})
	r.line.join = func(req waitroom.JoinRequest) (waitroom.Place, error) {
		close(arrived)
		<-release
		return annsPlace(req.Event), nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()

	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST /v1/events/demo/entries HTTP/1.1\r\nHost: wait.example\r\nContent-Length: 0\r\n\r\n")
	require.NoError(t, err)
	<-arrived
	cancel()
	for !r.draining.Load() {
		time.Sleep(time.Millisecond)
	}
	close(release)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.NoError(t, <-ended)
}

func TestRunCutsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := newRig(t, func(c *Config, d *Deps) { d.Listener, c.ShutdownTimeout = listener, time.Millisecond })
	arrived, release := make(chan struct{}), make(chan struct{})
	r.line.join = func(req waitroom.JoinRequest) (waitroom.Place, error) {
		close(arrived)
		<-release
		return annsPlace(req.Event), nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST /v1/events/demo/entries HTTP/1.1\r\nHost: wait.example\r\nContent-Length: 0\r\n\r\n")
	require.NoError(t, err)
	<-arrived
	cancel()
	require.NoError(t, <-ended)
	close(release)
	_, err = io.ReadAll(conn)
	require.True(t, err == nil || !strings.Contains(err.Error(), "timeout"))
}

// TestChunkedBodyIsBounded sends a body that does not say its length.
func TestChunkedBodyIsBounded(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := newRig(t, func(_ *Config, d *Deps) { d.Listener = listener })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+listener.Addr().String()+"/v1/events/demo/reservations",
		io.MultiReader(strings.NewReader(strings.Repeat(" ", defaultMaxBody)), strings.NewReader("{}")))
	require.NoError(t, err)
	require.Equal(t, int64(0), req.ContentLength)
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
	cancel()
	require.NoError(t, <-ended)
}

// TestOpenAPIIsWhole holds promise 11.
func TestOpenAPIIsWhole(t *testing.T) {
	t.Parallel()
	r := staffed(t)
	w := r.do(t, call{method: "GET", path: "/openapi.json"})
	require.Equal(t, http.StatusOK, w.Code)
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]struct{ Responses map[string]any }
		Components struct {
			Schemas struct {
				Code struct {
					Enum   []string
					Status map[string]string `json:"x-status"`
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &doc))
	require.Equal(t, "3.1.0", doc.OpenAPI)

	params := regexp.MustCompile(`:([a-z]+)`)
	routes := map[string]bool{}
	for _, route := range r.echo.Routes() {
		path := params.ReplaceAllString(strings.ReplaceAll(route.Path, "*", "{path}"), "{$1}")
		method := strings.ToLower(route.Method)
		routes[method+" "+path] = true
		gate := route.Path == routeGate || route.Path == routeGateRest
		if method == "head" || gate && method != "get" {
			continue
		}
		require.Contains(t, doc.Paths[path], method, "%s %s is not in the document", method, path)
		require.NotEmpty(t, doc.Paths[path][method].Responses)
	}
	for path, methods := range doc.Paths {
		for method := range methods {
			require.True(t, routes[method+" "+path], "%s %s is no route", method, path)
		}
	}

	codes := map[string]string{}
	for _, rf := range append(slices.Clone(refusals), invalid) {
		codes[rf.code] = http.StatusText(rf.status)
		require.Contains(t, doc.Components.Schemas.Code.Enum, rf.code)
		require.Equal(t, http.StatusText(rf.status), http.StatusText(atoi(t, doc.Components.Schemas.Code.Status[rf.code])), "%s", rf.code)
	}
	require.Len(t, doc.Components.Schemas.Code.Enum, len(codes), "a code that nobody says")
}

func atoi(tb testing.TB, s string) int {
	tb.Helper()
	var n int
	require.NoError(tb, json.Unmarshal([]byte(s), &n))
	return n
}
