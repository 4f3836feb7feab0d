package admission

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// free is an event without a load signal.
func free(id waitroom.EventID, rate float64) waitroom.Event {
	ev := sells()
	ev.ID, ev.RatePerS, ev.Tickets.Kind = id, rate, "none"
	return ev
}

// loop is a controller that runs in a bubble until stopped.
type loop struct {
	*Controller
	line *fakeLine
	reg  *prometheus.Registry
	stop func()
}

// metric is a gauge's or counter's value as a scrape shows it; label is the value
// of its one label, or "".
func (l *loop) metric(t *testing.T, name, label string) float64 {
	t.Helper()
	families, err := l.reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != "waitroom_admission_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			if label == "" || m.GetLabel()[0].GetValue() == label {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func start(t *testing.T, line *fakeLine, leader Leadership, sources ...Source) *loop {
	t.Helper()
	reg := prometheus.NewRegistry()
	c, err := New(Config{Node: "n1"}, Deps{
		Line: line, Leadership: leader, Sources: sources, Log: zaptest.NewLogger(t), Metrics: reg,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Run(ctx)
	}()
	l := &loop{Controller: c, line: line, reg: reg, stop: sync.OnceFunc(func() { cancel(); <-done })}
	t.Cleanup(l.stop)
	return l
}

func sum(ps []promoted) int {
	n := 0
	for _, p := range ps {
		n += p.n
	}
	return n
}

func TestLoopLetsInTickByTick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		line := newFakeLine(free("a", 20), free("b", 1))
		c := start(t, line, &terms{trusted: time.Hour})
		time.Sleep(10*time.Second - time.Millisecond)
		for i, p := range line.of("a") {
			require.Equal(t, promoted{event: "a", at: time.Duration(i) * DefaultTick, fence: 1, n: 2}, p)
		}
		require.Equal(t, 200, sum(line.of("a")))
		require.Equal(t, 10, sum(line.of("b")))
		require.Len(t, line.of("b"), 10, "no call for nobody")
		require.Equal(t, 100, line.sweeps("a"), "swept at each tick")
		require.True(t, c.Leading())
		s, ok := c.Decision("a")
		require.True(t, ok)
		require.True(t, math.IsNaN(s.Usage))
		s.Usage, s.At = 0, time.Time{}
		require.Equal(t, Standing{
			Event: "a", Decision: Decision{N: 2, RatePerS: 20, Reason: ReasonRate}, Given: 2, Fence: 1, Leader: "n1",
		}, s)
		require.InDelta(t, 200, c.metric(t, "promoted_total", "a"), 0)
		require.InDelta(t, 1, c.metric(t, "leading", ""), 0)
		require.InDelta(t, 20, c.metric(t, "rate_per_s", "a"), 0)
		require.Zero(t, c.metric(t, "missed_ticks_total", ""))
		c.stop()
		require.False(t, c.Leading())
		require.Zero(t, c.metric(t, "leading", ""))
		_, ok = c.Decision("nobody's")
		require.False(t, ok)
	})
}

// doc.go promise 14: from one tick to the next everybody passes, and the law goes on
// saying what it would do; a pause wins.
func TestPassThroughWithinATick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		load := func(usage float64) func(context.Context, waitroom.Event) (Reading, error) {
			return func(context.Context, waitroom.Event) (Reading, error) {
				return Reading{Usage: usage, At: time.Now()}, nil
			}
		}
		line, source := newFakeLine(free("a", 20)), &fakeSource{usage: load(0.5)}
		c := start(t, line, &terms{trusted: time.Hour}, source)
		time.Sleep(time.Second + 50*time.Millisecond)
		for _, p := range line.of("a") {
			require.False(t, p.pass)
		}
		through := free("a", 20)
		through.PassThrough, through.Waiting = true, 0
		through.Now = time.UnixMilli(1_800_000_000_000).UTC()
		through.Load.Law, through.Load.Steps = "steps", []waitroom.LoadStep{{At: 0.8}}
		n := len(line.of("a"))
		line.set(through)
		time.Sleep(DefaultTick) // the event is read before it is busy, whoever wakes first
		source.set(load(0.95))
		time.Sleep(2 * DefaultTick)
		source.set(load(0.95))
		time.Sleep(2 * DefaultTick)
		passed := line.of("a")[n:]
		require.NotEmpty(t, passed, "also while the last count was zero: somebody may just have come")
		require.True(t, passed[len(passed)-1].pass)
		s, _ := c.Decision("a")
		require.True(t, s.PassThrough)
		require.Equal(t, ReasonBusy, s.Reason, "the law says what it would have done")
		require.Zero(t, s.N)
		require.Equal(t, through.Now, s.Since, "when the reason began to hold")
		require.InDelta(t, 1, c.metric(t, "pass_through", "a"), 0)
		through.State = waitroom.Paused
		line.set(through)
		time.Sleep(2 * DefaultTick)
		n = len(line.of("a"))
		time.Sleep(time.Second)
		require.Len(t, line.of("a"), n)
		s, _ = c.Decision("a")
		require.False(t, s.PassThrough)
	})
}

func TestALateTickAdmitsForOneTick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		line := newFakeLine(free("a", 20))
		line.onPromote = func(context.Context, waitroom.PromoteRequest) error {
			if d := time.Since(line.start); d > time.Second && d < 1200*time.Millisecond {
				time.Sleep(740 * time.Millisecond) // and it succeeds then
			}
			return nil
		}
		start(t, line, &terms{trusted: time.Hour})
		time.Sleep(3*time.Second - time.Millisecond)
		all := line.of("a")
		for _, p := range all {
			require.Equal(t, 2, p.n)
		}
		// 30 ticks, less those that passed during 0.74 s.
		require.InDelta(t, 23, len(all), 1)
	})
}

