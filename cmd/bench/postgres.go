package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// postgresAt starts a private PostgreSQL that waits for the disk at each commit,
// and gives its address.
func postgresAt(ctx context.Context) (address string, end func(), err error) {
	bin, err := postgresPrograms()
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "bench-postgres")
	if err != nil {
		return "", nil, fmt.Errorf("make directory: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	who, err := unprivileged(dir)
	if err != nil {
		return "", nil, err
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), //nolint:gosec // the arguments are ours
		"-D", data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.Dir = dir
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: who}
	if out, err := initdb.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	srv, err := start(ctx, dir, who, "QUIT", filepath.Join(bin, "postgres"), "-D", data,
		"-c", "listen_addresses=", "-c", "unix_socket_directories="+dir, "-c", "max_connections=100",
		"-c", "shared_buffers=128MB", "-c", "max_wal_size=4GB")
	if err != nil {
		return "", nil, err
	}
	address = "postgres:///postgres?user=bench&host=" + url.QueryEscape(dir)
	db, err := sql.Open("pgx", address)
	if err != nil {
		srv.end()
		return "", nil, fmt.Errorf("open: %w", err)
	}
	err = until(ctx, srv.done, func(ctx context.Context) bool { return db.PingContext(ctx) == nil })
	if err = errors.Join(err, db.Close()); err != nil {
		srv.end()
		return "", nil, fmt.Errorf("postgres: %w: %s", err, srv.printed())
	}
	return address, func() { srv.end(); _ = os.RemoveAll(dir) }, nil
}

// postgresPrograms is the directory of initdb and postgres, the newest first.
func postgresPrograms() (string, error) {
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
	return "", errors.New("no PostgreSQL (initdb, postgres) found; `make servers` installs it")
}

// unprivileged gives the directory to a user whom PostgreSQL accepts, where we are
// root, whom it refuses.
func unprivileged(dir string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // no other user is wanted
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2, os.Chown(dir, int(uid), int(gid))); err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("running as root, and there is no user postgres or nobody to run PostgreSQL as")
}
