package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// patience bounds every start.
const patience = 30 * time.Second

// store is a private redis-server.
type store struct {
	addr string
	rdb  *redis.Client
	end  func()
}

// startRedis starts one. aof is "" (nothing is kept), "everysec" or "always".
func startRedis(ctx context.Context, aof string) (*store, error) {
	dir, err := os.MkdirTemp("", "bench-redis")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	for range 5 { // a free port may be taken before the server has it
		s, tryErr := tryRedis(ctx, dir, aof)
		if tryErr == nil {
			return s, nil
		}
		err = tryErr
	}
	_ = os.RemoveAll(dir)
	return nil, err
}

func tryRedis(ctx context.Context, dir, aof string) (*store, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	args := []string{"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--daemonize", "no", "--databases", "1"}
	if aof != "" {
		// A rewrite in the middle of one side's round would be the other's gain.
		args = append(args, "--appendonly", "yes", "--appendfsync", aof, "--auto-aof-rewrite-percentage", "0")
	}
	srv, err := start(ctx, dir, nil, "KILL", "redis-server", args...)
	if err != nil {
		return nil, err
	}
	s := &store{addr: net.JoinHostPort("127.0.0.1", port)}
	s.rdb = client(s.addr)
	s.end = func() {
		_ = s.rdb.Close()
		srv.end()
		_ = os.RemoveAll(dir)
	}
	err = until(ctx, srv.done, func(ctx context.Context) bool {
		// The one that answers must be ours: another one may hold the port.
		at, err := s.rdb.ConfigGet(ctx, "dir").Result()
		return err == nil && at["dir"] == real(dir)
	})
	if err != nil {
		_ = s.rdb.Close()
		srv.end()
		return nil, fmt.Errorf("redis-server on port %s: %w: %s", port, err, srv.printed())
	}
	return s, nil
}

func real(dir string) string {
	if r, err := filepath.EvalSymlinks(dir); err == nil {
		return r
	}
	return dir
}

// client is a client as the service makes it.
func client(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, PoolSize: 64, ContextTimeoutEnabled: true})
}

// until asks again and again, at most for patience, or until gone is closed.
func until(ctx context.Context, gone <-chan struct{}, ready func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ready(ctx) {
		select {
		case <-tick.C:
		case <-gone:
			return fmt.Errorf("ended at once")
		case <-ctx.Done():
			return fmt.Errorf("not ready in time: %w", context.Cause(ctx))
		}
	}
	return nil
}

func freePort(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return "", fmt.Errorf("free port: %w", err)
	}
	return port, nil
}

// info is a section of INFO, by field.
func (s *store) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := s.rdb.Info(ctx, section).Result()
	if err != nil {
		return nil, fmt.Errorf("info %s: %w", section, err)
	}
	return parseInfo(text), nil
}

func parseInfo(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// cpu is the processor time that the server has used so far, all its threads.
func (s *store) cpu(ctx context.Context) (time.Duration, error) {
	fields, err := s.info(ctx, "cpu")
	if err != nil {
		return 0, err
	}
	user, err := strconv.ParseFloat(fields["used_cpu_user"], 64)
	if err != nil {
		return 0, fmt.Errorf("info cpu: %w", err)
	}
	system, err := strconv.ParseFloat(fields["used_cpu_sys"], 64)
	if err != nil {
		return 0, fmt.Errorf("info cpu: %w", err)
	}
	return time.Duration((user + system) * float64(time.Second)), nil
}

// memory is what the server's data and clients take, in bytes.
func (s *store) memory(ctx context.Context) (float64, error) {
	fields, err := s.info(ctx, "memory")
	if err != nil {
		return 0, err
	}
	used, err := strconv.ParseFloat(fields["used_memory"], 64)
	if err != nil {
		return 0, fmt.Errorf("info memory: %w", err)
	}
	return used, nil
}

// calls is how often a command ran, and for how many µs.
type calls struct{ n, usec float64 }

// commands is every command so far. Those that scripts call count as well.
func (s *store) commands(ctx context.Context) (map[string]calls, error) {
	fields, err := s.info(ctx, "commandstats")
	if err != nil {
		return nil, err
	}
	return parseCommands(fields)
}

func parseCommands(fields map[string]string) (map[string]calls, error) {
	all := make(map[string]calls)
	for field, value := range fields {
		name, ok := strings.CutPrefix(field, "cmdstat_")
		if !ok {
			continue
		}
		var c calls
		if _, err := fmt.Sscanf(value, "calls=%f,usec=%f", &c.n, &c.usec); err != nil {
			return nil, fmt.Errorf("info commandstats: %s: %w", name, err)
		}
		all[name] = c
	}
	return all, nil
}

// total is all commands but those by which we ask.
func total(commands map[string]calls) float64 {
	var n float64
	for name, c := range commands {
		if name != "info" {
			n += c.n
		}
	}
	return n
}

// scripts is the time in scripts, and their number.
func scripts(commands map[string]calls) calls {
	a, b := commands["evalsha"], commands["eval"]
	return calls{n: a.n + b.n, usec: a.usec + b.usec}
}
