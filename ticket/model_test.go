package ticket

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// modelled is a reservation in the plain model.
type modelled struct {
	id, person, jti, seat string
	status                Status
	ends                  int64 // by the test's clock
	payment               string
	state                 PaymentState
	attempts              int
}

func (r *modelled) living() bool {
	return r.status == Held || r.status == PaymentPending || r.status == Paid
}

// world is the model: what must be true after every order of events.
type world struct {
	kind  string
	now   int64
	all   []*modelled
	seats []string
	// places are how often each seat can be had at a time.
	places map[string]int
}

// sells makes a world of a kind, and its catalogue. The first two of three courses
// meet at the same time.
func (w *world) sells(t *testing.T) Catalogue {
	t.Helper()
	var c Catalogue
	switch w.kind {
	case KindSeats:
		c = hallOf(1, 3)
		w.seats = []string{"A-1", "A-2", "A-3"}
		w.places = map[string]int{"A-1": 1, "A-2": 1, "A-3": 1}
	case KindSlots:
		c = slotsOf(3, 1)
		w.seats = []string{"s1", "s2", "s3"}
		w.places = map[string]int{"s1": 1, "s2": 2, "s3": 1}
	case KindCourses:
		c = timetable(t, 1)
		w.seats = []string{"math", "art", "gym"}
		w.places = map[string]int{"math": 1, "art": 2, "gym": 1}
	}
	for i := range c.Items {
		c.Items[i].Capacity = int64(w.places[c.Items[i].ID])
	}
	c.PriceCents, c.PerUser, c.HoldTTL = 5000, 2, time.Duration(modelHold)*time.Millisecond
	return c
}

func (w *world) due(r *modelled) bool {
	return (r.status == Held || r.status == PaymentPending) && r.ends <= w.now
}

// sweep ends what is due; true when there was something.
func (w *world) sweep() bool {
	some := false
	for _, r := range w.all {
		if !w.due(r) {
			continue
		}
		some = true
		if r.status == Held {
			r.status = Expired
			continue
		}
		r.status = Cancelled
		if r.state == PaymentRequested {
			r.state = PaymentUnknown
			if r.attempts == 0 {
				r.state = PaymentCancelled
			}
		}
	}
	return some
}

func (w *world) refusal(person, jti, seat string) string {
	used, taken, n, held, places := false, 0, 0, 0, 0
	for _, p := range w.places {
		places += p
	}
	has := map[string]bool{}
	for _, r := range w.all {
		if !r.living() {
			continue
		}
		held++
		used = used || r.jti == jti
		if r.seat == seat {
			taken++
		}
		if r.person == person {
			has[r.seat] = true
			n++
		}
	}
	switch {
	case used:
		return ErrTokenUsed.Error()
	case taken >= w.places[seat] && w.kind == KindSeats:
		return ErrSeatTaken.Error()
	case taken >= w.places[seat] && held < places:
		return ErrSeatTaken.Error()
	case taken >= w.places[seat]:
		return ErrSoldOut.Error()
	case n >= 2 || w.kind != KindSeats && has[seat]:
		return ErrAlreadyReserved.Error()
	case has["math"] && seat == "art" || has["art"] && seat == "math":
		return ErrTimetableClash.Error()
	}
	return ""
}

const (
	modelHold  = int64(60_000)
	modelLease = int64(600_000)
)

