package redistest

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// Each runs a test on a real server and on miniredis, in parallel.
func Each(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, Start(t, Config{}).Client(t))
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, Mini(t))
	})
}
