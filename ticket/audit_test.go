package ticket

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// brokerOf is a broker that holds what was published to it.
type brokerOf struct {
	records []LogRecord
	err     error
}

func (b *brokerOf) Records(_ context.Context, each func(LogRecord)) error {
	for _, r := range b.records {
		each(r)
	}
	return b.err
}

// granted is a line that has let so many in.
type granted int64

func (g granted) Admitted(context.Context, string) (int64, time.Time, error) {
	return int64(g), time.Time{}, nil
}

// publish carries what waits in the outbox.
func (b *brokerOf) publish(t *testing.T, s *Store) {
	t.Helper()
	for {
		rows, err := s.ClaimOutbox(t.Context(), 100, time.Minute)
		require.NoError(t, err)
		if len(rows) == 0 {
			return
		}
		for _, r := range rows {
			b.records = append(b.records, LogRecord{Event: r.Event, DedupID: r.DedupID, Key: r.Key, Topic: r.Topic, At: time.Now()})
		}
		require.NoError(t, s.MarkPublished(t.Context(), ids(rows)))
	}
}

// forger spoils an event's books.
type forger struct {
	t      *testing.T
	s      *Store
	event  string
	made   map[string]string // reservations by buyer
	broker *brokerOf
}

// spoil changes rows behind the store's back.
func (f forger) spoil(statement string, args ...any) {
	f.t.Helper()
	var n int64
	require.NoError(f.t, f.s.db.change(f.t.Context(), func(ctx context.Context, x tx) (err error) {
		n, err = x.exec(ctx, statement, nil, args...)
		return err
	}))
	require.Positive(f.t, n, statement)
}

