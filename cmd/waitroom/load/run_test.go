package load

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// workerArgument makes this test binary a worker.
const workerArgument = "be-a-worker"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workerArgument {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := Work(ctx, os.Stdin, os.Stdout); err != nil {
			panic(err)
		}
		return
	}
	flag.Parse()
	if at := flag.Lookup("test.parallel"); at.Value.String() == at.DefValue {
		// The crowds of these tests wait most of their time: more of them than there are
		// cores fit beside each other.
		const beside = "6"
		_ = flag.Set(at.Name, beside) // a number
	}
	goleak.VerifyTestMain(m)
}

// crowdFor is a run against a fake: 250 people, so that it takes three seconds of
// admissions, everybody sampled.
func crowdFor(url string) Config {
	return Config{
		Targets: []string{url}, Event: "e", Workers: 2, Connections: 40, Limit: 20 * time.Second,
		Crowd:   Crowd{Users: 250, Ramp: 700 * time.Millisecond, Hold: 50 * time.Millisecond, Buy: 0.5, Seed: 7},
		Checks:  Checks{Sample: 1, PerUser: 2},
		Command: []string{os.Args[0], workerArgument}, OperatorToken: "operator",
	}
}

func runOn(t *testing.T, c Config) *Report {
	t.Helper()
	var live bytes.Buffer
	r, err := Run(t.Context(), c, &live)
	require.NoError(t, err, live.String())
	t.Cleanup(func() {
		if t.Failed() {
			var table bytes.Buffer
			_ = r.WriteTable(&table)
			t.Log(live.String() + table.String())
		}
	})
	return r
}

func verdict(t *testing.T, r *Report, p promise) Verdict {
	t.Helper()
	for _, v := range r.Promises {
		if v.Promise == p {
			return v
		}
	}
	require.Failf(t, "not judged", "promise %d", p)
	return Verdict{}
}

// usual leaves a fake as it is.
func usual(*fake) {}

// Promise 2: nothing is called broken that a correct service shows; every check was made.
func TestHonestServiceIsOK(t *testing.T) {
	t.Parallel()
	_, url := newFake(t, honest, usual)
	c := crowdFor(url)
	c.Crowd.Habits.Away, c.Crowd.Habits.Poll = 0.2, 0.1
	r := runOn(t, c)
	require.True(t, r.OK, r.Why)
	require.Equal(t, int64(250), r.Counts.Joined)
	require.Equal(t, int64(250), r.Counts.Admitted)
	require.Positive(t, r.Counts.Bought)
	require.Equal(t, int64(250), r.Counts.Bought+r.Counts.Left, "everybody bought or left")
	require.Positive(t, r.Counts.Reconnects, "some lost their network")
	require.Zero(t, r.Counts.Waiting)
	for _, p := range []promise{promiseOrder, promisePlace, promiseCap, promiseGrant, promiseSeat, promiseKept} {
		require.Positive(t, verdict(t, r, p).Checked, promiseNames[p])
	}
	for _, m := range metrics {
		if m == mReconnect || m == mChallenge {
			continue // nobody lost a socket by the service's doing, nor was taken for a bot
		}
		require.Positive(t, r.LatencyMS[m].Count, m)
	}
	require.Less(t, r.LatencyMS[mToToken].P50, r.LatencyMS[mToTokenAtMost].P50)
	require.Zero(t, r.Errors.Own.Total)
}

// Promise 1: each breach is seen, and booked under its own promise.
func TestBreachesAreSeen(t *testing.T) {
	t.Parallel()
	for b, want := range map[breach]promise{
		lifo: promiseOrder, placeLost: promisePlace, placeBack: promisePlace, grows: promisePlace,
		tooFast: promiseCap, crowded: promiseCap, regrant: promiseGrant, oneJTI: promiseGrant,
		forged: promiseGrant, otherAudience: promiseGrant, doubleSeat: promiseSeat, tokenTwice: promiseSeat,
		replayRuns: promiseSeat, unmarked: promiseSeat, overShare: promiseSeat, spends: promiseSeat,
		forgets: promiseKept, unsold: promiseKept, waiterLost: promiseKept,
	} {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			_, url := newFake(t, b, func(f *fake) {
				f.rate = 1000
				switch want { //nolint:exhaustive // the others show however short the wait is
				case promiseOrder, promisePlace:
					f.rate = 50
				case promiseCap:
					f.rate = 100
				}
				if b == tooFast {
					f.rate = 20 // far below what a busy machine lets join
				}
				if b == crowded {
					f.maxActive = 20
				}
				if b == waiterLost {
					f.rate = 1
				}
			})
			c := crowdFor(url)
			c.Workers = 1
			if b == crowded {
				c.Checks.MaxActive = 20
				c.Crowd.Hold = time.Second
			}
			if b == waiterLost {
				c.Limit, c.Crowd.Users = 3*time.Second, 50
			}
			r := runOn(t, c)
			require.False(t, r.OK)
			v := verdict(t, r, want)
			require.Positive(t, v.Broken, "promise %d", want)
			require.NotEmpty(t, v.Examples)
		})
	}
}

