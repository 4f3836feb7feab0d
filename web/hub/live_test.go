package hub

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// Promise 3.
func TestPromise3PositionsComeInTime(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(7, 12)
	n := startNode(t, quick(), st.deps())
	f := dial(t, n, nil)
	asked := time.Now()
	f.hello(receiptOf("ann", 7))
	got := f.next()
	require.Less(t, time.Since(asked), time.Second)
	require.Equal(t, said{
		Type: "position", Position: 12, Ahead: 11, Waiting: 1000, EtaS: 2, EtaP90S: 2, RatePerS: 10, SeatsLeft: 4210,
	}, got)
	st.seat(7, 11)
	for range 3 {
		require.Equal(t, "position", f.next().Type)
	}
	require.Equal(t, int64(11), f.next().Position)
}

// Promise 3, the rhythm: who is far is told less often, and nobody is forgotten.
func TestPromise3NearAndFar(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.do(func() {
		ev := st.events[concert]
		ev.RatePerS = 100 // in one far message's time 40 come in
		st.events[concert] = ev
	})
	cfg := quick()
	cfg.Near = 10
	n := startNode(t, cfg, st.deps())
	var tabs []*fan
	for i, pos := range []int64{10, 50, 51, 1_000_000} {
		st.seat(i+1, pos)
		tabs = append(tabs, dial(t, n, cookie(receiptOf(fmt.Sprint("e", i), i+1))))
	}
	const seconds = 2
	counts := make([]int, len(tabs))
	var readers sync.WaitGroup
	for i, f := range tabs {
		readers.Go(func() {
			for until := time.Now().Add(seconds * time.Second); time.Now().Before(until); {
				if m, err := f.read(); err == nil && m.Type == "position" {
					counts[i]++
				}
			}
		})
	}
	readers.Wait()
	for i, count := range counts {
		if i < 2 { // near, or soon near: every 100ms
			require.Greater(t, count, counts[2]*2, "%v", counts)
		} else { // every 400ms; a busy machine makes it fewer, never many more
			require.GreaterOrEqual(t, count, 2, "%v", counts)
			require.LessOrEqual(t, count, seconds*1000/400+3, "%v", counts)
		}
	}
}

func TestPausedStillSaysPositions(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(7, 12)
	st.do(func() {
		ev := st.events[concert]
		ev.State, ev.Reason, ev.Message = waitroom.Paused, "database_busy", "one moment"
		st.events[concert] = ev
	})
	n := startNode(t, quick(), st.deps())
	f := dial(t, n, cookie(receiptOf("ann", 7)))
	require.Equal(t, said{Type: "event", State: "paused", Reason: "database_busy", Message: "one moment"}, f.next())
	require.Equal(t, int64(12), f.wait("position").Position)
	require.Equal(t, int64(12), f.wait("position").Position)
}

// Why it takes longer is told once it holds, and taken back when it is over; a moment
// of it is not.
func TestAnOpenLineSaysWhyItIsSlow(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(7, 12)
	deps := st.deps()
	var reason atomic.Value
	reason.Store("database_busy")
	since := time.UnixMilli(1_800_000_000_120).UTC()
	deps.Holding = func(waitroom.EventID) (string, time.Time) { return reason.Load().(string), since }
	n := startNode(t, quick(), deps)
	f := dial(t, n, cookie(receiptOf("ann", 7)))
	start := time.Now()
	require.Equal(t, said{Type: "event", State: "open", Reason: "database_busy", Since: "2027-01-15T08:00:00.120Z"}, f.wait("event"))
	require.GreaterOrEqual(t, time.Since(start), heldFor-2*watchEvery)
	late := dial(t, n, cookie(receiptOf("ann", 7)))
	require.Equal(t, "database_busy", late.wait("event").Reason, "also to whoever comes meanwhile")
	reason.Store("")
	require.Equal(t, said{Type: "event", State: "open"}, f.wait("event"))
	require.Equal(t, int64(12), f.wait("position").Position, "the place is kept")
}

