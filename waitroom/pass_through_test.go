package waitroom

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// doc.go promise 17: where the event says so, everybody passes, in order, counted and
// logged, inside max_active; a pause wins, and the second after it keeps the cap.
func TestPromise17PassThrough(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		l := testLine(t, rdb)
		open(t, l, func(s *Settings) { s.RatePerS, s.Grace = 20, Duration(24*time.Hour) })
		clock := time.UnixMilli(1_800_000_000_000).UTC()
		freeze(t, l, clock)
		pass := func(n int) Promotion {
			clock = clock.Add(100 * time.Millisecond)
			freeze(t, l, clock)
			p, err := l.Promote(t.Context(), PromoteRequest{
				Event: "e", Fence: 3, N: n, Pass: true, Why: Why{RatePerS: 7.5, Reason: "database_busy", Usage: 0.91},
			})
			require.NoError(t, err)
			return p
		}
		patch := func(body string) {
			_, err := l.Patch(t.Context(), "e", []byte(body), "op")
			require.NoError(t, err)
		}
		places := joinN(t, l, 60)
		require.LessOrEqual(t, len(pass(50).Grants), 4, "the caller alone cannot say so: the event must")

		patch(`{"pass_through":true,"max_active":40}`)
		first := pass(0)
		require.Equal(t, "max_active", first.Reason)
		require.Equal(t, int64(40), first.Inside)
		patch(`{"state":"paused","max_active":0}`)
		require.Equal(t, "not_open", pass(0).Reason, "a pause by hand wins")
		patch(`{"state":"open"}`)
		rest := pass(2)
		require.Empty(t, rest.Reason)
		require.Zero(t, rest.Waiting)
		in := append(granted(first.Grants), granted(rest.Grants)...)
		require.Equal(t, entries(places)[60-len(in):], in, "in order of their coming, behind those let in by the rate")

		late := joinN(t, l, 3)
		p, err := l.Log(t.Context(), "e", 0, 10)
		require.NoError(t, err)
		require.Len(t, p.Leaves, 3, "nobody, no leaf")
		require.Equal(t, fmt.Sprintf("p %d - 3 2 0 0 7.5 database_busy - 0.910 %d*%d 0", clock.UnixMilli(), rest.Grants[0].Seq, len(rest.Grants)), p.Leaves[2],
			"the leaf says what the law would have done")
		require.Equal(t, "p", strings.Fields(p.Leaves[1])[0])

		patch(`{"pass_through":false}`)
		require.Empty(t, pass(50).Grants, "those of the last second count for the cap")
		clock = clock.Add(time.Second)
		after := granted(pass(50).Grants)
		require.NotEmpty(t, after)
		require.Equal(t, entries(late)[:len(after)], after)
	})
}

// A backlog comes in in bounded batches, the front first.
func TestPassThroughIsBounded(t *testing.T) {
	t.Parallel()
	rdb := redistest.Mini(t)
	l := testLine(t, rdb)
	open(t, l, func(s *Settings) { s.RatePerS, s.PassThrough = 1, true })
	crowd(t, l, PassPerCall+100)
	for i, want := range []int{PassPerCall, 100, 0} {
		p, err := l.Promote(t.Context(), PromoteRequest{Event: "e", Fence: 1, Pass: true})
		require.NoError(t, err)
		require.Len(t, p.Grants, want, "call %d", i)
	}
}

func TestPassThroughNeedsALine(t *testing.T) {
	t.Parallel()
	_, _, err := DecodeSettings([]byte(`{"id":"e","mode":"instant","tickets":{"kind":"stock","stock":5},"pass_through":true}`))
	require.ErrorContains(t, err, "pass_through")
}
