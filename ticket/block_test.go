package ticket

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Promise 21: seats that are held back or put on sale while it runs are so on every
// node, and nothing is taken from anybody.
func TestPromise21SeatsAreBlockedEverywhere(t *testing.T) {
	t.Parallel()
	onBothLockings(t, func(t *testing.T, nodes []*Store, locking string) {
		t.Helper()
		a, b := nodes[0], nodes[1]
		require.NoError(t, b.catchUp(t.Context()))
		c := hallOf(1, 4)
		c.Locking = locking
		require.NoError(t, a.Put(t.Context(), locking, c))
		statuses := func(s *Store) (all []SeatStatus) {
			require.NoError(t, s.catchUp(t.Context()))
			m, _, err := s.Map(t.Context(), locking)
			require.NoError(t, err)
			for _, seat := range m.Sections[0].Seats {
				all = append(all, seat.Status)
			}
			return all
		}
		require.Equal(t, []SeatStatus{SeatFree, SeatFree, SeatFree, SeatFree}, statuses(b))
		ann, bob := &buyer{event: locking, name: "ann"}, &buyer{event: locking, name: "bob"}
		holds(t, b, ann.seats("A-1"))
		blocks(t, a, locking, []string{"A-2", "A-3"}, nil)
		m, _, err := a.Map(t.Context(), locking)
		require.NoError(t, err)
		require.EqualValues(t, 1, m.Left, "at once where it was said")
		require.Equal(t, ErrSeatTaken.Error(), refusal(t, b, bob.seats("A-2")), "also before the other node has heard of it")
		require.Equal(t, []SeatStatus{SeatHeld, SeatBlocked, SeatBlocked, SeatFree}, statuses(b))

		_, err = a.Block(t.Context(), locking, []string{"A-4", "A-1"}, []string{"A-2", "A-9"})
		require.ErrorContains(t, err, "A-1 is held")
		require.ErrorContains(t, err, "A-9 is no seat")
		require.Len(t, faultsOf(t, err), 2)
		require.Equal(t, []SeatStatus{SeatHeld, SeatBlocked, SeatBlocked, SeatFree}, statuses(a), "all or nothing")
		_, err = a.Block(t.Context(), locking, []string{"A-4"}, []string{"A-4"})
		require.Len(t, faultsOf(t, err), 1)

		before := count(t, a, `SELECT count(*) FROM outbox`)
		require.Empty(t, blocks(t, a, locking, []string{"A-2"}, []string{"A-4"}))
		blocks(t, a, locking, nil, nil)
		require.Equal(t, before, count(t, a, `SELECT count(*) FROM outbox`), "no change, no message")
		require.Equal(t, []PlaceChange{{"A-2", "blocked", "free"}, {"A-4", "free", "blocked"}}, blocks(t, b, locking, []string{"A-4"}, []string{"A-2"}))
		require.Equal(t, []SeatStatus{SeatHeld, SeatFree, SeatBlocked, SeatBlocked}, statuses(a))
		require.Equal(t, []string{"A-2"}, holds(t, a, bob.quantity(1)).Seats)
		_, err = a.Block(t.Context(), "nothing", []string{"A-1"}, nil)
		require.ErrorIs(t, err, ErrWrongMode)
	})
}

// Promise 21: of an operator and a crowd that want the same seats each seat has one.
func TestPromise21BlockingAgainstACrowd(t *testing.T) {
	t.Parallel()
	onBothLockings(t, func(t *testing.T, nodes []*Store, locking string) {
		t.Helper()
		c := hallOf(1, 20)
		c.Locking = locking
		require.NoError(t, nodes[0].Put(t.Context(), locking, c))
		got := atOnce(60, func(i int) string {
			id := fmt.Sprint("A-", i%20+1)
			if i >= 40 {
				_, err := nodes[i%2].Block(t.Context(), locking, []string{id}, nil)
				for try := 0; errors.Is(err, ErrContended) && try < 20; try++ {
					_, err = nodes[i%2].Block(t.Context(), locking, []string{id}, nil)
				}
				if err == nil {
					return "blocked"
				}
				require.Len(t, faultsOf(t, err), 1)
				return "refused"
			}
			return reserveOn(t, nodes[i%2], (&buyer{event: locking, name: fmt.Sprint("p", i)}).seats(id))
		})
		require.Equal(t, 20, got["blocked"]+got[""], "%v", got)
		require.Equal(t, 40, got["refused"]+got[ErrSeatTaken.Error()], "%v", got)
		require.EqualValues(t, got["blocked"], count(t, nodes[0], `SELECT count(*) FROM seats WHERE event = $1 AND status = 'blocked' AND reservation = ''`, locking))
		require.EqualValues(t, got[""], count(t, nodes[0], `SELECT count(*) FROM seats WHERE event = $1 AND status = 'held'`, locking))
	})
}

