package pay

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/redisbroker"
	"github.com/waitroom-dev/waitroom/ticket/relay"
	"github.com/waitroom-dev/waitroom/ticket/sqltest"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// shop is everything between a buyer and the money, on real servers.
type shop struct {
	store    *ticket.Store
	rdb      *redis.Client
	relay    *relay.Relay
	sandbox  *Sandbox
	provider Provider

	mu   sync.Mutex
	told []ticket.Outcome
}

func (s *shop) Outcome(o ticket.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, o)
}

func (s *shop) outcomes() []ticket.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told)
}

// onShops runs a test on the embedded stores and on real servers.
func onShops(t *testing.T, test func(t *testing.T, s *shop)) {
	t.Helper()
	t.Run("sqlite and miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, newShop(t, "sqlite:"+filepath.Join(t.TempDir(), "t.db"), redistest.Mini(t)))
	})
	t.Run("postgres and redis", func(t *testing.T) {
		t.Parallel()
		test(t, newShop(t, sqltest.Postgres(t), redistest.Start(t, redistest.Config{}).Client(t)))
	})
}

func newShop(t *testing.T, address string, rdb *redis.Client) *shop {
	t.Helper()
	db, err := ticket.Open(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, ticket.Migrate(t.Context(), db))
	s := &shop{rdb: rdb, sandbox: NewSandbox(SandboxConfig{Delay: 100 * time.Millisecond})}
	s.provider = s.sandbox
	s.store, err = ticket.New(ticket.Config{CallTimeout: 15 * time.Second}, db, zap.NewNop(), nil)
	require.NoError(t, err)
	for event, onOpen := range map[string]string{"waiting": "wait", "cancelling": "cancel"} {
		require.NoError(t, s.store.Put(t.Context(), event, ticket.Catalogue{
			Kind: ticket.KindSeats, PriceCents: 5000, Currency: "EUR", PerUser: 2, OnBreakerOpen: onOpen,
			Sections: []ticket.SectionSpec{{ID: "A", Rows: 1, SeatsPerRow: 100}},
		}))
	}
	pub, err := redisbroker.NewPublisher(redisbroker.PublisherConfig{}, rdb)
	require.NoError(t, err)
	s.relay, err = relay.New(relay.Config{}, s.store, pub, zap.NewNop(), nil)
	require.NoError(t, err)
	tail, err := redisbroker.NewTail(redisbroker.TailConfig{Block: 20 * time.Millisecond}, rdb, s, zap.NewNop(), nil)
	require.NoError(t, err)
	s.run(t, tail.Run)
	s.run(t, s.relay.Run)
	s.run(t, s.store.Run)
	return s
}

// run runs a component until the test ends, or until stop is called.
func (s *shop) run(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return stop
}

// work starts a worker with its consumer, on a guard whose calls are cut early.
func (s *shop) work(t *testing.T, g *Guard) (stop func()) {
	t.Helper()
	w, err := NewWorker(WorkerConfig{SweepEvery: 50 * time.Millisecond, AskAfter: 20 * time.Millisecond}, s.store, g, zap.NewNop(), nil)
	require.NoError(t, err)
	c, err := redisbroker.NewConsumer(redisbroker.ConsumerConfig{
		Group: "payments", Topics: []string{ticket.TopicPaymentRequested}, Block: 20 * time.Millisecond,
	}, s.rdb, w.Handle, zap.NewNop(), nil)
	require.NoError(t, err)
	ends := []func(){s.run(t, c.Run), s.run(t, w.Run)}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

func (s *shop) guard(t *testing.T) *Guard {
	t.Helper()
	return newGuard(t, s.provider, GuardConfig{Timeout: 300 * time.Millisecond, SlowAfter: 250 * time.Millisecond, OpenFor: 500 * time.Millisecond})
}

// buy reserves seat n for person n and asks to pay for it.
func (s *shop) buy(t *testing.T, event string, n int, method string) (id string) {
	t.Helper()
	return s.buySeat(t, event, n, n, method)
}

func (s *shop) buySeat(t *testing.T, event string, n, seat int, method string) (id string) {
	t.Helper()
	person := fmt.Sprintf("p%d", n)
	_, err := s.store.Reserve(t.Context(), ticket.ReserveRequest{
		Event: event, JTI: "j-" + person, Person: person, Seats: []string{fmt.Sprintf("A-%d", seat)},
		Key: ticket.Key{Caller: person, Route: event + "/reserve", Value: "k", BodyHash: sha256.Sum256(nil)},
		Encode: func(r ticket.Reservation, refusal error) (int, []byte) {
			require.NoError(t, refusal)
			id = r.ID
			return 201, nil
		},
	})
	require.NoError(t, err)
	_, err = s.store.Pay(t.Context(), ticket.PayRequest{
		Event: event, ReservationID: id, Person: person, Method: method,
		Key: ticket.Key{Caller: person, Route: event + "/pay", Value: "k", BodyHash: sha256.Sum256(nil)},
		Encode: func(_ ticket.Reservation, refusal error) (int, []byte) {
			require.NoError(t, refusal)
			return 202, nil
		},
	})
	require.NoError(t, err)
	s.relay.Kick()
	return id
}

// becomes waits until a reservation has a status, and gives it.
func (s *shop) becomes(t *testing.T, event, id string, n int, want ticket.Status) ticket.Reservation {
	t.Helper()
	var r ticket.Reservation
	eventually(t, func() bool {
		var err error
		r, err = s.store.Reservation(t.Context(), event, id, fmt.Sprintf("p%d", n))
		require.NoError(t, err)
		return r.Status == want
	})
	return r
}

// eventually polls until it is so, for at most 60 seconds.
func eventually(t *testing.T, so func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(time.Minute)
	for !so() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it never was so")
		}
	}
}

