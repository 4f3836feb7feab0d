package main

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// A service whose store is a cluster of three masters, or found by a sentinel, lets
// people in and sells to them like any other.
func TestClusterAndSentinelURLs(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(*testing.T) string{
		"cluster": func(t *testing.T) string {
			t.Helper()
			return "redis+cluster://" + strings.Join(redistest.Cluster(t).Options().Addrs, ",")
		},
		"sentinel": sentinelURL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startInstance(t, "--redis", url(t), "--limits", "off")
			p := join(t, s, "demo")
			l := p.open(s)
			b := p.admitted(l, 10*time.Second)
			status, _, reserved := b.reserve(s, "key", map[string]any{"quantity": 2})
			require.Equal(t, http.StatusCreated, status, reserved)
			status, _, _ = b.pay(s, reserved["reservation_id"].(string), "pay", "approve")
			require.Equal(t, http.StatusAccepted, status)
			require.Equal(t, "paid", l.next(10*time.Second, "reservation")["status"])
		})
	}
}

// sentinelURL starts a master and one sentinel that watches it.
func sentinelURL(t *testing.T) string {
	t.Helper()
	redistest.Need(t, "redis-sentinel")
	master := redistest.Start(t, redistest.Config{})
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := free.Addr().(*net.TCPAddr)
	require.NoError(t, free.Close())
	config := writeFile(t, "sentinel.conf", fmt.Sprintf("port %d\nbind 127.0.0.1\nsentinel monitor line %s %s 1\n", addr.Port, host, port))
	cmd := exec.Command("redis-sentinel", config)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	watcher := redis.NewSentinelClient(&redis.Options{Addr: addr.String()})
	t.Cleanup(func() { _ = watcher.Close() })
	until(t, 20*time.Second, "the sentinel answers", func() bool {
		return watcher.GetMasterAddrByName(t.Context(), "line").Err() == nil
	})
	return "redis+sentinel://" + addr.String() + "/line"
}