// Whoever waits hears that the last piece is paid, and when one has come back.
func TestALineThatIsKeptHearsOfTheLastPiece(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(7, 12)
	n := startNode(t, quick(), st.deps())
	f := dial(t, n, cookie(receiptOf("ann", 7)))
	set := func(sold bool, state waitroom.State) {
		st.do(func() {
			ev := st.events[concert]
			ev.SoldOut, ev.State, ev.Version = sold, state, ev.Version+1
			st.events[concert] = ev
			defer n.Changed(ev)
		})
	}
	set(true, waitroom.Open)
	require.Equal(t, said{Type: "event", State: "open", Reason: "sold_out"}, f.wait("event"))
	require.Equal(t, int64(12), f.wait("position").Position, "the place is kept")
	set(false, waitroom.Open)
	require.Equal(t, said{Type: "event", State: "open"}, f.wait("event"))
	set(true, waitroom.Paused)
	require.Equal(t, said{Type: "event", State: "paused", Reason: "sold_out"}, f.wait("event"))
}

// Promise 4.
func TestPromise4PositionNeverGrows(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(7, 12)
	n := startNode(t, quick(), st.deps())
	f := dial(t, n, cookie(receiptOf("ann", 7)))
	require.Equal(t, int64(12), f.wait("position").Position)
	st.seat(7, 40) // somebody was put back in front
	for range 3 {
		require.Equal(t, int64(12), f.wait("position").Position)
	}
	// Another tab and a refresh see the same.
	other := dial(t, n, cookie(receiptOf("ann", 7)))
	require.Equal(t, int64(12), other.wait("position").Position)
	require.NoError(t, f.ws.Close())
	require.NoError(t, other.ws.Close())
	until(t, "both to be gone", func() bool { return n.Sockets() == 0 })
	again := dial(t, n, cookie(receiptOf("ann", 7)))
	require.Equal(t, int64(12), again.wait("position").Position)
	// A new place is another place.
	st.seat(50, 45)
	again.hello(receiptOf("ann", 50))
	until(t, "the new place", func() bool { return again.wait("position").Position == 45 })
}

// Promise 5.
func TestPromise5EveryTabIsTold(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(7, 1)
	n := startNode(t, quick(), st.deps())
	var tabs []*fan
	for i := range 5 {
		var f *fan
		if i%2 == 0 {
			f = dial(t, n, cookie(receiptOf("ann", 7)))
		} else {
			f = dial(t, n, nil)
			f.hello(receiptOf("ann", 7))
		}
		f.wait("position")
		tabs = append(tabs, f)
	}
	st.leaveLine(7)
	st.do(func() {
		st.places["ann"] = waitroom.Place{Event: concert, Entry: "ann", Seq: 7, State: waitroom.EntryAdmitted, Grant: grantFor("ann", 7)}
	})
	n.Admitted(concert, []waitroom.Grant{grantFor("ann", 7), grantFor("bob", 8)})
	n.Admitted(concert, []waitroom.Grant{grantFor("ann", 7)}) // a replay of the feed
	want := said{Type: "admitted", EntryToken: "token-jti-ann", ExpiresAt: "2027-01-15T08:05:00.000Z", RedirectURL: "/e/concert/shop"}
	for _, f := range tabs {
		require.Equal(t, want, f.wait("admitted"))
	}
	n.Outcome(ticket.Outcome{Event: string(concert), Person: "ann", ReservationID: "r1", Status: ticket.Cancelled, Reason: "payment_unavailable"})
	for _, f := range tabs {
		m := f.next()
		for ; m.Type != "reservation"; m = f.next() {
			require.NotEqual(t, "admitted", m.Type, "the admission must be told once")
		}
		require.Equal(t, said{Type: "reservation", ReservationID: "r1", Status: "cancelled", Reason: "payment_unavailable"}, m)
	}
	// Whoever comes later is told at once.
	require.Equal(t, want, dial(t, n, cookie(receiptOf("ann", 7))).next())
}

// Promise 5: a tab that dies just then takes the message from no other.
func TestPromise5ADeadTabHidesNothing(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(7, 1)
	n := startNode(t, quick(), st.deps())
	var tabs []*fan
	for range 3 {
		f := dial(t, n, cookie(receiptOf("ann", 7)))
		f.wait("position")
		tabs = append(tabs, f)
	}
	st.leaveLine(7)
	st.do(func() {
		st.places["ann"] = waitroom.Place{Event: concert, Entry: "ann", Seq: 7, State: waitroom.EntryAdmitted, Grant: grantFor("ann", 7)}
	})
	r := n.rooms.get(concert)
	ask(n.Hub, func(s *shard) {
		if ps := s.rooms[r]; ps != nil {
			closeConn(ps.byEntry["ann"].tabs.conn) // the newest tab stands first
			s.admitted(r, []waitroom.Grant{grantFor("ann", 7)})
		}
	})
	for _, f := range tabs[:2] {
		require.Equal(t, "token-jti-ann", f.wait("admitted").EntryToken)
	}
}

