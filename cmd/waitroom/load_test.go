package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// crowd runs `waitroom load` to its end and returns its report.
func crowd(t *testing.T, targets []*instance, args ...string) (report map[string]any, printed string, err error) {
	t.Helper()
	bin, buildErr := binary()
	require.NoError(t, buildErr)
	urls := make([]string, len(targets))
	for i, s := range targets {
		urls[i] = s.url
	}
	file := filepath.Join(t.TempDir(), "report.json")
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
		"id": "rush", "rate_per_s": 40, "limits": map[string]any{"address": "20/1m"},
		"tickets": map[string]any{"kind": "seats", "sections": []map[string]any{{"id": "A", "rows": 20, "seats_per_row": 20}}},
	})
	require.Equal(t, http.StatusCreated, status, body)
	r, printed, err := crowd(t, instances, "--event", "rush", "--users", "250", "--ramp", "2s", "--hold", "200ms",
		"--profile", "burst", "--away", "0.1", "--leave", "0.1", "--refresh", "0.2", "--tabs", "0.2", "--poll", "0.2",
		"--deaf", "0.02", "--bots", "0.02", "--forwarded", "--sample", "0.3")
	require.NoError(t, err, printed)
	require.Equal(t, true, r["ok"], printed)
	counts, bots := r["counts"].(map[string]any), r["bots"].(map[string]any)
	for _, name := range []string{"bought", "left_line", "reloads", "tabs", "deaf", "polls", "reconnects"} {
		require.Positive(t, counts[name], "%s\n%s", name, printed)
	}
	require.Zero(t, counts["failed"], printed)
	require.Greater(t, bots["refused"], bots["calls"].(float64)/2, printed)
}
