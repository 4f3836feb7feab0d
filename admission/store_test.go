package admission

import (
	"context"
	"errors"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

func TestSharedKeysAreMadeOnce(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		got := make([]*Keys, 16)
		errs := make([]error, len(got))
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() { got[i], errs[i] = SharedKeys(t.Context(), rdb, "shared") })
		}
		wg.Wait()
		for i := range got {
			require.NoError(t, errs[i])
			require.True(t, got[0].equal(got[i]), "all nodes have the same keys")
		}
		other, err := SharedKeys(t.Context(), rdb, "other")
		require.NoError(t, err)
		require.False(t, got[0].equal(other), "another installation has its own")
		require.Equal(t, time.Duration(-1), rdb.TTL(t.Context(), keysKey("shared")).Val(), "they never run out")

		// The store loses them: a node that lives puts them back.
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = got[3].KeepShared(ctx, rdb, "shared", zaptest.NewLogger(t)) })
		until(t, "the keys are back", func() bool { return rdb.Exists(t.Context(), keysKey("shared")).Val() == 1 })
		cancel()
		run.Wait()
		again, err := SharedKeys(t.Context(), rdb, "shared")
		require.NoError(t, err)
		require.True(t, got[0].equal(again))

		require.NoError(t, rdb.Set(t.Context(), keysKey("bad"), "{}", 0).Err())
		_, err = SharedKeys(t.Context(), rdb, "bad")
		require.ErrorContains(t, err, "bad:keys holds no keys")
	})
}

func TestSharedKeysNeedTheStore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	rdb := server.Client(t)
	server.Kill(t)
	_, err := SharedKeys(t.Context(), rdb, "wr")
	require.ErrorContains(t, err, "shared keys: ")
}

// sells is an event that has the pools as a signal.
func sells() waitroom.Event {
	ev := waitroom.Event{State: waitroom.Open, Waiting: 1 << 30}
	ev.ID, ev.RatePerS = "demo", 20
	ev.Tickets.Kind = "seats"
	ev.Load = waitroom.LoadSettings{
		Law: "steps", FloorPerS: 1, StaleAfter: waitroom.Duration(3 * time.Second),
		Steps: []waitroom.LoadStep{{At: 0.8, RatePerS: 200}, {At: 0.9, RatePerS: 0}},
	}
	return ev
}

// fixed is a pool that stands still.
func fixed(s PoolStats) Pool { return Pool{Stats: func() PoolStats { return s }} }

// Promise 7: the whole installation's pools count, not the leader's own.
func TestPoolBoardSumsAllNodes(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		leader, busy, third := NewPoolBoard(rdb, "b", "leader"), NewPoolBoard(rdb, "b", "busy"), NewPoolBoard(rdb, "b", "third")
		_, err := leader.Usage(t.Context(), sells())
		require.ErrorContains(t, err, "not read yet")
		leader.Publish(fixed(PoolStats{InUse: 0, Max: 10}))
		busy.Publish(fixed(PoolStats{InUse: 10, Max: 10, Waiting: 30}))
		leader.exchange(t.Context())
		r, err := leader.Usage(t.Context(), sells())
		require.NoError(t, err)
		require.Zero(t, r.Usage, "its own pool is idle")
		busy.exchange(t.Context())
		leader.exchange(t.Context())
		third.exchange(t.Context())
		for _, b := range []*PoolBoard{leader, third} {
			r, err = b.Usage(t.Context(), sells())
			require.NoError(t, err)
			require.InDelta(t, PoolStats{InUse: 10, Max: 20, Waiting: 30}.Usage(), r.Usage, 1e-9)
			require.Greater(t, r.Usage, 0.9)
			require.Contains(t, r.Detail, "2 nodes", "one that only reads is none")
			require.WithinDuration(t, time.Now(), r.At, 10*time.Second)
		}
		none := sells()
		none.Tickets.Kind = "none"
		_, err = leader.Usage(t.Context(), none)
		require.ErrorIs(t, err, ErrNoSignal, "what sells nothing here has no pool")
	})
}

