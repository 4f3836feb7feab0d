package hub

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// sink is a connection that takes everything.
type sink struct{ net.Conn }

func (sink) Write(p []byte) (int, error)      { return len(p), nil }
func (sink) SetWriteDeadline(time.Time) error { return nil }

// counting is a stage that counts positions, does something at one of them, and
// remembers how many there were when a token was made.
type counting struct {
	*stage
	positions, minted int
	at                int
	then              func()
}

func (c *counting) Position(id waitroom.EventID, seq waitroom.Seq) (int64, bool) {
	if c.positions++; c.positions == c.at {
		c.then()
	}
	return c.stage.Position(id, seq)
}

func (c *counting) Mint(g waitroom.Grant) (string, error) {
	c.minted = c.positions
	return c.stage.Mint(g)
}

// Promise 12: five hundred positions are due, and somebody is admitted after the
// first hundred.
func TestAdmittedOvertakesPositions(t *testing.T) {
	t.Parallel()
	view := &counting{stage: newStage()}
	deps := view.deps()
	deps.View, deps.Passes = view, view
	cfg := quick()
	cfg.Shards = 1
	h, err := New(cfg, deps)
	require.NoError(t, err)
	s := h.shards[0]
	ev, err := view.Event(t.Context(), concert)
	require.NoError(t, err)
	const people = 500
	all := make([]*client, people)
	for i := range all {
		view.seat(i+1, int64(i+1))
		c := &client{room: h.rooms.enter(ev), conn: sink{}}
		c.owner.Store(s)
		all[i] = c
		s.opened(c, identity{entry: waitroom.EntryID(fmt.Sprint("e", i)), seq: waitroom.Seq(i + 1), receipt: "r"})
	}
	for _, c := range all {
		s.wheel.plan(c, 1)
	}
	view.positions, view.at = 0, 100
	view.then = func() { h.Admitted(concert, []waitroom.Grant{grantFor("e499", people)}) }
	s.wheel.turn(s.visitAmong)
	require.GreaterOrEqual(t, view.minted, 100)
	require.LessOrEqual(t, view.minted, 100+glance, "positions before the token")
	require.GreaterOrEqual(t, view.positions, people-1, "everybody else is told as well")
}

// Promise 9: who is refused comes back in the order of the line, and nobody is asked.
func TestRefusedComeBackInOrder(t *testing.T) {
	t.Parallel()
	st := newStage()
	const waiting = 1000
	for i := range waiting {
		st.seat(i+1, int64(i+1))
	}
	n := startNode(t, quick(), st.deps())
	dial(t, n, cookie(receiptOf("first", 1))) // so that the event is known here
	until(t, "the event is known", func() bool { return n.rooms.get(concert) != nil })
	ev := *n.rooms.get(concert).event.Load()
	ev.Waiting, ev.Version = waiting, ev.Version+1
	n.rooms.update(n.rooms.get(concert), ev)
	seconds := map[time.Duration]int{}
	for i := range waiting {
		after := n.comeBack(concert, receiptOf(fmt.Sprint("e", i), i+1))
		least := 2*time.Second + shortestWindow*time.Duration(i)/waiting
		require.GreaterOrEqual(t, after, least)
		require.LessOrEqual(t, after, least+time.Second)
		seconds[after/time.Second]++
	}
	for second, count := range seconds {
		require.LessOrEqual(t, count, waiting/10, "second %d", second)
	}
	for _, receipt := range []string{"", "bad", receiptOf("gone", 5000)} {
		after := n.comeBack(concert, receipt)
		require.GreaterOrEqual(t, after, 2*time.Second)
		require.LessOrEqual(t, after, 2*time.Second+shortestWindow)
	}
}
