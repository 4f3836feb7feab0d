package challenge

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	goleak.VerifyTestMain(m)
}

// silent keeps go-redis from telling of servers that a test has killed.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

const demo = waitroom.EventID("demo")

// testEffort is the most tries of the tests' puzzles when nobody hurries.
const testEffort = 100

var testKey = []byte("0123456789abcdef0123456789abcdef")

// altcha is an event that always asks.
var altcha = waitroom.ChallengeSettings{Kind: waitroom.ChallengeALTCHA}.Defaults()

func newChallenger(tb testing.TB, cfg Config, rdb redis.UniversalClient) (*Challenger, *observer.ObservedLogs) {
	tb.Helper()
	cfg.Key = testKey
	cfg.Effort = testEffort // with the race detector a try takes a millisecond
	core, logs := observer.New(zap.DebugLevel)
	c, err := New(cfg, rdb, zap.New(core), prometheus.NewRegistry())
	require.NoError(tb, err)
	return c, logs
}

// solved is a puzzle of the event and host, and its solution.
func solved(tb testing.TB, c *Challenger, event waitroom.EventID, host string) string {
	tb.Helper()
	offer, err := c.Offer(event, altcha, host)
	require.NoError(tb, err)
	solution, err := Solve(tb.Context(), offer)
	require.NoError(tb, err)
	return solution
}

func attempt(solution string) Attempt {
	return Attempt{Event: demo, Settings: altcha, Solution: solution, Host: "wait.example:8443"}
}

// doc.go promises 1 (by Solve) and 2: a solution counts once, whatever number of
// instances it is brought to at once.
func TestPromise2ASolutionCountsOnce(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		a, _ := newChallenger(t, Config{}, rdb)
		b, _ := newChallenger(t, Config{}, rdb)
		solution := solved(t, a, demo, "wait.example")
		var passed, spent atomic.Int64
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				cleared, err := []*Challenger{a, b}[i%2].Check(t.Context(), attempt(solution))
				switch {
				case err == nil && cleared:
					passed.Add(1)
				case errors.Is(err, ErrFailed) && errors.Is(err, errSpent):
					spent.Add(1)
				}
			})
		}
		wg.Wait()
		require.Equal(t, []int64{1, 19}, []int64{passed.Load(), spent.Load()})
		keys, err := rdb.Keys(t.Context(), "*").Result()
		require.NoError(t, err)
		require.Len(t, keys, 1, "only what was solved is remembered")
		ttl, err := rdb.PTTL(t.Context(), keys[0]).Result()
		require.NoError(t, err)
		require.Greater(t, ttl, defaultExpiry, "for longer than it could count")
		require.LessOrEqual(t, ttl, defaultExpiry+beyond)
	})
}

// A store that is away lets nobody in, and is no fault of the solution.
func TestAStoreThatIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Protocol: 2, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	c, _ := newChallenger(t, Config{}, rdb)
	solution := solved(t, c, demo, "wait.example")
	server.Kill(t)
	_, err := c.Check(t.Context(), attempt(solution))
	require.ErrorIs(t, err, waitroom.ErrUnavailable)
	require.NotErrorIs(t, err, ErrFailed)
	server.Restart(t)
	_, err = c.Check(t.Context(), attempt(solution))
	require.NoError(t, err, "it was not spent")
}

