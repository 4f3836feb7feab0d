package waitroom

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// An estimate is whole seconds from one up to a day, grows with the position and
// falls with the rate; there is none for what cannot be estimated.
func TestEstimateIsSound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pos := rapid.Int64Range(1, 1<<53).Draw(t, "pos")
		f := Flow{
			PerS:   rapid.Float64Range(1e-9, 1e6).Draw(t, "per_s"),
			Spread: rapid.Float64Range(0, 10).Draw(t, "spread"),
		}
		learnt := f
		learnt.HalfOff, learnt.MostOff = rapid.Float64().Draw(t, "half"), rapid.Float64().Draw(t, "most")
		if eta, p90, ok := Estimate(pos, learnt); ok {
			require.GreaterOrEqual(t, eta, time.Second)
			require.GreaterOrEqual(t, p90, eta)
			plainHalf, plainMost, _ := f.plain(pos)
			require.LessOrEqual(t, eta.Seconds(), plainHalf*math.E+1, "whatever was learnt, no sudden hour")
			require.LessOrEqual(t, p90.Seconds(), plainMost*math.Exp(mostOff)+1)
			require.GreaterOrEqual(t, p90.Seconds(), min(plainMost*math.Exp(leastOff), maxEstimate.Seconds()))
		}
		eta, p90, ok := Estimate(pos, f)
		if !ok {
			require.Greater(t, float64(pos)/f.PerS, maxEstimate.Seconds())
			return
		}
		require.GreaterOrEqual(t, eta, time.Second)
		require.GreaterOrEqual(t, p90, eta)
		require.LessOrEqual(t, p90, maxEstimate)
		require.Zero(t, eta%time.Second+p90%time.Second)
		require.InDelta(t, float64(pos)/f.PerS, eta.Seconds(), 1)

		if behind, _, ok := Estimate(pos+1000, f); ok {
			require.GreaterOrEqual(t, behind, eta)
		}
		faster, _, ok := Estimate(pos, Flow{PerS: f.PerS * 2, Spread: f.Spread})
		require.True(t, ok)
		require.LessOrEqual(t, faster, eta)
	})
}

func TestEstimateIsAbsentRatherThanAbsurd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pos  int64
		flow Flow
	}{
		"nobody let in":      {1, Flow{}},
		"negative rate":      {1, Flow{PerS: -1}},
		"rate is no number":  {1, Flow{PerS: math.NaN()}},
		"infinite rate":      {1, Flow{PerS: math.Inf(1)}},
		"no such position":   {0, Flow{PerS: 1}},
		"negative position":  {-5, Flow{PerS: 1}},
		"spread no number":   {1, Flow{PerS: 1, Spread: math.NaN()}},
		"more than a day":    {86_401, Flow{PerS: 1}},
		"largest position":   {math.MaxInt64, Flow{PerS: 10}},
		"smallest of rates":  {1, Flow{PerS: math.SmallestNonzeroFloat64}},
		"learnt no number":   {1, Flow{PerS: 1, MostOff: math.NaN()}},
		"infinitely uneven ": {2 * 86_400, Flow{PerS: 1, Spread: math.Inf(1)}},
	} {
		_, _, ok := Estimate(c.pos, c.flow)
		require.False(t, ok, name)
	}
	eta, p90, ok := Estimate(12_847, Flow{PerS: 500, Spread: paceSpread})
	require.True(t, ok)
	require.Equal(t, 26*time.Second, eta)
	require.Equal(t, 35*time.Second, p90)
}

// play tells a pace of n seconds from a moment on, each with ten looks.
func play(p *pace, from int64, n int, perS func(i int) int, waits func(i int) bool) int64 {
	for i := range n {
		for tick := range int64(10) {
			at := (from+int64(i))*1000 + tick*100
			if tick == 0 {
				p.admit(at, perS(i))
			}
			p.look(at, waits(i))
		}
	}
	return (from + int64(n)) * 1000
}

func always(int) bool { return true }