func failing(b Books) []string {
	names := []string{}
	for _, s := range b.Failed() {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}

// soldOf fills an event with a reservation in every state.
func soldOf(t *testing.T, s *Store, event string) map[string]string {
	t.Helper()
	made := map[string]string{}
	pays := func(who string, result PaymentResult) string {
		b := &buyer{event: event, name: who}
		made[who] = holds(t, s, b.quantity(2)).ID
		_, err := s.Pay(t.Context(), b.pay(made[who]))
		require.NoError(t, err)
		id := paymentOf(t, s, made[who])
		if result != "" {
			_, err = s.Settle(t.Context(), id, result)
			require.NoError(t, err)
		}
		return id
	}
	pays("owner", ResultCaptured)
	pays("paying", "")
	pays("asked", ResultUnknown)
	pays("declined", ResultDeclined)
	pays("unlucky", ResultUnavailable)
	due := pays("owed", ResultUnavailable)
	_, err := s.Settle(t.Context(), due, ResultCaptured)
	require.NoError(t, err)
	late := pays("late", ResultUnavailable)
	_, err = s.Settle(t.Context(), late, ResultCaptured)
	require.NoError(t, err)
	_, err = s.SettleRefund(t.Context(), late)
	require.NoError(t, err)
	made["holder"] = holds(t, s, (&buyer{event: event, name: "holder"}).quantity(1)).ID
	made["gone"] = holds(t, s, (&buyer{event: event, name: "gone"}).quantity(1)).ID
	require.NoError(t, s.Cancel(t.Context(), event, made["gone"], "gone"))
	return made
}

// Promise 17: the books balance after everything that can happen, and each kind of
// corruption fails its own sums and no other.
func TestPromise17BooksBalance(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{OutboxAttempts: 1})
		for _, table := range []string{"reservations_token"} { // what keeps two reservations from one token
			require.NoError(t, s.db.change(t.Context(), func(ctx context.Context, x tx) error {
				_, err := x.exec(ctx, `DROP INDEX `+table, nil)
				return err
			}))
		}
		for _, c := range []struct {
			name, kind string
			do         func(f forger)
			fails      []string
		}{
			{"untouched hall", KindSeats, nil, nil},
			{"untouched stock", KindStock, nil, nil},
			{"a held seat is freed", KindSeats, func(f forger) {
				f.spoil(`UPDATE seats SET status = 'free', reservation = '' WHERE event = $1 AND reservation = $2`, f.event, f.made["holder"])
			}, []string{"seats_held"}},
			{"a sold seat is somebody else's", KindSeats, func(f forger) {
				f.spoil(`UPDATE seats SET reservation = $3 WHERE event = $1 AND reservation = $2`, f.event, f.made["owner"], f.made["gone"])
			}, []string{"seats_sold"}},
			{"a seat is sold to nobody", KindSeats, func(f forger) {
				f.spoil(`UPDATE seats SET status = 'sold' WHERE event = $1 AND id = 'A-3-10'`, f.event)
			}, []string{"seats_free"}},
			{"a ticket is taken twice", KindStock, func(f forger) {
				f.spoil(`UPDATE items SET free = free - 1 WHERE event = $1`, f.event)
			}, []string{"stock"}},
			{"a reservation counts wrong", KindSeats, func(f forger) {
				f.spoil(`UPDATE reservations SET n = n + 1 WHERE id = $1`, f.made["owner"])
			}, []string{"reservations"}},
			{"a hold without an end", KindSeats, func(f forger) {
				f.spoil(`UPDATE reservations SET ends_ms = 0 WHERE id = $1`, f.made["holder"])
			}, []string{"holds"}},
			{"a share is lost", KindSeats, func(f forger) {
				f.spoil(`UPDATE shares SET n = n - 1 WHERE event = $1 AND person = 'owner'`, f.event)
			}, []string{"shares"}},
			{"a share is left over", KindSeats, func(f forger) {
				f.spoil(`UPDATE shares SET n = 1 WHERE event = $1 AND person = 'gone'`, f.event)
			}, []string{"shares"}},
			{"somebody has more than allowed", KindSeats, func(f forger) {
				f.spoil(`UPDATE catalogues SET per_user = 1 WHERE event = $1`, f.event)
			}, []string{"per_user"}},
			{"a token bought twice", KindSeats, func(f forger) {
				f.spoil(`UPDATE reservations SET jti = 'jti-owner' WHERE id = $1`, f.made["holder"])
			}, []string{"tokens"}},
			{"a cancellation without a reason", KindSeats, func(f forger) {
				f.spoil(`UPDATE reservations SET reason = '' WHERE id = $1`, f.made["gone"])
			}, []string{"reasons"}},
			{"a payment is gone while it runs", KindSeats, func(f forger) {
				f.spoil(`UPDATE payments SET state = 'cancelled' WHERE reservation = $1`, f.made["paying"])
			}, []string{"payments_open"}},
			{"sold without money", KindSeats, func(f forger) {
				f.spoil(`UPDATE payments SET state = 'declined' WHERE reservation = $1`, f.made["owner"])
			}, []string{"money", "payments_captured"}},
			{"money kept for nothing", KindSeats, func(f forger) {
				f.spoil(`UPDATE payments SET state = 'captured' WHERE reservation = $1`, f.made["declined"])
			}, []string{"money", "payments_ended"}},
			{"a refund without a word", KindSeats, func(f forger) {
				f.spoil(`UPDATE payments SET state = 'refunded' WHERE reservation = $1`, f.made["owed"])
			}, []string{"payments_ended"}},
			{"charged too much", KindSeats, func(f forger) {
				f.spoil(`UPDATE payments SET amount_cents = amount_cents + 1 WHERE reservation = $1`, f.made["owner"])
			}, []string{"money", "payment_amounts"}},
			{"a payment without a reservation", KindSeats, func(f forger) {
				f.spoil(`UPDATE payments SET reservation = 'lost-' || reservation WHERE reservation = $1`, f.made["declined"])
			}, []string{"outbox_committed", "payments_ended", "broker_committed"}},
			{"a message in no state", KindSeats, func(f forger) {
				f.spoil(`UPDATE outbox SET state = 7 WHERE key = $1 AND topic = $2`, f.made["owner"], TopicPaid)
			}, []string{"outbox"}},
			{"a message was never written", KindSeats, func(f forger) {
				f.spoil(`DELETE FROM outbox WHERE key = $1 AND topic = $2`, f.made["owner"], TopicPaid)
			}, []string{"outbox_written"}},
			{"a message of what never was", KindSeats, func(f forger) {
				f.spoil(`INSERT INTO outbox (event, topic, key, payload, created_ms) VALUES ($1, $2, $3, $4, 1)`, f.event, TopicPaid, f.made["holder"], []byte("{}"))
			}, []string{"outbox_committed"}},
			{"a message twice", KindSeats, func(f forger) {
				f.spoil(`INSERT INTO outbox (event, topic, key, payload, created_ms) VALUES ($1, $2, $3, $4, 1)`, f.event, TopicPaid, f.made["owner"], []byte("{}"))
			}, []string{"outbox_committed"}},
			{"a message is given up", KindSeats, func(f forger) {
				f.spoil(`UPDATE outbox SET state = 2 WHERE key = $1 AND topic = $2`, f.made["owner"], TopicPaid)
			}, []string{"outbox_parked"}},
			{"more bought than were let in", KindSeats, nil, []string{"tokens_granted"}},
			{"the broker lost one", KindSeats, func(f forger) {
				f.broker.records = slices.DeleteFunc(f.broker.records, func(l LogRecord) bool { return l.Key == f.made["holder"] })
			}, []string{"broker"}},
			{"the broker has one of its own", KindSeats, func(f forger) {
				f.broker.records = append(f.broker.records, LogRecord{Event: f.event, DedupID: "x:" + TopicPaid, Key: "x", Topic: TopicPaid, At: time.Now()})
			}, []string{"broker_committed"}},
			{"the broker is away", KindSeats, func(f forger) {
				f.broker.err = errors.New("no answer")
			}, []string{"broker"}},
			{"the broker began anew", KindSeats, func(f forger) {
				f.broker.records = nil
			}, nil},
		} {
			event := "e " + c.name
			catalogue := hallOf(3, 10)
			if c.kind == KindStock {
				catalogue = Catalogue{Kind: KindStock, Stock: 30, PriceCents: 5000}
			}
			require.NoError(t, s.Put(t.Context(), event, catalogue), c.name)
			made := soldOf(t, s, event)
			b := &brokerOf{}
			b.publish(t, s)
			if c.do != nil {
				c.do(forger{t, s, event, made, b})
			}
			given := granted(9) // of soldOf
			if c.name == "more bought than were let in" {
				given--
			}
			books, err := s.Audit(t.Context(), AuditRequest{Event: event, Broker: b, Grants: given})
			require.NoError(t, err, c.name)
			want := c.fails
			if want == nil {
				want = []string{}
			}
			slices.Sort(want)
			require.Equal(t, want, failing(books), "%s: %+v", c.name, books.Sums)
			require.Equal(t, len(want) == 0, books.Pass, c.name)
		}
	})
}

