package load

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// second is a microsecond count.
const second = 1_000_000

func judged(t *testing.T, p promise, facts []fact, l limits) Verdict {
	t.Helper()
	tally := newTally()
	judge(tally, facts, l)
	for _, v := range tally.verdicts() {
		if v.Promise == p {
			return v
		}
	}
	return Verdict{}
}

// Promise 2 of this package in the cases that could be mistaken for a breach.
func TestJudgeOrder(t *testing.T) {
	t.Parallel()
	a := fact{User: 1, Sent: 1, Answered: 1 * second, IAT: 100, Admitted: 10 * second, End: endStays}
	b := fact{User: 2, Sent: 2 * second, Answered: 3 * second, IAT: 99, Admitted: 9 * second, End: endStays}
	still := fact{User: 3, Sent: 1, Answered: 1 * second, Waiting: 15 * second, End: endWaiting}
	with := func(f fact, change func(*fact)) fact { change(&f); return f }
	for _, c := range []struct {
		name   string
		facts  []fact
		broken int64
	}{
		{"overtaken", []fact{a, b}, 1},
		{"in whatever order they report", []fact{b, a}, 1},
		{"the same second", []fact{with(a, func(f *fact) { f.IAT = 99 }), b}, 0},
		{"joins that overlap prove nothing", []fact{with(a, func(f *fact) { f.Answered = 2*second + 1 }), b}, 0},
		{"clocks of two processes differ a little", []fact{with(a, func(f *fact) { f.Answered = 2*second - 1000 }), b}, 0},
		{"still waits long after", []fact{still, b}, 1},
		{"a position that was under way", []fact{with(still, func(f *fact) { f.Waiting = 13 * second }), b}, 0},
		{"gave up, so it does not stay", []fact{with(still, func(f *fact) { f.End = endGone }), b}, 0},
		{"B never in", []fact{a, with(b, func(f *fact) { f.IAT = 0 })}, 0},
	} {
		v := judged(t, promiseOrder, c.facts, limits{fifo: true})
		require.Equal(t, c.broken, v.Broken, "%s: %v", c.name, v.Examples)
	}
	v := judged(t, promiseOrder, []fact{with(a, func(f *fact) { f.Lane = "eu" }), with(b, func(f *fact) { f.Lane = "us" })}, limits{fifo: true})
	require.Zero(t, v.Broken, "another lane may be faster")
	v = judged(t, promiseOrder, []fact{with(a, func(f *fact) { f.Lane = "eu" }), with(b, func(f *fact) { f.Lane = "eu" }), still}, limits{fifo: true})
	require.Equal(t, int64(1), v.Broken, "within a lane")
	v = judged(t, promiseOrder, []fact{a, b}, limits{})
	require.Zero(t, v.Checked)
	require.NotEmpty(t, v.Notes, "an order that is not fifo is not judged, and it says so")
}

func admittedIn(iat int64, n int) (facts []fact) {
	for range n {
		facts = append(facts, fact{IAT: iat, Admitted: 1, End: endStays})
	}
	return facts
}

func TestJudgeCap(t *testing.T) {
	t.Parallel()
	l := limits{rates: []rateSeen{{at: 90, rate: 50}, {at: 100, rate: 50}, {at: 101, rate: 20}, {at: 130, rate: 20}}}
	for _, c := range []struct {
		iat    int64
		n      int
		broken int64
	}{
		{100, 55, 0},               // rate and one tick
		{100, 56, 1},               // one more
		{103, 55, 0},               // the rate was lowered a moment ago
		{120, 22, 0}, {120, 23, 1}, // long ago
	} {
		v := judged(t, promiseCap, admittedIn(c.iat, c.n), l)
		require.Equal(t, c.broken, v.Broken, "%d in second %d: %v", c.n, c.iat, v.Examples)
	}
	l.opensAt, l.burst = 100, 30
	require.Zero(t, judged(t, promiseCap, admittedIn(100, 85), l).Broken)
	require.Equal(t, int64(1), judged(t, promiseCap, admittedIn(100, 86), l).Broken)
	require.Equal(t, int64(1), judged(t, promiseCap, admittedIn(98, 86), l).Broken, "the burst is the opening's only")
	l.burst = -1
	v := judged(t, promiseCap, admittedIn(100, 86), l)
	require.Zero(t, v.Checked)
	require.NotEmpty(t, v.Notes)
	require.NotEmpty(t, judged(t, promiseCap, admittedIn(100, 1), limits{}).Notes, "without a rate nothing is judged")
}