// Promise 6, through the loop: the floor within two ticks of a reading that failed,
// hangs, froze or makes no sense.
func TestFloorWithinTwoTicks(t *testing.T) {
	t.Parallel()
	at := func(u float64, age time.Duration) func(context.Context, waitroom.Event) (Reading, error) {
		return func(context.Context, waitroom.Event) (Reading, error) {
			return Reading{Usage: u, At: time.Now().Add(-age), Detail: "test"}, nil
		}
	}
	for name, usage := range map[string]func(context.Context, waitroom.Event) (Reading, error){
		"failed": func(context.Context, waitroom.Event) (Reading, error) {
			return Reading{}, errors.New("connection refused")
		},
		"hangs": func(ctx context.Context, _ waitroom.Event) (Reading, error) {
			<-ctx.Done()
			return Reading{}, ctx.Err()
		},
		"frozen":   at(0.1, 3100*time.Millisecond),
		"0 of 0":   at(PoolStats{}.Usage(), 0),
		"NaN":      at(math.NaN(), 0),
		"negative": at(-0.5, 0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source := &fakeSource{usage: at(0.1, 0)}
				ev := sells()
				ev.RatePerS = 500
				line := newFakeLine(ev)
				c := start(t, line, &terms{trusted: time.Hour}, source)
				time.Sleep(10*time.Second + time.Millisecond)
				require.Equal(t, 101*50, sum(line.of("demo")))
				source.set(usage)
				time.Sleep(2 * DefaultTick)
				s, _ := c.Decision("demo")
				require.Equal(t, ReasonUnknown, s.Reason)
				require.InDelta(t, 1, s.RatePerS, 0)
				require.NotEmpty(t, s.Load, "a reason for console and log")
				require.True(t, math.IsNaN(c.metric(t, "usage", "demo")))
				before := sum(line.of("demo"))
				time.Sleep(10 * time.Second)
				require.InDelta(t, 10, sum(line.of("demo"))-before, 1)
				source.set(at(0.1, 0))
				time.Sleep(time.Second)
				s, _ = c.Decision("demo")
				require.Equal(t, ReasonRecovering, s.Reason)
				require.InDelta(t, 100, s.RatePerS, 15)
				time.Sleep(5 * time.Second)
				s, _ = c.Decision("demo")
				require.Equal(t, ReasonRate, s.Reason)
			})
		})
	}
}

func TestWhatTheCapHeldBackIsAskedForAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		line := newFakeLine(free("a", 50))
		c := start(t, line, &terms{trusted: time.Hour})
		time.Sleep(time.Second)
		line.mu.Lock()
		line.held = "rate_cap" // the fake gives all, and says so: nothing is left to ask for
		line.mu.Unlock()
		time.Sleep(time.Second)
		for _, p := range line.of("a") {
			require.Equal(t, 5, p.n)
		}
		s, _ := c.Decision("a")
		require.Equal(t, "rate_cap", s.Held)
	})
}

func TestABurstIsCalledForWhereTheRateAloneIsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ev := free("a", 0)
		ev.State, ev.Burst = waitroom.Lobby, 5000
		line := newFakeLine(ev)
		start(t, line, &terms{trusted: time.Hour})
		time.Sleep(time.Second)
		ev.State = waitroom.Open
		line.set(ev)
		time.Sleep(10 * time.Second)
		calls := line.of("a")
		require.NotEmpty(t, calls)
		require.LessOrEqual(t, len(calls), 11)
		require.Less(t, calls[len(calls)-1].at, 2200*time.Millisecond, "only in the second of the opening")
	})
}

func TestLogSpeaksOfChangesOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		line := newFakeLine(free("a", 20))
		broken := true
		var mu sync.Mutex
		line.onPromote = func(context.Context, waitroom.PromoteRequest) error {
			mu.Lock()
			defer mu.Unlock()
			if broken {
				return waitroom.ErrUnavailable
			}
			return nil
		}
		c, err := New(Config{Node: "n1"}, Deps{Line: line, Leadership: &terms{trusted: time.Hour}, Log: zap.New(core), Metrics: prometheus.NewRegistry()})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = c.Run(ctx) })
		time.Sleep(5 * time.Second)
		mu.Lock()
		broken = false
		mu.Unlock()
		time.Sleep(5 * time.Second)
		cancel()
		run.Wait()
		require.Len(t, logs.FilterMessage("rate decided").All(), 1)
		require.Len(t, logs.FilterMessage("promote failed").All(), 1)
		require.Len(t, logs.FilterMessage("promoting again").All(), 1)
		require.Equal(t, 3, logs.Len())
	})
}

func TestNewSaysEveryFault(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Tick: -1, CallTimeout: -1, Concurrency: -1}, Deps{})
	for _, want := range []string{"node:", "tick -1ns", "call timeout -1ns", "concurrency -1", "line, leadership, log and metrics"} {
		require.ErrorContains(t, err, want)
	}
	reg := prometheus.NewRegistry()
	deps := Deps{Line: newFakeLine(), Leadership: &terms{}, Log: zap.NewNop(), Metrics: reg}
	_, err = New(Config{Node: "a"}, deps)
	require.NoError(t, err)
	_, err = New(Config{Node: "b"}, deps)
	require.Error(t, err, "two loops on one registry")
}