// Promise 22: reading the map costs the database nothing, however many read it.
func TestPromise22TheMapIsReadFromMemory(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{})
		require.NoError(t, s.Put(t.Context(), "e", hallOf(50, 100)))
		var statements atomic.Int64
		s.db.watch = func(context.Context, tx, string, []any) { statements.Add(1) }
		_, first, err := s.Map(t.Context(), "e")
		require.NoError(t, err)
		require.Positive(t, statements.Load(), "the first reader reads it for all")
		holds(t, s, (&buyer{event: "e", name: "ann"}).quantity(2))
		statements.Store(0)
		atOnce(8, func(int) string {
			for range 250 {
				m, etag, err := s.Map(t.Context(), "e")
				require.NoError(t, err)
				require.NotEqual(t, first, etag, "fresh though nothing was asked")
				require.EqualValues(t, 4998, m.Left)
			}
			return ""
		})
		require.Zero(t, statements.Load())
		s.db.watch = nil
	})
}

func blocks(t *testing.T, s *Store, event string, block, release []string) []PlaceChange {
	t.Helper()
	done, err := s.Block(t.Context(), event, block, release)
	require.NoError(t, err)
	return done
}

// Promise 21: of a slot that is closed nothing is sold on any node, what somebody has
// of it stays, and what comes back waits until it is opened.
func TestPromise21ClosedSlotsSellNothing(t *testing.T) {
	t.Parallel()
	onBothLockings(t, func(t *testing.T, nodes []*Store, locking string) {
		t.Helper()
		a, b := nodes[0], nodes[1]
		require.NoError(t, b.catchUp(t.Context()))
		c := slotsOf(2, 2)
		c.Locking = locking
		require.NoError(t, a.Put(t.Context(), locking, c))
		shows := func(s *Store) string {
			require.NoError(t, s.catchUp(t.Context()))
			m, _, err := s.Map(t.Context(), locking)
			require.NoError(t, err)
			left, ok := s.SeatsLeft(locking)
			require.True(t, ok)
			return fmt.Sprint(m.Items[0].Free, m.Items[0].Closed, m.Items[1].Free, left)
		}
		require.Equal(t, "2 false 2 4", shows(b))
		ann, bob, cem := &buyer{event: locking, name: "ann"}, &buyer{event: locking, name: "bob"}, &buyer{event: locking, name: "cem"}
		held := holds(t, b, ann.seats("s1"))
		require.Equal(t, []PlaceChange{{"s1", "open", "closed"}}, blocks(t, a, locking, []string{"s1"}, []string{"s2"}))
		require.Empty(t, blocks(t, b, locking, []string{"s1"}, nil), "it is so already")
		require.Equal(t, ErrSeatTaken.Error(), refusal(t, b, bob.seats("s1")), "also before the other node has heard of it")
		require.Equal(t, "0 true 2 2", shows(a))
		require.Equal(t, "0 true 2 2", shows(b))
		require.NoError(t, b.Cancel(t.Context(), locking, held.ID, "ann"))
		require.Equal(t, "0 true 2 2", shows(b), "what comes back waits")
		require.Equal(t, "0 true 2 2", shows(a))
		require.Equal(t, []string{"s2"}, holds(t, b, bob.device(2, bob.quantity(1))).Seats)
		books, err := a.Audit(t.Context(), AuditRequest{Event: locking})
		require.NoError(t, err)
		require.Empty(t, books.Failed())
		c.Items[0].Capacity = 3 // the settings do not open it
		require.NoError(t, a.Put(t.Context(), locking, c))
		require.Equal(t, "0 true 1 1", shows(b))
		blocks(t, a, locking, []string{"s2"}, nil)
		require.Equal(t, ErrSoldOut.Error(), refusal(t, b, cem.quantity(1)))
		blocks(t, b, locking, nil, []string{"s1", "s2"})
		require.Equal(t, "3 false 1 4", shows(a))
		holds(t, a, cem.device(2, cem.seats("s1")))
		_, err = a.Block(t.Context(), locking, []string{"s1", "s9"}, nil)
		require.ErrorContains(t, err, "s9 is no slot")
		require.Equal(t, "2 false 1 3", shows(b), "all or nothing")

		require.NoError(t, a.Put(t.Context(), "stock "+locking, Catalogue{Kind: KindStock, Stock: 5, Locking: locking}))
		dan := &buyer{event: "stock " + locking, name: "dan"}
		require.Equal(t, "general", blocks(t, a, dan.event, []string{StockItem}, nil)[0].ID)
		require.Equal(t, ErrSoldOut.Error(), refusal(t, b, dan.quantity(1)))
		blocks(t, a, dan.event, nil, []string{StockItem})
		holds(t, b, dan.device(2, dan.quantity(1)))
	})
}
