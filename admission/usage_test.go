package admission

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPoolUsage(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name                string
		inUse, max, waiting float64
		least, most         float64
	}{
		{"idle", 0, 10, 0, 0, 0},
		{"half", 5, 10, 0, 0.375, 0.375},
		{"full, nobody waiting", 10, 10, 0, 0.75, 0.75},
		{"sqlite's writer at work", 1, 1, 0, 0.75, 0.75},
		{"sqlite, one waiting now and then", 1, 1, 0.5, 0.75, 0.79},
		{"sqlite, three waiting", 1, 1, 3.21, 0.8, 0.81},
		{"sqlite, nine waiting", 1, 1, 9, 0.9, 0.92},
		{"ten, one waiting", 10, 10, 1, 0.75, 0.79},
		{"ten, two waiting", 10, 10, 2, 0.8, 0.83},
		{"ten, seven waiting", 10, 10, 7, 0.9, 0.92},
		{"four nodes of ten, one of them drowning", 16, 40, 20, 0.95, 1},
		{"hundred, three waiting", 100, 100, 3, 0.9, 0.93},
		{"waiting although nothing is in use", 0, 10, 50, 0.95, 1},
		{"thousands waiting", 10, 10, 5000, 0.99, 1},
		{"more in use than there may be", 12, 10, 0, 0.75, 0.75},
	} {
		u := PoolStats{InUse: row.inUse, Max: row.max, Waiting: row.waiting}.Usage()
		require.GreaterOrEqual(t, u, row.least, row.name)
		require.LessOrEqual(t, u, row.most, row.name)
	}
	for _, s := range []PoolStats{
		{},
		{InUse: 1},
		{InUse: -1, Max: 1},
		{Max: -1},
		{Max: 1, Waiting: -1},
		{InUse: math.NaN(), Max: 1},
		{Max: math.Inf(1)},
		{Max: 1, Waiting: math.NaN()},
	} {
		require.True(t, math.IsNaN(s.Usage()), fmt.Sprint(s))
	}
}

func TestPoolUsageGrowsWithTheQueue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most := float64(rapid.IntRange(1, 500).Draw(t, "max"))
		a, b := rapid.Float64Range(0, 1000).Draw(t, "a"), rapid.Float64Range(0, 1000).Draw(t, "b")
		less, more := PoolStats{InUse: most, Max: most, Waiting: min(a, b)}.Usage(), PoolStats{InUse: most, Max: most, Waiting: max(a, b)}.Usage()
		if less > more || less < 0 || more > 1 {
			t.Fatalf("%v with %v waiting, %v with %v", less, min(a, b), more, max(a, b))
		}
	})
}

func TestCombine(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := func(age time.Duration, usage float64) Reading {
		return Reading{Usage: usage, At: now.Add(-age), Detail: fmt.Sprintf("source %v", usage)}
	}
	for name, row := range map[string]struct {
		readings []Reading
		faults   []error
		want     load
	}{
		"nothing expected": {want: load{}},
		"one":              {readings: []Reading{at(0, 0.3)}, want: load{expected: true, known: true, usage: 0.3, wanted: 0.3, detail: "source 0.3"}},
		"idle is a figure": {readings: []Reading{at(0, 0)}, want: load{expected: true, known: true, usage: 0, wanted: 0, detail: "source 0"}},
		"the highest":      {readings: []Reading{at(0, 0.3), at(time.Second, 0.9), at(0, 0.5)}, want: load{expected: true, known: true, usage: 0.9, wanted: 0.9, detail: "source 0.9"}},
		"what is wanted": {
			readings: []Reading{{Usage: 0.5, Wanted: 0.7, At: now}, at(0, 0.6)},
			want:     load{expected: true, known: true, usage: 0.6, wanted: 0.7, detail: "source 0.6"},
		},
		"exactly stale_after":  {readings: []Reading{at(3*time.Second, 0.3)}, want: load{expected: true, known: true, usage: 0.3, wanted: 0.3, detail: "source 0.3"}},
		"stale":                {readings: []Reading{at(3100*time.Millisecond, 0.3)}, want: load{expected: true, detail: "source 0.3: 3.1s old"}},
		"stale beside fresh":   {readings: []Reading{at(time.Minute, 0.95), at(0, 0.2)}, want: load{expected: true, known: true, usage: 0.2, wanted: 0.2, detail: "source 0.2"}},
		"fresh beside stale":   {readings: []Reading{at(0, 0.2), at(time.Minute, 0.95)}, want: load{expected: true, known: true, usage: 0.2, wanted: 0.2, detail: "source 0.2"}},
		"fault beside fresh":   {readings: []Reading{at(0, 0.2)}, faults: []error{ErrLeaseLost}, want: load{expected: true, detail: ErrLeaseLost.Error()}},
		"absurd beside fresh":  {readings: []Reading{at(0, 0.2), at(0, math.NaN())}, want: load{expected: true, detail: "source NaN: usage NaN makes no sense"}},
		"negative":             {readings: []Reading{at(0, -1)}, want: load{expected: true, detail: "source -1: usage -1 makes no sense"}},
		"absurd, though stale": {readings: []Reading{at(time.Hour, math.Inf(1))}, want: load{expected: true, detail: "source +Inf: usage +Inf makes no sense"}},
	} {
		got := combine(row.readings, row.faults, now, 3*time.Second)
		require.Len(t, got.signals, len(row.readings)+len(row.faults), "%s: each is shown", name)
		got.signals = nil
		require.Equal(t, row.want, got, name)
	}
	two := combine([]Reading{at(time.Minute, 0.95), at(time.Second, 0.2)}, nil, now, 3*time.Second)
	require.Equal(t, []Signal{
		{Detail: "source 0.95", Usage: new(0.95), AgeMS: 60_000, Fault: "1m0s old"},
		{Detail: "source 0.2", Usage: new(0.2), AgeMS: 1000},
	}, two.signals)
}
