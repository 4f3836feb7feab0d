package main

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

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