// Promise 9: every order of {hold, expire, hold by another, pay, captured,
// declined, unknown, unavailable, cancel, refund, each any number of times, on
// any node} leaves the rightful owner, and money for a seat that is gone goes
// back once.
func TestPromise9EveryOrderLeavesTheRightfulOwner(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		cfg := Config{PaymentLease: time.Duration(modelLease) * time.Millisecond}
		nodes := []*Store{openStore(t, address, cfg), openStore(t, address, cfg)}
		var events atomic.Int64
		rapid.Check(t, func(rt *rapid.T) {
			event := fmt.Sprint("e", events.Add(1))
			w := &world{kind: rapid.SampledFrom([]string{KindSeats, KindSlots, KindCourses}).Draw(rt, "kind")}
			c := w.sells(t)
			c.Locking = rapid.SampledFrom([]string{Optimistic, Pessimistic}).Draw(rt, "locking")
			require.NoError(rt, nodes[0].Put(t.Context(), event, c))
			calls := 0
			move := func(ms int64) {
				w.now += ms
				for _, n := range nodes {
					n.skew.Add(ms)
				}
			}
			node := func() *Store { return nodes[rapid.IntRange(0, len(nodes)-1).Draw(rt, "node")] }
			some := func(skip func(*modelled) bool) *modelled {
				of := slices.DeleteFunc(slices.Clone(w.all), skip)
				if len(of) == 0 {
					rt.Skip("nothing there")
				}
				return of[rapid.IntRange(0, len(of)-1).Draw(rt, "reservation")]
			}
			key := func(r *modelled) Key {
				calls++
				return Key{Caller: r.person, Route: event, Value: fmt.Sprint(calls)}
			}
			unpaid := func(r *modelled) bool { return r.payment == "" }
			rt.Repeat(map[string]func(*rapid.T){
				"hold": func(rt *rapid.T) {
					person := rapid.SampledFrom([]string{"ann", "bob", "cid"}).Draw(rt, "person")
					jti := person + rapid.SampledFrom([]string{"1", "2", "3"}).Draw(rt, "token")
					seat := rapid.SampledFrom(w.seats).Draw(rt, "seat")
					want := w.refusal(person, jti, seat)
					if want != "" && w.sweep() {
						want = w.refusal(person, jti, seat)
					}
					r := &modelled{person: person, jti: jti, seat: seat, status: Held, ends: w.now + modelHold}
					a, err := node().Reserve(t.Context(), ReserveRequest{
						Event: event, JTI: jti, Person: person, Seats: []string{seat}, Key: key(r), Encode: encode,
					})
					require.NoError(rt, err)
					got := decode(t, a)
					require.Equal(rt, want, got.Refusal)
					if want == "" {
						r.id = got.ID
						w.all = append(w.all, r)
					}
				},
				"pay": func(rt *rapid.T) {
					r := some(func(*modelled) bool { return false })
					a, err := node().Pay(t.Context(), PayRequest{
						Event: event, ReservationID: r.id, Person: r.person, Key: key(r), Encode: encode,
					})
					require.NoError(rt, err)
					got := decode(t, a)
					switch {
					case r.status == Held && !w.due(r):
						r.status, r.state, r.ends = PaymentPending, PaymentRequested, w.now+modelLease
						r.payment = paymentOf(t, nodes[0], r.id)
						require.Equal(rt, PaymentPending, got.Status)
					case r.status == PaymentPending || r.status == Paid:
						require.Equal(rt, r.status, got.Status)
					default:
						require.Equal(rt, ErrHoldExpired.Error(), got.Refusal)
					}
				},
				"claim": func(rt *rapid.T) {
					r := some(unpaid)
					p, ok, err := node().ClaimPayment(t.Context(), r.payment, time.Minute)
					require.NoError(rt, err)
					open := slices.Contains([]PaymentState{PaymentRequested, PaymentUnknown, PaymentRefundDue}, r.state)
					if !ok {
						require.True(rt, !open || r.attempts > 0, "an open payment that nobody claimed is there to claim")
						return
					}
					require.True(rt, open)
					r.attempts++
					require.Equal(rt, r.attempts, p.Attempts)
					require.Equal(rt, r.state, p.State)
					wanted := r.status == PaymentPending && !w.due(r)
					require.Equal(rt, wanted, p.Wanted)
				},
				"settle": func(rt *rapid.T) {
					r := some(unpaid)
					result := rapid.SampledFrom([]PaymentResult{ResultCaptured, ResultDeclined, ResultUnknown, ResultUnavailable}).Draw(rt, "result")
					outcome, err := node().Settle(t.Context(), r.payment, result)
					require.NoError(rt, err)
					r.settle(result)
					require.Equal(rt, r.status, outcome.Status)
				},
				"refund": func(rt *rapid.T) {
					r := some(unpaid)
					_, err := node().SettleRefund(t.Context(), r.payment)
					if r.state == PaymentRefundDue {
						r.state, r.status = PaymentRefunded, Refunded
					}
					if r.state != PaymentRefunded {
						require.Error(rt, err)
						return
					}
					require.NoError(rt, err)
				},
				"cancel": func(rt *rapid.T) {
					r := some(func(*modelled) bool { return false })
					err := node().Cancel(t.Context(), event, r.id, r.person)
					if r.status == PaymentPending || r.status == Paid {
						require.ErrorIs(rt, err, ErrNotCancellable)
						return
					}
					require.NoError(rt, err)
					if r.status == Held {
						r.status = Cancelled
					}
				},
				"sweep": func(rt *rapid.T) {
					require.NoError(rt, node().expireAll(t.Context(), event, true))
					w.sweep()
				},
				"wait":        func(*rapid.T) { move(modelHold / 3) },
				"wait longer": func(*rapid.T) { move(modelLease + 1) },
				"":            func(rt *rapid.T) { w.check(t, rt, nodes[0], event) },
			})
		})
	})
}

