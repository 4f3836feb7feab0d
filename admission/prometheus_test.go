package admission

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// startPrometheus starts the real server, which scrapes the target five times a second.
func startPrometheus(t *testing.T, target string) (url string, server *os.Process) {
	t.Helper()
	redistest.Need(t, "prometheus")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := free.Addr().String()
	require.NoError(t, free.Close())
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 200ms, scrape_timeout: 200ms}
scrape_configs:
  - job_name: site
    static_configs: [{targets: [%q]}]
`, target), 0o600))
	cmd := exec.Command("prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+addr, "--log.level=error")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	until(t, "prometheus is ready", func() bool {
		res, err := fresh.Get("http://" + addr + "/-/ready")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return "http://" + addr, cmd.Process
}

// On the real server: a figure comes, follows the site, is unknown where the
// expression makes none, and goes when the site can be scraped no longer.
func TestPrometheusOnTheRealServer(t *testing.T) {
	t.Parallel()
	var page atomic.Value
	page.Store("busy 30\nmost 40\nempty 0\nload{event=\"a\"} 0.2\nload{event=\"b\"} 0.9\n")
	var down atomic.Bool
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = fmt.Fprint(w, page.Load())
	}))
	t.Cleanup(site.Close)
	url, server := startPrometheus(t, strings.TrimPrefix(site.URL, "http://"))
	ask := func(query string) (*Prometheus, func(event string) load) {
		p, err := NewPrometheus(url, query)
		require.NoError(t, err)
		t.Cleanup(p.transport.CloseIdleConnections)
		return p, func(event string) load {
			p.ask(t.Context())
			ev := waitroom.Event{}
			ev.ID, ev.Load.StaleAfter = waitroom.EventID(event), waitroom.Duration(3*time.Second)
			return gather(t.Context(), []Source{p}, ev)
		}
	}
	_, ratio := ask("busy / most")
	until(t, "the figure", func() bool { l := ratio("a"); return l.known && l.usage == 0.75 })
	page.Store("busy 50\nmost 40\nempty 0\nload{event=\"a\"} 0.3\nload{event=\"b\"} 0.9\n")
	until(t, "the figure follows, also above one", func() bool { return ratio("a").usage == 1.25 })
	_, each := ask("load")
	until(t, "each event has its own", func() bool { return each("a").usage == 0.3 && each("b").usage == 0.9 })
	require.False(t, each("c").expected, "and others have none")
	_, scalar := ask("scalar(busy) / 100")
	require.InDelta(t, 0.5, scalar("a").usage, 1e-9)
	for query, why := range map[string]string{
		"empty / empty":               "makes no sense",
		"0 - busy":                    "makes no sense",
		"busy / 0":                    "makes no sense",
		"nothing_of_this_name":        "no sample",
		`{__name__=~"busy|most"}`:     "2 samples",
		`busy[5m]`:                    "want one number",
		`busy / (`:                    "parse error",
		`load or load{event="a"} * 0`: "",
	} {
		_, odd := ask(query)
		l := odd("a")
		require.True(t, l.expected, query)
		require.Equal(t, why == "", l.known, "%s: %+v", query, l)
		require.Contains(t, l.detail, why, query)
	}
	down.Store(true)
	until(t, "a site that cannot be scraped has no figure", func() bool { l := ratio("a"); return !l.known && strings.Contains(l.detail, "no sample") })
	down.Store(false)
	until(t, "it comes back", func() bool { return ratio("a").known })

	require.NoError(t, server.Kill())
	until(t, "the server is gone: the figure grows old", func() bool { l := ratio("a"); return !l.known && strings.Contains(l.detail, " old") })
	require.Contains(t, ratio("a").signals[0].Fault, " old")
}

// What hangs or stands still is found by the age of its last sign of life.
func TestPrometheusThatHangsOrStandsStillGrowsOld(t *testing.T) {
	t.Parallel()
	var frozen, hung atomic.Bool
	moment := time.Now()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else nobody sees the caller hang up
		if hung.Load() {
			<-r.Context().Done()
			return
		}
		if !frozen.Load() {
			moment = moment.Add(time.Second)
		}
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[%d,"0.5"]}]}}`, moment.Unix())
	}))
	t.Cleanup(server.Close)
	p, err := NewPrometheus(server.URL, "x")
	require.NoError(t, err)
	t.Cleanup(p.transport.CloseIdleConnections)
	reading := func() Reading {
		r, err := p.Usage(t.Context(), waitroom.Event{})
		require.NoError(t, err)
		return r
	}
	p.ask(t.Context())
	first := reading()
	require.InDelta(t, 0.5, first.Usage, 1e-9)
	p.ask(t.Context())
	second := reading()
	require.True(t, second.At.After(first.At))
	frozen.Store(true)
	p.ask(t.Context())
	require.Equal(t, second.At, reading().At, "the same moment again is no news")
	frozen.Store(false)
	hung.Store(true)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	p.ask(short)
	require.Equal(t, second.At, reading().At)

	for _, bad := range [][2]string{{"http://[::1", "x"}, {"http://127.0.0.1:9090", ""}} {
		_, err := NewPrometheus(bad[0], bad[1])
		require.ErrorContains(t, err, "prometheus:")
	}
}
