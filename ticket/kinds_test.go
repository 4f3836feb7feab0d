package ticket

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slotsOf is a catalogue of n slots, s1 to sn, one after the other.
func slotsOf(n int, capacity int64) Catalogue {
	c := Catalogue{Kind: KindSlots, PerUser: 2}
	for i := range n {
		at := time.Date(2026, 5, 1, 8+i, 0, 0, 0, time.UTC)
		c.Items = append(c.Items, ItemSpec{
			ID: fmt.Sprint("s", i+1), Name: fmt.Sprint("Slot ", i+1), Capacity: capacity, StartsAt: at, EndsAt: at.Add(time.Hour),
		})
	}
	return c
}

// timetable is three courses: math and art meet at the same time, gym does not.
func timetable(t *testing.T, capacity int64) Catalogue {
	t.Helper()
	c := Catalogue{Kind: KindCourses, PerUser: 3}
	for _, course := range [][]string{
		{"math", "mon 10:00-12:00", "wed 10:00-12:00"}, {"art", "tue 09:00-10:00", "wed 11:00-13:00"}, {"gym", "fri 08:00-09:00"},
	} {
		meetings, err := parseMeetings(course[1:])
		require.NoError(t, err)
		c.Items = append(c.Items, ItemSpec{ID: course[0], Capacity: capacity, Meetings: meetings})
	}
	return c
}

// onBothLockings runs a test on both databases with both ways of locking.
func onBothLockings(t *testing.T, test func(t *testing.T, nodes []*Store, locking string)) {
	t.Helper()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		nodes := []*Store{openStore(t, address, Config{}), openStore(t, address, Config{})}
		for _, locking := range []string{Optimistic, Pessimistic} {
			test(t, nodes, locking)
		}
	})
}

// same has the second device of a person: another token, another key.
func (b *buyer) device(n int, q ReserveRequest) ReserveRequest {
	q.JTI = fmt.Sprint(q.JTI, "-", n)
	return q
}

func reserveOn(t *testing.T, s *Store, q ReserveRequest) string {
	t.Helper()
	a, err := s.Reserve(t.Context(), q)
	for try := 0; errors.Is(err, ErrContended) && try < 20; try++ {
		a, err = s.Reserve(t.Context(), q) // as it asks for
	}
	if err != nil {
		return err.Error()
	}
	return decode(t, a).Refusal
}

// Promise 2: fifty requests at once on one slot add up.
func TestPromise2FiftyAtOnceOnOneSlot(t *testing.T) {
	t.Parallel()
	onBothLockings(t, func(t *testing.T, nodes []*Store, locking string) {
		t.Helper()
		c := slotsOf(2, 10)
		c.Locking = locking
		require.NoError(t, nodes[0].Put(t.Context(), locking, c))
		got := atOnce(50, func(i int) string {
			return reserveOn(t, nodes[i%2], (&buyer{event: locking, name: fmt.Sprint("p", i)}).seats("s1"))
		})
		require.Equal(t, map[string]int{"": 10, ErrSeatTaken.Error(): 40}, got, locking)
		for _, n := range nodes {
			require.EqualValues(t, 0, count(t, n, `SELECT free FROM items WHERE event = $1 AND id = 's1'`, locking))
			require.EqualValues(t, 10, count(t, n, `SELECT count(*) FROM bookings WHERE event = $1`, locking))
			require.EqualValues(t, 10, count(t, n, `SELECT sum(n) FROM shares WHERE event = $1`, locking))
			require.EqualValues(t, 10, count(t, n, `SELECT count(*) FROM outbox WHERE event = $1 AND topic = $2`, locking, TopicHeld))
		}
		// One person's fifty requests for one slot are one place.
		ann := &buyer{event: locking, name: "ann"}
		asks := make([]ReserveRequest, 50)
		for i := range asks {
			asks[i] = ann.device(i, ann.seats("s2"))
		}
		got = atOnce(50, func(i int) string { return reserveOn(t, nodes[i%2], asks[i]) })
		require.Equal(t, map[string]int{"": 1, ErrAlreadyReserved.Error(): 49}, got, locking)
		require.EqualValues(t, 9, count(t, nodes[0], `SELECT free FROM items WHERE event = $1 AND id = 's2'`, locking))
	})
}

