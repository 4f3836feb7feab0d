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
		require.NoError(t, a.Block(t.Context(), locking, []string{"A-2", "A-3"}, nil))
		m, _, err := a.Map(t.Context(), locking)
		require.NoError(t, err)
		require.EqualValues(t, 1, m.Left, "at once where it was said")
		require.Equal(t, ErrSeatTaken.Error(), refusal(t, b, bob.seats("A-2")), "also before the other node has heard of it")
		require.Equal(t, []SeatStatus{SeatHeld, SeatBlocked, SeatBlocked, SeatFree}, statuses(b))

		err = a.Block(t.Context(), locking, []string{"A-4", "A-1"}, []string{"A-2", "A-9"})
		require.ErrorContains(t, err, "A-1 is held")
		require.ErrorContains(t, err, "A-9 is no seat")
		require.Len(t, faultsOf(t, err), 2)
		require.Equal(t, []SeatStatus{SeatHeld, SeatBlocked, SeatBlocked, SeatFree}, statuses(a), "all or nothing")
		require.Len(t, faultsOf(t, a.Block(t.Context(), locking, []string{"A-4"}, []string{"A-4"})), 1)

		before := count(t, a, `SELECT count(*) FROM outbox`)
		require.NoError(t, a.Block(t.Context(), locking, []string{"A-2"}, []string{"A-4"}))
		require.NoError(t, a.Block(t.Context(), locking, nil, nil))
		require.Equal(t, before, count(t, a, `SELECT count(*) FROM outbox`), "no change, no message")
		require.NoError(t, b.Block(t.Context(), locking, []string{"A-4"}, []string{"A-2"}))
		require.Equal(t, []SeatStatus{SeatHeld, SeatFree, SeatBlocked, SeatBlocked}, statuses(a))
		require.Equal(t, []string{"A-2"}, holds(t, a, bob.quantity(1)).Seats)
		require.ErrorIs(t, a.Block(t.Context(), "nothing", []string{"A-1"}, nil), ErrWrongMode)
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
				err := nodes[i%2].Block(t.Context(), locking, []string{id}, nil)
				for try := 0; errors.Is(err, ErrContended) && try < 20; try++ {
					err = nodes[i%2].Block(t.Context(), locking, []string{id}, nil)
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