func TestJudgeInside(t *testing.T) {
	t.Parallel()
	inside := func(user int, from, left int64) fact {
		return fact{User: user, Entry: string(rune('a' + user)), IAT: 1, Expires: 301_000, Admitted: from, Left: left, End: endLeft}
	}
	l := limits{maxActive: 1}
	require.Zero(t, judged(t, promiseCap, []fact{inside(1, 10, 20), inside(2, 20, 30)}, l).Broken)
	require.Equal(t, int64(1), judged(t, promiseCap, []fact{inside(1, 10, 21), inside(2, 20, 30)}, l).Broken)
	entered := inside(1, 10, 0)
	entered.Entered = 15
	require.Zero(t, judged(t, promiseCap, []fact{entered, inside(2, 20, 30)}, l).Broken, "how long a session lasts is not known")
	l.sessionTTL = time.Minute
	require.Equal(t, int64(1), judged(t, promiseCap, []fact{entered, inside(2, 20, 30)}, l).Broken)
	l.maxActive = -1
	require.NotEmpty(t, judged(t, promiseCap, nil, l).Notes)
}

func TestJudgeSeats(t *testing.T) {
	t.Parallel()
	has := func(user int, answered, until int64) fact {
		return fact{User: user, Purchases: []purchase{{ID: "r", Seats: []string{"A-1"}, Quantity: 1, Answered: answered, Until: until}}}
	}
	const s = second
	for _, c := range []struct {
		name   string
		facts  []fact
		broken int64
	}{
		{"sold twice", []fact{has(1, 1*s, 0), has(2, 9*s, 0)}, 1},
		{"sold three times", []fact{has(1, 1*s, 0), has(2, 9*s, 0), has(3, 8*s, 0)}, 2},
		{"hold ended, then sold", []fact{has(1, 1*s, 5*s), has(2, 6*s, 0)}, 0},
		{"held by two", []fact{has(1, 1*s, 50*s), has(2, 6*s, 60*s)}, 1},
		{"a short hold inside a long one hides nothing", []fact{has(1, 1*s, 90*s), has(2, 80*s, 85*s), has(3, 86*s, 0)}, 2},
	} {
		v := judged(t, promiseSeat, c.facts, limits{perUser: 1})
		require.Equal(t, c.broken, v.Broken, "%s: %v", c.name, v.Examples)
	}
	slot := func(user int, answered, until int64) fact {
		f := has(user, answered, until)
		f.Purchases[0].Places = map[string]int64{"A-1": 2}
		return f
	}
	require.Zero(t, judged(t, promiseSeat, []fact{slot(1, 1*s, 0), slot(2, 9*s, 0)}, limits{perUser: 1}).Broken, "a slot for two")
	require.Zero(t, judged(t, promiseSeat, []fact{slot(1, 1*s, 0), slot(2, 9*s, 12*s), slot(3, 20*s, 0)}, limits{perUser: 1}).Broken, "a hold ended")
	require.Equal(t, int64(1), judged(t, promiseSeat, []fact{slot(1, 1*s, 0), slot(2, 9*s, 0), slot(3, 8*s, 0)}, limits{perUser: 1}).Broken)
	two := has(1, 1, 0)
	two.Purchases[0].Quantity = 3
	require.Equal(t, int64(1), judged(t, promiseSeat, []fact{two}, limits{perUser: 2}).Broken)
	require.NotEmpty(t, judged(t, promiseSeat, []fact{two}, limits{perUser: -1}).Notes)
}

