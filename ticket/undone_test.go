package ticket

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket/sqltest"
)

// What a transaction gave back that was then undone is not free: not even in the
// memory of the node that tried.
func TestUndoneReleaseFreesNothing(t *testing.T) {
	t.Parallel()
	address := sqltest.Postgres(t)
	s, other := openStore(t, address, Config{PaymentLease: time.Minute}), openStore(t, address, Config{})
	require.NoError(t, s.Put(t.Context(), "e", hallOf(1, 1)))
	ann := &buyer{event: "e", name: "ann"}
	held := holds(t, s, ann.quantity(1))
	_, err := s.Pay(t.Context(), ann.pay(held.ID))
	require.NoError(t, err)
	id := paymentOf(t, s, held.ID)
	s.skew.Add(2 * 60_000) // the payment's time is over by this node's clock alone

	struck := false
	s.db.watch = func(ctx context.Context, x tx, statement string, _ []any) {
		if struck || !strings.HasPrefix(statement, "UPDATE shares") {
			return
		}
		struck = true                                                                 // the seat is given back, and the connection is lost; the money comes
		_, _ = x.on.ExecContext(ctx, "SELECT pg_terminate_backend(pg_backend_pid())") // fails, of course
		o, err := other.Settle(ctx, id, ResultCaptured)
		if err != nil || o.Status != Paid {
			t.Errorf("settle: %v %v", o, err)
		}
	}
	n, err := s.expire(t.Context(), "e", 10, true)
	require.NoError(t, err)
	require.True(t, struck)
	require.Zero(t, n, "it was paid meanwhile")
	s.db.watch = nil
	require.NoError(t, s.catchUp(t.Context()))
	require.NoError(t, s.recheck(t.Context()))
	m, _, err := s.Map(t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, SeatSold, m.Sections[0].Seats[0].Status)
	require.Zero(t, m.Left)
}

// Somebody waits for the message of a payment: the relay is told of it at once.
func TestPayTellsOfItsMessage(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{})
		var told atomic.Int32
		s.OnCommit(func() { told.Add(1) })
		require.NoError(t, s.Put(t.Context(), "e", hallOf(1, 2)))
		ann := &buyer{event: "e", name: "ann"}
		held := holds(t, s, ann.quantity(1))
		before := told.Load()
		_, err := s.Pay(t.Context(), ann.pay(held.ID))
		require.NoError(t, err)
		require.Equal(t, before+1, told.Load())
	})
}
