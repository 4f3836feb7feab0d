package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/web/identity"
)

// parse runs flags, environment and an optional file through the loader.
func parse(t *testing.T, args, environ []string) (serveConfig, error) {
	t.Helper()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	addServeFlags(flags)
	require.NoError(t, flags.Parse(args))
	return loadServeConfig(flags, environ)
}

func writeFile(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(body), 0o600))
	return path
}

func TestServeConfig(t *testing.T) {
	t.Parallel()

	t.Run("no words at all give the embedded default", func(t *testing.T) {
		t.Parallel()
		c, err := parse(t, nil, nil)
		require.NoError(t, err)
		require.Equal(t, serveConfig{
			Retention: 24 * time.Hour, HeapSlack: 32,
			Addr: "127.0.0.1:8080", Data: "data", Limits: true, LogFormat: "console",
			Roles:    []string{roleLine, roleAdmission, roleTicket, roleWorker},
			Identity: identity.Config{Leeway: 5 * time.Second},
		}, c)
	})

	t.Run("a flag beats a variable, and a variable beats the file", func(t *testing.T) {
		t.Parallel()
		path := writeFile(t, "c.yaml", "addr: 127.0.0.1:1\ndata: from-file\nlimits: off\nroles: [line, admission, ticket, worker]\norigins: [https://a.example, https://b.example]\n")
		c, err := parse(t, []string{"--config", path, "--addr", "127.0.0.1:3"},
			[]string{"WAITROOM_ADDR=127.0.0.1:2", "WAITROOM_LOG_FORMAT=json", "HOME=/root"})
		require.NoError(t, err)
		require.Equal(t, "127.0.0.1:3", c.Addr)
		require.Equal(t, "from-file", c.Data)
		require.Equal(t, "json", c.LogFormat)
		require.False(t, c.Limits)
		require.Equal(t, []string{"https://a.example", "https://b.example"}, c.Origins)
	})

	t.Run("the file may be named by the environment", func(t *testing.T) {
		t.Parallel()
		c, err := parse(t, nil, []string{"WAITROOM_CONFIG=" + writeFile(t, "c.yaml", "site-key: some-key\n")})
		require.NoError(t, err)
		require.Equal(t, "some-key", c.SiteKey)
	})

	t.Run("an orchestrator's own variables are left alone", func(t *testing.T) {
		t.Parallel()
		_, err := parse(t, nil, []string{"WAITROOM_PORT=tcp://10.0.0.1:80", "WAITROOM_PORT_80_TCP=x", "WAITROOM_SERVICE_HOST=10.0.0.1"})
		require.NoError(t, err)
	})
}

func TestServeConfigFaults(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, want string
		args, env  []string
		file       string
	}{
		{name: "unknown variable", env: []string{"WAITROOM_COLOUR=x"}, want: "WAITROOM_COLOUR is unknown"},
		{name: "unknown key", file: "colour: x\n", want: `key "colour" is unknown`},
		{name: "nested key", file: "redis: {host: x}\n", want: `key "redis" wants a plain value`},
		{name: "broken file", file: "a: [\n", want: "config file"},
		{name: "addr without port", args: []string{"--addr", "localhost"}, want: "addr:"},
		{name: "port too large", args: []string{"--addr", ":70000"}, want: "addr: port"},
		{name: "redis scheme", args: []string{"--redis", "http://h:1"}, want: "redis: wants a URL"},
		{name: "database scheme", args: []string{"--database", "mysql://h:1"}, want: "database: wants a URL"},
		{name: "role", args: []string{"--roles", "line,cook"}, want: `roles: "cook" is none of`},
		{name: "no role", args: []string{"--roles", ","}, want: "roles: at least one"},
		{name: "roles apart on the embedded store", args: []string{"--roles", "line"}, want: "need --redis"},
		{name: "retention", args: []string{"--retention", "1s"}, want: "retention:"},
		{name: "heap slack", args: []string{"--heap-slack", "5000"}, want: "heap-slack: 5000 MiB: must be 0 to 4096"},
		{name: "limits", args: []string{"--limits", "maybe"}, want: "limits:"},
		{name: "log format", args: []string{"--log-format", "xml"}, want: "log-format:"},
		{name: "origin with a path", args: []string{"--origins", "https://a.example/x"}, want: "origins:"},
		{name: "public url", args: []string{"--public-url", "ftp://a"}, want: "public-url:"},
		{name: "short secret", env: []string{"WAITROOM_IDENTITY_SECRET=short"}, want: "identity-secret: shorter than 32"},
		{name: "two ways to know people", args: []string{"--identity-jwks", "https://a.example", "--identity-secret", strings.Repeat("k", 32)}, want: "identity-jwks: give either"},
		{name: "default limits", args: []string{"--default-limits", "person=60/1m,reading=5/1s"}, want: `default-limits: "reading" is no limit: want one of address, booking, guesses, issue, person, person_burst, as in person=120/1m`},
		{name: "default limit's rule", args: []string{"--default-limits", "person=60"}, want: "default-limits: person must be a number of calls in a time, like 60/1m, or off"},
		{name: "challenge secrets", args: []string{"--challenge-secrets", "turnstile=abc,altcha=s3cret"}, want: "challenge-secrets: wants KIND=SECRET, with KIND one of hcaptcha, recaptcha, turnstile"},
		{name: "leeway", args: []string{"--identity-leeway", "soon"}, want: `identity-leeway: "soon" is no duration`},
		{name: "preset", args: []string{"--preset", "nope"}, want: "preset:"},
		{name: "missing events file", args: []string{"--events", "/does/not/exist"}, want: "events:"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			args := row.args
			if row.file != "" {
				args = append(args, "--config", writeFile(t, "c.yaml", row.file))
			}
			_, err := parse(t, args, row.env)
			require.ErrorContains(t, err, row.want)
		})
	}
}

