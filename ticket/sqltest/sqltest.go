// Package sqltest starts a private PostgreSQL for a test binary.
//
// The server has a directory of its own, listens on a socket in it and nowhere
// else, and ends with the process that started it, however that ends. Each call
// of Postgres gives a schema of its own, so that tests run side by side.
//
// Without the server's programs a test is skipped; with CI=true it fails.
package sqltest

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// Server is a private PostgreSQL.
type Server struct {
	dir, bin string
	fsync    bool
	who      *syscall.Credential

	cmd    *exec.Cmd
	leash  io.Closer // closing it, or dying, ends the server
	output bytes.Buffer
}

var shared struct {
	sync.Mutex
	server  *Server
	durable *Server
	failed  error
}

// Postgres gives the address of an empty schema in the binary's shared server,
// which is fast and forgets everything on a power cut.
func Postgres(tb testing.TB) string {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.failed == nil {
		shared.server, shared.failed = start(false)
	}
	if shared.failed != nil {
		missing(tb, shared.failed)
	}
	return shared.server.Schema(tb)
}

// Durable is Postgres on a second shared server that waits for the disk at each
// commit, for measurements.
func Durable(tb testing.TB) string {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.durable == nil {
		server, err := start(true)
		if err != nil {
			missing(tb, err)
		}
		shared.durable = server
	}
	return shared.durable.Schema(tb)
}

// Alone starts a server for one test, which may stop it and start it again.
func Alone(tb testing.TB) *Server {
	tb.Helper()
	server, err := start(true)
	if err != nil {
		missing(tb, err)
	}
	tb.Cleanup(server.remove)
	return server
}

// Stop ends the shared servers; TestMain calls it after the last test.
func Stop() {
	shared.Lock()
	defer shared.Unlock()
	for _, s := range []*Server{shared.server, shared.durable} {
		if s != nil {
			s.remove()
		}
	}
	shared.server, shared.durable = nil, nil
}

// errMissing: there is no PostgreSQL on this machine.
var errMissing = errors.New("no PostgreSQL (initdb, postgres) found; on Debian: apt-get install postgresql")

func missing(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, errMissing) && os.Getenv("CI") != "true" {
		tb.Skip(err)
	}
	tb.Fatal(err)
}

// start makes a database directory and starts a server on it.
func start(fsync bool) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, fsync: fsync}
	if s.dir, err = os.MkdirTemp("", "sqltest"); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	if os.Geteuid() == 0 { // PostgreSQL refuses to run as root
		if err := s.unprivileged(); err != nil {
			return nil, errors.Join(err, os.RemoveAll(s.dir))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	initdb := s.command(ctx, filepath.Join(bin, "initdb"), "-D", s.data(), "-U", "test", "-A", "trust",
		"-E", "UTF8", "--locale=C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("initdb: %w: %s", err, out), os.RemoveAll(s.dir))
	}
	if err := s.Start(); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

// binaries finds the directory of the server's programs.
func binaries() (string, error) {
	candidates, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Reverse(candidates)
	candidates = append(candidates, "/usr/local/bin", "/opt/homebrew/bin", "/usr/local/pgsql/bin")
	if path, err := exec.LookPath("initdb"); err == nil {
		candidates = append([]string{filepath.Dir(path)}, candidates...)
	}
	for _, dir := range candidates {
		_, err1 := os.Stat(filepath.Join(dir, "initdb"))
		_, err2 := os.Stat(filepath.Join(dir, "postgres"))
		if err1 == nil && err2 == nil {
			return dir, nil
		}
	}
	return "", errMissing
}

// unprivileged picks a user for the server and gives it the directory.
func (s *Server) unprivileged() error {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return fmt.Errorf("user %s: %w", name, err)
		}
		s.who = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return os.Chown(s.dir, int(uid), int(gid))
	}
	return errors.New("running as root, and there is no user postgres or nobody to run PostgreSQL as")
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // the arguments are ours
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + s.dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.who != nil {
		cmd.SysProcAttr.Credential = s.who
	}
	return cmd
}

// leashed runs the server until its input ends, which happens also when the
// process that holds the other end dies.
const leashed = `"$@" </dev/null & server=$!; read _; kill -QUIT $server; wait $server`

// Start starts the server again after Stop, and waits until it answers.
func (s *Server) Start() error {
	durability := []string{"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off"}
	if s.fsync {
		durability = nil
	}
	args := append([]string{
		"-c", leashed, "sh", filepath.Join(s.bin, "postgres"), "-D", s.data(),
		"-c", "listen_addresses=", "-c", "unix_socket_directories=" + s.dir,
		"-c", "max_connections=300", "-c", "shared_buffers=128MB", "-c", "max_wal_size=2GB",
		"-c", "deadlock_timeout=200ms",
	}, durability...)
	s.output.Reset()
	s.cmd = s.command(context.Background(), "/bin/sh", args...)
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	leash, err := s.cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	s.leash = leash
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	db, err := sql.Open("pgx", s.URL())
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if err = db.PingContext(ctx); err == nil {
			return db.Close()
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("postgres did not start: %w", err), db.Close())
		case <-tick.C:
		}
	}
}

// Stop ends the server at once, as a crash would.
func (s *Server) Stop() {
	_ = s.leash.Close()
	_ = s.cmd.Wait() // its status says only that it was told to quit
}

func (s *Server) remove() {
	if s.cmd != nil {
		s.Stop()
	}
	_ = os.RemoveAll(s.dir)
}

// URL is the address of the server's first database.
func (s *Server) URL() string {
	return "postgres:///postgres?user=test&host=" + url.QueryEscape(s.dir)
}

// Open opens the server's first database, for tests that look for themselves.
func (s *Server) Open() (*sql.DB, error) { return sql.Open("pgx", s.URL()) }

// Schema makes an empty schema and gives its address.
func (s *Server) Schema(tb testing.TB) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	db, err := sql.Open("pgx", s.URL())
	if err != nil {
		tb.Fatal(err)
	}
	name := "t" + strings.ToLower(rand.Text())
	_, err = db.ExecContext(ctx, "CREATE SCHEMA "+name)
	if err = errors.Join(err, db.Close()); err != nil {
		tb.Fatal(err)
	}
	return s.URL() + "&search_path=" + name
}