func TestToToken(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	in := func(lag time.Duration, ms int64) fact {
		return fact{IAT: 1005, Promoted: 1005_000 + ms, Prompt: true, Admitted: (5_000+ms)*1000 + lag.Microseconds()}
	}
	h := newHistograms()
	require.Empty(t, toToken(h, []fact{in(40*time.Millisecond, 250), in(40*time.Millisecond, 0)}, start, 0))
	require.InDelta(t, 40, h.latencies()[mToToken].P50, 0.1)
	require.InDelta(t, 290, h.latencies()[mToTokenAtMost].Max, 1)
	require.Zero(t, int(h.latencies()[mToTokenAtLeast].Max))

	untold := in(1500*time.Millisecond, 250)
	untold.Promoted = 0
	h = newHistograms()
	require.Contains(t, toToken(h, []fact{untold}, start, 0), "does not tell")
	require.NotContains(t, h.latencies(), mToToken)
	require.InDelta(t, 1750, h.latencies()[mToTokenAtMost].Max, 2)
	require.InDelta(t, 750, h.latencies()[mToTokenAtLeast].Max, 1)

	h = newHistograms()
	require.Empty(t, toToken(h, []fact{in(-40*time.Millisecond, 250)}, start, time.Second))
	require.InDelta(t, 960, h.latencies()[mToToken].Max, 1, "the clocks' difference counts")
	away := in(time.Minute, 250)
	away.Prompt = false
	h = newHistograms()
	require.Empty(t, toToken(h, []fact{away}, start, 0))
	require.Empty(t, h.latencies(), "who was away by choice says nothing of the service")
}

func reportOf(t *testing.T, admitted map[int64]int64, sold map[string]string, joins ...time.Duration) *Report {
	t.Helper()
	h, tally := newHistograms(), newTally()
	for _, d := range joins {
		h.record(mJoin, d)
	}
	tally.check(promisePlace, true, "")
	r := &Report{
		Version: 1, Event: "e", StartedAt: time.Unix(1000, 0), TookS: 10, Setup: Setup{Users: 1, Workers: 1, BytesPerUser: 100},
		Counts: Counts{Joined: 1, Calls: 10}, Targets: []string{"http://a"},
		Evidence: Evidence{AdmittedPerSecond: admitted, RatePerSecond: map[int64]float64{1000: 10}, Sold: sold},
	}
	require.NoError(t, r.finish(h, tally))
	require.True(t, r.OK, r.Why)
	var file bytes.Buffer
	require.NoError(t, r.WriteJSON(&file))
	back, err := ReadReport(&file)
	require.NoError(t, err)
	return back
}

// Reports that are each OK may not be so together.
func TestMergeJudgesTogether(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond
	a := reportOf(t, map[int64]int64{1000: 6}, map[string]string{"A-1": "r1"}, 1*ms, 2*ms)
	b := reportOf(t, map[int64]int64{1000: 5}, map[string]string{"A-2": "r2"}, 900*ms)
	m, err := Merge([]*Report{a, b})
	require.NoError(t, err)
	require.True(t, m.OK, m.Why)
	require.Equal(t, int64(2), m.Counts.Joined)
	require.Equal(t, 2, m.Setup.Users)
	require.Equal(t, int64(100), m.Setup.BytesPerUser)
	require.Equal(t, int64(3), m.LatencyMS[mJoin].Count)
	require.InDelta(t, 900, m.LatencyMS[mJoin].Max, 1)
	require.Equal(t, []string{"http://a"}, m.Targets)
	again, err := Merge([]*Report{m, reportOf(t, nil, nil)})
	require.NoError(t, err)
	require.Equal(t, m.LatencyMS, again.LatencyMS, "a merged report can be merged")

	over, err := Merge([]*Report{a, reportOf(t, map[int64]int64{1000: 6}, nil)})
	require.NoError(t, err)
	require.False(t, over.OK, "twelve in one second, each machine saw six")
	twice, err := Merge([]*Report{a, reportOf(t, nil, map[string]string{"A-1": "r9"})})
	require.NoError(t, err)
	require.False(t, twice.OK)
	other := *b
	other.Event = "f"
	_, err = Merge([]*Report{a, &other})
	require.Error(t, err)
}

