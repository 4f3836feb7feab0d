package admission

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// systemA are the steps of system A.
func systemA(rate float64) Limits {
	return Limits{
		Tick: DefaultTick, RatePerS: rate, Law: "steps", FloorPerS: 1,
		Steps: []Step{{At: 0.8, RatePerS: 200}, {At: 0.9, RatePerS: 0}},
	}
}

// runs is a law that is being used: one tick after another.
type runs struct {
	lim  Limits
	st   State
	tick int64
}

// usage decides one tick with a good figure.
func (r *runs) usage(u float64) Decision {
	return r.next(Signals{Open: true, Expected: true, Known: true, Usage: u})
}

func (r *runs) next(sig Signals) Decision {
	r.tick++
	sig.Tick = r.tick
	var d Decision
	d, r.st = Decide(sig, r.lim, r.st)
	return d
}

// second is the sum of ten ticks.
func (r *runs) second(u float64) int {
	n := 0
	for range 10 {
		n += r.usage(u).N
	}
	return n
}

func TestStepsOfSystemA(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		usage  float64
		want   int
		reason string
	}{
		{0, 500, ReasonRate},
		{0.79, 500, ReasonRate},
		{0.8, 200, ReasonBusy},
		{0.89, 200, ReasonBusy},
		{0.9, 0, ReasonBusy},
		{1, 0, ReasonBusy},
		{7, 0, ReasonBusy},
	} {
		r := runs{lim: systemA(500)}
		require.Equal(t, row.want, r.second(row.usage), "usage %v", row.usage)
		require.Equal(t, row.reason, r.usage(row.usage).Reason, "usage %v", row.usage)
	}
}

func TestStepsNeverRaiseTheRate(t *testing.T) {
	t.Parallel()
	r := runs{lim: systemA(20)}
	require.Equal(t, 20, r.second(0.85))
	require.Equal(t, ReasonRate, r.usage(0.85).Reason, "200 a second is no bound for 20")
	require.Equal(t, 0, r.second(0.95))
	r = runs{lim: systemA(0)}
	require.Equal(t, 0, r.second(0))
	r = runs{lim: systemA(500)}
	r.lim.Steps = []Step{{At: 0.9, RatePerS: 300}, {At: 0.8, RatePerS: 200}}
	require.Equal(t, 200, r.second(0.95), "a higher step never allows more than a lower one")
}

func TestStepsHaveHysteresis(t *testing.T) {
	t.Parallel()
	r := runs{lim: systemA(1000)}
	require.Equal(t, ReasonBusy, r.usage(0.8).Reason)
	for range 100 {
		require.InDelta(t, 200, r.usage(0.76).RatePerS, 0, "not clearly below the step yet")
	}
	d := r.usage(0.74)
	require.Equal(t, ReasonRecovering, d.Reason)
	require.InDelta(t, 220, d.RatePerS, 1e-9)
	for range 1000 { // a figure that swings across a step does not flip the rate
		r.usage(0.81)
		require.LessOrEqual(t, r.usage(0.79).RatePerS, 200.0)
	}
	require.Equal(t, 0, r.second(0.9))
	require.InDelta(t, 0, r.usage(0.86).RatePerS, 0)
	require.InDelta(t, 20, r.usage(0.84).RatePerS, 1e-9, "climbs towards the lower step's rate")
	for range 100 {
		require.LessOrEqual(t, r.usage(0.84).RatePerS, 200.0)
	}
}

// Promise 6: an unknown load is the floor at the next tick, and what comes back
// comes step by step.
func TestUnknownLoadIsTheFloor(t *testing.T) {
	t.Parallel()
	unknown := map[string]Signals{
		"absent":         {Expected: true},
		"not a number":   {Expected: true, Known: true, Usage: math.NaN()},
		"negative":       {Expected: true, Known: true, Usage: -0.01},
		"infinite":       {Expected: true, Known: true, Usage: math.Inf(1)},
		"minus infinite": {Expected: true, Known: true, Usage: math.Inf(-1)},
		"of no pool":     {Expected: true, Known: true, Usage: PoolStats{}.Usage()},
	}
	for name, sig := range unknown {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sig.Open = true
			r := runs{lim: systemA(500)}
			require.Equal(t, 500, r.second(0.1))
			d := r.next(sig)
			require.Equal(t, ReasonUnknown, d.Reason)
			require.InDelta(t, 1, d.RatePerS, 0)
			require.True(t, math.IsNaN(d.Usage))
			n := d.N
			for range 99 {
				n += r.next(sig).N
			}
			require.Equal(t, 10, n, "the floor of one a second, for ten seconds")
			before := d.RatePerS
			for i := range 49 {
				d = r.usage(0.1)
				require.Equal(t, ReasonRecovering, d.Reason, "tick %d", i)
				require.Greater(t, d.RatePerS, before)
				require.LessOrEqual(t, d.RatePerS, before+10+1e-9, "500 a second in five seconds are 10 a tick")
				before = d.RatePerS
			}
			require.Equal(t, ReasonRate, r.usage(0.1).Reason)
			require.Equal(t, 500, r.second(0.1))
		})
	}
	r := runs{lim: systemA(500)}
	r.lim.FloorPerS = 0
	require.Zero(t, r.next(Signals{Open: true, Expected: true}).RatePerS, "a floor of nobody")
	r = runs{lim: systemA(5)}
	r.lim.FloorPerS = 100
	require.InDelta(t, 5, r.next(Signals{Open: true, Expected: true}).RatePerS, 0, "the floor never raises the rate")
}

