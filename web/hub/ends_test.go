package hub

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

func TestAdmittedWhileAway(t *testing.T) {
	t.Parallel()
	for _, state := range []waitroom.EntryState{waitroom.EntryAdmitted, waitroom.EntryEntered} {
		st := newStage()
		g := grantFor("ann", 7)
		g.State, g.Subject = state, "student-17"
		if state == waitroom.EntryEntered {
			g.SessionEnds = time.Unix(1_800_000_600, 0)
		}
		st.places["ann"] = waitroom.Place{Event: concert, Entry: "ann", Seq: 7, State: state, Grant: g}
		n := startNode(t, quick(), st.deps())
		f := dial(t, n, nil)
		f.hello(receiptOf("ann", 7))
		got := f.next()
		require.Equal(t, "token-jti-ann", got.EntryToken)
		want := "2027-01-15T08:05:00.000Z"
		if state == waitroom.EntryEntered {
			want = "2027-01-15T08:10:00.000Z"
		}
		require.Equal(t, want, got.ExpiresAt)
		// The site knows this person by another name.
		n.Outcome(ticket.Outcome{Event: string(concert), Person: "student-17", ReservationID: "r2", Status: ticket.Paid})
		require.Equal(t, said{Type: "reservation", ReservationID: "r2", Status: "paid"}, f.wait("reservation"))
	}
}

// A turn that ended is told once, and the socket stays for late outcomes.
func TestTurnEnds(t *testing.T) {
	t.Parallel()
	st := newStage()
	set := func(state waitroom.EntryState) {
		g := grantFor("ann", 7)
		g.State = state
		st.do(func() {
			st.places["ann"] = waitroom.Place{Event: concert, Entry: "ann", Seq: 7, State: state, Grant: g}
		})
	}
	set(waitroom.EntryEntered)
	st.do(func() {
		ev := st.events[concert]
		ev.Now = time.Unix(1_800_000_299, 0)
		st.events[concert] = ev
	})
	cfg := quick()
	cfg.IdleEvery = 50 * time.Millisecond
	n := startNode(t, cfg, st.deps())
	f := dial(t, n, cookie(receiptOf("ann", 7)))
	f.wait("admitted")
	require.Equal(t, said{Type: "event", State: "open"}, f.next(), "data comes also to those inside")
	n.Ended(concert, []waitroom.End{
		{Entry: "ann", JTI: "jti-of-another-turn", State: waitroom.EntryExpired},
		{Entry: "bob", JTI: "jti-bob", State: waitroom.EntryExpired},
		{Entry: "ann", JTI: "jti-ann", State: waitroom.EntryCompleted},
	})
	require.Equal(t, "completed", f.wait("ended").State)
	n.Outcome(ticket.Outcome{Event: string(concert), Person: "ann", ReservationID: "r1", Status: ticket.Paid})
	for m := f.next(); m.Type != "reservation"; m = f.next() {
		require.NotEqual(t, "ended", m.Type)
	}
	// The same person joins anew, on the same socket.
	st.seat(20, 9)
	f.hello(receiptOf("ann", 20))
	require.Equal(t, int64(9), f.wait("position").Position)
}

// Nobody is asked about while the turn's time runs; when it is over and nobody has
// said so, the line is asked.
func TestLostEndOfATurnIsFound(t *testing.T) {
	t.Parallel()
	st := newStage()
	at := func(unix int64, state waitroom.EntryState) {
		g := grantFor("ann", 7)
		g.State = state
		st.do(func() {
			ev := st.events[concert]
			ev.Now = time.Unix(unix, 0)
			st.events[concert] = ev
			st.places["ann"] = waitroom.Place{Event: concert, Entry: "ann", Seq: 7, State: state, Grant: g}
		})
	}
	at(1_800_000_299, waitroom.EntryAdmitted)
	cfg := quick()
	cfg.IdleEvery = 20 * time.Millisecond
	n := startNode(t, cfg, st.deps())
	f := dial(t, n, cookie(receiptOf("ann", 7)))
	f.wait("admitted")
	for range 20 {
		require.Equal(t, "event", f.next().Type)
	}
	st.do(func() { require.Equal(t, 1, st.asked, "at the hello") })
	at(1_800_000_301, waitroom.EntryExpired)
	require.Equal(t, "expired", f.wait("ended").State)
}

func TestEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state waitroom.EntryState
		code  uint16
	}{
		{waitroom.EntryLeft, CodeLeft.Code},
		{waitroom.EntryExpired, CodeExpired.Code},
		{waitroom.EntryBlocked, CodeBlocked.Code},
	} {
		st := newStage()
		st.seat(7, 3)
		n := startNode(t, quick(), st.deps())
		f := dial(t, n, cookie(receiptOf("ann", 7)))
		f.wait("position")
		st.leaveLine(7)
		n.Departed(concert, []waitroom.Departure{{Entry: "ann", Seq: 6, State: c.state}}) // of an earlier place
		n.Departed(concert, []waitroom.Departure{{Entry: "ann", Seq: 7, State: c.state}})
		require.Equal(t, string(c.state), f.wait("ended").State)
		require.Equal(t, int(c.code), f.closed())
		// The next socket with the old receipt learns it by asking.
		st.do(func() {
			st.places["ann"] = waitroom.Place{Event: concert, Entry: "ann", Seq: 7, State: c.state}
		})
		f = dial(t, n, cookie(receiptOf("ann", 7)))
		require.Equal(t, string(c.state), f.wait("ended").State)
		require.Equal(t, int(c.code), f.closed())
	}
}

func TestLeave(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(7, 3)
	n := startNode(t, quick(), st.deps())
	f, other := dial(t, n, cookie(receiptOf("ann", 7))), dial(t, n, cookie(receiptOf("ann", 7)))
	other.wait("position")
	f.say(`{"type":"leave"}`)
	require.Equal(t, int(CodeLeft.Code), f.closed())
	require.Equal(t, int(CodeLeft.Code), other.closed())
	st.do(func() { require.Equal(t, []waitroom.EntryID{"ann"}, st.left) })
}