// Promise 18: nobody holds or owns two courses that meet at the same time, also
// when two devices ask at once on two nodes.
func TestPromise18NoTwoCoursesAtOneTime(t *testing.T) {
	t.Parallel()
	onBothLockings(t, func(t *testing.T, nodes []*Store, locking string) {
		t.Helper()
		c := timetable(t, 100)
		c.Locking = locking
		require.NoError(t, nodes[0].Put(t.Context(), locking, c))
		for i := range 15 {
			p := &buyer{event: locking, name: fmt.Sprint("p", i)}
			asks := []ReserveRequest{p.device(1, p.seats("math")), p.device(2, p.seats("art")), p.device(3, p.seats("gym", "art"))}
			got := atOnce(len(asks), func(i int) string { return reserveOn(t, nodes[i%2], asks[i]) })
			// math, or art alone, or gym with art: never two of them.
			require.Equal(t, 1, got[""], "%v", got)
			require.Equal(t, 2, got[ErrTimetableClash.Error()]+got[ErrAlreadyReserved.Error()], "%v", got)
		}
		require.EqualValues(t, 0, count(t, nodes[0], `SELECT count(*) FROM bookings a JOIN bookings b ON b.event = a.event AND b.person = a.person
			WHERE a.event = $1 AND a.item = 'art' AND b.item = 'math'`, locking))
		require.Equal(t, count(t, nodes[0], `SELECT sum(total - free) FROM items WHERE event = $1`, locking),
			count(t, nodes[0], `SELECT count(*) FROM bookings WHERE event = $1`, locking))

		ann := &buyer{event: locking, name: "ann"}
		require.Equal(t, ErrTimetableClash.Error(), refusal(t, nodes[0], ann.seats("gym", "math", "art")), "all or nothing")
		require.Zero(t, count(t, nodes[0], `SELECT count(*) FROM bookings WHERE event = $1 AND person = 'ann'`, locking))
		first := holds(t, nodes[0], ann.seats("art", "gym"))
		require.Equal(t, []string{"art", "gym"}, first.Seats)
		require.Equal(t, ErrTimetableClash.Error(), refusal(t, nodes[1], ann.device(2, ann.seats("math"))))
		require.Equal(t, ErrAlreadyReserved.Error(), refusal(t, nodes[1], ann.device(2, ann.seats("gym"))))
		// What is free needs no payment: asking to pay it is paying.
		a, err := nodes[1].Pay(t.Context(), ann.pay(first.ID))
		require.NoError(t, err)
		require.Equal(t, Paid, decode(t, a).Status)
		a, err = nodes[0].Pay(t.Context(), ann.pay(first.ID))
		require.NoError(t, err)
		require.Equal(t, Paid, decode(t, a).Status, "again is harmless")
		require.Zero(t, count(t, nodes[0], `SELECT count(*) FROM payments WHERE event = $1`, locking))
		require.EqualValues(t, 1, count(t, nodes[0], `SELECT count(*) FROM outbox WHERE event = $1 AND topic = $2`, locking, TopicPaid))
		require.Equal(t, ErrTimetableClash.Error(), refusal(t, nodes[1], ann.device(2, ann.seats("math"))), "owned as well as held")

		bob := &buyer{event: locking, name: "bob"}
		held := holds(t, nodes[0], bob.seats("math"))
		require.NoError(t, nodes[1].Cancel(t.Context(), locking, held.ID, "bob"))
		holds(t, nodes[0], bob.seats("art")) // what was given back clashes with nothing
		// The server picks what does not clash.
		got := holds(t, nodes[1], bob.device(2, bob.quantity(1)))
		require.Equal(t, []string{"gym"}, got.Seats)
		require.Equal(t, ErrTimetableClash.Error(), refusal(t, nodes[1], bob.device(3, bob.quantity(1))))
		require.Equal(t, ErrNoSeat.Error(), refusal(t, nodes[1], bob.device(3, bob.seats("tea"))))
	})
}

