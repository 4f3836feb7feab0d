package main

import (
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A start that cannot succeed says why in one line and ends with the status of
// doc.go: 2 for what it was given, 1 for what it cannot reach.
func TestStartFaults(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := free.Addr().String()
	require.NoError(t, free.Close())

	rows := []struct {
		name   string
		args   []string
		env    []string
		status int
		want   string
	}{
		{name: "unknown command", args: []string{"swerve"}, status: 2, want: `unknown command "swerve"`},
		{name: "unknown flag", args: []string{"serve", "--colour", "red"}, status: 2, want: "unknown flag: --colour"},
		{name: "argument", args: []string{"serve", "now"}, status: 2, want: `takes no argument "now"`},
		{name: "variable", args: []string{"serve"}, env: []string{"WAITROOM_COLOUR=red"}, status: 2, want: "WAITROOM_COLOUR is unknown"},
		{name: "key file", args: []string{"serve", "--keys", "/dev/null"}, status: 2, want: "keys"},
		{name: "events file", args: []string{"serve", "--events", writeFile(t, "e.yaml", "events: [{id: a, colour: red}]\n")}, status: 2, want: "colour"},
		{name: "redis away", args: []string{"serve", "--addr", "127.0.0.1:0", "--redis", "redis://" + nobody}, status: 1, want: "redis cannot be reached"},
		{name: "database away", args: []string{"serve", "--addr", "127.0.0.1:0", "--database", "postgres://u:pw-of-the-test@" + nobody + "/x?sslmode=disable"}, status: 1, want: "database cannot be reached"},
		{name: "address taken", args: []string{"serve", "--addr", taken.Addr().String()}, status: 1, want: "address already in use"},
		{name: "load without a target", args: []string{"load", "--target", "nowhere"}, status: 2, want: "target"},
		{name: "event without a token", args: []string{"event", "list"}, status: 2, want: "operator-token"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			status, _, stderr := runCommand(t, row.env, row.args...)
			require.Equal(t, row.status, status, stderr)
			lines := strings.Split(strings.TrimSpace(stderr), "\n")
			require.Contains(t, lines[len(lines)-1], row.want, "the last line is the reason")
			require.NotContains(t, stderr, "goroutine ", "never a stack trace")
			require.NotContains(t, stderr, "pw-of-the-test")
			if row.status == exitUsage {
				require.Len(t, lines, 1, "one clear line")
			}
		})
	}
}

// SIGTERM ends a service with 0 within 20 s, also with nothing to wait for.
func TestStopsClean(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		s := startInstance(t)
		s.signal(sig)
		require.Equal(t, exitOK, s.wait(20*time.Second), s.logs())
	}
}
