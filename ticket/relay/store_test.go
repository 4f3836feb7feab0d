package relay

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/sqltest"
)

// shop is a store on a database of its own, with a hall of 100 seats.
type shop struct {
	*ticket.Store
	address string
}

// onDatabases runs a test on SQLite and on PostgreSQL, with n connections.
func onDatabases(t *testing.T, n int, test func(t *testing.T, s shop)) {
	t.Helper()
	for name, address := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { t.Helper(); return "sqlite:" + filepath.Join(t.TempDir(), "t.db") },
		"postgres": func(t *testing.T) string { t.Helper(); return sqltest.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := address(t)
			sep := "?"
			if strings.Contains(at, "?") {
				sep = "&"
			}
			db, err := ticket.Open(t.Context(), fmt.Sprintf("%s%spool_max_conns=%d", at, sep, n))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			require.NoError(t, ticket.Migrate(t.Context(), db))
			s, err := ticket.New(ticket.Config{CallTimeout: 15 * time.Second}, db, zap.NewNop(), nil)
			require.NoError(t, err)
			require.NoError(t, s.Put(t.Context(), "demo", ticket.Catalogue{
				Kind: ticket.KindSeats, PriceCents: 5000, Currency: "EUR", PerUser: 2,
				Sections: []ticket.SectionSpec{{ID: "A", Rows: 1, SeatsPerRow: 100}},
			}))
			test(t, shop{s, at})
		})
	}
}

// reserve takes one seat for a person of its own and gives the reservation.
func (s shop) reserve(t *testing.T, n int) ticket.Reservation {
	t.Helper()
	var got ticket.Reservation
	_, err := s.Reserve(t.Context(), ticket.ReserveRequest{
		Event: "demo", JTI: fmt.Sprintf("j%d", n), Person: fmt.Sprintf("p%d", n), Seats: []string{fmt.Sprintf("A-%d", n)},
		Key: ticket.Key{Caller: fmt.Sprintf("p%d", n), Route: "reserve", Value: "k", BodyHash: sha256.Sum256(nil)},
		Encode: func(r ticket.Reservation, refusal error) (int, []byte) {
			require.NoError(t, refusal)
			got = r
			return 201, nil
		},
	})
	require.NoError(t, err)
	return got
}

// eventually polls until it is so, for at most 30 seconds.
func eventually(t *testing.T, so func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(30 * time.Second)
	for !so() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it never was so")
		}
	}
}

