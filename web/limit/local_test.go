package limit

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// TestLocalBucketRefillsEvenly holds promise 2 for the local buckets, to the exact
// moment that was told.
func TestLocalBucketRefillsEvenly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Config{}, nil)
		l.store = willing
		req := Request{Event: "e", Call: Issue, Person: "p"}
		rules := Rules{Issue: per(3, 9*time.Second)}
		require.Equal(t, 3, passed(t.Context(), l, 20, req, rules))
		require.Equal(t, Verdict{RetryAfter: 3 * time.Second, Which: WhichIssue}, l.Allow(t.Context(), req, rules))
		time.Sleep(time.Second)
		require.Equal(t, Verdict{RetryAfter: 2 * time.Second, Which: WhichIssue}, l.Allow(t.Context(), req, rules))
		time.Sleep(2*time.Second - time.Nanosecond)
		require.False(t, l.Allow(t.Context(), req, rules).OK)
		time.Sleep(time.Nanosecond)
		require.Equal(t, 1, passed(t.Context(), l, 20, req, rules))
		time.Sleep(time.Hour)
		require.Equal(t, 3, passed(t.Context(), l, 20, req, rules), "no more than one rule's worth is saved up")
	})
}

// A call that one bucket refuses takes nothing from the other.
func TestLocalBucketsAreChargedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Config{}, nil)
		l.store = willing
		req := Request{Event: "e", Call: Browse, Person: "p"}
		rules := Rules{Person: per(6, time.Hour), PersonBurst: per(2, time.Second)}
		require.Equal(t, 2, passed(t.Context(), l, 100, req, rules))
		require.Equal(t, WhichPersonBurst, l.Allow(t.Context(), req, rules).Which)
		time.Sleep(time.Second)
		require.Equal(t, 2, passed(t.Context(), l, 100, req, rules))
		time.Sleep(time.Second)
		require.Equal(t, 2, passed(t.Context(), l, 100, req, rules))
		time.Sleep(time.Second)
		v := l.Allow(t.Context(), req, rules)
		require.Equal(t, WhichPerson, v.Which)
		require.Equal(t, 10*time.Minute-3*time.Second, v.RetryAfter)
	})
}

// TestPatientPollsAreFree holds promises 1 and 4: whoever polls at the pace of the
// rule never reaches the store; whoever is faster is counted there.
func TestPatientPollsAreFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Config{}, nil)
		asked := 0
		l.store = storeFunc(func(context.Context, []charge) ([]refusal, error) { asked++; return nil, nil })
		rules := Rules{Person: per(60, time.Minute), PersonBurst: per(5, time.Second)}
		poll := Request{Event: "e", Call: Poll, Person: "p"}
		for range 300 {
			require.True(t, l.Allow(t.Context(), poll, rules).OK)
			time.Sleep(time.Second)
		}
		require.Zero(t, asked)
		require.Equal(t, 5, passed(t.Context(), l, 20, poll, rules))
		require.Equal(t, 4, asked, "all but the first")
		poll.Person = ""
		poll.Addr = office
		rules.Address = per(10, time.Minute)
		require.Equal(t, 10, passed(t.Context(), l, 20, poll, rules))
		require.Equal(t, 14, asked, "strangers are counted always")
	})
}

// TestRefusalIsRemembered holds promises 2 and 4: once the store has refused, it is
// not asked before the time that it named.
func TestRefusalIsRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		l := newLimiter(t, Config{}, nil)
		l.store = storeFunc(func(context.Context, []charge) ([]refusal, error) {
			asked++
			return []refusal{{WhichIssue, 4 * time.Second}}, nil
		})
		req := Request{Event: "e", Call: Issue, Person: "p"}
		require.Equal(t, Verdict{RetryAfter: 4 * time.Second, Which: WhichIssue}, l.Allow(t.Context(), req, hourly))
		require.Zero(t, passed(t.Context(), l, 1000, req, hourly))
		time.Sleep(4*time.Second - time.Nanosecond)
		require.Equal(t, Verdict{RetryAfter: time.Nanosecond, Which: WhichIssue}, l.Allow(t.Context(), req, hourly))
		require.Equal(t, 1, asked)
		time.Sleep(time.Nanosecond)
		l.store = willing
		require.True(t, l.Allow(t.Context(), req, hourly).OK)

		other := Request{Event: "e", Call: Issue, Person: "q"}
		require.True(t, l.Allow(t.Context(), other, hourly).OK, "somebody else was not refused")
	})
}