func TestSecretsAreNotRepeatedInFaults(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"mysql://u:hunter22@h", "postgres://u:hunter22@ho st/%zz"} {
		_, err := parse(t, []string{"--database", value}, nil)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter22")
	}
}

// Secrets that can be guessed are refused by name where others reach the service; on
// the embedded default and on this machine alone they are said aloud.
func TestWeakSecretsAreRefused(t *testing.T) {
	t.Parallel()
	const good = "Jq3-vT9.xW"
	private := []string{"--redis", "redis://h:1", "--operator-token", "op", "--site-key", good}
	c, err := parse(t, private, nil)
	require.NoError(t, err, "this machine alone")
	require.Equal(t, []string{"operator-token"}, c.guessable())
	for name, row := range map[string]struct {
		args, environ []string
		want          string // empty: starts
	}{
		"reached by others":   {append(private, "--addr", ":8080"), nil, "operator-token: can be guessed"},
		"behind a proxy here": {append(private, "--public-url", "https://wait.example"), nil, "operator-token: can be guessed"},
		"public, here":        {append(private, "--public-url", "http://localhost:8080"), nil, ""},
		"a well-known word":   {[]string{"--redis", "redis://h:1", "--addr", ":1", "--operator-token", "ChangeMe", "--site-key", good}, nil, "operator-token: can"},
		"repeated":            {[]string{"--redis", "redis://h:1", "--addr", ":1", "--site-key", "xxxxxxxxxxxx"}, nil, "site-key: can"},
		"both named":          {[]string{"--redis", "redis://h:1", "--addr", ":1", "--site-key", "k"}, []string{"WAITROOM_OPERATOR_TOKEN=op"}, "operator-token, site-key: can"},
		"a webhook's":         {[]string{"--redis", "redis://h:1", "--addr", ":1", "--webhook-secret", "secret"}, nil, "webhook-secret: can"},
		"embedded":            {[]string{"--addr", ":1", "--operator-token", "op"}, nil, ""},
		"none given":          {[]string{"--redis", "redis://h:1", "--addr", ":1"}, nil, ""},
		"good":                {[]string{"--redis", "redis://h:1", "--addr", ":1", "--operator-token", good, "--site-key", good + "1"}, nil, ""},
		"keys of no variable": {[]string{"--keys", "env:WAITROOM_NO_SUCH_KEYS"}, nil, "keys: the variable"},
	} {
		_, err := parse(t, row.args, row.environ)
		if row.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, row.want, name)
		require.NotContains(t, err.Error(), "ChangeMe")
	}
}

func TestPresets(t *testing.T) {
	t.Parallel()
	for _, name := range presetNames() {
		planned, err := preset(name)
		require.NoError(t, err)
		require.NotEmpty(t, planned)
	}
}

// Whoever writes a file by the fields alone need not know that a list stands around them.
func TestEventsFileForms(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"events:\n- {id: a, rate_per_s: 7}\n", "- {id: a, rate_per_s: 7}\n", "id: a\nrate_per_s: 7\n", `{"id": "a", "rate_per_s": 7}`} {
		planned, err := parseEvents("test", []byte(body))
		require.NoError(t, err, body)
		require.Len(t, planned, 1, body)
		require.InDelta(t, 7, planned[0].settings.RatePerS, 0, body)
	}
}

func TestEventsFileFaults(t *testing.T) {
	t.Parallel()
	rows := []struct{ name, body, want string }{
		{"no events", "event: []\n", `key "event" is unknown`},
		{"empty list", "events: []\n", "at least one"},
		{"unknown setting", "events: [{id: a, colour: red}]\n", "colour"},
		{"two faults, both named", "events: [{id: A B, rate_per_s: -1}]\n", "rate_per_s"},
		{"wrong type", "events: [{id: a, burst: many}]\n", "burst"},
		{"an id twice", "events: [{id: a}, {id: b}, {id: a}]\n", `event 3: id: "a" is there twice`},
		{"one event alone, wrong", "id: a\nburst: many\n", "burst"},
		{"text", "a\n", "at least one"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := parseEvents("test", []byte(row.body))
			require.ErrorContains(t, err, row.want)
		})
	}
}
