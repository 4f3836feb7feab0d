package heap

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// MostSlack is the most garbage that a process may be told to gather, in MiB.
const MostSlack = 4096

// Slack keeps the distance between two collections.
type Slack struct{ bytes uint64 }

// New gives a process so many MiB of slack, 0 to MostSlack; 0 leaves all to Go. It
// changes nothing yet.
func New(mib int) (*Slack, error) {
	if mib < 0 || mib > MostSlack {
		return nil, fmt.Errorf("heap-slack: %d MiB: must be 0 to %d", mib, MostSlack)
	}
	return &Slack{bytes: uint64(mib) << 20}, nil
}

// every is how often the size of the heap is looked at. What comes meanwhile is within
// the last answer, which a heap that grows makes a little too large.
const every = time.Second

// Run keeps the slack until ctx ends, and then returns nil.
func (s *Slack) Run(ctx context.Context) error {
	if s.bytes == 0 || os.Getenv("GOGC") != "" {
		return nil
	}
	now := debug.SetGCPercent(usual)
	defer debug.SetGCPercent(now)
	now = usual
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		// Each change stops the process for a moment, so small ones are left out.
		if want := percent(s.bytes, inUse()); want > now+now/8 || want < now-now/8 {
			debug.SetGCPercent(want)
			now = want
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

const (
	usual = 100     // Go's own percentage
	least = 4 << 20 // bytes in use, below which Go never collects at the usual one
)

// percent is what lets a heap of so many bytes in use grow by the slack, and never by
// less than Go would let it.
func percent(slack, inUse uint64) int {
	return int(max(usual, slack*100/max(inUse, least))) //nolint:gosec // at most MostSlack / least × 100
}

// inUse is what the percentage is of: the heap that the last collection found alive,
// stacks and global variables.
func inUse() uint64 {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}
	metrics.Read(samples)
	var sum uint64
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			sum += s.Value.Uint64()
		}
	}
	return sum
}
