package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/deploy/events"
)

func simulated(t *testing.T, status int, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	require.Equal(t, status, run(t.Context(), append([]string{"simulate"}, args...), &out, &errs), "%s", errs.String())
	return out.String() + errs.String()
}

func TestSimulateWritesWhatItSays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(at("other.yaml"), []byte("events:\n  - id: slower\n    rate_per_s: 5\n"), 0o600))
	require.NoError(t, os.WriteFile(at("come.csv"), []byte("seconds,people\n0,200\n60,100\n"), 0o600))
	args := []string{"--preset", "demo", "--compare", at("other.yaml"), "--arrivals", at("come.csv"), "--json", at("a.json"), "--html", at("a.html")}
	out := simulated(t, exitOK, args...)
	require.Contains(t, out, "slower")
	first, err := os.ReadFile(at("a.json"))
	require.NoError(t, err)
	page, err := os.ReadFile(at("a.html"))
	require.NoError(t, err)
	require.Contains(t, string(page), "<svg")
	simulated(t, exitOK, args...)
	again, err := os.ReadFile(at("a.json"))
	require.NoError(t, err)
	require.Equal(t, string(first), string(again))
}

func TestSimulateRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	require.Contains(t, simulated(t, exitUsage), "--preset and --config")
	require.Contains(t, simulated(t, exitUsage, "--preset", "nobody"), `preset: "nobody" is none of concert, `)
	require.Contains(t, simulated(t, exitUsage, "--preset", "demo", "--buy", "3"), "buy: must be")
	require.Contains(t, simulated(t, exitUsage, "--preset", "demo", "--arrivals", "missing.csv"), "missing.csv")
	require.Contains(t, simulated(t, exitUsage, "--preset", "game-login", "--mix", "moon=1"), "mix: must be of the lanes")
	require.Contains(t, simulated(t, exitUsage, "--preset", "game-login", "--mix", "eu=much"), "no weight")
	require.Contains(t, simulated(t, exitUsage, "plan", "--purchase", "1s"), "connections")
	require.Contains(t, simulated(t, exitOK, "plan", "--connections", "40", "--purchase", "12s"), "set rate_per_s: 2.5")
}

func TestEveryPresetCanBePlayed(t *testing.T) {
	t.Parallel()
	for _, name := range presetNames() {
		require.Contains(t, events.Crowds, name, "a preset has a crowd in deploy/events/crowds.go")
		require.Contains(t, simulated(t, exitOK, "--preset", name, "--people", "500"), "500")
	}
}
