package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Keys, migrations, the file of events and the configuration file.
func TestContractStart(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys.json")
	status, made, _ := runCommand(t, nil, "keys", "make", keys)
	require.Equal(t, exitOK, status)
	info, err := os.Stat(keys)
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o077, "nobody else may read it")
	status, _, _ = runCommand(t, nil, "keys", "make", keys)
	require.Equal(t, exitUsage, status, "never written over")
	data := filepath.Join(t.TempDir(), "data")
	for range 2 {
		status, _, errs := runCommand(t, nil, "migrate", "--data", data)
		require.Equal(t, exitOK, status, errs)
	}

	config := writeFile(t, "config.yaml", "keys: "+keys+"\npublic-url: https://wait.example\nevents: "+
		writeFile(t, "events.yaml", "events: [{id: only, rate_per_s: 50, max_active: 5, message: from the file}]\n")+"\n")
	s := startInstance(t, "--config", config, "--data", data)
	require.Equal(t, "from the file", s.public("only")["message"])
	b := newBuyer(t, s, "only")
	require.Equal(t, "https://wait.example", claimsOf(t, b.pass)["iss"])
	_, header, _ := call(t, http.MethodPost, s.url+"/v1/events/only/entries", nil, nil)
	require.Contains(t, header.Get("Set-Cookie"), "Secure", "the public address is https")
	_, _, jwks := call(t, http.MethodGet, s.url+"/.well-known/jwks.json", nil, nil)
	require.Equal(t, strings.Fields(made)[0], jwks["keys"].([]any)[0].(map[string]any)["kid"])
	s.signal(syscall.SIGTERM)
	require.Equal(t, exitOK, s.wait(20*time.Second))

	// After a rotation what was signed before stays good.
	status, listed, _ := runCommand(t, nil, "keys", "prepare", keys)
	require.Equal(t, exitOK, status)
	require.Regexp(t, `(?m)^\S+  signs\n\S+  is next$`, listed)
	status, _, _ = runCommand(t, nil, "keys", "retire", keys)
	require.Equal(t, exitUsage, status, "in the middle of a rotation")
	status, _, _ = runCommand(t, nil, "keys", "rotate", keys)
	require.Equal(t, exitOK, status)
	s = startInstance(t, "--config", config, "--data", data)
	require.EqualValues(t, b.entry, b.me(s)["entry_id"], "the place comes back by its receipt")
	_, _, jwks = call(t, http.MethodGet, s.url+"/.well-known/jwks.json", nil, nil)
	require.Len(t, jwks["keys"], 2)
	status, listed, _ = runCommand(t, nil, "keys", "retire", keys)
	require.Equal(t, exitOK, status)
	require.Regexp(t, `^\S+  signs\n$`, listed)
	raw, err := os.ReadFile(keys)
	require.NoError(t, err)
	s.signal(syscall.SIGTERM)
	require.Equal(t, exitOK, s.wait(20*time.Second))
	s = startProcess(t, []string{"MY_KEYS=" + string(raw)}, "serve", "--addr", "127.0.0.1:0", "--log-format", "json", "--data", data, "--keys", "env:MY_KEYS")
	_, _, jwks = call(t, http.MethodGet, s.url+"/.well-known/jwks.json", nil, nil)
	require.Equal(t, strings.Fields(listed)[0], jwks["keys"].([]any)[0].(map[string]any)["kid"], "keys from the environment")
	require.NotContains(t, s.logs(), strings.Split(string(raw), `"`)[9], "no secret in the log")
}

// Without a token of the operator's own, a random one is printed once, and not into
// the log. Every flag is also an environment variable.
func TestContractEnvironment(t *testing.T) {
	t.Parallel()
	s := startProcess(t, []string{
		"WAITROOM_ADDR=127.0.0.1:0", "WAITROOM_LOG_FORMAT=json", "WAITROOM_SITE_KEY=" + siteKey, "WAITROOM_DATA=" + filepath.Join(t.TempDir(), "data"),
		"WAITROOM_PORT=tcp://10.0.0.1:80", "WAITROOM_PORT_80_TCP=x", "WAITROOM_SERVICE_HOST=10.0.0.1",
	}, "serve")
	until(t, 5*time.Second, "the token is printed", func() bool { return strings.Contains(s.printed(), "operator token: ") })
	_, token, _ := strings.Cut(strings.TrimSpace(s.printed()), "operator token: ")
	require.GreaterOrEqual(t, len(token), 20)
	require.NotContains(t, s.logs(), token)
	status, _, _ := request{method: "GET", path: "/v1/ops/events", header: bearerOf(token)}.send(t, s)
	require.Equal(t, http.StatusOK, status)
	status, _, _ = request{"PUT", "/v1/events/demo/load", `{"pool_usage":0}`, bearerOf(siteKey)}.send(t, s)
	require.Equal(t, http.StatusNoContent, status)
	status, _, _ = request{method: "GET", path: "/metrics"}.send(t, s)
	require.Equal(t, http.StatusOK, status, "open where no token was given")
}

// Any token is an operator's token: the contract sets no least length.
func TestContractShortSecrets(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, flags []string) {
		t.Helper()
		s := startInstance(t, append([]string{"--operator-token", "op", "--site-key", "k"}, flags...)...)
		status, _, _ := request{method: "GET", path: "/v1/ops/events", header: bearerOf("op")}.send(t, s)
		require.Equal(t, http.StatusOK, status)
		status, _, _ = request{"PUT", "/v1/events/demo/load", `{"pool_usage":0}`, bearerOf("k")}.send(t, s)
		require.Equal(t, http.StatusNoContent, status)
	})
}

// A payment provider in another process: each way that it answers has its outcome.
func TestContractSandbox(t *testing.T) {
	t.Parallel()
	sandbox := startProcess(t, nil, "sandbox", "--addr", "127.0.0.1:0", "--log-format", "json")
	s := startInstance(t, "--payments", sandbox.url)
	s.create("pays", facts{"tickets": facts{"kind": "stock", "stock": 100, "hold_ttl": "1m"}})
	var wg sync.WaitGroup
	for method, want := range map[string]string{"": "paid", "approve": "paid", "twice": "paid", "delay": "paid", "vanish": "paid", "decline": "payment_failed"} {
		b := newBuyer(t, s, "pays")
		id := b.held(s, map[string]any{"quantity": 1})
		status, _, body := b.pay(s, id, "pay", method)
		require.Equal(t, http.StatusAccepted, status, body)
		wg.Go(func() { b.becomes(s, id, want) })
	}
	wg.Wait()
	sandbox.signal(syscall.SIGTERM)
	require.Equal(t, exitOK, sandbox.wait(20*time.Second))
}