// balanced checks promise 8 against the seat map, which follows the database
// within a poll, and the sandbox's books.
func (s *shop) balanced(t *testing.T, events ...string) {
	t.Helper()
	captured, refunded := s.sandbox.Recount()
	eventually(t, func() bool { return s.sold(t, events) == captured-refunded })
}

func (s *shop) sold(t *testing.T, events []string) (cents int64) {
	t.Helper()
	for _, event := range events {
		m, _, err := s.store.Map(t.Context(), event)
		require.NoError(t, err)
		for _, section := range m.Sections {
			for _, seat := range section.Seats {
				if seat.Status == ticket.SeatSold {
					cents += section.PriceCents
				}
			}
		}
	}
	return cents
}

// The whole way of a payment, for each method: store, relay, Redis, worker,
// sandbox, store, relay, Redis, tail.
func TestWholeWay(t *testing.T) {
	t.Parallel()
	onShops(t, func(t *testing.T, s *shop) {
		t.Helper()
		s.work(t, s.guard(t))
		want := map[string]ticket.Status{
			MethodApprove: ticket.Paid, MethodDecline: ticket.PaymentFailed, MethodDelay: ticket.Paid,
			MethodVanish: ticket.Paid, MethodTwice: ticket.Paid,
		}
		ids := map[string]string{} // by reservation
		var mu sync.Mutex
		var buyers sync.WaitGroup
		n := 0
		for method := range want {
			for range 4 {
				n++
				n := n
				buyers.Go(func() {
					id := s.buy(t, "waiting", n, method)
					mu.Lock()
					defer mu.Unlock()
					ids[id] = method
				})
			}
		}
		buyers.Wait()
		eventually(t, func() bool { return len(s.outcomes()) >= len(ids) })
		require.Len(t, s.outcomes(), len(ids), "each buyer is told once")
		for _, o := range s.outcomes() {
			require.Equal(t, want[ids[o.ReservationID]], o.Status, "method %s", ids[o.ReservationID])
		}
		require.EqualValues(t, len(ids), s.sandbox.Audit().ChargeCalls, "charged once each")
		s.balanced(t, "waiting")
	})
}

// Promise 5, end to end: the provider goes down, reservations of one event wait,
// those of the other are cancelled and told; then it comes back.
func TestWholeWayWithProviderDown(t *testing.T) {
	t.Parallel()
	onShops(t, func(t *testing.T, s *shop) {
		t.Helper()
		g := newGuard(t, s.provider, GuardConfig{OpenFor: time.Hour})
		breakSandbox(t, &desk{sandbox: s.sandbox, guard: g})
		s.work(t, g)
		waits := s.buy(t, "waiting", 1, MethodApprove)
		eventually(t, func() bool { return len(s.outcomes()) == 1 })
		require.Equal(t, ticket.Outcome{Event: "waiting", Person: "p1", ReservationID: waits, Status: ticket.PaymentPending, Reason: "payment_unavailable"}, s.outcomes()[0], "who waits is told")
		cancelled := s.buy(t, "cancelling", 2, MethodApprove)
		r := s.becomes(t, "cancelling", cancelled, 2, ticket.Cancelled)
		require.Equal(t, "payment_unavailable", r.Reason)
		eventually(t, func() bool { return len(s.outcomes()) == 2 })
		require.Equal(t, ticket.Outcome{Event: "cancelling", Person: "p2", ReservationID: cancelled, Status: ticket.Cancelled, Reason: "payment_unavailable"}, s.outcomes()[1])
		require.Zero(t, s.sandbox.Audit().ChargeCalls)
		s.sandbox.SetDown(false)
		g.mu.Lock()
		g.breaker.HalfOpen() // the hour is over
		g.mu.Unlock()
		r = s.becomes(t, "waiting", waits, 1, ticket.Paid)
		require.Empty(t, r.Reason)
		eventually(t, func() bool { return len(s.outcomes()) == 3 })
		s.balanced(t, "waiting", "cancelling")
	})
}