func TestAHoldOfASlotEnds(t *testing.T) {
	t.Parallel()
	onBothLockings(t, func(t *testing.T, nodes []*Store, locking string) {
		t.Helper()
		s := nodes[0]
		c := slotsOf(2, 1)
		c.Locking, c.PriceCents = locking, 500
		c.Items[1].PriceCents = new(int64(0))
		require.NoError(t, s.Put(t.Context(), locking, c))
		ann, bob := &buyer{event: locking, name: "ann"}, &buyer{event: locking, name: "bob"}
		held := holds(t, s, ann.seats("s2", "s1"))
		require.Equal(t, []string{"s1", "s2"}, held.Seats, "in the map's order")
		require.EqualValues(t, 500, held.Amount)
		require.Equal(t, ErrSoldOut.Error(), refusal(t, s, bob.seats("s1")))
		s.skew.Add(defaultHold.Milliseconds() + 1)
		got := holds(t, s, bob.quantity(1))
		require.Equal(t, []string{"s1"}, got.Seats, "an ended hold frees at once, and the server takes the first")
		require.EqualValues(t, 1, count(t, s, `SELECT count(*) FROM bookings WHERE event = $1`, locking))
		s.skew.Store(0)
	})
}

// Another node learns of a new catalogue at once, and one that was removed or made
// of another kind is not sold from memory.
func TestACatalogueIsChangedEverywhere(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		a, b := openStore(t, address, Config{}), openStore(t, address, Config{})
		require.NoError(t, b.catchUp(t.Context()))
		require.NoError(t, a.Put(t.Context(), "e", slotsOf(1, 1)))
		_, _, err := b.Map(t.Context(), "e")
		require.NoError(t, err)
		dearer := slotsOf(2, 1)
		dearer.PriceCents = 700
		require.NoError(t, a.Put(t.Context(), "e", dearer))
		ann := &buyer{event: "e", name: "ann"}
		held := holds(t, b, ann.seats("s2"))
		require.EqualValues(t, 700, held.Amount, "no node sells at an old price")
		require.ErrorIs(t, a.Put(t.Context(), "e", hallOf(1, 2)), ErrWrongMode, "while somebody has something")
		require.NoError(t, b.Cancel(t.Context(), "e", held.ID, "ann"))
		require.NoError(t, a.Put(t.Context(), "e", hallOf(1, 2)))
		require.NoError(t, b.catchUp(t.Context()))
		m, _, err := b.Map(t.Context(), "e")
		require.NoError(t, err)
		require.Equal(t, KindSeats, m.Kind)
		require.EqualValues(t, 2, m.Left)
		held = holds(t, b, ann.seats("A-1"))
		before := count(t, a, `SELECT count(*) FROM outbox`)
		require.NoError(t, a.Put(t.Context(), "e", hallOf(1, 2)))
		require.Equal(t, before, count(t, a, `SELECT count(*) FROM outbox`), "no change, no message")
		require.Equal(t, "held", ask1(t, a, `SELECT status FROM seats WHERE reservation = $1`, held.ID))
	})
}

func TestCompanionsAreSoldWithTheirPlace(t *testing.T) {
	t.Parallel()
	onBothLockings(t, func(t *testing.T, nodes []*Store, locking string) {
		t.Helper()
		s := nodes[0]
		require.NoError(t, s.Put(t.Context(), locking, Catalogue{Kind: KindSeats, Locking: locking, PerUser: 3, Sections: []SectionSpec{{ID: "A", Seats: []SeatSpec{
			{ID: "W1", Row: "1", Number: 1, Kind: SeatWheelchair},
			{ID: "C1", Row: "1", Number: 2, Kind: SeatCompanion, CompanionOf: "W1"},
			{ID: "W2", Row: "1", Number: 3, Kind: SeatWheelchair},
			{ID: "C2", Row: "1", Number: 4, Kind: SeatCompanion, CompanionOf: "W2"},
			{ID: "U1", Row: "1", Number: 5},
			{ID: "B1", Row: "1", Number: 6, Blocked: true},
		}}}}))
		ann, bob := &buyer{event: locking, name: "ann"}, &buyer{event: locking, name: "bob"}
		require.Equal(t, ErrCompanion.Error(), refusal(t, s, ann.seats("C1", "W2")))
		require.Equal(t, ErrSeatTaken.Error(), refusal(t, s, ann.seats("B1")))
		require.Equal(t, ErrSoldOut.Error(), refusal(t, s, ann.quantity(2)), "they are not for anybody")
		holds(t, s, ann.seats("C1", "W1"))
		with := bob.quantity(2)
		with.Wheelchair = true
		require.Equal(t, []string{"W2", "C2"}, holds(t, s, with).Seats)
	})
}

