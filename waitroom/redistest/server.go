package redistest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Config says how a server keeps its data.
type Config struct {
	// AOF is "" (nothing is kept), "everysec" or "always".
	AOF string
	// Args are further arguments for redis-server.
	Args []string
}

// patience bounds every start and stop.
const patience = 20 * time.Second

// Server is one redis-server process, which a test may break and mend.
type Server struct {
	cfg  Config
	dir  string
	port int

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
	logs bytes.Buffer
}

// Start runs a private server until the test ends.
func Start(tb testing.TB, cfg Config) *Server {
	tb.Helper()
	Need(tb, "redis-server")
	s := &Server{cfg: cfg, dir: tb.TempDir()}
	tb.Cleanup(s.end)
	// A free port may be taken before the server has it; then another is tried.
	var err error
	for range 5 {
		if s.port, err = FreePort(tb.Context()); err != nil {
			break
		}
		if err = s.start(tb.Context()); err == nil {
			return s
		}
		s.end()
	}
	tb.Fatalf("start redis-server: %v\n%s", err, s.logs.String())
	return nil
}

// Need skips the test if the machine has no such program; under CI=true it fails.
func Need(tb testing.TB, program string) {
	tb.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") == "true" {
			tb.Fatalf("%s is not installed", program)
		}
		tb.Skipf("%s is not installed", program)
	}
}

// Addr is the server's host and port.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// URL is the server's address as --redis takes it.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Client is a client of the server whose calls end with their contexts, otherwise
// with go-redis's usual settings; it is closed when the test ends.
func (s *Server) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	return client(tb, s.Addr())
}

func client(tb testing.TB, addr string) *redis.Client {
	tb.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, ContextTimeoutEnabled: true})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Kill ends the server at once, as a crash does.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	s.signal(tb, syscall.SIGKILL)
	s.wait(tb)
}

// Stop ends the server in good order.
func (s *Server) Stop(tb testing.TB) {
	tb.Helper()
	s.signal(tb, syscall.SIGTERM)
	s.wait(tb)
}

// Freeze stops the server's process without closing anything, until Thaw.
func (s *Server) Freeze(tb testing.TB) { tb.Helper(); s.signal(tb, syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (s *Server) Thaw(tb testing.TB) { tb.Helper(); s.signal(tb, syscall.SIGCONT) }

// Restart starts a server that was killed or stopped on the same port and
// directory; without AOF it is empty.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	if err := s.start(tb.Context()); err != nil {
		tb.Fatalf("restart redis-server: %v\n%s", err, s.logs.String())
	}
}

// Written is how long the append-only file is.
func (s *Server) Written(tb testing.TB) int64 {
	tb.Helper()
	info, err := os.Stat(s.appended(tb))
	if err != nil {
		tb.Fatalf("append-only file: %v", err)
	}
	return info.Size()
}

// Forget cuts the append-only file of a server that was killed back to this length,
// as if its machine had died before the rest was on the disk.
func (s *Server) Forget(tb testing.TB, length int64) {
	tb.Helper()
	if err := os.Truncate(s.appended(tb), length); err != nil {
		tb.Fatalf("append-only file: %v", err)
	}
}

func (s *Server) appended(tb testing.TB) string {
	tb.Helper()
	names, err := filepath.Glob(filepath.Join(s.dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(names) != 1 {
		tb.Fatalf("append-only file: one of %v: %v", names, err)
	}
	return names[0]
}

func (s *Server) signal(tb testing.TB, sig os.Signal) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.cmd.Process.Signal(sig); err != nil {
		tb.Fatalf("signal redis-server: %v", err)
	}
}

func (s *Server) wait(tb testing.TB) {
	tb.Helper()
	select {
	case <-s.done:
	case <-time.After(patience):
		tb.Fatalf("redis-server did not end in %v", patience)
	}
}

// start runs the process and returns when it answers.
func (s *Server) start(ctx context.Context) error {
	args := []string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--save", "",
		"--daemonize", "no", "--databases", "1", "--enable-debug-command", "local",
	}
	if s.cfg.AOF != "" {
		args = append(args, "--appendonly", "yes", "--appendfsync", s.cfg.AOF)
	}
	// The process outlives the context of whoever started it: Cleanup ends it.
	//nolint:gosec // the arguments are this package's and its tests'
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "redis-server", append(args, s.cfg.Args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stdout, cmd.Stderr = &s.logs, &s.logs
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	done := make(chan struct{})
	go func() { // ends with the process, which end() waits for
		defer close(done)
		_ = cmd.Wait()
	}()
	s.mu.Lock()
	s.cmd, s.done = cmd, done
	s.mu.Unlock()
	return s.answers(ctx, done)
}

func (s *Server) answers(ctx context.Context, done <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2, MaxRetries: -1})
	defer func() { _ = c.Close() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		// The server that answers must be ours: another one may hold the port.
		if dir, err := c.ConfigGet(ctx, "dir").Result(); err == nil {
			if got, _ := filepath.EvalSymlinks(dir["dir"]); got == s.real() {
				return nil
			}
			return fmt.Errorf("port %d belongs to another server", s.port)
		}
		select {
		case <-tick.C:
		case <-done:
			return fmt.Errorf("redis-server on port %d ended at once", s.port)
		case <-ctx.Done():
			return fmt.Errorf("redis-server on port %d does not answer: %w", s.port, ctx.Err())
		}
	}
}

func (s *Server) real() string {
	dir, _ := filepath.EvalSymlinks(s.dir)
	return dir
}

func (s *Server) end() {
	s.mu.Lock()
	cmd, done := s.cmd, s.done
	s.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill()
	<-done
}

// FreePort is a port of this machine that nobody listens on. It lies below the
// range from which systems give ports to those who ask for any (from 32768 on
// Linux, 49152 elsewhere), so that nobody gets it by chance before its user listens
// or while a killed server is away.
func FreePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	var last error
	for range 100 {
		port := 10000 + rand.IntN(22000)
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("free port: %w", last)
}

// Mini is a client of a private miniredis, the embedded default's store.
func Mini(tb testing.TB) *redis.Client {
	tb.Helper()
	m, err := miniredis.Run()
	if err != nil {
		tb.Fatalf("start miniredis: %v", err)
	}
	c := client(tb, m.Addr())
	tb.Cleanup(func() { _ = c.Close(); m.Close() })
	return c
}