// doc.go promise 3.
func TestPromise3ItCountsHereAndNowOnly(t *testing.T) {
	t.Parallel()
	c, _ := newChallenger(t, Config{}, redistest.Mini(t))
	solution := solved(t, c, demo, "Wait.Example:80")
	for why, a := range map[string]Attempt{
		"another event": {Event: "other", Settings: altcha, Solution: solution, Host: "wait.example"},
		"another host":  {Event: demo, Settings: altcha, Solution: solution, Host: "wait.example.evil"},
		"no host":       {Event: demo, Settings: altcha, Solution: solution},
	} {
		_, err := c.Check(t.Context(), a)
		require.ErrorIs(t, err, errElsewhere, why)
		require.ErrorIs(t, err, ErrFailed, why)
	}
	real := c.now
	c.now = func() time.Time { return real().Add(defaultExpiry + time.Second) }
	_, err := c.Check(t.Context(), attempt(solution))
	require.ErrorIs(t, err, errExpired)
	c.now = real
	_, err = c.Check(t.Context(), attempt(solution))
	require.NoError(t, err, "what was refused was not spent")

	other, err := New(Config{Key: []byte(strings.Repeat("k", 32))}, redistest.Mini(t), zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	_, err = other.Check(t.Context(), attempt(solved(t, c, demo, "wait.example")))
	require.ErrorIs(t, err, errSignature, "of another installation")
}

// doc.go promise 4: every part of a solution that is changed makes it worthless.
func TestPromise4NothingCanBeChanged(t *testing.T) {
	t.Parallel()
	c, _ := newChallenger(t, Config{}, redistest.Mini(t))
	solution := solved(t, c, demo, "wait.example")
	raw, err := base64.StdEncoding.DecodeString(solution)
	require.NoError(t, err)
	change := func(to func(doc map[string]any)) string {
		var doc map[string]any
		require.NoError(t, json.Unmarshal(raw, &doc))
		to(doc)
		b, err := json.Marshal(doc)
		require.NoError(t, err)
		return base64.StdEncoding.EncodeToString(b)
	}
	of := func(doc map[string]any, path ...string) map[string]any {
		for _, name := range path {
			doc = doc[name].(map[string]any) //nolint:forcetypeassert // a test's own document
		}
		return doc
	}
	for name, with := range map[string]any{
		"algorithm": "SHA-256", "cost": 1, "expiresAt": 1 << 40, "keyLength": 1, "keyPrefix": "00", "keySignature": strings.Repeat("0", 64),
		"nonce": strings.Repeat("0", 32), "salt": strings.Repeat("0", 32), "data": map[string]any{"event": "demo", "host": "evil"},
	} {
		_, err := c.Check(t.Context(), attempt(change(func(d map[string]any) { of(d, "challenge", "parameters")[name] = with })))
		require.ErrorIs(t, err, errSignature, name)
	}
	for why, bad := range map[string]string{
		"a key of its own": change(func(d map[string]any) { of(d, "solution")["derivedKey"] = strings.Repeat("0", 64) }),
		"only the prefix": change(func(d map[string]any) {
			of(d, "solution")["derivedKey"] = of(d, "challenge", "parameters")["keyPrefix"]
		}),
		"no key":  change(func(d map[string]any) { delete(of(d, "solution"), "derivedKey") }),
		"no JSON": base64.StdEncoding.EncodeToString([]byte("{")), "no base64": "=", "nothing": "", "much": strings.Repeat("A", longestSolution+4),
	} {
		_, err := c.Check(t.Context(), attempt(bad))
		require.ErrorIs(t, err, ErrFailed, why)
		require.NotErrorIs(t, err, errSignature, why)
	}
	_, err = c.Check(t.Context(), attempt(solution))
	require.NoError(t, err)
}

// doc.go promise 5.
func TestPromise5TheEffortFollowsThePace(t *testing.T) {
	t.Parallel()
	last := 0
	for rate := range 2000 {
		got := effortAt(easiest, rate, 100)
		require.GreaterOrEqual(t, got, max(last, easiest))
		require.LessOrEqual(t, got, hardest*easiest)
		last = got
	}
	require.Equal(t, hardest*easiest, last)
	require.Equal(t, easiest, effortAt(easiest, calm, 0), "where the event names no pace")
	require.Equal(t, 2*easiest, effortAt(easiest, 2*calm, 0))

	synctest.Test(t, func(t *testing.T) {
		c, _ := newChallenger(t, Config{}, nil)
		counter := func() uint32 { return counterOf(t, c) }
		require.Less(t, counter(), uint32(testEffort))
		for range 2 * calm {
			c.Wanted(demo, altcha)
		}
		require.GreaterOrEqual(t, counter(), uint32(2*testEffort/2), "half of the effort at least")
		time.Sleep(3 * time.Second)
		require.Less(t, counter(), uint32(testEffort), "and it is calm again")
	})
}

// counterOf works a fresh puzzle out.
func counterOf(t *testing.T, c *Challenger) uint32 {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(solved(t, c, demo, "wait.example"))
	require.NoError(t, err)
	var p payload
	require.NoError(t, json.Unmarshal(raw, &p))
	return p.Solution.Counter
}

// doc.go promise 6.
func TestPromise6AboveHoldsForTenSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := newChallenger(t, Config{}, nil)
		settings := waitroom.ChallengeSettings{Kind: waitroom.ChallengeALTCHA, When: waitroom.ChallengeAbove, AbovePerS: 10}
		second := func(strangers int) (wanted int) {
			for range strangers {
				if c.Wanted(demo, settings) {
					wanted++
				}
			}
			time.Sleep(time.Second)
			return wanted
		}
		require.Zero(t, second(10))
		require.Equal(t, 5, second(15), "from the eleventh on")
		require.Equal(t, 40, second(40), "all of them, and those who are refused count")
		for range 9 {
			require.Equal(t, 1, second(1))
		}
		second(0)
		second(0)
		require.Zero(t, second(1), "over")
		require.Zero(t, second(10))

		off := settings
		off.When = waitroom.ChallengeOff
		require.False(t, c.Wanted(demo, off))
		require.False(t, c.Wanted(demo, waitroom.ChallengeSettings{}), "an event of an older version")
		require.True(t, c.Wanted("other", altcha))
	})
}

