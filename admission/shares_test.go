package admission

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// doc.go promise 16: only those share whom nothing but the load holds back.
func TestSharesCountWhoIsHeldByTheLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s shares
		event := func(id waitroom.EventID, change func(*waitroom.Event)) waitroom.Event {
			ev := sells()
			ev.ID, ev.Load.Law, ev.Waiting = id, "target", 10
			if change != nil {
				change(&ev)
			}
			return ev
		}
		held := func(perS float64) Decision { return Decision{RatePerS: perS, Reason: ReasonTarget} }
		s.note(event("a", nil), held(60), false)
		require.Zero(t, s.mean("a", ""), "alone")
		s.note(event("b", nil), held(20), false)
		require.InDelta(t, 40, s.mean("a", ""), 0)
		require.InDelta(t, 40, s.mean("b", ""), 0)
		for why, no := range map[string]func(*waitroom.Event){
			"nobody waits":       func(ev *waitroom.Event) { ev.Waiting = 0 },
			"sells nothing here": func(ev *waitroom.Event) { ev.Tickets.Kind = "none" },
			"another law":        func(ev *waitroom.Event) { ev.Load.Law = "steps" },
		} {
			s.note(event("c", no), held(1000), false)
			require.InDelta(t, 40, s.mean("a", ""), 0, why)
			require.Zero(t, s.mean("c", ""), why)
		}
		s.note(event("c", nil), Decision{RatePerS: 1000, Reason: ReasonRate}, false)
		s.note(event("d", nil), held(1000), true)
		require.InDelta(t, 40, s.mean("a", ""), 0, "at its own rate, or passed through")
		time.Sleep(shareFor / 2)
		s.note(event("a", nil), held(60), false)
		time.Sleep(shareFor/2 + time.Millisecond)
		require.Zero(t, s.mean("a", ""), "b has not been decided on for a second")
	})
}