func TestAFreshLeaderHasNothingToRecoverFrom(t *testing.T) {
	t.Parallel()
	r := runs{lim: systemA(100)}
	require.Equal(t, ReasonUnknown, r.next(Signals{Open: true, Expected: true}).Reason, "the sources were not read yet")
	require.Equal(t, 100, r.second(0.3))
}

func TestNoSignalExpectedIsTheEventsOwnRate(t *testing.T) {
	t.Parallel()
	r := runs{lim: systemA(30)}
	require.Equal(t, ReasonRate, r.next(Signals{Open: true}).Reason)
	r = runs{lim: systemA(30)}
	r.lim.Law = "none"
	require.Equal(t, 30, r.second(1), "law none looks at no load")
}

func TestSettingsTakeEffectAtOnce(t *testing.T) {
	t.Parallel()
	r := runs{lim: systemA(10)}
	require.Equal(t, 10, r.second(0.1))
	r.lim.RatePerS = 5000
	require.Equal(t, 500, r.usage(0.1).N)
	r.lim.RatePerS = 0
	require.Zero(t, r.usage(0.1).N)
	r.lim.RatePerS = 10
	d := r.next(Signals{Open: false, Expected: true, Known: true})
	require.Equal(t, Decision{Reason: ReasonNotOpen, Usage: 0}, d)
	require.Equal(t, 10, r.second(0))
}

func TestFractionsAreCarried(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		rate    float64
		seconds int
		want    int
	}{{1, 10, 10}, {0.1, 100, 10}, {3, 100, 300}, {0.25, 400, 100}, {33.3, 100, 3330}, {0.001, 10000, 10}} {
		r := runs{lim: systemA(row.rate)}
		n := 0
		for range row.seconds {
			n += r.second(0)
		}
		require.Equal(t, row.want, n, "%v a second for %d s", row.rate, row.seconds)
	}
}

func TestALateTickIsOneTick(t *testing.T) {
	t.Parallel()
	r := runs{lim: systemA(50)}
	require.Equal(t, 5, r.usage(0).N)
	for _, gap := range []int64{1, 9, 600, 1e9} {
		r.tick += gap
		require.Equal(t, 5, r.usage(0).N, "after %d missed ticks", gap)
	}
	again, _ := Decide(Signals{Tick: r.tick, Open: true, Expected: true, Known: true}, r.lim, r.st)
	require.Zero(t, again.N, "a tick is decided once")
	earlier, _ := Decide(Signals{Tick: r.tick - 5, Open: true, Expected: true, Known: true}, r.lim, r.st)
	require.Zero(t, earlier.N, "a tick number that goes back brings nobody")
}

func TestWhatTheCapHeldBackIsAskedForOnceMore(t *testing.T) {
	t.Parallel()
	good := Signals{Open: true, Expected: true, Known: true}
	r := runs{lim: systemA(50)}
	require.Equal(t, 5, r.next(good).N)
	held := good
	held.Unserved = 2
	require.Equal(t, 7, r.next(held).N)
	held.Unserved = 1000
	require.Equal(t, 10, r.next(held).N, "never more than one tick's worth on top")
	slow := runs{lim: systemA(1)}
	require.Equal(t, 1, slow.second(0))
	one := good
	one.Unserved = 1
	require.Equal(t, 1, slow.next(one).N, "or one whole person, where a tick is worth less")
	require.Equal(t, 0, slow.next(good).N)
	r.tick++ // a tick is missed
	require.Equal(t, 5, r.next(held).N, "nothing after a gap")
}

func TestABurstNeedsACall(t *testing.T) {
	t.Parallel()
	sig := Signals{Open: true, Expected: true, Known: true, Burst: true}
	r := runs{lim: systemA(0)}
	require.Equal(t, 1, r.next(sig).N, "the store adds the burst to a call, and its cap holds back the one")
	r = runs{lim: systemA(0.5)}
	require.Equal(t, 1, r.next(sig).N)
	r = runs{lim: systemA(50)}
	require.Equal(t, 5, r.next(sig).N)
	sig.Usage = 0.95
	require.Zero(t, r.next(sig).N, "not while the load bounds the rate")
	sig.Open = false
	require.Zero(t, r.next(sig).N)
}

