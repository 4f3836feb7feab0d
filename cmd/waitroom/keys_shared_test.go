package main

import (
	"net/http"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket/sqltest"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// Keys that two instances share through Redis are rotated while people wait and are
// inside: at every moment each instance knows the places and the tokens of the other, and
// a step that would come too early is refused.
func TestSharedKeysAreRotated(t *testing.T) {
	t.Parallel()
	store := redistest.Start(t, redistest.Config{}).URL()
	flags := []string{"--redis", store, "--database", sqltest.Postgres(t), "--limits", "off"}
	keys := func(status int, args ...string) string {
		t.Helper()
		got, stdout, stderr := runCommand(t, nil, append([]string{"keys"}, args...)...)
		require.Equal(t, status, got, "%v: %s%s", args, stdout, stderr)
		return stdout + stderr
	}
	a, b := startInstance(t, flags...), startInstance(t, flags...)
	restart := func(s *instance) *instance {
		s.signal(syscall.SIGTERM)
		require.Zero(t, s.wait(20*time.Second))
		return startInstance(t, flags...)
	}
	a.create("held", facts{"state": "paused"})
	a.create("swift", facts{"rate_per_s": 100})
	type holder struct{ place, pass string }
	var all []holder
	arrive := func(s *instance) {
		t.Helper()
		var h holder
		until(t, 10*time.Second, "a place", func() bool { // an instance that has just started may not know the event yet
			status, _, body := call(t, http.MethodPost, s.url+"/v1/events/held/entries", nil, nil)
			h.place, _ = body["place_token"].(string)
			return status == http.StatusCreated
		})
		p := join(t, s, "swift")
		until(t, 10*time.Second, "let in", func() bool {
			h.pass, _ = p.me(s)["entry_token"].(string)
			return h.pass != ""
		})
		all = append(all, h)
	}
	// good: whoever has come by now is known at both, at the same place as ever.
	good := func(when string) {
		t.Helper()
		for _, s := range []*instance{a, b} {
			for i, h := range all {
				until(t, 10*time.Second, when, func() bool {
					status, _, body := call(t, http.MethodGet, s.url+"/v1/events/held/entries/me", nil, bearerOf(h.place))
					return status == http.StatusOK && body["position"] == float64(i+1)
				})
				status, _, body := call(t, http.MethodGet, s.url+"/v1/gate/swift", nil, map[string]string{"X-Entry-Token": h.pass})
				require.Equal(t, http.StatusNoContent, status, "%s: %v", when, body)
			}
		}
	}
	arrive(a)
	require.Contains(t, keys(exitFailed, "rotate", "--redis", store), "prepare first")
	require.Contains(t, keys(exitOK, "prepare", "--redis", store), "0 of 2 running instances")
	a = restart(a)
	arrive(a)
	good("one has the next keys")
	require.Contains(t, keys(exitFailed, "rotate", "--redis", store), "1 of 2")
	b = restart(b)
	both := regexp.MustCompile(`(?m)^\S+  signs\n\S+  is next\n2 of 2 `)
	until(t, 10*time.Second, "the instance that has just started is counted", func() bool {
		return both.MatchString(keys(exitOK, "list", "--redis", store))
	})
	keys(exitOK, "rotate", "--redis", store)
	a = restart(a)
	arrive(a)
	arrive(b)
	good("they sign with different keys")
	require.Contains(t, keys(exitFailed, "retire", "--redis", store), "1 of 2")
	b = restart(b)
	arrive(b)
	good("rotated")
	require.Regexp(t, `(?m)^\S+  signs\n0 of 2 `, keys(exitOK, "retire", "--redis", store))

	require.Contains(t, keys(exitUsage, "list", "--redis", "http://x"), "redis")
	keys(exitUsage, "list", "--redis", "")
	keys(exitUsage, "rotate", "keys.json", "--redis", store)
	keys(exitUsage, "rotate")
}
