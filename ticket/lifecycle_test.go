package ticket

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hearer collects outcomes.
type hearer struct {
	mu    sync.Mutex
	heard []Outcome
	more  chan struct{}
}

func newHearer() *hearer { return &hearer{more: make(chan struct{}, 1000)} }

func (h *hearer) Outcome(o Outcome) {
	h.mu.Lock()
	h.heard = append(h.heard, o)
	h.mu.Unlock()
	h.more <- struct{}{}
}

// waitFor returns when ok says so, asking again after each signal or a moment.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatal("waited in vain for: ", what)
		case <-tick.C:
		}
	}
}

// Promise 10: an ended hold frees seats, share and token at once, by the
// database's clock, also before any sweep.
func TestPromise10EndedHoldFreesAtOnce(t *testing.T) {
	t.Parallel()
	onPools(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{})
		c := hallOf(1, 2)
		c.HoldTTL = time.Minute
		require.NoError(t, s.Put(t.Context(), "e", c))
		require.NoError(t, s.Put(t.Context(), "ga", Catalogue{Kind: KindStock, Stock: 2, HoldTTL: time.Minute}))
		ann, bob := &buyer{event: "e", name: "ann"}, &buyer{event: "e", name: "bob"}
		gann, gbob := &buyer{event: "ga", name: "ann"}, &buyer{event: "ga", name: "bob"}
		first := holds(t, s, ann.quantity(2))
		holds(t, s, gann.quantity(2))
		s.skew.Add(59_000)
		require.Equal(t, ErrSoldOut.Error(), refusal(t, s, bob.quantity(1)))
		require.Equal(t, ErrSoldOut.Error(), refusal(t, s, gbob.quantity(1)))
		require.Equal(t, ErrTokenUsed.Error(), refusal(t, s, ann.quantity(1)))
		s.skew.Add(2_000)
		r, err := s.Reservation(t.Context(), "e", first.ID, "ann")
		require.NoError(t, err)
		require.Equal(t, Expired, r.Status)
		require.Equal(t, "hold_ended", r.Reason)
		holds(t, s, bob.quantity(1))
		holds(t, s, ann.quantity(1))
		holds(t, s, gbob.quantity(2))
		require.Equal(t, ErrSoldOut.Error(), refusal(t, s, gann.quantity(1)))
		_, err = s.Reservation(t.Context(), "e", first.ID, "bob")
		require.ErrorIs(t, err, ErrNoReservation, "somebody else's")
	})
}

// Promise 11: a hold in payment does not end before its outcome or its cap.
func TestPromise11HoldInPaymentIsALease(t *testing.T) {
	t.Parallel()
	onPools(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{PaymentLease: 10 * time.Minute})
		c := hallOf(1, 2)
		c.HoldTTL = time.Minute
		require.NoError(t, s.Put(t.Context(), "e", c))
		ann, bob := &buyer{event: "e", name: "ann"}, &buyer{event: "e", name: "bob"}
		held := holds(t, s, ann.quantity(2))
		a, err := s.Pay(t.Context(), ann.pay(held.ID))
		require.NoError(t, err)
		require.Equal(t, PaymentPending, decode(t, a).Status)
		r, err := s.Reservation(t.Context(), "e", held.ID, "ann")
		require.NoError(t, err)
		require.True(t, decode(t, a).Expires.Equal(r.ExpiresAt), "the buyer is told when the lease ends")
		require.WithinDuration(t, held.Expires.Add(9*time.Minute), r.ExpiresAt, 30*time.Second, "a lease, not the hold of a minute")
		require.ErrorIs(t, s.Cancel(t.Context(), "e", held.ID, "ann"), ErrNotCancellable)
		s.skew.Add(5 * 60_000)
		require.NoError(t, s.expireAll(t.Context(), "e", true))
		require.Equal(t, ErrSoldOut.Error(), refusal(t, s, bob.quantity(1)), "long after the hold's own end")
		id := paymentOf(t, s, held.ID)
		p, ok, err := s.ClaimPayment(t.Context(), id, time.Minute)
		require.NoError(t, err)
		require.True(t, ok && p.Wanted && p.Attempts == 1, "%+v", p)
		require.Equal(t, "wait", p.OnBreakerOpen)
		s.skew.Add(6 * 60_000)
		holds(t, s, bob.quantity(2))
		o, err := s.Settle(t.Context(), id, ResultCaptured)
		require.NoError(t, err)
		require.Equal(t, Outcome{"e", "ann", held.ID, Cancelled, "payment_unavailable"}, o)
		due, err := s.ClaimStalePayments(t.Context(), 10, time.Minute)
		require.NoError(t, err)
		require.Len(t, due, 1)
		require.Equal(t, PaymentRefundDue, due[0].State)
		require.False(t, due[0].Wanted)
		for range 2 {
			o, err = s.SettleRefund(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, Outcome{"e", "ann", held.ID, Refunded, "seat_gone"}, o)
		}
		require.EqualValues(t, 1, count(t, s, `SELECT count(*) FROM outbox WHERE topic = $1`, TopicRefunded))
		due, err = s.ClaimStalePayments(t.Context(), 10, time.Minute)
		require.NoError(t, err)
		require.Empty(t, due)
	})
}

