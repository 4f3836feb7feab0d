package load

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// everyHabit is a crowd that does everything at once.
var everyHabit = Habits{Away: 0.1, Leave: 0.1, Refresh: 0.2, Tabs: 0.2, Poll: 0.2, Deaf: 0.05, Bots: 0.02}

// Promises 2 and 9: whatever people do, a correct service is OK, and what bots do is
// counted apart.
func TestHabitsOnAnHonestService(t *testing.T) {
	t.Parallel()
	_, url := newFake(t, honest, func(f *fake) { f.rate, f.cuts = 30, true })
	c := crowdFor(url)
	c.Crowd.Users, c.Crowd.Habits, c.Crowd.Forwarded = 180, everyHabit, true
	c.Checks.Sample, c.Checks.Patience = 0.3, 8*time.Second // the fake cuts after two, and a busy machine is late
	r := runOn(t, c)
	require.True(t, r.OK, r.Why)
	require.Zero(t, r.Errors.Server.Total, r.Errors.Server)
	require.Subset(t, []string{noteDeaf}, r.Notes, "who became deaf at the end may not be judged")
	n := r.Counts
	require.Equal(t, int64(180), n.Arrived+r.Bots.Count)
	require.Equal(t, n.Joined, n.Admitted+n.LeftLine+n.Deaf, "whoever did not leave and did listen came in")
	for name, count := range map[string]int64{
		"left": n.LeftLine, "reloads": n.Reloads, "tabs": n.Tabs, "deaf": n.Deaf, "polls": n.Polls, "not modified": n.NotModified,
		"bots": r.Bots.Count, "refused": r.Bots.Refused,
	} {
		require.Positive(t, count, name)
	}
	require.Less(t, r.Bots.Places, r.Bots.Refused)
	require.Positive(t, r.Bots.Refusals.ByKind["429 rate_limited"])
	require.Positive(t, r.Bots.Refusals.ByKind["401 token_invalid"])
	require.Positive(t, r.LatencyMS[mPositionAgePolled].Count)
	require.Positive(t, r.LatencyMS[mToTokenPolled].Count)
}

// Promise 1: each habit brings its own breach to light.
func TestHabitsBringBreachesToLight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		breach breach
		habits Habits
		want   promise
	}{
		{placeLost, Habits{Refresh: 1}, promisePlace},
		{placeBack, Habits{Refresh: 1}, promisePlace},
		{staysIn, Habits{Leave: 1}, promiseKept},
		{oneTab, Habits{Tabs: 1}, promiseGrant},
		{tabBack, Habits{Tabs: 1}, promisePlace},
		{openPlace, Habits{Bots: 0.05}, promisePlace},
	} {
		t.Run(string(c.breach), func(t *testing.T) {
			t.Parallel()
			rate := 16.0
			if c.habits.Leave > 0 {
				rate = 5 // slow enough for people to leave before their turn
			}
			r := runOn(t, habitual(t, c.breach, c.habits, rate))
			require.False(t, r.OK)
			require.Positive(t, verdict(t, r, c.want).Broken, "promise %d", c.want)
		})
	}
}

// habitual is a small crowd with habits, of which nobody is asked more than usual.
func habitual(t *testing.T, b breach, h Habits, rate float64) Config {
	t.Helper()
	_, url := newFake(t, b, func(f *fake) { f.rate, f.cuts = rate, b != neverCut })
	c := crowdFor(url)
	c.Workers, c.Crowd.Users, c.Crowd.Habits, c.Crowd.Forwarded = 1, 60, h, true
	c.Checks.Sample, c.Checks.Patience = 0, 1500*time.Millisecond
	return c
}

// A service that keeps sockets which nobody reads, that does not say when to ask
// again, or that serves bots before people breaks no numbered promise: it is not OK
// all the same.
func TestHabitsThatAServiceMustBear(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		breach breach
		habits Habits
		why    string
	}{
		{neverCut, Habits{Deaf: 0.1}, "not cut"},
		{impatient, Habits{Poll: 0.2}, "server errors"},
		{botsFirst, Habits{Bots: 0.1}, "people failed"},
	} {
		t.Run(string(c.breach), func(t *testing.T) {
			t.Parallel()
			r := runOn(t, habitual(t, c.breach, c.habits, 16))
			require.False(t, r.OK)
			require.Contains(t, strings.Join(r.Why, "\n"), c.why)
		})
	}
}

// Promise 3: a socket that had no time to be cut is not judged, and it says so.
func TestDeafInAShortRunAreNotJudged(t *testing.T) {
	t.Parallel()
	c := habitual(t, neverCut, Habits{Deaf: 0.1}, 16)
	c.Checks.Patience = time.Minute
	r := runOn(t, c)
	require.True(t, r.OK, r.Why)
	require.Equal(t, []string{noteDeaf}, r.Notes)
}

// Promise 7: the seed decides who does what, near the shares that were asked for.
func TestHabitsAreShares(t *testing.T) {
	t.Parallel()
	crowd := Crowd{Users: 20_000, Seed: 5, Habits: Habits{Away: 0.1, Leave: 0.05, Refresh: 0.2, Tabs: 0.1, Poll: 0.3, Deaf: 0.02, Bots: 0.08}}
	n := map[string]int{}
	for i := range crowd.Users {
		h, _ := crowd.habits(i, 0)
		again, _ := crowd.habits(i, 0)
		require.Equal(t, h, again)
		for name, does := range map[string]bool{
			"leave": h.leaves, "refresh": h.reloads, "poll": h.kind == polls, "deaf": h.kind == deaf, "bots": h.kind == bot,
			"away": h.away, "tabs": h.tabs,
		} {
			if does {
				n[name]++
			}
		}
		require.False(t, h.kind == polls && (h.tabs || h.away), "who asks has no socket to lose")
	}
	for name, share := range map[string]float64{
		"leave": 0.05, "refresh": 0.2, "poll": 0.3, "deaf": 0.02, "bots": 0.08, "away": 0.1 * 0.7, "tabs": 0.1 * 0.7,
	} {
		require.InDelta(t, share, float64(n[name])/float64(crowd.Users), 0.01, name)
	}
}

// Promise 2: who asks is told of a turn; what an instance's memory is behind is no breach.
func TestJudgePolls(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	for asked, broken := range map[int64]int64{
		4 * second: 0, 11 * second: 0, 13 * second: 1, // admitted in second 5 of the run
	} {
		for _, polled := range []bool{true, false} {
			tally := newTally()
			judgePolls(tally, []fact{{IAT: 1005, Waiting: asked, Polled: polled}}, start, 0)
			if !polled {
				broken = 0 // on a socket a position may have been under way
			}
			require.Equal(t, broken, tally.verdicts()[promiseGrant-1].Broken, "asked %d, polled %v", asked, polled)
		}
	}
}