func TestPoolBoardKnowsOldAndBrokenFigures(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		b := NewPoolBoard(rdb, "b", "reader")
		now := rdb.Time(t.Context()).Val().UnixMilli()
		put := func(node string, age time.Duration, figure string) {
			at := strconv.FormatInt(now-age.Milliseconds(), 10)
			require.NoError(t, rdb.HSet(t.Context(), poolsKey("b"), node, at+" "+figure).Err())
		}
		read := func() (Reading, error) {
			b.exchange(t.Context())
			return b.Usage(t.Context(), sells())
		}
		_, err := read()
		require.ErrorContains(t, err, "no node publishes")
		put("gone", 2*time.Minute, "up 10 10 99")
		put("stopped", 30*time.Second, "up 10 10 99")
		put("alive", 0, "up 5 10 0")
		r, err := read()
		require.NoError(t, err)
		require.InDelta(t, 0.375, r.Usage, 1e-9, "who stopped does not count")
		fields, err := rdb.HKeys(t.Context(), poolsKey("b")).Result()
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"stopped", "alive"}, fields, "who is long gone is removed")
		for _, broken := range []string{"down", "", "up", "up 1 2", "up a b c", "up 1 2 3 4", "idle 0 10 0"} {
			put("broken", 0, broken)
			_, err = read()
			require.ErrorContains(t, err, "database away on broken", "figure %q", broken)
		}
		put("broken", 0, "up 0 0 0")
		put("alive", 0, "up 0 0 0")
		r, err = read()
		require.NoError(t, err)
		require.True(t, math.IsNaN(r.Usage), "0 of 0 is no idle pool")
		put("broken", 0, "up -5 10 0")
		r, err = read()
		require.NoError(t, err)
		require.True(t, math.IsNaN(r.Usage))
	})
}

func TestPoolBoardRunPublishesMeansAndSignsOff(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		var (
			mu   sync.Mutex
			n    int
			ping error
		)
		b, reader := NewPoolBoard(rdb, "b", "n1"), NewPoolBoard(rdb, "b", "n2")
		b.Publish(Pool{
			Stats: func() PoolStats { // every other moment four callers wait
				mu.Lock()
				defer mu.Unlock()
				n++
				return PoolStats{InUse: 1, Max: 1, Waiting: float64(4 * (n % 2))}
			},
			Ping: func(context.Context) error { mu.Lock(); defer mu.Unlock(); return ping },
		})
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { require.NoError(t, b.Run(ctx)) })
		run.Go(func() { require.NoError(t, reader.Run(ctx)) })
		until(t, "the mean of a second", func() bool {
			r, err := reader.Usage(t.Context(), sells())
			return err == nil && math.Abs(r.Usage-PoolStats{InUse: 1, Max: 1, Waiting: 2}.Usage()) < 0.02
		})
		mu.Lock()
		ping = errors.New("connection refused")
		mu.Unlock()
		// Callers wait, so the queue is what is told; only an idle pool is "down".
		until(t, "the ping failed", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.pinged != nil })
		m, up := b.mean()
		require.True(t, up)
		require.Positive(t, m.Waiting)
		cancel()
		run.Wait()
		require.Empty(t, rdb.HKeys(t.Context(), poolsKey("b")).Val(), "a planned stop leaves nothing")
	})
}

func TestPoolBoardTellsOfADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	rdb := redistest.Mini(t)
	b := NewPoolBoard(rdb, "b", "n1")
	b.Publish(Pool{
		Stats: func() PoolStats { return PoolStats{Max: 10} }, // it looks idle
		Ping:  func(context.Context) error { return errors.New("connection refused") },
	})
	b.ping(t.Context())
	b.exchange(t.Context())
	_, err := b.Usage(t.Context(), sells())
	require.ErrorContains(t, err, "database away on n1")
}

func TestFiguresGrowOldWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	rdb := server.Client(t)
	b := NewPoolBoard(rdb, "b", "n1")
	b.Publish(fixed(PoolStats{Max: 10}))
	reports := NewReports(rdb, "b")
	require.NoError(t, reports.Report(t.Context(), "demo", 0.5))
	b.exchange(t.Context())
	reports.fetch(t.Context())
	before, err := b.Usage(t.Context(), sells())
	require.NoError(t, err)
	server.Kill(t)
	b.exchange(t.Context())
	reports.fetch(t.Context())
	after, err := b.Usage(t.Context(), sells())
	require.NoError(t, err)
	require.Equal(t, before, after, "what was read stays what it was, and grows old")
	require.ErrorIs(t, reports.Report(t.Context(), "demo", 0.5), waitroom.ErrUnavailable)
	require.ErrorIs(t, reports.Forget(t.Context(), "demo"), waitroom.ErrUnavailable)
	l := combine([]Reading{after}, nil, time.Now().Add(3500*time.Millisecond), 3*time.Second)
	require.False(t, l.known)
}