// rawDB is a second way into the shop's database, for transactions that the store
// would not make.
func (s shop) rawDB(t *testing.T) *sql.DB {
	t.Helper()
	driver, dsn := "pgx", s.address
	if path, ok := strings.CutPrefix(s.address, "sqlite:"); ok {
		driver, dsn = "sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(20000)"
	}
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// Promise 1: delivered = committed, under random commit delays and rollbacks.
func TestLateCommitsAreDelivered(t *testing.T) {
	t.Parallel()
	onDatabases(t, 10, func(t *testing.T, s shop) {
		t.Helper()
		db := s.rawDB(t)
		b := &broker{}
		stops := []func(){running(t, newRelay(t, s, b)), running(t, newRelay(t, s, b))}
		var mu sync.Mutex
		var committed []string
		var writers sync.WaitGroup
		for w := range 12 {
			writers.Go(func() {
				for n := range 25 {
					key, ids := fmt.Sprintf("w%d", w), []string{}
					tx, err := db.BeginTx(context.Background(), nil)
					if err != nil {
						t.Error(err)
						return
					}
					for i := range 1 + rand.IntN(3) {
						topic := fmt.Sprintf("t%d.%d", n, i)
						_, err = tx.Exec(`INSERT INTO outbox (event, topic, key, payload, created_ms) VALUES ('demo', $1, $2, '{}', 0)`, topic, key)
						if err != nil {
							t.Error(err)
						}
						ids = append(ids, key+":"+topic)
					}
					<-time.After(time.Duration(rand.IntN(40)) * time.Millisecond / 4)
					if rand.IntN(3) == 0 {
						err = tx.Rollback()
					} else if err = tx.Commit(); err == nil {
						mu.Lock()
						committed = append(committed, ids...)
						mu.Unlock()
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		writers.Wait()
		slices.Sort(committed)
		delivered := func() []string {
			ids := b.ids()
			slices.Sort(ids)
			return slices.Compact(ids)
		}
		eventually(t, func() bool { return len(delivered()) >= len(committed) })
		for _, stop := range stops {
			stop()
		}
		require.Equal(t, committed, delivered())
		require.Len(t, b.ids(), len(committed), "with nobody dying, once each")
		last := map[string]string{}
		for _, m := range b.stored() {
			var a, c, d, e int
			if was, ok := last[m.Key]; ok {
				_, err := fmt.Sscanf(was+" "+m.Topic, "t%d.%d t%d.%d", &a, &c, &d, &e)
				require.NoError(t, err)
				require.True(t, d > a || d == a && e > c, "%s: %s came after %s", m.Key, m.Topic, was)
			}
			last[m.Key] = m.Topic
		}
	})
}

// Promise 3: a hung broker holds no connection, not even of a pool of one.
func TestHungBrokerHoldsNoConnection(t *testing.T) {
	t.Parallel()
	onDatabases(t, 1, func(t *testing.T, s shop) {
		t.Helper()
		b := &broker{took: time.Hour}
		stop := running(t, newRelay(t, s, b))
		s.reserve(t, 1)
		eventually(t, func() bool { return b.called() == 1 })
		for n := 2; n < 30; n++ {
			s.reserve(t, n)
			require.NoError(t, s.Cancel(t.Context(), "demo", s.reserve(t, 30+n).ID, fmt.Sprintf("p%d", 30+n)))
		}
		require.Empty(t, b.ids(), "the broker still hangs")
		stop()
	})
}

// Promises 2 and 8 on the real outbox: what a sale wrote is published in its
// order, each once, and marked.
func TestSaleIsPublishedInOrder(t *testing.T) {
	t.Parallel()
	onDatabases(t, 4, func(t *testing.T, s shop) {
		t.Helper()
		b := &broker{}
		r := newRelay(t, s, b)
		stop := running(t, r)
		var buyers sync.WaitGroup
		for n := 1; n <= 20; n++ {
			buyers.Go(func() {
				held := s.reserve(t, n)
				r.Kick()
				_, err := s.Pay(t.Context(), ticket.PayRequest{
					Event: "demo", ReservationID: held.ID, Person: held.Person, Method: "approve",
					Key:    ticket.Key{Caller: held.Person, Route: "pay", Value: "k", BodyHash: sha256.Sum256(nil)},
					Encode: func(ticket.Reservation, error) (int, []byte) { return 202, nil },
				})
				if err != nil {
					t.Error(err)
				}
				r.Kick()
			})
		}
		buyers.Wait()
		eventually(t, func() bool { return len(b.ids()) == 40 })
		for _, m := range b.stored() {
			if m.Topic != ticket.TopicPaymentRequested {
				continue
			}
			var body ticket.Message
			require.NoError(t, json.Unmarshal(m.Payload, &body))
			o, err := s.Settle(t.Context(), body.PaymentID, ticket.ResultCaptured)
			require.NoError(t, err)
			require.Equal(t, ticket.Paid, o.Status)
		}
		eventually(t, func() bool { return len(b.ids()) == 60 })
		stop()
		topics := map[string][]string{}
		for _, m := range b.stored() {
			topics[m.Key] = append(topics[m.Key], m.Topic)
		}
		require.Len(t, topics, 20)
		for key, got := range topics {
			require.Equal(t, []string{ticket.TopicHeld, ticket.TopicPaymentRequested, ticket.TopicPaid}, got, "reservation %s", key)
		}
		left, err := s.ClaimOutbox(t.Context(), 100, time.Minute)
		require.NoError(t, err)
		require.Empty(t, left)
		n, err := s.SweepOutbox(t.Context(), 0, 1000)
		require.NoError(t, err)
		require.Equal(t, 60, n, "all are marked as published")
	})
}
