package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Anybody can check the log of a running service, and of a file; what somebody did
// to the file, or to the log since, is found.
func TestVerifyLog(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	s.create("checked", facts{"rate_per_s": 1, "state": "open", "grace": "5m"}) // so that three are left to be let in by hand
	for range 30 {
		join(t, s, "checked")
	}
	status, _ := s.ops(http.MethodPost, "/checked/admit", facts{"count": 3})
	require.Equal(t, http.StatusOK, status)
	status, _ = s.ops(http.MethodPatch, "/checked", facts{"rate_per_s": 50})
	require.Equal(t, http.StatusOK, status)
	var head map[string]any
	until(t, 20*time.Second, "all are in, and the head is published", func() bool {
		head, _ = s.public("checked")["log"].(map[string]any)
		_, event := s.ops(http.MethodGet, "/checked", nil)
		return event["admitted"].(float64) == 30 && head != nil && head["n"].(float64) > 0
	})
	kept, err := json.Marshal(head)
	require.NoError(t, err)

	file := filepath.Join(t.TempDir(), "log.json")
	var out string
	until(t, 10*time.Second, "the log is sealed to its end", func() bool {
		var status int
		status, out, _ = runCommand(t, nil, "verify", "--log", "--target", s.url, "--event", "checked", "--head", string(kept), "--save", file)
		require.Zero(t, status, out)
		return strings.Contains(out, "30 people let in")
	})
	require.Contains(t, out, "by hand 3")
	require.Contains(t, out, "1 kept heads found in it")
	status, out, _ = runCommand(t, nil, "verify", "--log", "--bundle", file)
	require.Zero(t, status, out)
	for _, log := range []string{file, s.url + "/v1/events/checked/log"} { // and its people come again
		again := filepath.Join(t.TempDir(), "again.json")
		status, out, errs := runCommand(t, nil, "simulate", "--preset", "demo", "--log", log, "--json", again)
		require.Zero(t, status, "%s%s", out, errs)
		report, err := os.ReadFile(again)
		require.NoError(t, err)
		require.Regexp(t, `"people": ?30\b`, string(report))
	}

	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(raw), " by_hand ", " rate ", 1)), 0o600))
	status, out, errs := runCommand(t, nil, "verify", "--log", "--bundle", file)
	require.Equal(t, exitFailed, status)
	require.Contains(t, out, "the leaves are not those that the head covers")
	require.Contains(t, errs, "is not good")

	for args, want := range map[string]string{
		"simulate --preset demo --log nowhere.json":               "nowhere.json",
		"simulate --preset demo --log a.json --arrivals come.csv": "one of --arrivals and --log",
		"verify":       "give --bundle FILE, or --target",
		"verify --log": "give --bundle FILE, or --target",
		"verify --log --target http://127.0.0.1:1":                  "event: wants the id",
		"verify --log --bundle " + filepath.Join(t.TempDir(), "no"): "bundle:",
	} {
		status, _, errs := runCommand(t, nil, strings.Fields(args)...)
		require.Equal(t, exitUsage, status, args)
		require.Contains(t, errs, want)
	}
}