func TestPayOnceUnderAnyKey(t *testing.T) {
	t.Parallel()
	onPools(t, func(t *testing.T, address string) {
		t.Helper()
		nodes := []*Store{openStore(t, address, Config{}), openStore(t, address, Config{})}
		require.NoError(t, nodes[0].Put(t.Context(), "e", Catalogue{Kind: KindStock, Stock: 10, PriceCents: 5000}))
		ann := &buyer{event: "e", name: "ann"}
		held := holds(t, nodes[0], ann.quantity(2))
		same := ann.pay(held.ID)
		asks := make([]PayRequest, 20)
		for i := range asks {
			asks[i] = same
			if i%2 == 0 {
				asks[i] = ann.pay(held.ID)
			}
		}
		got := atOnce(len(asks), func(i int) string {
			a, err := nodes[i%2].Pay(t.Context(), asks[i])
			if errors.Is(err, ErrInProgress) {
				return "in progress"
			}
			if err != nil {
				return err.Error()
			}
			return string(decode(t, a).Status)
		})
		require.Equal(t, len(asks), got["payment_pending"]+got["in progress"], "%v", got)
		require.EqualValues(t, 1, count(t, nodes[0], `SELECT count(*) FROM payments`))
		require.EqualValues(t, 1, count(t, nodes[0], `SELECT count(*) FROM outbox WHERE topic = $1`, TopicPaymentRequested))
		other := same
		other.Key.BodyHash[3]++
		_, err := nodes[0].Pay(t.Context(), other)
		require.ErrorIs(t, err, ErrIdempotencyMismatch)
		stranger := ann.pay(held.ID)
		stranger.Person = "bob"
		a, err := nodes[1].Pay(t.Context(), stranger)
		require.NoError(t, err)
		require.Equal(t, ErrNoReservation.Error(), decode(t, a).Refusal)

		id := paymentOf(t, nodes[0], held.ID)
		claims := atOnce(10, func(i int) string {
			_, ok, err := nodes[i%2].ClaimPayment(t.Context(), id, time.Minute)
			if err != nil {
				return err.Error()
			}
			if ok {
				return "mine"
			}
			return "not mine"
		})
		require.Equal(t, map[string]int{"mine": 1, "not mine": 9}, claims)
		_, err = nodes[0].Settle(t.Context(), id, ResultCaptured)
		require.NoError(t, err)
		require.EqualValues(t, 8, count(t, nodes[0], `SELECT free FROM items`))
		_, err = nodes[0].Settle(t.Context(), "nothing", ResultCaptured)
		require.ErrorIs(t, err, ErrNoReservation)
	})
}

