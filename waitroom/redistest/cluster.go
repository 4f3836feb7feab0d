package redistest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Cluster is a client of a private cluster of three masters, which ends with the
// test.
func Cluster(tb testing.TB) *redis.ClusterClient {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	slots := []struct{ from, to int }{{0, 5460}, {5461, 10922}, {10923, 16383}}
	servers := make([]*Server, len(slots))
	clients := make([]*redis.Client, len(slots))
	addrs := make([]string, len(slots))
	for i, s := range slots {
		servers[i] = Start(tb, Config{Args: []string{"--cluster-enabled", "yes", "--cluster-node-timeout", "3000"}})
		addrs[i] = servers[i].Addr()
		clients[i] = servers[i].Client(tb)
		if err := clients[i].ClusterAddSlotsRange(ctx, s.from, s.to).Err(); err != nil {
			tb.Fatalf("cluster slots: %v", err)
		}
	}
	for _, s := range servers[1:] {
		host, port, _ := strings.Cut(s.Addr(), ":")
		if err := clients[0].ClusterMeet(ctx, host, port).Err(); err != nil {
			tb.Fatalf("cluster meet: %v", err)
		}
	}
	for _, c := range clients {
		if !poll(ctx, func() bool {
			info, err := c.ClusterInfo(ctx).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_size:3")
		}) {
			tb.Fatal("the cluster did not come together")
		}
	}
	cc := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, Protocol: 2, ContextTimeoutEnabled: true})
	tb.Cleanup(func() { _ = cc.Close() })
	return cc
}

// poll asks until the answer is yes or ctx ends.
func poll(ctx context.Context, yes func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !yes() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