// doc.go promise 8.
func TestPromise8NothingIsTold(t *testing.T) {
	t.Parallel()
	c, logs := newChallenger(t, Config{}, redistest.Mini(t))
	solution := solved(t, c, demo, "wait.example")
	_, err := c.Check(t.Context(), attempt(solution))
	require.NoError(t, err)
	_, err = c.Check(t.Context(), attempt(solution))
	require.ErrorIs(t, err, ErrFailed)
	require.NotContains(t, err.Error(), solution[:40])
	require.Empty(t, logs.FilterLevelExact(zap.InfoLevel).All())
	reg := prometheus.NewRegistry()
	reg.MustRegister(c.checked)
	families, err := reg.Gather()
	require.NoError(t, err)
	require.Len(t, families[0].GetMetric(), 2, "passed and spent")
	require.NotContains(t, families[0].String(), solution[:40])
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Key: []byte("short"), Expiry: time.Second, Effort: 1, Secrets: map[string]string{"altcha": "x", "turnstile": ""}}, nil, zap.NewNop(), prometheus.NewRegistry())
	for _, fault := range []string{"key: 5 bytes", "expiry: 1s", "effort: 1", `"altcha" is none of`, "that of turnstile is empty", "hosts: are needed"} {
		require.ErrorContains(t, err, fault)
	}
}

func FuzzCheck(f *testing.F) {
	c, _ := newChallenger(f, Config{}, nil)
	offer, err := c.Offer(demo, altcha, "wait.example")
	require.NoError(f, err)
	good, err := Solve(f.Context(), offer)
	require.NoError(f, err)
	f.Add(good)
	f.Add(base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `{"challenge":%s,"solution":{"counter":1,"derivedKey":"00"}}`, offer)))
	f.Add("e30=")
	f.Fuzz(func(t *testing.T, solution string) {
		nonce, _, err := check(testKey, solution, binding{"demo", "wait.example"}, time.Now())
		if err != nil {
			return
		}
		raw, err := base64.StdEncoding.DecodeString(solution)
		require.NoError(t, err)
		var p payload
		require.NoError(t, json.Unmarshal(raw, &p))
		is := p.Challenge.Parameters
		require.Equal(t, is.Nonce, nonce, "what is spent is the puzzle that was solved")
		require.True(t, strings.HasPrefix(strings.ToLower(p.Solution.DerivedKey), is.KeyPrefix), "the key is the one that was looked for")
	})
}

func BenchmarkOffer(b *testing.B) {
	c, _ := newChallenger(b, Config{}, nil)
	for b.Loop() {
		_, _ = c.Offer(demo, altcha, "wait.example")
	}
}

func BenchmarkCheck(b *testing.B) {
	c, _ := newChallenger(b, Config{}, nil)
	solution := solved(b, c, demo, "wait.example")
	for b.Loop() {
		_, _, _ = check(testKey, solution, binding{"demo", "wait.example"}, c.now())
	}
}
