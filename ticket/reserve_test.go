package ticket

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReserveRefusals(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		for _, locking := range []string{Optimistic, Pessimistic} {
			s := openStore(t, address, Config{})
			c := hallOf(1, 10)
			c.Locking = locking
			event := "e-" + locking
			require.NoError(t, s.Put(t.Context(), event, c))
			ann, bob, cid := &buyer{event: event, name: "ann"}, &buyer{event: event, name: "bob"}, &buyer{event: event, name: "cid"}
			got := holds(t, s, ann.seats("A-3", "A-2"))
			require.Equal(t, []string{"A-2", "A-3"}, got.Seats, "seats come in the map's order")
			require.EqualValues(t, 10000, got.Amount)
			require.Equal(t, Held, got.Status)

			require.Equal(t, ErrNoSeat.Error(), refusal(t, s, ann.seats("A-11")), "existence comes before the token")
			require.Equal(t, ErrTokenUsed.Error(), refusal(t, s, ann.seats("A-2")), "the token comes before the seat")
			require.Equal(t, ErrSeatTaken.Error(), refusal(t, s, bob.seats("A-1", "A-2")))
			require.Equal(t, ErrAlreadyReserved.Error(), refusal(t, s, bob.seats("A-5", "A-6", "A-7")))
			require.Equal(t, ErrSoldOut.Error(), refusal(t, s, bob.quantity(9)), "stock comes before the share")
			got = holds(t, s, bob.quantity(2))
			require.Equal(t, []string{"A-4", "A-5"}, got.Seats, "side by side, nobody alone, nearest to the middle")
			require.Equal(t, ErrWrongMode.Error(), refusal(t, s, (&buyer{event: "none", name: "x"}).quantity(1)))
			got = holds(t, s, cid.seats("A-1"))
			require.Equal(t, []string{"A-1"}, got.Seats, "a try that failed spent nothing")

			m, _, err := s.Map(t.Context(), event)
			require.NoError(t, err)
			require.EqualValues(t, 5, m.Left)
			require.EqualValues(t, 5, count(t, s, `SELECT count(*) FROM seats WHERE event = $1 AND status = 'held'`, event))
			require.EqualValues(t, 3, count(t, s, `SELECT count(*) FROM outbox WHERE event = $1`, event))
		}
	})
}