// Promise 5: a server that stands still for 5 s shows as 5 s, in everything.
func TestStallShowsInFull(t *testing.T) {
	t.Parallel()
	f, url := newFake(t, honest, func(f *fake) { f.rate = 60 })
	c := crowdFor(url)
	c.Crowd.Habits.Away = 0.5
	c.Checks.Sample = 0
	c.Connections = 10 // fewer than arrive meanwhile: their wait counts as well
	c.Crowd.Ramp = 3 * time.Second
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = pause(t.Context(), startDelay+1500*time.Millisecond)
		f.freeze(&f.gate, 5*time.Second)
		f.freeze(&f.counter, 2*time.Second)
	}()
	r := runOn(t, c)
	<-done
	require.True(t, r.OK, r.Why)
	require.GreaterOrEqual(t, r.LatencyMS[mJoin].Max, 4900.0)
	require.GreaterOrEqual(t, r.LatencyMS[mJoin].P90, 3000.0, "a third of the crowd came in the stall")
	require.GreaterOrEqual(t, r.LatencyMS[mPositionAge].Max, 4900.0)
	require.GreaterOrEqual(t, r.LatencyMS[mConnect].Max, 2000.0, "sockets that were wanted in the stall")
	require.GreaterOrEqual(t, r.LatencyMS[mReservation].Max, 1500.0, "those who wanted seats when no more were taken")
}

// Promise 8: a cancelled run ends its workers and reports.
func TestCancelledRunReports(t *testing.T) {
	t.Parallel()
	_, url := newFake(t, honest, func(f *fake) { f.rate = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(3*time.Second, cancel)
	r, err := Run(ctx, crowdFor(url), io.Discard)
	require.NoError(t, err)
	require.Equal(t, int64(250), r.Counts.Joined)
	require.Less(t, r.TookS, 20.0)
	require.Contains(t, r.Notes, "the run was cut short")
	require.Zero(t, verdict(t, r, promisePlace).Broken)
	require.Zero(t, r.Errors.Server.Total, r.Errors.Server)
}

// A worker that dies takes its users' figures along: the run is not OK.
func TestDeadWorkerIsNotOK(t *testing.T) {
	t.Parallel()
	_, url := newFake(t, honest, usual)
	c := crowdFor(url)
	c.Command = []string{"/bin/false"}
	r, err := Run(t.Context(), c, io.Discard)
	require.NoError(t, err)
	require.False(t, r.OK)
}

func TestUnknownEventIsWrongUse(t *testing.T) {
	t.Parallel()
	_, url := newFake(t, honest, usual)
	c := crowdFor(url)
	c.Event = "other"
	_, err := Run(t.Context(), c, io.Discard)
	var wrong *UsageError
	require.ErrorAs(t, err, &wrong)
}

func TestServerErrorsCountAndOwnDoNot(t *testing.T) {
	t.Parallel()
	_, url := newFake(t, honest, usual)
	c := crowdFor(url)
	c.Crowd.Users = 40
	c.Targets = append(c.Targets, "http://127.0.0.1:1")
	c.Checks.MaxErrors = 1
	r := runOn(t, c)
	require.True(t, r.OK, r.Why)
	require.Equal(t, int64(40), r.Counts.Joined, "those at the dead target went to the other")
	require.Positive(t, r.Errors.Server.ByKind["refused"])
	require.Zero(t, r.Errors.Own.Total)
}

// Promise 10: with an operator's token a run that buys ends with the service's own
// recount; without one it says that there was none.
func TestBooksEndARunThatBuys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		breach breach
		token  string
		buy    float64
		ok     bool
		sums   int
		notes  int
	}{
		{honest, "operator", 0.5, true, 2, 0},
		{unbalanced, "operator", 0.5, false, 2, 0},
		{unbalanced, "", 0.5, true, 0, 1},
		{unbalanced, "operator", 0, true, 0, 0},
	} {
		_, url := newFake(t, c.breach, func(f *fake) { f.rate = 1000 })
		config := crowdFor(url)
		config.Workers, config.Crowd.Users, config.Crowd.Buy, config.OperatorToken = 1, 20, c.buy, c.token
		r := runOn(t, config)
		require.Equal(t, c.ok, r.OK, r.Why)
		require.Len(t, r.Books, c.sums)
		require.Len(t, r.Notes, c.notes)
		if !c.ok {
			require.Equal(t, []string{"the books: money: expected 5000, found 5001 "}, r.Why)
		}
	}
}