// Promise 6.
func TestPromise6NoticesReachEverybody(t *testing.T) {
	t.Parallel()
	st := newStage()
	n := startNode(t, quick(), st.deps())
	var fans []*fan
	for i := range 50 {
		st.seat(i+1, int64(i+1))
		f := dial(t, n, cookie(receiptOf(fmt.Sprint("e", i), i+1)))
		f.wait("position")
		fans = append(fans, f)
	}
	silent := dial(t, n, nil) // who has not said hello is told nothing of it
	ev, err := st.Event(t.Context(), concert)
	require.NoError(t, err)
	ev.Version, ev.State, ev.Reason, ev.Message = 2, waitroom.Paused, "operator", "back at noon"
	st.do(func() { st.events[concert] = ev })
	n.Changed(ev)
	n.Changed(ev)
	for _, f := range fans {
		require.Equal(t, said{Type: "event", State: "paused", Reason: "operator", Message: "back at noon"}, f.wait("event"))
		require.Equal(t, "position", f.next().Type)
	}
	old := ev
	old.Version, old.State = 1, waitroom.Open
	n.Changed(old) // of the past
	ev.Version, ev.State, ev.Reason, ev.Message = 3, waitroom.Open, "", ""
	st.do(func() { st.events[concert] = ev })
	n.Changed(ev)
	for _, f := range fans {
		require.Equal(t, said{Type: "event", State: "open"}, f.wait("event"))
	}
	silent.hello(receiptOf("e0", 1))
	silent.wait("position")
	gone := ev
	gone.State, gone.Reason = waitroom.Closed, waitroom.ReasonDeleted
	st.do(func() { delete(st.events, concert) })
	n.Changed(gone)
	require.Equal(t, "closed", fans[0].wait("event").State)
	require.Equal(t, int(CodeNoEvent.Code), fans[0].closed())
}

// A store that lost its data has the event again a moment later, and the people who
// are here are its line: nobody is sent away.
func TestEventThatComesBack(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(7, 3)
	cfg := quick()
	cfg.GoneAfter = time.Minute
	n := startNode(t, cfg, st.deps())
	f := dial(t, n, cookie(receiptOf("ann", 7)))
	f.wait("position")
	ev, err := st.Event(t.Context(), concert)
	require.NoError(t, err)
	gone := ev
	gone.State, gone.Reason = waitroom.Closed, waitroom.ReasonDeleted
	st.do(func() {
		delete(st.events, concert)
		delete(st.position, 7)
		st.placeErr, st.asked = waitroom.ErrNoEvent, 0
	})
	n.Changed(gone)
	until(t, "the line to be asked, and the room to notice", func() bool {
		missing := 0
		st.do(func() { missing = st.asked })
		return missing > 0
	})
	for range 5 { // of what is shown meanwhile nothing is the end
		require.Equal(t, said{Type: "position", Position: 3, Ahead: 2, Waiting: 1000, EtaS: 1, EtaP90S: 1, RatePerS: 10, SeatsLeft: 4210}, f.next())
	}
	st.do(func() {
		ev.Epoch++
		st.events[concert], st.position[7], st.placeErr = ev, 2, nil
	})
	until(t, "the place that was put back", func() bool { return f.wait("position").Position == 2 })
}

// Promise 10.
func TestPromise10StoreAway(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(7, 3)
	n := startNode(t, quick(), st.deps())
	f := dial(t, n, cookie(receiptOf("ann", 7)))
	f.wait("position")
	st.do(func() { st.down, st.placeErr = true, waitroom.ErrUnavailable })
	require.Equal(t, said{Type: "event", State: "open", Reason: "store_unavailable"}, f.wait("event"))
	require.Equal(t, int64(3), f.next().Position)
	// Somebody whom the view does not know must wait for the store.
	late := dial(t, n, nil)
	late.hello(receiptOf("bob", 8))
	require.Equal(t, "store_unavailable", late.next().Reason)
	st.do(func() {
		st.down, st.placeErr = false, nil
		st.places["bob"] = waitroom.Place{Event: concert, Entry: "bob", Seq: 8, State: waitroom.EntryAdmitted, Grant: grantFor("bob", 8)}
	})
	require.Equal(t, said{Type: "event", State: "open"}, f.wait("event"), "what comes next must be the end of it, said once")
	require.Equal(t, "token-jti-bob", late.wait("admitted").EntryToken)
}
