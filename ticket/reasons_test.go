package ticket

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Promise 19: every reservation that ends without a sale says why, on whichever way
// it ended: in its row, in its message, and to whoever asks.
func TestPromise19EveryEndHasItsReason(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{PaymentLease: 10 * time.Minute})
		pays := func(t *testing.T, b *buyer, id string) string {
			t.Helper()
			_, err := s.Pay(t.Context(), b.pay(id))
			require.NoError(t, err)
			return paymentOf(t, s, id)
		}
		settles := func(results ...PaymentResult) func(*testing.T, *buyer, string) {
			return func(t *testing.T, b *buyer, id string) {
				t.Helper()
				payment := pays(t, b, id)
				for _, r := range results {
					_, err := s.Settle(t.Context(), payment, r)
					require.NoError(t, err)
				}
				if len(results) > 1 {
					_, err := s.SettleRefund(t.Context(), payment)
					require.NoError(t, err)
				}
			}
		}
		for _, way := range []struct {
			event  string
			end    func(t *testing.T, b *buyer, id string)
			status Status
			reason string
		}{
			{"the buyer cancels", func(t *testing.T, b *buyer, id string) {
				t.Helper()
				require.NoError(t, s.Cancel(t.Context(), b.event, id, b.name))
			}, Cancelled, "by_buyer"},
			{"the sweep ends a hold", func(t *testing.T, b *buyer, _ string) {
				t.Helper()
				s.skew.Add(2 * 60_000)
				require.NoError(t, s.expireAll(t.Context(), b.event, true))
			}, Expired, "hold_ended"},
			{"another buyer finds a hold ended", func(t *testing.T, b *buyer, _ string) {
				t.Helper()
				s.skew.Add(2 * 60_000)
				holds(t, s, (&buyer{event: b.event, name: "bob"}).quantity(2))
			}, Expired, "hold_ended"},
			{"no outcome in time", func(t *testing.T, b *buyer, id string) {
				t.Helper()
				pays(t, b, id)
				s.skew.Add(11 * 60_000)
				require.NoError(t, s.expireAll(t.Context(), b.event, true))
			}, Cancelled, "payment_unavailable"},
			{"the provider declines", settles(ResultDeclined), PaymentFailed, "declined"},
			{"the provider is away", settles(ResultUnavailable), Cancelled, "payment_unavailable"},
			{"money comes after all", settles(ResultUnavailable, ResultCaptured), Refunded, "seat_gone"},
			{"money comes after a refusal", settles(ResultDeclined, ResultCaptured), Refunded, "seat_gone"},
			{"a held event is removed", func(t *testing.T, b *buyer, _ string) {
				t.Helper()
				require.NoError(t, s.Remove(t.Context(), b.event))
			}, Cancelled, "event_removed"},
			{"an event in payment is removed", func(t *testing.T, b *buyer, id string) {
				t.Helper()
				pays(t, b, id)
				require.NoError(t, s.Remove(t.Context(), b.event))
			}, Cancelled, "event_removed"},
		} {
			c := hallOf(1, 2)
			c.HoldTTL = time.Minute
			require.NoError(t, s.Put(t.Context(), way.event, c))
			ann := &buyer{event: way.event, name: "ann"}
			id := holds(t, s, ann.quantity(2)).ID
			way.end(t, ann, id)
			r, err := s.Reservation(t.Context(), way.event, id, "ann")
			require.NoError(t, err)
			require.Equal(t, [2]string{string(way.status), way.reason}, [2]string{string(r.Status), r.Reason}, way.event)
			var told Message
			payload := ask1(t, s, `SELECT payload FROM outbox WHERE key = $1 AND topic = $2`, id, topicOf(way.status))
			require.NoError(t, json.Unmarshal([]byte(payload), &told), way.event)
			require.Equal(t, [2]string{string(way.status), way.reason}, [2]string{string(told.Status), told.Reason}, way.event)
		}
		require.Zero(t, count(t, s, `SELECT count(*) FROM reservations WHERE reason = '' AND status NOT IN ('held', 'payment_pending', 'paid')`))
	})
}
