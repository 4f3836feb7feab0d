// Package natstest starts private NATS servers with JetStream for tests.
package natstest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// Server is a nats-server process with a directory of its own.
type Server struct {
	port int
	dir  string
	cmd  *exec.Cmd
}

// Start starts a server that ends with the test. Where the program is missing the
// test is skipped, or fails under CI=true.
func Start(tb testing.TB) *Server {
	tb.Helper()
	redistest.Need(tb, "nats-server")
	port, err := redistest.FreePort(tb.Context())
	require.NoError(tb, err)
	s := &Server{port: port, dir: tb.TempDir()}
	s.start(tb)
	tb.Cleanup(func() { s.end(syscall.SIGKILL) })
	return s
}

// URL is where the server listens.
func (s *Server) URL() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.port) }

// Freeze stops the process: connections stay, nobody answers. Thaw ends it.
func (s *Server) Freeze(tb testing.TB) {
	tb.Helper()
	require.NoError(tb, s.cmd.Process.Signal(syscall.SIGSTOP))
	// Its threads stop one by one: on a busy machine it may answer for a moment yet.
	deadline := time.Now().Add(5 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !s.stopped() && time.Now().Before(deadline) {
		<-tick.C
	}
}

// stopped tells whether all threads stand still, where the system says so.
func (s *Server) stopped() bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.cmd.Process.Pid))
	if err != nil || len(stats) == 0 {
		return true
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path) //nolint:gosec // the kernel's own
		if _, state, found := strings.Cut(string(stat), ") "); err == nil && found && !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return true
}

// Thaw lets a frozen server go on.
func (s *Server) Thaw(tb testing.TB) {
	tb.Helper()
	require.NoError(tb, s.cmd.Process.Signal(syscall.SIGCONT))
}

// Restart kills the server and starts it on the same port and directory.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	s.end(syscall.SIGKILL)
	s.start(tb)
}

func (s *Server) start(tb testing.TB) {
	tb.Helper()
	s.cmd = exec.CommandContext(context.Background(), "nats-server", "-a", "127.0.0.1", "-p", strconv.Itoa(s.port), "-js", "-sd", s.dir) //nolint:gosec // a test's own, ended by hand
	require.NoError(tb, s.cmd.Start())
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)))
		if err == nil {
			require.NoError(tb, conn.Close())
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.NoError(tb, err, "nats-server does not listen")
		}
	}
}

func (s *Server) end(sig syscall.Signal) {
	_ = s.cmd.Process.Signal(syscall.SIGCONT)
	_ = s.cmd.Process.Signal(sig)
	_ = s.cmd.Wait() // it was killed
}
