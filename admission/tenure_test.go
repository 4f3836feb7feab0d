package admission

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFencedLeaderStepsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		line := newFakeLine(free("a", 20))
		leader := &terms{trusted: time.Hour}
		c := start(t, line, leader)
		time.Sleep(time.Second + 50*time.Millisecond)
		require.Equal(t, int64(1), leader.count())
		fence := func(to int64) {
			line.mu.Lock()
			defer line.mu.Unlock()
			line.fence = to
		}
		fence(1000) // somebody else leads
		n := len(line.of("a"))
		time.Sleep(time.Second)
		require.Len(t, line.of("a"), n)
		require.GreaterOrEqual(t, leader.count(), int64(10), "stepped down, and stood for the next term, at each tick")
		fence(5)
		time.Sleep(time.Second)
		require.Greater(t, len(line.of("a")), n, "a term with a fence high enough goes on")
		require.True(t, c.Leading())
	})
}

// Promise 10, by its own clock.
func TestUntrustedLeaderPromotesNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		line := newFakeLine(free("a", 20))
		paused := leadOnce{term: NewTerm(1, time.Second)}
		c := start(t, line, &paused)
		time.Sleep(time.Second - time.Millisecond)
		require.Len(t, line.of("a"), 10)
		time.Sleep(time.Minute)
		require.Len(t, line.of("a"), 10, "not one after the trust ended")
		require.True(t, paused.returned.Load(), "and it stepped down")
		require.False(t, c.Leading())
	})
}

// leadOnce gives one term whose context never ends by itself: a frozen leader.
type leadOnce struct {
	term     Term
	returned atomic.Bool
}

func (l *leadOnce) Run(ctx context.Context, lead func(context.Context, Term)) error {
	lead(ctx, l.term)
	l.returned.Store(true)
	<-ctx.Done()
	return nil
}
