package redistest

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

	"github.com/redis/go-redis/v9"
)

// Sentinels are three redis-sentinel processes that watch a master with two
// replicas, and make one of them the master when it dies.
type Sentinels struct {
	addrs   []string
	servers []*Server
	master  *Server
}

// sentinelMaster is the name by which the sentinels know the master.
const sentinelMaster = "main"

// StartSentinels runs them until the test ends.
func StartSentinels(tb testing.TB) *Sentinels {
	tb.Helper()
	Need(tb, "redis-sentinel")
	s := &Sentinels{}
	for range 3 {
		s.servers = append(s.servers, Start(tb, Config{Args: []string{"--repl-diskless-sync-delay", "0"}}))
	}
	s.master = s.servers[0]
	host, port, _ := net.SplitHostPort(s.master.Addr())
	for _, replica := range s.servers[1:] {
		if err := replica.Client(tb).Do(tb.Context(), "REPLICAOF", host, port).Err(); err != nil {
			tb.Fatalf("replicaof: %v", err)
		}
	}
	for range 3 {
		s.addrs = append(s.addrs, startSentinel(tb, host, port))
	}
	ready := poll(tb.Context(), func() bool {
		return s.master.Client(tb).Do(tb.Context(), "WAIT", 2, 100).Val() == int64(2) && s.agree(tb.Context())
	})
	if !ready {
		tb.Fatal("sentinels do not see the replicas and each other")
	}
	return s
}

// agree says whether each sentinel knows the two others and both replicas.
func (s *Sentinels) agree(ctx context.Context) bool {
	for _, addr := range s.addrs {
		c := redis.NewSentinelClient(&redis.Options{Addr: addr})
		m, err := c.Master(ctx, sentinelMaster).Result()
		_ = c.Close()
		if err != nil || m["num-other-sentinels"] != "2" || m["num-slaves"] != "2" {
			return false
		}
	}
	return true
}

// Master is the server that was the master at the start.
func (s *Sentinels) Master() *Server { return s.master }

// Client is a client that the sentinels tell where the master is; it is closed when
// the test ends.
func (s *Sentinels) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: sentinelMaster, SentinelAddrs: s.addrs, ContextTimeoutEnabled: true,
	})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// URL is the address as --redis takes it.
func (s *Sentinels) URL() string {
	return "redis+sentinel://" + strings.Join(s.addrs, ",") + "/" + sentinelMaster
}

func startSentinel(tb testing.TB, host, port string) string {
	tb.Helper()
	mine, err := FreePort(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	conf := filepath.Join(tb.TempDir(), "sentinel.conf")
	text := fmt.Sprintf(`port %d
bind 127.0.0.1
sentinel monitor %s %s %s 2
sentinel down-after-milliseconds %s 1000
sentinel failover-timeout %s 5000
`, mine, sentinelMaster, host, port, sentinelMaster, sentinelMaster)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(tb.Context()), "redis-sentinel", conf) //nolint:gosec // a file of ours
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		tb.Fatalf("start redis-sentinel: %v", err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(mine))
}
