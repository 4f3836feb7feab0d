package main

import (
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// A manual pause always wins and survives restarts: of every process, by a crash,
// against an events file that says open; and so do the rate and an event made by hand.
func TestPauseSurvivesRestarts(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]func(t *testing.T) []string{
		"redis":    realServers.flags,
		"embedded": func(t *testing.T) []string { t.Helper(); return []string{"--data", filepath.Join(t.TempDir(), "data")} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags := append(kept(t), "--events", writeFile(t, "e.yaml", "events: [{id: planned, rate_per_s: 500}]\n"))
			s := startInstance(t, flags...)
			s.create("by-hand", facts{"rate_per_s": 300})
			s.create("gone", nil)
			for _, id := range []string{"planned", "by-hand"} {
				s.patch(id, facts{"state": "paused"})
			}
			s.patch("planned", facts{"rate_per_s": 77})
			status, _ := s.ops(http.MethodDelete, "/gone", nil)
			require.Equal(t, http.StatusNoContent, status)
			if name == "embedded" {
				until(t, 10*time.Second, "the events are kept", func() bool {
					events, err := readKept(filepath.Join(flags[1], "events.json"))
					return err == nil && len(events) == 2 && events[0].State == waitroom.Paused && events[1].Settings.RatePerS == 77 && events[1].State == waitroom.Paused
				})
			}
			for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
				p := join(t, s, "planned")
				s.signal(sig)
				<-s.done
				s = startInstance(t, flags...)
				require.Equal(t, "paused", s.public("planned")["state"])
				require.Equal(t, "paused", s.public("by-hand")["state"])
				require.EqualValues(t, 77, s.public("planned")["rate_per_s"])
				status, _ := s.ops(http.MethodGet, "/gone", nil)
				require.Equal(t, http.StatusNotFound, status, "what was deleted stays so")
				require.Equal(t, "waiting", p.me(s)["state"])
			}
			until(t, 20*time.Second, "a leader is there", func() bool { return s.metrics("planned")["leading"] == true })
			ev := s.metrics("planned")
			require.EqualValues(t, 0, ev["admitted"], "nobody came in meanwhile")
			s.patch("planned", facts{"state": "open"})
			until(t, 20*time.Second, "it goes on", func() bool { return s.metrics("planned")["waiting"] == 0.0 })
		})
	}
}

func TestKeptEventsBeginAgainAsTheyWere(t *testing.T) {
	t.Parallel()
	now := time.Now()
	past, later := now.Add(-time.Hour), now.Add(time.Hour)
	for _, row := range []struct {
		state  waitroom.State
		reason string
		closes *time.Time
		want   waitroom.State
	}{
		{waitroom.Paused, "operator", nil, waitroom.Paused},
		{waitroom.Paused, "operator", &past, waitroom.Paused},
		{waitroom.Scheduled, "schedule", nil, ""},
		{waitroom.Scheduled, "operator", nil, waitroom.Scheduled},
		{waitroom.Lobby, "schedule", &later, ""},
		{waitroom.Open, "schedule", &later, waitroom.Open},
		{waitroom.Open, "schedule", &past, ""},
	} {
		k := keptEvent{State: row.state, Reason: row.reason}
		k.Settings.ClosesAt = row.closes
		require.Equal(t, row.want, k.again(now), row)
	}
}

func TestKeptEventsThatCannotBeReadStopTheStart(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(data, "events.json"), []byte("{"), 0o600))
	status, _, stderr := runCommand(t, nil, "serve", "--addr", "127.0.0.1:0", "--data", data)
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "events.json", "a pause must not be lost without a word")
}
