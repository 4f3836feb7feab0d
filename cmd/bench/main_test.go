package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/waitroom-dev/waitroom/admission/ledger"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

func TestMain(m *testing.M) {
	if _, child := os.LookupEnv(nodeEnv); child { // a node that a test has started
		if err := runNode(context.Background()); err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func TestEveryBarHasItsOwnName(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, u := range units() {
		for _, name := range u.bars {
			require.False(t, seen[name], name)
			seen[name] = true
		}
	}
}

func TestChooseTakesTheUnitsOfAPrefix(t *testing.T) {
	t.Parallel()
	chosen, wanted := choose(units(), "promote")
	require.Len(t, chosen, 1)
	require.True(t, wanted("promote-500"))
	require.False(t, wanted("joins-million"), "a unit measures only what is asked for")
	all, _ := choose(units(), "")
	require.Len(t, all, len(units()))
	none, _ := choose(units(), "nothing")
	require.Empty(t, none)
}

func TestDuelTakesTurnsAndComparesNeighbours(t *testing.T) {
	t.Parallel()
	var order string
	speed := 1.0
	pairs, err := duel(t.Context(), 3,
		func(context.Context) (float64, error) { order += "a"; return 3 * speed, nil },
		func(context.Context) (float64, error) { order += "b"; return speed, nil })
	require.NoError(t, err)
	require.Equal(t, "abbaab", order)
	require.Equal(t, score{ours: 3, base: 1, ratio: 3}, compare(pairs, itself))

	// A machine that slows down does so for both.
	pairs = []pair[float64]{{ours: 30, base: 10}, {ours: 15, base: 5}, {ours: 3, base: 1}}
	require.Equal(t, score{ours: 15, base: 5, ratio: 3}, compare(pairs, itself))
}

func TestMedianAndQuantile(t *testing.T) {
	t.Parallel()
	require.Zero(t, median(nil))
	require.InDelta(t, 2, median([]float64{3, 1, 2}), 0)
	require.InDelta(t, 2.5, median([]float64{4, 1, 2, 3}), 0)
	require.Zero(t, quantile(nil, .5))
	took := []time.Duration{4, 2, 1, 3}
	require.Equal(t, time.Duration(3), quantile(took, .5))
	require.Equal(t, time.Duration(4), quantile(took, 1))
	require.Equal(t, time.Duration(4), took[0], "the caller's order stays")
}

func TestNumbersAsPeopleReadThem(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]string{0: "0.0", 99.94: "99.9", 100: "100", 999.6: "1,000", 25800: "25,800", 1e6: "1,000,000", 12345678: "12,345,678"} {
		require.Equal(t, want, thousands(x))
	}
}

func TestWhatRedisSaysIsRead(t *testing.T) {
	t.Parallel()
	fields := parseInfo("# Commandstats\r\ncmdstat_evalsha:calls=3,usec=40,usec_per_call=13.33,rejected_calls=0,failed_calls=0\r\n" +
		"cmdstat_info:calls=7,usec=9,usec_per_call=1.00\r\ncmdstat_zadd:calls=5,usec=6,usec_per_call=1.20\r\nused_memory:12\r\n")
	require.Equal(t, "12", fields["used_memory"])
	commands, err := parseCommands(fields)
	require.NoError(t, err)
	require.Equal(t, map[string]calls{"evalsha": {3, 40}, "info": {7, 9}, "zadd": {5, 6}}, commands)
	require.InDelta(t, 8, total(commands), 0, "our own questions do not count")
	require.Equal(t, calls{3, 40}, scripts(commands))
	_, err = parseCommands(map[string]string{"cmdstat_get": "odd"})
	require.Error(t, err)
}

func TestFiguresOfGoTestAreRead(t *testing.T) {
	t.Parallel()
	out := "goos: linux\nBenchmarkFanOut-2 \t 1\t 0 ns/op\t 111042 bare/s\t 0.97 personal/bare\t 1.02 shared/bare\nPASS\n"
	require.Equal(t, map[string]float64{"ns/op": 0, "bare/s": 111042, "personal/bare": .97, "shared/bare": 1.02}, benchmarkFigures(out))
}

func TestOverAdmissionsAreCounted(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_000_000)
	leaf := func(ms, first, n int64) ledger.Leaf {
		return ledger.Leaf{At: at.Add(time.Duration(ms) * time.Millisecond), Runs: []ledger.Run{{First: first, Len: n}}}
	}
	above, twice := over([]ledger.Leaf{leaf(0, 1, 10), leaf(500, 11, 1), leaf(1000, 12, 10)}, 10)
	require.Zero(t, above, "a second is open at its end")
	require.Zero(t, twice)
	above, twice = over([]ledger.Leaf{leaf(0, 1, 10), leaf(999, 10, 4)}, 10)
	require.Equal(t, int64(3), above)
	require.Equal(t, int64(1), twice)
}

func TestFaultsInVirtualTimeAreRead(t *testing.T) {
	t.Parallel()
	f, err := parseFaults("=== RUN X\n    a_test.go:1: faults 700, over-admissions 0\n    a_test.go:1: faults 400, over-admissions 0\nok\n")
	require.NoError(t, err)
	require.Equal(t, figuresOfFaults{faults: 1100}, f)
	_, err = parseFaults("ok\n")
	require.Error(t, err)
}

func TestReportIsWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "bench.json")
	r := report{Results: []result{{Name: "a", Measured: "3 ×", Bar: "≥ 2 ×", Verdict: verdict(true), Figures: map[string]float64{"ratio": 3}}}}
	require.NoError(t, r.write(file))
	doc, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(doc), `"verdict": "met"`)
	require.Equal(t, "a · 3 × · ≥ 2 × · met", r.Results[0].String())
}

// The whole way of a measurement, in the smallest sizes: servers, nodes, load,
// both sides, and a line for each bar.
func TestUnitsMeasureWhatTheyPromise(t *testing.T) {
	t.Parallel()
	redistest.Need(t, "redis-server")
	b := newBench(true)
	b.sizes = sizes{
		rounds: 1, round: 50 * time.Millisecond, warm: 10 * time.Millisecond, conns: 8,
		few: 200, many: 1000, far: 1000, stored: 2000, sockets: 20,
		seats: 2000, group: 100, promotes: 1, pairs: 2, rush: 120,
	}
	for _, u := range []unit{joinUnits()[0], crowdUnits()[0], bytesUnit(), gateUnit(), gateHTTPUnit(), middlewareUnit(), ticketUnits()[1]} {
		t.Run(u.bars[0], func(t *testing.T) {
			t.Parallel()
			results, err := u.run(t.Context(), b, func(string) bool { return true })
			require.NoError(t, err)
			names := make([]string, len(results))
			for i, r := range results {
				names[i] = r.Name
				require.NotEmpty(t, r.Measured)
				require.NotEmpty(t, r.Bar)
				require.Contains(t, []string{met, notMet}, r.Verdict)
				for name, x := range r.Figures {
					require.Positive(t, x, name)
				}
			}
			require.Equal(t, u.bars, names)
		})
	}
}