func TestReportsReachEveryNode(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		taking, leading := NewReports(rdb, "r"), NewReports(rdb, "r")
		_, err := leading.Usage(t.Context(), sells())
		require.ErrorContains(t, err, "not read yet")
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { require.NoError(t, leading.Run(ctx)) })
		defer run.Wait()
		defer cancel()
		until(t, "read", func() bool { _, err := leading.Usage(ctx, sells()); return errors.Is(err, ErrNoSignal) })
		require.NoError(t, taking.Report(ctx, "demo", 0.83))
		require.NoError(t, taking.Report(ctx, "other", 0))
		until(t, "the report comes", func() bool { r, err := leading.Usage(ctx, sells()); return err == nil && r.Usage == 0.83 })
		r, err := leading.Usage(ctx, sells())
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), r.At, 10*time.Second)
		require.NoError(t, taking.Forget(ctx, "demo"))
		until(t, "forgotten", func() bool { _, err := leading.Usage(ctx, sells()); return errors.Is(err, ErrNoSignal) })
	})
}

func TestReportRefusesWhatIsNoUsage(t *testing.T) {
	t.Parallel()
	r := NewReports(redistest.Mini(t), "r")
	for _, u := range []float64{-0.01, 1.01, 83, math.NaN(), math.Inf(1), math.Inf(-1)} {
		var invalid *waitroom.InvalidError
		require.ErrorAs(t, r.Report(t.Context(), "demo", u), &invalid, "%v", u)
		require.Equal(t, "pool_usage", invalid.Fields[0].Field)
	}
	for _, u := range []float64{0, 1, 0.5} {
		require.NoError(t, r.Report(t.Context(), "demo", u))
	}
}

func TestReportsAgeByTheStoresClock(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		r := NewReports(rdb, "r")
		now := rdb.Time(t.Context()).Val().UnixMilli()
		require.NoError(t, rdb.HSet(t.Context(), reportsKey("r"),
			"demo", strconv.FormatInt(now-10_000, 10)+" 0.4",
			"garbage", strconv.FormatInt(now, 10)+" many",
			"nonsense", "0.5",
			"yesterday", strconv.FormatInt(now-25*3600*1000, 10)+" 0.4").Err())
		asked := time.Now()
		r.fetch(t.Context())
		reading, err := r.Usage(t.Context(), sells())
		require.NoError(t, err)
		require.InDelta(t, 0.4, reading.Usage, 1e-9)
		require.GreaterOrEqual(t, asked.Sub(reading.At), 10*time.Second-time.Second)
		ev := sells()
		ev.ID = "garbage"
		reading, err = r.Usage(t.Context(), ev)
		require.NoError(t, err)
		require.True(t, math.IsNaN(reading.Usage), "unknown, not idle")
		ev.ID = "yesterday"
		_, err = r.Usage(t.Context(), ev)
		require.ErrorIs(t, err, ErrNoSignal)
		require.ElementsMatch(t, []string{"demo", "garbage"}, rdb.HKeys(t.Context(), reportsKey("r")).Val())
	})
}

func TestBulletinReachesThoseWhoStandBy(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		b := NewBulletin(rdb, "c")
		_, ok := b.hear(t.Context())
		require.False(t, ok)
		want := []Standing{
			{
				Event: "demo", Decision: Decision{N: 2, RatePerS: 20, Reason: ReasonRate, Usage: 0.25}, Load: "pools", Given: 1,
				Held: "empty", Fence: 7, Leader: "n1", Waiting: 3, Inside: 4, At: time.Now().UTC().Truncate(time.Millisecond),
				PassThrough: true, Since: time.UnixMilli(1_800_000_000_120).UTC(),
			},
		}
		b.tell(t.Context(), want)
		got, ok := b.hear(t.Context())
		require.True(t, ok)
		require.Equal(t, want, got)
		b.tell(t.Context(), []Standing{{Event: "demo", Decision: Decision{Reason: ReasonUnknown, Usage: math.NaN()}}})
		got, ok = b.hear(t.Context())
		require.True(t, ok)
		require.True(t, math.IsNaN(got[0].Usage))
		require.Positive(t, rdb.PTTL(t.Context(), decisionsKey("c")).Val(), "an old one goes by itself")
		require.NoError(t, rdb.Set(t.Context(), decisionsKey("c"), "{", 0).Err())
		_, ok = b.hear(t.Context())
		require.False(t, ok)
	})
}
