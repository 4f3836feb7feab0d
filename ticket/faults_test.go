package ticket

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket/sqltest"
)

// A retry that finds the answer of another node's call says so; only a commit in
// doubt may have been this call's own.
func TestRetryThatFindsAnothersAnswerIsAReplay(t *testing.T) {
	t.Parallel()
	address := sqltest.Postgres(t)
	a, b := openStore(t, address, Config{}), openStore(t, address, Config{})
	require.NoError(t, a.Put(t.Context(), "e", hallOf(1, 2)))
	ann := &buyer{event: "e", name: "ann"}
	pay := ann.pay(holds(t, a, ann.quantity(1)).ID)
	var first Answer
	var once sync.Once
	b.db.watch = func(ctx context.Context, _ tx, statement string, _ []any) {
		if strings.HasPrefix(statement, "UPDATE reservations") {
			once.Do(func() { // b has looked for an answer, and found none
				var err error
				first, err = a.Pay(ctx, pay)
				require.NoError(t, err)
			})
		}
	}
	second, err := b.Pay(t.Context(), pay)
	require.NoError(t, err)
	require.False(t, first.Replayed)
	require.True(t, second.Replayed)
	require.Equal(t, first.Body, second.Body)
}

// A sweep with nothing due asks one question, whatever the number of events.
func TestIdleSweepAsksOneQuestion(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{})
		for _, event := range []string{"one", "two", "three", "four"} {
			require.NoError(t, s.Put(t.Context(), event, hallOf(1, 2)))
			holds(t, s, (&buyer{event: event, name: "ann"}).quantity(1))
		}
		var asked atomic.Int64
		s.db.watch = func(context.Context, tx, string, []any) { asked.Add(1) }
		require.NoError(t, s.sweep(t.Context()))
		require.EqualValues(t, 1, asked.Load())
		s.skew.Add(time.Hour.Milliseconds())
		require.NoError(t, s.sweep(t.Context()))
		require.EqualValues(t, 4, count(t, s, `SELECT count(*) FROM reservations WHERE status = 'expired'`))
	})
}

// A claim that sent nothing is given back at once and burns no attempt; one that
// another claim has followed is not touched.
func TestReleasedPaymentIsFreeAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{})
		require.NoError(t, s.Put(t.Context(), "e", hallOf(1, 2)))
		ann := &buyer{event: "e", name: "ann"}
		hold := holds(t, s, ann.quantity(1))
		_, err := s.Pay(t.Context(), ann.pay(hold.ID))
		require.NoError(t, err)
		id := paymentOf(t, s, hold.ID)
		claim := func() (Payment, bool) {
			p, ok, err := s.ClaimPayment(t.Context(), id, time.Hour)
			require.NoError(t, err)
			return p, ok
		}
		first, ok := claim()
		require.True(t, ok)
		require.NoError(t, s.ReleasePayment(t.Context(), first, 0))
		again, ok := claim()
		require.True(t, ok, "free at once")
		require.Equal(t, first, again, "the released claim counts as never made")
		told := func() int64 {
			return count(t, s, `SELECT count(*) FROM outbox WHERE topic = $1 AND key = $2`, TopicPaymentWaits, hold.ID)
		}
		require.EqualValues(t, 1, told())
		r, err := s.Reservation(t.Context(), "e", hold.ID, ann.name)
		require.NoError(t, err)
		require.Equal(t, []string{string(PaymentPending), paymentUnavailable}, []string{string(r.Status), r.Reason}, "who asks is told, too")
		require.NoError(t, s.ReleasePayment(t.Context(), again, 0))
		again, ok = claim()
		require.True(t, ok)
		require.EqualValues(t, 1, told(), "once, however often it waits")

		s.skew.Add(2 * time.Hour.Milliseconds())
		second, ok := claim()
		require.False(t, ok && second.Wanted, "its reservation's lease is over")
		require.NoError(t, s.ReleasePayment(t.Context(), again, 0))
		_, ok = claim()
		require.False(t, ok, "an old claim gives back nobody else's")
	})
}