// Where the local bucket would refuse for longer than the store, the longer time is
// told, so that nobody waits as told and is told again.
func TestWaitIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Config{}, nil)
		l.store = storeFunc(func(context.Context, []charge) ([]refusal, error) {
			return []refusal{{WhichIssue, time.Second}}, nil
		})
		rules := Rules{Issue: per(1, 10*time.Second)}
		req := Request{Event: "e", Call: Issue, Person: "p"}
		v := l.Allow(t.Context(), req, rules)
		require.Equal(t, Verdict{RetryAfter: 10 * time.Second, Which: WhichIssue}, v)
		l.store = willing
		time.Sleep(v.RetryAfter)
		require.True(t, l.Allow(t.Context(), req, rules).OK)
	})
}

func TestChangedRuleHoldsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Config{}, nil)
		l.store = willing
		req := Request{Event: "e", Call: Issue, Person: "p"}
		require.Equal(t, 3, passed(t.Context(), l, 9, req, Rules{Issue: per(3, time.Hour)}))
		time.Sleep(time.Second)
		require.Equal(t, 0, passed(t.Context(), l, 9, req, Rules{Issue: per(4, time.Hour)}), "a new rule is no gift")
		time.Sleep(time.Second)
		require.False(t, l.Allow(t.Context(), req, Rules{Issue: per(100, 10*time.Second)}).OK)
		time.Sleep(time.Second)
		require.Equal(t, 10, passed(t.Context(), l, 99, req, Rules{Issue: per(100, 10*time.Second)}))
		require.True(t, l.Allow(t.Context(), req, Rules{}).OK, "off is off")

		l.store = storeFunc(func(context.Context, []charge) ([]refusal, error) {
			return []refusal{{WhichIssue, time.Hour}}, nil
		})
		other := Request{Event: "e", Call: Issue, Person: "q"}
		require.False(t, l.Allow(t.Context(), other, Rules{Issue: per(3, time.Hour)}).OK)
		l.store = willing
		require.False(t, l.Allow(t.Context(), other, Rules{Issue: per(3, time.Hour)}).OK)
		require.True(t, l.Allow(t.Context(), other, Rules{Issue: per(50, time.Hour)}).OK, "the old rule's refusal is not the new one's")
	})
}

// TestMemoryIsBounded holds promise 5, and that who keeps calling is not forgotten.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	const most = 64
	m := newMemory(most)
	now := time.Unix(0, 0)
	steady := charge{bucket{event: "e", which: WhichAddress, person: "steady"}, per(1, time.Hour)}
	refused, _ := m.take(now, []charge{steady})
	require.Empty(t, refused)
	for i := range 100 * most {
		fresh := charge{bucket{event: "e", which: WhichAddress, person: strconv.Itoa(i)}, per(1, time.Hour)}
		refused, _ = m.take(now, []charge{fresh})
		require.Empty(t, refused)
		refused, _ = m.take(now, []charge{steady})
		require.NotEmpty(t, refused, "forgotten after %d others", i)
		require.LessOrEqual(t, m.len(), 2*most)
	}
}

// Of any calls at any times, no window lets through more than the rule and what came
// back meanwhile; and no refusal's wait is too short.
func TestLocalBucketProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rule := waitroom.Rule{
			N:   rapid.IntRange(1, 50).Draw(t, "n"),
			Per: time.Duration(rapid.Int64Range(int64(100*time.Millisecond), int64(time.Hour)).Draw(t, "per")),
		}
		m := newMemory(leastRemember)
		c := []charge{{bucket{event: "e", which: WhichIssue, person: "p"}, rule}}
		now := time.Unix(1_700_000_000, 0)
		var times []time.Time
		for _, gap := range rapid.SliceOfN(rapid.Int64Range(0, int64(rule.Per)), 1, 100).Draw(t, "gaps") {
			now = now.Add(time.Duration(gap) / time.Duration(rule.N))
			if refused, _ := m.take(now, c); refused != nil {
				require.Positive(t, refused[0].wait)
				if !rapid.Bool().Draw(t, "wait") {
					continue
				}
				now = now.Add(refused[0].wait)
				refused, _ = m.take(now, c)
				require.Empty(t, refused, "the wait was too short")
			}
			times = append(times, now)
		}
		for i := range times {
			for j := i; j < len(times); j++ {
				back := float64(rule.N) * float64(times[j].Sub(times[i])) / float64(rule.Per)
				require.LessOrEqual(t, float64(j-i+1), float64(rule.N)+back+1e-6)
			}
		}
	})
}