func constant(n int) func(int) int { return func(int) int { return n } }

func TestPace(t *testing.T) {
	t.Parallel()
	const start = 1_700_000_000

	t.Run("the cap holds until something was seen", func(t *testing.T) {
		t.Parallel()
		var p pace
		require.Equal(t, Flow{PerS: 20, Spread: paceSpread}, p.flow(start*1000, 20))
		now := play(&p, start, 2, constant(3), always)
		require.Equal(t, Flow{PerS: 20, Spread: paceSpread}, p.flow(now, 20))
	})
	t.Run("then what was let in, if it is less", func(t *testing.T) {
		t.Parallel()
		var p pace
		now := play(&p, start, 40, constant(7), always)
		require.Equal(t, Flow{PerS: 7, Spread: 0.05}, p.flow(now, 20))
		require.InDelta(t, 5, p.flow(now, 5).PerS, 0)
	})
	t.Run("nobody let in while people wait is no flow", func(t *testing.T) {
		t.Parallel()
		var p pace
		now := play(&p, start, 10, constant(20), always)
		now = play(&p, now/1000, 31, constant(0), always)
		require.Zero(t, p.flow(now, 20).PerS)
	})
	t.Run("seconds in which nobody waited say nothing", func(t *testing.T) {
		t.Parallel()
		var p pace
		now := play(&p, start, 60, constant(1), func(int) bool { return false })
		require.Equal(t, Flow{PerS: 50, Spread: paceSpread}, p.flow(now, 50))
		now = play(&p, now/1000, 10, constant(40), always)
		require.InDelta(t, 40, p.flow(now, 50).PerS, 0)
	})
	t.Run("a slow line is looked at for longer", func(t *testing.T) {
		t.Parallel()
		var p pace
		now := play(&p, start, 200, func(i int) int { return map[bool]int{true: 1}[i%50 == 0] }, always)
		require.InDelta(t, 0.02, p.flow(now, 0.02).PerS, 0.001)
	})
	t.Run("an uneven line spreads", func(t *testing.T) {
		t.Parallel()
		var p pace
		now := play(&p, start, 31, func(i int) int { return map[bool]int{true: 100, false: 10}[i/10%2 == 0] }, always)
		require.Greater(t, p.flow(now, 200).Spread, 0.4)
	})
	t.Run("a clock that goes back or far ahead does no harm", func(t *testing.T) {
		t.Parallel()
		var p pace
		play(&p, start, 40, constant(7), always)
		now := play(&p, start-100_000, 40, constant(9), always)
		require.InDelta(t, 9, p.flow(now, 20).PerS, 0)
		p.admit(-5, 100)
		p.look(math.MinInt64, true)
		now = play(&p, start+100_000, 40, constant(11), always)
		require.InDelta(t, 11, p.flow(now, 20).PerS, 0)
	})
	t.Run("no flow without a cap", func(t *testing.T) {
		t.Parallel()
		var p pace
		now := play(&p, start, 40, constant(7), always)
		require.Zero(t, p.flow(now, 0))
		require.Zero(t, p.flow(now, math.NaN()))
	})
}

// Whatever happens when, the flow is a number from zero to the cap.
func TestPaceIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var p pace
		moment := rapid.OneOf(rapid.Int64Range(0, 1_000_000), rapid.Int64())
		for range rapid.IntRange(0, 50).Draw(t, "moves") {
			at := moment.Draw(t, "at")
			if rapid.Bool().Draw(t, "admit") {
				p.admit(at, rapid.IntRange(0, 5000).Draw(t, "n"))
			} else {
				p.look(at, rapid.Bool().Draw(t, "waits"))
			}
		}
		limit := rapid.Float64Range(0, 5000).Draw(t, "cap")
		f := p.flow(moment.Draw(t, "now"), limit)
		require.True(t, f.PerS >= 0 && f.PerS <= limit, "%v", f)
		require.True(t, f.Spread >= 0 && f.Spread <= 1, "%v", f)
	})
}