// Promise 12: every node hears each outcome, and its map follows within a poll.
func TestPromise12NodesFollowEachOther(t *testing.T) {
	t.Parallel()
	onPools(t, func(t *testing.T, address string) {
		t.Helper()
		a, b := openStore(t, address, Config{Poll: 20 * time.Millisecond}), openStore(t, address, Config{Poll: 20 * time.Millisecond})
		c := hallOf(2, 3)
		c.HoldTTL = time.Minute
		require.NoError(t, a.Put(t.Context(), "e", c))
		hearA, hearB := newHearer(), newHearer()
		a.Listen(hearA)
		b.Listen(hearB)
		_, before, err := b.Map(t.Context(), "e")
		require.NoError(t, err)
		running(t, a)
		running(t, b)
		ann, bob, cid := &buyer{event: "e", name: "ann"}, &buyer{event: "e", name: "bob"}, &buyer{event: "e", name: "cid"}
		ha, hb, hc := holds(t, a, ann.quantity(1)), holds(t, a, bob.quantity(1)), holds(t, b, cid.quantity(1))
		same := func(left int64) func() bool {
			return func() bool {
				ma, ea, errA := a.Map(t.Context(), "e")
				mb, eb, errB := b.Map(t.Context(), "e")
				require.NoError(t, errors.Join(errA, errB))
				return ea == eb && ma.Left == left && mb.Left == left
			}
		}
		waitFor(t, "three seats held on both nodes", same(3))
		_, after, err := b.Map(t.Context(), "e")
		require.NoError(t, err)
		require.NotEqual(t, before, after)

		require.NoError(t, a.Cancel(t.Context(), "e", ha.ID, "ann"))
		_, err = b.Pay(t.Context(), bob.pay(hb.ID))
		require.NoError(t, err)
		_, err = b.Settle(t.Context(), paymentOf(t, b, hb.ID), ResultCaptured)
		require.NoError(t, err)
		a.skew.Add(61_000)
		want := []Outcome{
			{"e", "ann", ha.ID, Cancelled, "by_buyer"}, {"e", "bob", hb.ID, Paid, ""}, {"e", "cid", hc.ID, Expired, "hold_ended"},
		}
		for _, h := range []*hearer{hearA, hearB} {
			for range want {
				select {
				case <-h.more:
				case <-time.After(20 * time.Second):
					t.Fatal("an outcome was not heard")
				}
			}
			h.mu.Lock()
			require.ElementsMatch(t, want, h.heard)
			h.mu.Unlock()
		}
		waitFor(t, "one seat sold, all others free", same(5))
		left, ok := b.SeatsLeft("e")
		require.True(t, ok)
		require.EqualValues(t, 5, left)
		_, ok = b.SeatsLeft("unread")
		require.False(t, ok)

		c.Sections = append(c.Sections, SectionSpec{ID: "B", Rows: 1, SeatsPerRow: 4})
		require.NoError(t, b.Put(t.Context(), "e", c))
		require.NoError(t, b.Put(t.Context(), "e", c), "again is harmless")
		require.EqualValues(t, 1, count(t, a, `SELECT count(*) FROM seats WHERE status = 'sold'`), "no sold seat is touched")
		waitFor(t, "the other node knows the new section", same(9))
	})
}

func TestPutStockGrowsAndShrinks(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{})
		put := func(stock int64) {
			t.Helper()
			require.NoError(t, s.Put(t.Context(), "e", Catalogue{Kind: KindStock, Stock: stock}))
		}
		item := func() Item {
			m, _, err := s.Map(t.Context(), "e")
			require.NoError(t, err)
			return m.Items[0]
		}
		put(10)
		holds(t, s, (&buyer{event: "e", name: "ann"}).quantity(2))
		put(12)
		require.Equal(t, Item{ID: StockItem, Total: 12, Free: 10, Currency: "EUR", Version: 3}, item())
		put(1)
		require.Equal(t, Item{ID: StockItem, Total: 2, Currency: "EUR", Version: 4}, item(), "never below what is held and sold")
		put(5)
		require.Equal(t, Item{ID: StockItem, Total: 5, Free: 3, Currency: "EUR", Version: 5}, item())
		require.ErrorIs(t, s.Put(t.Context(), "e", hallOf(1, 1)), ErrWrongMode)
		require.Error(t, s.Put(t.Context(), "f", Catalogue{Kind: "wishes"}))
		_, _, err := s.Map(t.Context(), "f")
		require.ErrorIs(t, err, ErrWrongMode)
	})
}
