package admission

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// ticksOf plays Next tick by tick: each gives the signals of its tick.
func ticksOf(s Starting, set waitroom.StartSettings, n int, at func(i int) StartSignals) Starting {
	for i := range n {
		s = s.Next(at(i), set)
	}
	return s
}

// doc.go promise 15: the thresholds start the waiting in their tick, and it ends with
// the calm, not before and not by a rush.
func TestPromise15WaitingStartsAndEnds(t *testing.T) {
	t.Parallel()
	begin := time.UnixMilli(1_800_000_000_000)
	set := waitroom.StartSettings{Usage: 0.8, ArrivalsPerS: 100, Keep: waitroom.Duration(10 * time.Second)}
	now, seq := begin, waitroom.Seq(0)
	s := Starting{}
	// play is so many ticks of arrivals a tick at a usage, with so many in the line.
	play := func(ticks, perTick int, usage float64, waiting int64) Starting {
		for range ticks {
			now, seq = now.Add(DefaultTick), seq+waitroom.Seq(perTick)
			s = s.Next(StartSignals{
				Now: now, Newest: seq, Waiting: waiting, RatePerS: 20,
				Expected: true, Known: !math.IsNaN(usage), Usage: usage,
			}, set)
		}
		return s
	}
	require.False(t, play(100, 9, 0.79, 9).Waits, "below both")
	require.InDelta(t, 90, s.Arrivals, 1)

	require.True(t, play(1, 9, 0.8, 9).Waits, "in its tick")
	require.Equal(t, StartUsage, s.Why)
	require.True(t, play(300, 1, 0.76, 0).Waits, "not clearly below")
	require.True(t, play(99, 1, 0.74, 0).Waits)
	require.True(t, play(1, 1, 0.8, 0).Waits, "the calm begins anew")
	require.True(t, play(100, 1, 0.1, 0).Waits)
	require.False(t, play(2, 1, 0.1, 0).Waits)
	require.Empty(t, s.Why)

	require.False(t, play(9, 9, 0.1, 0).Waits)
	require.True(t, play(1, 80, 0.1, 0).Waits, "a rush is seen within its second")
	require.Equal(t, StartArrivals, s.Why)
	require.True(t, play(200, 9, 0.1, 5).Waits, "90 a second are no calm of 100")
	require.True(t, play(200, 1, 0.1, 21).Waits, "ending it would let 21 in at once")
	require.False(t, play(120, 1, 0.1, 20).Waits)

	require.True(t, play(1, 1, math.NaN(), 0).Waits, "closed when in doubt")
	require.Equal(t, ReasonUnknown, s.Why)
	require.False(t, ticksOf(Starting{}, set, 50, func(i int) StartSignals {
		return StartSignals{Now: begin.Add(time.Duration(i) * DefaultTick), RatePerS: 20}
	}).Waits, "no load is expected at all: arrivals alone count")

	// After a pause, or a leader of whom nothing is known, a long line waits on.
	s = Starting{}.Next(StartSignals{Now: begin, Newest: 500, Waiting: 500, RatePerS: 20}, set)
	require.True(t, s.Waits)
	require.Equal(t, StartLine, s.Why)
	// Another store, or another epoch, is no rush.
	s = ticksOf(Starting{}, set, 30, func(i int) StartSignals {
		sig := StartSignals{Now: begin.Add(time.Duration(i) * DefaultTick), Newest: 5, Epoch: 1, RatePerS: 20}
		if i > 15 {
			sig.Newest, sig.Epoch = 9_000_000, 8_999_999
		}
		return sig
	})
	require.False(t, s.Waits)
}

// Whatever comes: nobody passes in a tick whose signals are at a threshold, and
// between two states lies the calm.
func TestStartingProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		set := waitroom.StartSettings{
			Usage:        rapid.SampledFrom([]float64{0, 0.05, 0.8, 1}).Draw(t, "usage"),
			ArrivalsPerS: rapid.SampledFrom([]float64{0, 1, 50}).Draw(t, "arrivals"),
			Keep:         waitroom.Duration(rapid.IntRange(1, 5).Draw(t, "keep")) * waitroom.Duration(time.Second),
		}
		var s Starting
		var seq waitroom.Seq
		begin := time.UnixMilli(1_800_000_000_000)
		now, asked := begin, begin.Add(-time.Hour)
		for range rapid.IntRange(1, 200).Draw(t, "ticks") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{100, 100, 100, 700, 3000}).Draw(t, "gap")) * time.Millisecond)
			seq += waitroom.Seq(rapid.IntRange(0, 8).Draw(t, "came"))
			sig := StartSignals{
				Now: now, Newest: seq, Waiting: int64(rapid.IntRange(0, 40).Draw(t, "waiting")), RatePerS: 20,
				Expected: rapid.Bool().Draw(t, "expected"), Known: rapid.Bool().Draw(t, "known"), Usage: rapid.Float64Range(0, 1).Draw(t, "at"),
			}
			before := s
			s = s.Next(sig, set)
			if set.Usage > 0 && (sig.Known && sig.Usage >= set.Usage || sig.Expected && !sig.Known) ||
				set.ArrivalsPerS > 0 && s.Arrivals >= set.ArrivalsPerS {
				asked = now
				require.True(t, s.Waits)
			}
			if before.Waits && !s.Waits {
				require.GreaterOrEqual(t, now.Sub(asked), time.Duration(set.Keep))
				require.LessOrEqual(t, sig.Waiting, int64(20))
			}
			require.Equal(t, s.Waits, s.Why != "")
		}
	})
}

// doc.go promise 15, of the loop: below the thresholds everybody passes at each tick, at
// them the rate counts, and a new leader goes on as the last one was heard to have.
func TestWaitingStartsInTheLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		load := func(usage float64) func(context.Context, waitroom.Event) (Reading, error) {
			return func(context.Context, waitroom.Event) (Reading, error) {
				return Reading{Usage: usage, At: time.Now()}, nil
			}
		}
		ev := free("a", 20)
		ev.Starts, ev.Waiting = waitroom.StartSettings{Usage: 0.8, Keep: waitroom.Duration(time.Second)}, 3
		line, source := newFakeLine(ev), &fakeSource{usage: load(0.5)}
		c := start(t, line, &terms{trusted: time.Hour}, source)
		later := func() []promoted { // a second on
			n := len(line.of("a"))
			ev.Now = ev.Now.Add(time.Second)
			line.set(ev)
			time.Sleep(time.Second + 50*time.Millisecond)
			return line.of("a")[n:]
		}
		later()
		for _, p := range later() {
			require.True(t, p.pass)
		}
		s, _ := c.Decision("a")
		require.True(t, s.PassThrough)
		require.Empty(t, s.Starts)
		source.set(load(0.85))
		taken := later()
		require.False(t, taken[len(taken)-1].pass)
		s, _ = c.Decision("a")
		require.False(t, s.PassThrough)
		require.Equal(t, StartUsage, s.Starts)
		source.set(load(0.3))
		for range 4 {
			taken = later()
		}
		require.True(t, taken[len(taken)-1].pass)
	})
}