// Promise 7: the broker never gets the message, and the sweep finds the payment.
func TestWholeWayWithoutABroker(t *testing.T) {
	t.Parallel()
	onShops(t, func(t *testing.T, s *shop) {
		t.Helper()
		w, err := NewWorker(WorkerConfig{SweepEvery: 50 * time.Millisecond}, s.store, s.guard(t), zap.NewNop(), nil)
		require.NoError(t, err)
		s.run(t, w.Run)
		id := s.buy(t, "waiting", 1, MethodApprove)
		s.becomes(t, "waiting", id, 1, ticket.Paid)
		s.balanced(t, "waiting")
	})
}

// Promise 1: killed after the charge; a second worker asks and settles.
func TestWholeWayWithAKilledWorker(t *testing.T) {
	t.Parallel()
	onShops(t, func(t *testing.T, s *shop) {
		t.Helper()
		killed := make(chan struct{})
		// The first worker's charge reaches the sandbox, and the worker never hears of it.
		dead := s.claimAndDie(t, killed)
		id := s.buy(t, "waiting", 1, MethodApprove)
		<-killed
		dead()
		s.work(t, s.guard(t))
		s.becomes(t, "waiting", id, 1, ticket.Paid)
		require.EqualValues(t, 1, s.sandbox.Audit().ChargeCalls, "asked about, not charged again")
		eventually(t, func() bool { return len(s.outcomes()) == 1 })
		s.balanced(t, "waiting")
	})
}

// claimAndDie runs a consumer that claims a payment, charges it and is gone: it
// settles nothing, and its message stays pending.
func (s *shop) claimAndDie(t *testing.T, killed chan struct{}) (stop func()) {
	t.Helper()
	return s.run(t, func(ctx context.Context) error {
		for ctx.Err() == nil {
			ps, err := s.store.ClaimStalePayments(ctx, 1, 2*time.Second)
			if len(ps) == 1 && err == nil {
				_, err = s.sandbox.Charge(ctx, ChargeRequest{Key: ps[0].ID, AmountCents: ps[0].AmountCents, Currency: ps[0].Currency, Method: ps[0].Method})
				close(killed)
				return err
			}
			_ = wait(ctx, 20*time.Millisecond)
		}
		return nil
	})
}

// Promise 6, end to end: the money comes for a reservation that ended meanwhile.
func TestWholeWayOfLateMoney(t *testing.T) {
	t.Parallel()
	onShops(t, func(t *testing.T, s *shop) {
		t.Helper()
		id := s.buy(t, "waiting", 1, MethodApprove)
		ps := s.claimed(t)
		// Somebody found that it was never charged, and gave the seat back …
		o, err := s.store.Settle(t.Context(), ps.ID, ticket.ResultUnavailable)
		require.NoError(t, err)
		require.Equal(t, ticket.Cancelled, o.Status)
		second := s.buySeat(t, "waiting", 2, 1, MethodApprove) // … which is sold again …
		_, err = s.sandbox.Charge(t.Context(), ChargeRequest{Key: ps.ID, AmountCents: ps.AmountCents, Currency: ps.Currency})
		require.NoError(t, err)
		_, err = s.store.Settle(t.Context(), ps.ID, ticket.ResultCaptured) // … when the money comes, twice.
		require.NoError(t, err)
		_, err = s.store.Settle(t.Context(), ps.ID, ticket.ResultCaptured)
		require.NoError(t, err)
		s.work(t, s.guard(t))
		s.work(t, s.guard(t))
		s.becomes(t, "waiting", id, 1, ticket.Refunded)
		s.becomes(t, "waiting", second, 2, ticket.Paid)
		require.EqualValues(t, 1, s.sandbox.Audit().Refunded, "refunded once")
		s.balanced(t, "waiting")
	})
}

// claimed waits for the one payment there is and claims it.
func (s *shop) claimed(t *testing.T) (p ticket.Payment) {
	t.Helper()
	eventually(t, func() bool {
		ps, err := s.store.ClaimStalePayments(t.Context(), 1, time.Second)
		require.NoError(t, err)
		if len(ps) == 1 {
			p = ps[0]
		}
		return len(ps) == 1
	})
	return p
}