// sellTo sells two seats, or leaves them in payment; it tells of an error.
func sellTo(ctx context.Context, s *Store, b *buyer, paid bool) string {
	q := b.quantity(2)
	var made Reservation
	q.Encode = func(r Reservation, refused error) (int, []byte) {
		made = r
		return encode(r, refused)
	}
	if _, err := s.Reserve(ctx, q); err != nil {
		return err.Error()
	}
	_, err := s.Pay(ctx, b.pay(made.ID))
	if err != nil || !paid {
		return fmt.Sprint(err)
	}
	var payment string
	err = s.db.look(ctx, func(ctx context.Context, x tx) error {
		return x.query(ctx, func(scan func(...any) error) error { return scan(&payment) },
			`SELECT id FROM payments WHERE reservation = $1`, nil, made.ID)
	})
	if err == nil {
		_, err = s.Settle(ctx, payment, ResultCaptured)
	}
	return fmt.Sprint(err)
}

// An audit beside a running sale sees one moment: nothing is half done in it.
func TestPromise17AuditIsOneMoment(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{})
		require.NoError(t, s.Put(t.Context(), "e", hallOf(5, 20)))
		done := make(chan struct{})
		var failed map[string]int
		go func() {
			defer close(done)
			failed = atOnce(50, func(i int) string {
				b := &buyer{event: "e", name: string(rune('a' + i))}
				return sellTo(t.Context(), s, b, i%2 == 0)
			})
		}()
		audits := 0
		for running := true; running; audits++ {
			select {
			case <-done:
				running = false
			default:
			}
			books, err := s.Audit(t.Context(), AuditRequest{Event: "e"})
			require.NoError(t, err)
			require.True(t, books.Pass, "%+v", books.Failed())
		}
		require.Greater(t, audits, 1)
		require.Equal(t, map[string]int{"<nil>": 50}, failed)
		books, err := s.Audit(t.Context(), AuditRequest{Event: "e"})
		require.NoError(t, err)
		require.EqualValues(t, 50, books.Counts["seats sold"])
		require.EqualValues(t, 50, books.Counts["seats held"])
	})
}
