package main

import (
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// visitor joins and asks over HTTP, at whichever instance serves just now, and
// tries again where one has gone.
type visitor struct {
	at     *atomic.Pointer[instance]
	token  string
	passes map[string]bool // entry tokens
	ghosts int             // joins without an answer, of which nobody knows
}

// ask is one call; nil is no answer.
func (v *visitor) ask(t *testing.T, method, path string) map[string]any {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, v.at.Load().url+"/v1/events/roll"+path, http.NoBody)
	if err != nil {
		return nil
	}
	if v.token != "" {
		req.Header.Set("Authorization", "Bearer "+v.token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil
	}
	defer func() { _ = res.Body.Close() }()
	var body map[string]any
	if res.StatusCode >= 300 || json.NewDecoder(res.Body).Decode(&body) != nil {
		return nil
	}
	return body
}

// visit joins, and asks until it is let in; false if that does not come.
func (v *visitor) visit(t *testing.T) bool {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		method, path := http.MethodGet, "/entries/me"
		if v.token == "" {
			method, path = http.MethodPost, "/entries"
		}
		body := v.ask(t, method, path)
		if v.token == "" && body == nil {
			v.ghosts++
		}
		if token, ok := body["place_token"].(string); ok {
			v.token = token
		}
		if pass, ok := body["entry_token"].(string); ok {
			v.passes[pass] = true
			return true
		}
		select {
		case <-tick.C:
		case <-deadline:
			return false
		case <-t.Context().Done():
			return false
		}
	}
}

// Instances come and go while people join and are let in: one is added, one is
// stopped in good order, one is killed. Nobody loses a place, nobody has two turns.
func TestInstancesComeAndGoUnderLoad(t *testing.T) {
	t.Parallel()
	flags := []string{"--redis", redistest.Start(t, redistest.Config{}).URL(), "--limits", "off"}
	a, b := startInstance(t, flags...), startInstance(t, flags...)
	a.create("roll", facts{"rate_per_s": 30, "state": "paused"}) // until there is a crowd, however slowly it comes
	var at [3]atomic.Pointer[instance]
	for i, s := range []*instance{a, b, a} {
		at[i].Store(s)
	}
	people := make([]*visitor, 240)
	in := make([]bool, len(people))
	var wg sync.WaitGroup
	for i := range people {
		people[i] = &visitor{at: &at[i%3], passes: make(map[string]bool)}
		wg.Go(func() { in[i] = people[i].visit(t) })
	}
	metrics := func(s *instance) float64 { return s.metrics("roll")["waiting"].(float64) }
	until(t, 60*time.Second, "a crowd", func() bool { return metrics(b) > 150 })
	b.patch("roll", facts{"state": "open"})
	c := startInstance(t, flags...)
	at[0].Store(c)
	at[2].Store(b)
	a.signal(syscall.SIGTERM)
	require.Equal(t, exitOK, a.wait(20*time.Second))
	d := startInstance(t, flags...)
	at[1].Store(d)
	at[2].Store(c)
	b.signal(syscall.SIGKILL)
	wg.Wait()

	passes, ghosts := make(map[string]bool), 0
	for i, v := range people {
		require.True(t, in[i], "%d was not let in", i)
		require.Len(t, v.passes, 1)
		ghosts += v.ghosts
		for pass := range v.passes {
			require.False(t, passes[pass], "two have the same turn")
			passes[pass] = true
		}
	}
	until(t, 30*time.Second, "the line is empty", func() bool { return metrics(c) == 0 })
	inside := int(c.metrics("roll")["inside"].(float64))
	require.GreaterOrEqual(t, inside, len(people))
	require.LessOrEqual(t, inside, len(people)+ghosts, "one turn each")
}