// settle is the model's own table.
func (r *modelled) settle(result PaymentResult) {
	pending := r.status == PaymentPending
	end := func(status Status, state, late PaymentState) {
		r.state = late
		if pending {
			r.status, r.state = status, state
		}
	}
	undecided := r.state == PaymentRequested || r.state == PaymentUnknown
	switch {
	case result == ResultCaptured && undecided:
		end(Paid, PaymentCaptured, PaymentRefundDue)
	case result == ResultCaptured && (r.state == PaymentDeclined || r.state == PaymentCancelled):
		r.state = PaymentRefundDue
	case result == ResultDeclined && undecided:
		end(PaymentFailed, PaymentDeclined, PaymentDeclined)
	case result == ResultUnavailable && undecided:
		end(Cancelled, PaymentCancelled, PaymentCancelled)
	case result == ResultUnknown && undecided:
		r.state = PaymentUnknown
	}
}

func paymentOf(t *testing.T, s *Store, reservation string) string {
	t.Helper()
	return ask1(t, s, `SELECT id FROM payments WHERE reservation = $1`, reservation)
}

// ask1 reads one text.
func ask1(t *testing.T, s *Store, query string, args ...any) string {
	t.Helper()
	var text string
	require.NoError(t, s.db.look(t.Context(), func(ctx context.Context, x tx) error {
		return x.query(ctx, func(scan func(...any) error) error { return scan(&text) }, query, nil, args...)
	}))
	return text
}

// check compares the whole database with the model.
func (w *world) check(t *testing.T, rt *rapid.T, s *Store, event string) {
	t.Helper()
	owners, shares := map[string]string{}, map[string]int64{}
	states, payments := map[string]Status{}, map[string]PaymentState{}
	taken, gotTaken := map[string]int64{}, map[string]int64{}
	var refunds int
	for _, r := range w.all {
		if r.living() {
			status := "held"
			if r.status == Paid {
				status = "sold"
			}
			if w.kind == KindSeats {
				owners[r.seat] = status + " " + r.id
			} else {
				owners[r.seat+" of "+r.person] = r.id
				taken[r.seat]++
			}
			shares[r.person]++
		}
		states[r.id] = r.status
		if r.payment != "" {
			payments[r.payment] = r.state
		}
		if r.state == PaymentRefunded {
			refunds++
		}
	}
	gotOwners, gotShares := map[string]string{}, map[string]int64{}
	gotStates, gotPayments := map[string]Status{}, map[string]PaymentState{}
	var gotRefunds int
	err := s.db.look(t.Context(), func(ctx context.Context, x tx) error {
		var a, b, c string
		var n int64
		return errors.Join(
			x.query(ctx, func(scan func(...any) error) error {
				err := scan(&a, &b, &c)
				gotOwners[a] = b + " " + c
				return err
			}, `SELECT id, status, reservation FROM seats WHERE event = $1 AND status <> 'free'`, nil, event),
			x.query(ctx, func(scan func(...any) error) error {
				err := scan(&a, &b, &c)
				gotOwners[a+" of "+b] = c
				return err
			}, `SELECT item, person, reservation FROM bookings WHERE event = $1`, nil, event),
			x.query(ctx, func(scan func(...any) error) error {
				err := scan(&a, &n)
				gotTaken[a] = n
				return err
			}, `SELECT id, total - free FROM items WHERE event = $1 AND free <> total`, nil, event),
			x.query(ctx, func(scan func(...any) error) error {
				err := scan(&a, &n)
				gotShares[a] = n
				return err
			}, `SELECT person, n FROM shares WHERE event = $1 AND n > 0`, nil, event),
			x.query(ctx, func(scan func(...any) error) error {
				err := scan(&a, &b)
				gotStates[a] = Status(b)
				return err
			}, `SELECT id, status FROM reservations WHERE event = $1`, nil, event),
			x.query(ctx, func(scan func(...any) error) error {
				err := scan(&a, &b)
				gotPayments[a] = PaymentState(b)
				return err
			}, `SELECT id, state FROM payments WHERE event = $1`, nil, event),
			x.query(ctx, func(scan func(...any) error) error { return scan(&gotRefunds) },
				`SELECT count(*) FROM outbox WHERE event = $1 AND topic = 'reservation.refunded'`, nil, event),
		)
	})
	require.NoError(rt, err)
	require.Equal(rt, states, gotStates)
	require.Equal(rt, owners, gotOwners)
	require.Equal(rt, taken, gotTaken)
	require.Equal(rt, shares, gotShares)
	require.Equal(rt, payments, gotPayments)
	require.Equal(rt, refunds, gotRefunds)
	// The token's own index agrees that a reservation told each topic once.
	require.Zero(rt, count(t, s, `SELECT count(*) FROM (SELECT 1 FROM outbox WHERE event = $1 GROUP BY key, topic HAVING count(*) > 1) x`, event))
}