func TestTooManyServerErrorsAreNotOK(t *testing.T) {
	t.Parallel()
	r := &Report{Setup: Setup{MaxErrors: 0.1}, Counts: Counts{Joined: 1, Calls: 100}}
	r.Errors.Own.countN("no_ports", "", 50)
	r.Errors.Server.countN("timeout", "", 10)
	require.NoError(t, r.finish(newHistograms(), newTally()))
	require.True(t, r.OK, r.Why)
	r.Errors.Server.count("timeout", "")
	require.NoError(t, r.finish(newHistograms(), newTally()))
	require.False(t, r.OK)
}

// A second that straddles two of the clock's own is a window like any other.
func TestJudgeWindows(t *testing.T) {
	t.Parallel()
	l := limits{rates: []rateSeen{{at: 90, rate: 10}, {at: 130, rate: 10}}}
	at := func(ms ...int64) (facts []fact) {
		for _, m := range ms {
			for range 8 {
				facts = append(facts, fact{IAT: m / 1000, Promoted: m, Admitted: 1, End: endStays})
			}
		}
		return facts
	}
	require.Zero(t, judged(t, promiseCap, at(100_900, 101_900), l).Broken)
	require.Positive(t, judged(t, promiseCap, at(100_900, 101_100), l).Broken, "16 in 200 ms, 8 in each second")
	rough := at(100_900, 101_100)
	for i := range rough {
		rough[i].Promoted = 0
	}
	v := judged(t, promiseCap, rough, l)
	require.Zero(t, v.Broken)
	require.NotEmpty(t, v.Notes)
}

// The cap is that of each lane, and that of the event over all.
func TestJudgeCapOfLanes(t *testing.T) {
	t.Parallel()
	in := func(lane string, n int) (facts []fact) {
		for _, f := range admittedIn(100, n) {
			f.Lane = lane
			facts = append(facts, f)
		}
		return facts
	}
	l := limits{rates: []rateSeen{{at: 100, rate: 20}}, lanes: map[string][]rateSeen{"eu": {{at: 100, rate: 10}}, "us": {{at: 100, rate: 20}}}}
	for _, c := range []struct {
		eu, us int
		broken int64
	}{{11, 11, 0}, {12, 5, 1}, {11, 12, 1}, {0, 23, 2}} {
		v := judged(t, promiseCap, append(in("eu", c.eu), in("us", c.us)...), l)
		require.Equal(t, c.broken, v.Broken, "%+v: %v", c, v.Examples)
	}
}

// Everybody of a crowd has the same lane each time, by the weights; one that nobody is to
// come to has nobody, and only lanes that people may choose can be named.
func TestTheCrowdIsDividedOverLanes(t *testing.T) {
	t.Parallel()
	c := Crowd{Seed: 7, Lanes: map[string]float64{"eu": 3, "us": 1, "moon": 0}}
	n := map[string]int{}
	for i := range 4000 {
		lane := c.lane(i)
		require.Equal(t, lane, c.lane(i))
		n[lane]++
	}
	require.Equal(t, 4000, n["eu"]+n["us"])
	require.InDelta(t, 3000, n["eu"], 150)
	require.Empty(t, Crowd{}.lane(3))
	var e event
	require.NoError(t, decode([]byte(`{"id":"e","lanes":[{"name":"eu"},{"name":"us"}]}`), &e))
	even, err := e.lanesOf(nil)
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"eu": 1, "us": 1}, even)
	_, err = e.lanesOf(c.Lanes)
	require.ErrorContains(t, err, `no lane "moon"`)
	e.Groups = make([]struct{}, 1)
	even, err = e.lanesOf(nil)
	require.NoError(t, err)
	require.Empty(t, even, "its groups say who stands where")
}
