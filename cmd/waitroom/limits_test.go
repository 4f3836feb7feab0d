package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// An installation may have default limits of its own: they hold for whatever its
// files and its operators say nothing of, and for nothing else.
func TestDefaultLimits(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.yaml")
	require.NoError(t, os.WriteFile(path, []byte("events: [{id: quiet}, {id: strict, limits: {person: 2/1s}}]"), 0o600))
	s := startInstance(t, "--default-limits", "person=61/1m,address=off", "--events", path)
	limits := func(body map[string]any) []any {
		of := body["limits"].(map[string]any)
		return []any{of["person"], of["address"], of["booking"]}
	}
	_, quiet := s.ops(http.MethodGet, "/quiet", nil)
	require.Equal(t, []any{"61/1m", "off", "60/1m"}, limits(quiet))
	_, strict := s.ops(http.MethodGet, "/strict", nil)
	require.Equal(t, []any{"2/1s", "off", "60/1m"}, limits(strict))
	require.Equal(t, []any{"61/1m", "off", "5/1m"}, limits(s.create("later", facts{"limits": facts{"booking": "5/1m"}})))
}

// Limits are on unless they are switched off, hold over all instances, and one
// person's flood is nobody else's.
func TestLimits(t *testing.T) {
	t.Parallel()
	store := redistest.Start(t, redistest.Config{})
	a, b := startInstance(t, "--redis", store.URL()), startInstance(t, "--redis", store.URL())
	loud, quiet := join(t, a, "demo"), join(t, b, "demo")
	poll := func(s *instance, p *person) (int, http.Header, map[string]any) {
		return call(t, http.MethodGet, s.url+"/v1/events/demo/entries/me", nil, map[string]string{"Authorization": "Bearer " + p.token})
	}
	refused := 0
	for i := range 40 { // far more than the burst of five a second, however slow the machine
		s := []*instance{a, b}[i%2]
		status, header, body := poll(s, loud)
		if status == http.StatusOK {
			continue
		}
		refused++
		require.Equal(t, http.StatusTooManyRequests, status, body)
		require.Equal(t, "rate_limited", body["code"])
		seconds, err := strconv.Atoi(header.Get("Retry-After"))
		require.NoError(t, err)
		require.Positive(t, seconds)
		require.Positive(t, body["retry_after_ms"])
	}
	require.Positive(t, refused)
	status, _, body := poll(a, quiet)
	require.Equal(t, http.StatusOK, status, body)
}
