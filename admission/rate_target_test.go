package admission

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// kept is law target with a cap of so many a second; package law tries it on sites.
func kept(rate float64) runs {
	return runs{lim: Limits{Tick: DefaultTick, RatePerS: rate, Law: "target", Target: 0.75, FloorPerS: 1}}
}

// used decides one tick in which everything is used that the one before allowed.
func (r *runs) used(u float64, before Decision) Decision {
	return r.next(Signals{Open: true, Expected: true, Known: true, Usage: u, Asked: before.N, Given: before.N})
}

// seconds decides so many seconds at a usage, all used.
func (r *runs) seconds(n int, u float64) (d Decision) {
	for range n * 10 {
		d = r.used(u, d)
	}
	return d
}

func TestTargetBeginsSmallAndClimbsWhileNothingIsSeen(t *testing.T) {
	t.Parallel()
	r := kept(1000)
	d := r.seconds(1, 0)
	require.InDelta(t, 10, d.RatePerS, 0.5, "a hundredth of its own")
	require.Equal(t, ReasonRecovering, d.Reason)
	d = r.seconds(60, 0)
	require.InDelta(t, 25, d.RatePerS, 3, "two and a half times in the minute that a load may take to show")
	require.InDelta(t, 1000, r.seconds(600, 0).RatePerS, 0, "an idle site is no limit")
	require.Equal(t, ReasonRate, r.seconds(1, 0).Reason)
}

func TestTargetHoldsWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	r := kept(1000)
	r.seconds(120, 0)
	at := r.seconds(30, 0.3).RatePerS
	for range 10 { // 0.3 now, of what was let in at a rate that has grown more than twice since
		d := r.seconds(1, 0.3)
		require.LessOrEqual(t, d.RatePerS, at*1.02, "hardly more, before what was let in is seen")
		at = d.RatePerS
	}
	steady := r.seconds(120, 0.75).RatePerS
	require.InDelta(t, steady, r.seconds(300, 0.75).RatePerS, 1e-9, "at the target it stands")
	require.Equal(t, ReasonTarget, r.seconds(1, 0.75).Reason)
	require.Less(t, r.seconds(30, 1).RatePerS, steady/1.5)
	require.Equal(t, ReasonBusy, r.seconds(1, 1).Reason)
}

// What nobody uses teaches nothing: an empty line does not wind the rate up.
func TestTargetDoesNotWindUp(t *testing.T) {
	t.Parallel()
	r := kept(1000)
	d := r.seconds(100, 0)
	before := d.RatePerS
	for range 6000 {
		d = r.next(Signals{Open: true, Expected: true, Known: true, Usage: 0, Asked: d.N, Given: 0})
	}
	require.LessOrEqual(t, d.RatePerS, before*1.1)
}

// Promise 6, for law target: the floor at once, and back in steps to what was learnt;
// after a minute it is learnt anew.
func TestTargetWithoutAFigureIsTheFloor(t *testing.T) {
	t.Parallel()
	unknown := Signals{Open: true, Expected: true, Known: true, Usage: math.NaN()}
	r := kept(100)
	r.seconds(400, 0.3)
	learnt := r.seconds(200, 0.75).RatePerS
	require.Greater(t, learnt, 10.0)
	d := r.next(unknown)
	require.Equal(t, ReasonUnknown, d.Reason)
	require.InDelta(t, 1, d.RatePerS, 0)
	before := 1.0
	for d = r.used(0.7, d); d.RatePerS < learnt*0.99; d = r.used(0.7, d) {
		require.Equal(t, ReasonRecovering, d.Reason)
		require.LessOrEqual(t, d.RatePerS, before+100.0/swing/10+1e-9, "from nothing to its own in a minute at least")
		require.Greater(t, d.RatePerS, before-1e-9)
		before = d.RatePerS
	}
	require.InDelta(t, learnt, d.RatePerS, learnt/50)
	for range forgotten * 10 {
		r.next(unknown)
	}
	require.InDelta(t, 1, r.used(0.7, d).RatePerS, 0.1, "after a minute what was learnt may no longer be so")
}

// Promise 13: a new leader goes on where the one before it was.
func TestANewLeaderGoesOnFromTheRateItHeard(t *testing.T) {
	t.Parallel()
	r := kept(1000)
	r.st = Resume(120)
	require.InDelta(t, 120, r.seconds(5, 0.75).RatePerS, 1)
	r = kept(50)
	r.st = Resume(120)
	require.InDelta(t, 50, r.seconds(1, 0.75).RatePerS, 0, "never above the event's own")
}

// Promise 13: the rate counts turns, the site sees those that are used.
func TestNoShowsAreMeasuredAndMadeUpFor(t *testing.T) {
	t.Parallel()
	var c Turns
	require.Zero(t, c.Show(0, 0), "nothing is known yet")
	require.InDelta(t, 1, c.Show(100, 0), 1e-9)
	share := 0.0
	for i := range int64(40) {
		share = c.Show(100+60*i, 40*i)
	}
	require.InDelta(t, 0.6, share, 0.01)
	require.Zero(t, c.Show(0, 0), "another event of the same name")

	r := kept(1000)
	r.st = Resume(50)
	all := r.seconds(5, 0.75).RatePerS
	sig := Signals{Open: true, Expected: true, Known: true, Usage: 0.75, Show: 0.5}
	require.InDelta(t, 2*all, r.next(sig).RatePerS, 1, "half of the turns are used: twice as many")
}