// The winner of a removed event and that of its id's next life are two: a broker that
// dropped what it has seen would else swallow the second notice.
func TestRemoveForgetsWinners(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{})
		told := make(map[string]bool)
		for range 2 {
			for range 2 { // the same call again is the same win
				ns, err := s.Number(t.Context(), "e", 1, []NumberRequest{{Entry: "a", Request: "r", Person: "ann"}}, []int64{1})
				require.NoError(t, err)
				require.Equal(t, []Number{{Entry: "a", Seq: 1, Winner: true}}, ns)
			}
			rows, err := s.ClaimOutbox(t.Context(), 10, time.Minute)
			require.NoError(t, err)
			require.Len(t, rows, 1)
			told[rows[0].DedupID] = true
			require.NoError(t, s.Remove(t.Context(), "e"))
		}
		require.Len(t, told, 2)
	})
}

// A removed event is gone on every node, and its id may sell anything else; money
// that comes late for it goes back.
func TestRemoveFreesTheID(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		a, b := openStore(t, address, Config{}), openStore(t, address, Config{})
		require.NoError(t, b.catchUp(t.Context()))
		require.NoError(t, a.Remove(t.Context(), "e"), "what is not there")
		require.NoError(t, a.Put(t.Context(), "e", hallOf(1, 6)))
		ann, bob, cid := &buyer{event: "e", name: "ann"}, &buyer{event: "e", name: "bob"}, &buyer{event: "e", name: "cid"}
		held, paying, paid := holds(t, b, ann.seats("A-1")), holds(t, b, bob.seats("A-2")), holds(t, b, cid.seats("A-3"))
		for _, r := range []PayRequest{bob.pay(paying.ID), cid.pay(paid.ID)} {
			_, err := b.Pay(t.Context(), r)
			require.NoError(t, err)
		}
		_, err := b.Settle(t.Context(), paymentOf(t, b, paid.ID), ResultCaptured)
		require.NoError(t, err)
		_, _, err = b.ClaimPayment(t.Context(), paymentOf(t, b, paying.ID), time.Minute)
		require.NoError(t, err)

		require.NoError(t, a.Remove(t.Context(), "e"))
		require.NoError(t, a.Remove(t.Context(), "e"), "again is harmless")
		_, err = b.Reserve(t.Context(), (&buyer{event: "e", name: "dan"}).seats("A-4"))
		require.ErrorIs(t, err, ErrWrongMode, "no node sells from memory")
		require.NoError(t, b.catchUp(t.Context()))
		_, _, err = b.Map(t.Context(), "e")
		require.ErrorIs(t, err, ErrWrongMode)
		for id, want := range map[string]string{held.ID: "cancelled event_removed", paying.ID: "cancelled event_removed", paid.ID: "paid "} {
			require.Equal(t, want, ask1(t, a, `SELECT status || ' ' || reason FROM reservations WHERE id = $1`, id))
		}
		_, err = b.Settle(t.Context(), paymentOf(t, b, paying.ID), ResultCaptured)
		require.NoError(t, err)
		require.Equal(t, string(PaymentRefundDue), ask1(t, a, `SELECT state FROM payments WHERE reservation = $1`, paying.ID))

		require.NoError(t, a.Put(t.Context(), "e", timetable(t, 5)))
		waitFor(t, "the other node sells again", func() bool { // an absence is believed for a second
			_, _, err := b.Map(t.Context(), "e")
			return err == nil
		})
		got := holds(t, b, (&buyer{event: "e", name: "cid"}).device(2, cid.seats("math")))
		require.Equal(t, []string{"math"}, got.Seats)
		require.NoError(t, a.expireAll(t.Context(), "e", true))
	})
}
