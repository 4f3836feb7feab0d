package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"
)

// crowd runs `waitroom load` to its end and returns its report, which is in file.
func crowd(t *testing.T, file string, targets []*instance, args ...string) (report map[string]any, printed string, err error) {
	t.Helper()
	bin, buildErr := binary()
	require.NoError(t, buildErr)
	urls := make([]string, len(targets))
	for i, s := range targets {
		urls[i] = s.url
	}
	cmd := exec.CommandContext(t.Context(), bin, append([]string{
		"load", "--target", strings.Join(urls, ","), "--operator-token", operatorToken, "--json", file,
	}, args...)...)
	cmd.Env = cleanEnviron()
	out, err := cmd.CombinedOutput()
	b, readErr := os.ReadFile(file)
	require.NoError(t, readErr, string(out))
	require.NoError(t, json.Unmarshal(b, &report))
	return report, string(out), err
}

// A crowd with every habit on two real instances, limits on: all promises hold, and
// the bots are refused without the people noticing.
func TestCrowdWithHabits(t *testing.T) {
	t.Parallel()
	flags := append(realServers.flags(t), "--limits", "on", "--proxies", "127.0.0.0/8")
	instances := []*instance{startInstance(t, flags...), startInstance(t, flags...)}
	status, body := instances[0].ops(http.MethodPost, "", map[string]any{
		"id": "rush", "rate_per_s": 40, "lanes": []map[string]any{{"name": "members", "rate_per_s": 30}, {"name": "public"}}, "limits": map[string]any{"address": "20/1m"},
		"tickets": map[string]any{"kind": "seats", "sections": []map[string]any{{"id": "A", "rows": 20, "seats_per_row": 20}}},
	})
	require.Equal(t, http.StatusCreated, status, body)
	file := filepath.Join(t.TempDir(), "report.json")
	r, printed, err := crowd(t, file, instances, "--event", "rush", "--users", "250", "--ramp", "2s", "--hold", "200ms",
		"--profile", "burst", "--away", "0.1", "--leave", "0.1", "--refresh", "0.2", "--tabs", "0.2", "--poll", "0.2",
		"--deaf", "0.02", "--bots", "0.02", "--forwarded", "--sample", "0.3", "--lanes", "members=2,public=1")
	require.NoError(t, err, printed)
	require.Equal(t, true, r["ok"], printed)
	require.Equal(t, map[string]any{"members": 2.0, "public": 1.0}, r["setup"].(map[string]any)["lanes"])
	counts, bots := r["counts"].(map[string]any), r["bots"].(map[string]any)
	for _, name := range []string{"bought", "left_line", "reloads", "tabs", "deaf", "polls", "reconnects"} {
		require.Positive(t, counts[name], "%s\n%s", name, printed)
	}
	require.Zero(t, counts["failed"], printed)
	require.Greater(t, bots["refused"], bots["calls"].(float64)/2, printed)
	require.NotEmpty(t, r["books"], "an operator's run ends with the books\n%s", printed)

	bin, err := binary()
	require.NoError(t, err)
	merged, err := exec.CommandContext(t.Context(), bin, "load", "merge", file).CombinedOutput()
	require.NoError(t, err, string(merged))
	require.Contains(t, string(merged), "\nOK")
	twice, err := exec.CommandContext(t.Context(), bin, "load", "merge", file, file).CombinedOutput()
	require.Error(t, err, "the same people twice are over the cap\n%s", twice)
	require.Contains(t, string(twice), "NOT OK: promise 3")
}

// One of two instances is killed under a crowd that waits: everybody is back on the
// other within a minute, and no second holds more than a tenth of those who come.
func TestLostInstanceBringsNoHerd(t *testing.T) {
	t.Parallel()
	flags := realServers.flags(t)
	instances := []*instance{startInstance(t, flags...), startInstance(t, flags...)}
	status, body := instances[0].ops(http.MethodPost, "", map[string]any{"id": "calm", "state": "paused"})
	require.Equal(t, http.StatusCreated, status, body)
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		<-time.After(5 * time.Second) // all have come, and were told their place
		instances[1].signal(syscall.SIGKILL)
	}()
	const people = 400
	r, printed, err := crowd(t, filepath.Join(t.TempDir(), "report.json"), instances, "--event", "calm", "--users", "400", "--ramp", "2s", "--limit", "21s",
		"--away", "0", "--max-errors", "1")
	<-killed
	require.NoError(t, err, printed)
	counts := r["counts"].(map[string]any)
	require.EqualValues(t, people, counts["joined"], printed)
	require.EqualValues(t, 0, counts["failed"], printed)
	encoded, known := r["histograms"].(map[string]any)["reconnect"].(string)
	require.True(t, known, printed)
	h, err := hdrhistogram.Decode([]byte(encoded))
	require.NoError(t, err)
	require.EqualValues(t, people/2, h.TotalCount(), "everybody of the lost instance is back\n%s", printed)
	most := int64(0)
	perSecond := map[int64]int64{}
	for _, bar := range h.Distribution() {
		second := bar.To / time.Second.Microseconds()
		perSecond[second] += bar.Count
		most = max(most, perSecond[second])
	}
	require.LessOrEqual(t, most, int64(people/2/10+people/2/20), "per second: %v", perSecond) // half as much again, for a busy machine
	require.Less(t, h.Max(), time.Minute.Microseconds())
}

// The crowd solves the puzzles of a real service, as pages do.
func TestCrowdSolvesChallenges(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	s.create("guarded", facts{"rate_per_s": 100, "challenge": facts{"kind": "altcha", "when": "on"}})
	r, printed, err := crowd(t, filepath.Join(t.TempDir(), "report.json"), []*instance{s},
		"--event", "guarded", "--users", "5", "--ramp", "100ms", "--hold", "50ms", "--buy", "0", "--sample", "1")
	require.NoError(t, err, printed)
	counts := r["counts"].(map[string]any)
	require.EqualValues(t, 5, counts["joined"], printed)
	require.EqualValues(t, 5, counts["solved"], printed)
}
