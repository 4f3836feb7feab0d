package limit

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom"
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	goleak.VerifyTestMain(m)
}

// quiet keeps go-redis from telling of servers that a test has killed.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// hourly are rules whose buckets do not visibly refill during a test.
var hourly = Rules{
	Person: per(10, time.Hour), PersonBurst: per(100, time.Hour), Address: per(10, time.Hour),
	Booking: per(5, time.Hour), Issue: per(3, time.Hour),
}

func per(n int, d time.Duration) waitroom.Rule { return waitroom.Rule{N: n, Per: d} }

var (
	office  = netip.MustParseAddr("192.0.2.7")
	another = netip.MustParseAddr("192.0.2.8")
)

func newLimiter(tb testing.TB, cfg Config, rdb redis.UniversalClient) *Limiter {
	tb.Helper()
	if cfg.CallTimeout == 0 {
		cfg.CallTimeout = 20 * time.Second // a busy machine is not an absent store
	}
	l, err := New(cfg, rdb, zap.NewNop(), prometheus.NewRegistry())
	require.NoError(tb, err)
	return l
}

// passed counts those of n equal calls that are let through.
func passed(ctx context.Context, l *Limiter, n int, req Request, rules Rules) int {
	ok := 0
	for range n {
		if l.Allow(ctx, req, rules).OK {
			ok++
		}
	}
	return ok
}

// storeFunc is a store without a server.
type storeFunc func(ctx context.Context, charges []charge) ([]refusal, error)

func (f storeFunc) take(ctx context.Context, charges []charge) ([]refusal, error) {
	return f(ctx, charges)
}

var (
	errGone = errors.New("gone")
	gone    = storeFunc(func(context.Context, []charge) ([]refusal, error) { return nil, errGone })
	willing = storeFunc(func(context.Context, []charge) ([]refusal, error) { return nil, nil })
)

// trips counts the round trips of a client that run scripts; the greetings of new
// connections do not matter.
type trips struct {
	mu sync.Mutex
	n  int // guarded by mu
}

func (t *trips) count(cmds ...redis.Cmder) {
	if strings.HasPrefix(cmds[0].Name(), "eval") {
		t.mu.Lock()
		t.n++
		t.mu.Unlock()
	}
}

// take is the count since the last time.
func (t *trips) take() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.n
	t.n = 0
	return n
}

func (t *trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (t *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { t.count(cmd); return next(ctx, cmd) }
}

func (t *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { t.count(cmds...); return next(ctx, cmds) }
}

func gauge(tb testing.TB, g prometheus.Gauge) float64 {
	tb.Helper()
	reg := prometheus.NewRegistry()
	require.NoError(tb, reg.Register(g))
	families, err := reg.Gather()
	require.NoError(tb, err)
	return families[0].GetMetric()[0].GetGauge().GetValue()
}