// Promise 5: never above the rate over any run of ticks, never negative, no burst
// after a gap; and whatever comes, the bound is a number.
func TestDecideProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		figure := rapid.OneOf(rapid.Float64Range(-0.2, 1.3), rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, 0.8, 0.9, 1}))
		setting := rapid.OneOf(rapid.Float64Range(0, 1000), rapid.SampledFrom([]float64{0, 0.1, 1, 10, 5000}))
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Step {
			return Step{At: rapid.Float64Range(0, 1).Draw(t, "at"), RatePerS: setting.Draw(t, "step rate")}
		}), 0, 4)
		lim := Limits{
			Tick: DefaultTick, RatePerS: setting.Draw(t, "rate"), FloorPerS: setting.Draw(t, "floor"),
			Steps: steps.Draw(t, "steps"), Law: rapid.SampledFrom([]string{"steps", "target", "none"}).Draw(t, "law"),
			Target: rapid.Float64Range(0.05, 0.95).Draw(t, "target"),
		}
		type tick struct {
			at int64
			n  int
		}
		var (
			st    State
			at    int64
			ticks []tick
			last  float64
		)
		show := rapid.OneOf(rapid.Float64Range(0, 1), rapid.SampledFrom([]float64{0, 1, -1, 7, math.NaN()})).Draw(t, "show")
		for i := range rapid.IntRange(1, 120).Draw(t, "ticks") {
			at += rapid.SampledFrom([]int64{1, 1, 1, 1, 0, 2, 50}).Draw(t, "gap")
			sig := Signals{
				Tick: at, Open: rapid.SampledFrom([]bool{true, true, true, false}).Draw(t, "open"),
				Expected: rapid.SampledFrom([]bool{true, true, false}).Draw(t, "expected"),
				Known:    rapid.SampledFrom([]bool{true, true, true, false}).Draw(t, "known"), Usage: figure.Draw(t, "usage"),
				Wanted: figure.Draw(t, "wanted"), Show: show,
				Asked: rapid.IntRange(0, 500).Draw(t, "asked"), Given: rapid.IntRange(0, 500).Draw(t, "given"),
			}
			d, next := Decide(sig, lim, st)
			if d.N < 0 || d.RatePerS < 0 || d.RatePerS > lim.RatePerS || math.IsNaN(d.RatePerS) {
				t.Fatalf("tick %d: %+v with %+v", i, d, lim)
			}
			if worth := lim.RatePerS * 0.1; float64(d.N) > worth+1 {
				t.Fatalf("tick %d: %d people, one tick is worth %v", i, d.N, worth)
			}
			if !sig.Open && d.N != 0 {
				t.Fatalf("tick %d: %d people let in while not open", i, d.N)
			}
			known := sig.Known && sig.Usage >= 0 && !math.IsInf(sig.Usage, 1)
			if bound := lim.bound(sig, known); d.RatePerS > bound {
				t.Fatalf("tick %d: rate %v above %v with %+v", i, d.RatePerS, bound, sig)
			}
			if rise := lim.RatePerS / 50; i > 0 && d.Reason == ReasonRecovering && last > 0 && d.RatePerS > last+rise+1e-6 && at == ticks[len(ticks)-1].at+1 && st.met {
				t.Fatalf("tick %d: rose from %v to %v, at most by %v", i, last, d.RatePerS, rise)
			}
			last = d.RatePerS // 0 while not open: the bound climbs on unseen
			ticks = append(ticks, tick{at, d.N})
			st = next
		}
		for i := range ticks { // every window from i on
			sum := 0
			for _, k := range ticks[i:] {
				sum += k.n
				span := float64(k.at-ticks[i].at+1) * 0.1
				if float64(sum) > lim.RatePerS*span+1 {
					t.Fatalf("%d people in %.1f s at %v a second", sum, span, lim.RatePerS)
				}
			}
		}
	})
}

// bound is the law without memory: what a figure allows at most.
func (l Limits) bound(sig Signals, known bool) float64 {
	most := l.RatePerS
	switch {
	case l.Law == "none" || !sig.Expected:
	case !known:
		most = min(most, l.FloorPerS)
	case l.Law == "steps":
		for _, s := range l.Steps {
			if sig.Usage >= s.At {
				most = min(most, s.RatePerS)
			}
		}
	}
	return most
}

func TestDecideConverges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lim := systemA(rapid.Float64Range(1, 5000).Draw(t, "rate"))
		r := runs{lim: lim}
		for _, u := range rapid.SliceOfN(rapid.Float64Range(-1, 2), 0, 40).Draw(t, "before") {
			r.usage(u)
		}
		for range 60 {
			r.usage(0.1)
		}
		if d := r.usage(0.1); d.RatePerS != lim.RatePerS || d.Reason != ReasonRate {
			t.Fatalf("after six idle seconds %+v, want the event's rate of %v", d, lim.RatePerS)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	r := runs{lim: systemA(500)}
	for b.Loop() {
		r.usage(0.85)
	}
}
