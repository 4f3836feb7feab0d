package heap

import (
	"context"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// doc.go promise 1, for every size of heap.
func TestPromise1TheSlackOrAsMuchAsIsInUse(t *testing.T) {
	t.Parallel()
	for inUse, want := range map[uint64]int{
		0:        800, // nothing was collected yet
		3 << 20:  800,
		8 << 20:  400,
		32 << 20: 100,
		1 << 30:  100,
	} {
		require.Equal(t, want, percent(32<<20, inUse), "%d bytes in use", inUse)
	}
	require.Equal(t, MostSlack*25, percent(MostSlack<<20, 0))
}

func setting() uint64 {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// The percentage is the process's, so these do not run beside each other.
func TestSlackOfAProcess(t *testing.T) {
	t.Setenv("GOGC", "")
	before := setting()
	run := func(mib int, as func() bool) {
		t.Helper()
		s, err := New(mib)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		for deadline := time.Now().Add(30 * time.Second); !as() && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		require.True(t, as(), "%d %%", setting())
		cancel()
		require.NoError(t, <-ended)
		require.Equal(t, before, setting(), "doc.go promise 3")
	}
	run(1024, func() bool { return setting() > 1000 })
	run(0, func() bool { return setting() == before })
	t.Setenv("GOGC", "150")
	debug.SetGCPercent(150)
	defer debug.SetGCPercent(int(min(before, math.MaxInt32)))
	before = 150
	run(1024, func() bool { return setting() == 150 }) // doc.go promise 2
}

func TestSlackIsBounded(t *testing.T) {
	t.Parallel()
	for _, mib := range []int{-1, MostSlack + 1} {
		_, err := New(mib)
		require.ErrorContains(t, err, "must be 0 to 4096")
	}
}
