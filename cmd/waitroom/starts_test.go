package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Below its threshold an event lets everybody through, whatever its rate: one
// redirect, no wait. At the site's load people wait, and pass again after the calm.
func TestWaitingStartsByItself(t *testing.T) {
	t.Parallel()
	s := startInstance(t, "--origins", "https://shop.example")
	s.create("busy", facts{"rate_per_s": 0, "starts": facts{"usage": 0.8, "arrivals_per_s": 500, "keep": "1s"}, "load": facts{"stale_after": "1m"}})
	report := func(body string) {
		status, _, raw := request{"PUT", "/v1/events/busy/load", body, bearerOf(siteKey)}.send(t, s)
		require.Equal(t, http.StatusNoContent, status, string(raw))
	}
	report(`{"pool_usage":0.3}`)
	status, header, _ := request{method: "GET", path: "/v1/gate/busy?redirect=1", header: map[string]string{"X-Original-URL": "https://shop.example/"}}.send(t, s)
	require.Equal(t, http.StatusFound, status)
	require.Contains(t, header.Get("Location"), "/e/busy?return_to=")
	passer := join(t, s, "busy")
	until(t, 10*time.Second, "nobody waits, at a rate of 0", func() bool { return passer.me(s)["state"] == "admitted" })
	report(`{"pool_usage":0.85}`)
	until(t, 10*time.Second, "the console says that people wait, and why", func() bool {
		decision, _ := s.metrics("busy")["decision"].(map[string]any)
		return decision["starts"] == "usage" && decision["pass_through"] == nil
	})
	waits := join(t, s, "busy")
	stays(t, "people wait", func() bool { return waits.me(s)["state"] == "waiting" })
	report(`{"pool_usage":0.2}`)
	until(t, 20*time.Second, "everybody passes again", func() bool { return waits.me(s)["state"] == "admitted" })
	require.Contains(t, s.logs(), "waiting started")
	require.Contains(t, s.logs(), "everybody passes")
}
