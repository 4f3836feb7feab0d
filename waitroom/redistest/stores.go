package redistest

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// Stores are the kinds of store that one code path must work on, by name: a real
// server and miniredis, each private to the test that starts it.
func Stores() map[string]func(testing.TB) *redis.Client {
	return map[string]func(testing.TB) *redis.Client{
		"redis":     func(tb testing.TB) *redis.Client { tb.Helper(); return Start(tb, Config{}).Client(tb) },
		"miniredis": Mini,
	}
}

// Each runs a test on every kind of store, in parallel.
func Each(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	t.Helper()
	for name, start := range Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}
