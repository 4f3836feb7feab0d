package waitroom

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// benchLine is an open event on a real server of its own, AOF off.
func benchLine(b *testing.B) (*Line, *redis.Client) {
	b.Helper()
	rdb := redistest.Start(b, redistest.Config{}).Client(b)
	l, err := New(Config{ReceiptKeys: [][]byte{testKey(1)}}, rdb, zap.NewNop())
	require.NoError(b, err)
	open(b, l, func(s *Settings) { s.RatePerS = mostRate })
	return l, rdb
}

// usage is what the server says of its scripts: how many ran, and for how many µs.
func usage(b *testing.B, rdb *redis.Client) (scripts, micros float64) {
	b.Helper()
	info, err := rdb.Info(context.WithoutCancel(b.Context()), "commandstats").Result()
	require.NoError(b, err)
	for line := range strings.Lines(info) {
		if name, value, _ := strings.Cut(line, ":"); name == "cmdstat_evalsha" || name == "cmdstat_eval" {
			var calls, usec float64
			_, err := fmt.Sscanf(value, "calls=%f,usec=%f", &calls, &usec)
			require.NoError(b, err)
			scripts, micros = scripts+calls, micros+usec
		}
	}
	return scripts, micros
}

func BenchmarkJoin(b *testing.B) {
	b.Run("lone", func(b *testing.B) {
		l, rdb := benchLine(b)
		c0, m0 := usage(b, rdb)
		for b.Loop() {
			if _, err := l.Join(b.Context(), JoinRequest{Event: "e"}); err != nil {
				b.Fatal(err)
			}
		}
		report(b, rdb, c0, m0, "join")
	})
	b.Run("parallel-64", func(b *testing.B) {
		l, rdb := benchLine(b)
		c0, m0 := usage(b, rdb)
		b.SetParallelism(64)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := l.Join(b.Context(), JoinRequest{Event: "e"}); err != nil {
					b.Error(err)
					return
				}
			}
		})
		report(b, rdb, c0, m0, "join")
	})
}

func report(b *testing.B, rdb *redis.Client, c0, m0 float64, of string) {
	b.Helper()
	c1, m1 := usage(b, rdb)
	b.ReportMetric((c1-c0)/float64(b.N), "scripts/"+of)
	b.ReportMetric((m1-m0)/float64(b.N), "script-µs/"+of)
}

func BenchmarkPromote100(b *testing.B) {
	for _, waiting := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("waiting-%d", waiting), func(b *testing.B) {
			l, rdb := benchLine(b)
			crowd(b, l, waiting)
			var micros float64
			grants, tick := 0, time.Duration(0)
			for b.Loop() {
				b.StopTimer()
				crowd(b, l, 100)
				tick += time.Second
				at(b, l, min(tick, 50*time.Second)) // inside the grace of those who wait
				_, m0 := usage(b, rdb)
				b.StartTimer()
				p, err := l.Promote(b.Context(), PromoteRequest{Event: "e", Fence: 1, N: 100})
				b.StopTimer()
				require.NoError(b, err)
				grants += len(p.Grants)
				_, m1 := usage(b, rdb)
				micros += m1 - m0
				b.StartTimer()
			}
			b.ReportMetric(float64(grants)/float64(b.N), "grants/op")
			b.ReportMetric(micros/float64(b.N), "script-µs/op")
		})
	}
}

// BenchmarkWaitingBytes measures what one waiting person costs in Redis: away from
// the page, and here.
func BenchmarkWaitingBytes(b *testing.B) {
	const n = 50_000
	for b.Loop() {
		l, rdb := benchLine(b)
		used := func() float64 {
			info, err := rdb.Info(b.Context(), "memory").Result()
			require.NoError(b, err)
			for line := range strings.Lines(info) {
				if v, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
					m, err := strconv.ParseFloat(v, 64)
					require.NoError(b, err)
					return m
				}
			}
			b.Fatal("the server does not say how much memory it uses")
			return 0
		}
		crowd(b, l, 100)
		before := used()
		crowd(b, l, n)
		away := used()
		ids, err := rdb.ZRange(b.Context(), l.keys.line("e"), 0, -1).Result()
		require.NoError(b, err)
		here := make([]EntryID, len(ids))
		for i, id := range ids {
			here[i] = EntryID(id)
		}
		require.NoError(b, l.Here(b.Context(), "e", here))
		b.ReportMetric((away-before)/n, "B/away")
		b.ReportMetric((used()-before)/n, "B/here")
	}
}
