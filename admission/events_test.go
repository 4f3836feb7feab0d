package admission

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

func TestSettingsAndStatesTakeEffectWithinATick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		line := newFakeLine(free("a", 20))
		c := start(t, line, &terms{trusted: time.Hour})
		time.Sleep(time.Second + 50*time.Millisecond)
		faster := free("a", 500)
		line.set(faster)
		time.Sleep(200 * time.Millisecond)
		last := line.of("a")
		require.Equal(t, 50, last[len(last)-1].n)
		for _, state := range []waitroom.State{waitroom.Paused, waitroom.Lobby, waitroom.Scheduled, waitroom.Closed} {
			ev := free("a", 500)
			ev.State = state
			line.set(ev)
			time.Sleep(2 * DefaultTick)
			n := len(line.of("a"))
			time.Sleep(time.Second)
			require.Len(t, line.of("a"), n, "%s", state)
			s, _ := c.Decision("a")
			require.Equal(t, ReasonNotOpen, s.Reason)
		}
		ev := free("a", 500)
		ev.State = waitroom.Draining
		line.set(ev)
		n := len(line.of("a"))
		time.Sleep(2 * DefaultTick)
		require.Greater(t, len(line.of("a")), n, "a line that drains moves on")
		require.Equal(t, 50, line.of("a")[n].n, "a pause brings no burst")
	})
}

func TestEventsComeAndGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{usage: func(context.Context, waitroom.Event) (Reading, error) { return Reading{}, ErrNoSignal }}
		line := newFakeLine(free("a", 20))
		c := start(t, line, &terms{trusted: time.Hour}, source)
		time.Sleep(time.Second)
		line.set(free("b", 20))
		time.Sleep(2 * DefaultTick)
		n := len(line.of("a"))
		time.Sleep(time.Second)
		require.Len(t, line.of("a"), n)
		require.NotEmpty(t, line.of("b"))
		_, ok := c.Decision("a")
		require.False(t, ok)
		require.Equal(t, []waitroom.EventID{"a"}, source.gone, "another event of that name inherits nothing")
		quiet := free("b", 20)
		quiet.Waiting = 0
		line.set(quiet)
		time.Sleep(2 * DefaultTick)
		n, swept := len(line.of("b")), line.sweeps("b")
		time.Sleep(10 * time.Second)
		require.Len(t, line.of("b"), n, "nobody waits, nobody is asked for")
		require.Equal(t, 10, line.sweeps("b")-swept, "an empty event is swept once a second")
	})
}

// Promise 11: an event whose calls hang keeps no other one waiting.
func TestAHangingEventDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context, event waitroom.EventID) error {
			if event == "slow" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		line := newFakeLine(free("slow", 20), free("fast", 20))
		line.onPromote = func(ctx context.Context, req waitroom.PromoteRequest) error { return hang(ctx, req.Event) }
		line.onSweep = hang
		c := start(t, line, &terms{trusted: time.Hour})
		time.Sleep(10*time.Second - time.Millisecond)
		fast := line.of("fast")
		require.Len(t, fast, 100)
		for i, p := range fast {
			require.Equal(t, time.Duration(i)*DefaultTick, p.at, "to the millisecond")
		}
		require.Equal(t, 100, line.sweeps("fast"))
		require.Greater(t, c.metric(t, "missed_ticks_total", ""), 80.0)
		require.InDelta(t, 9, c.metric(t, "failed_total", "promote"), 1, "one call at a time, cut at a second")
	})
}

func TestEventsThatCannotBeReadStayAsTheyWere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		line := newFakeLine(free("a", 20))
		line.onEvents = func(context.Context) error {
			if away.Load() {
				return waitroom.ErrUnavailable
			}
			return nil
		}
		c := start(t, line, &terms{trusted: time.Hour})
		time.Sleep(time.Second)
		away.Store(true)
		n := len(line.of("a"))
		time.Sleep(time.Second)
		require.InDelta(t, 10, len(line.of("a"))-n, 1)
		require.InDelta(t, 10, c.metric(t, "failed_total", "events"), 1)
	})
}
