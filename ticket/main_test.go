package ticket

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/waitroom-dev/waitroom/ticket/sqltest"
)

// stopping ends the test servers before the leak check.
type stopping struct{ m *testing.M }

func (s stopping) Run() int {
	defer sqltest.Stop()
	return s.m.Run()
}

func TestMain(m *testing.M) {
	// Each step of the model waits for a disk; -rapid.checks=N asks for more.
	if err := flag.Set("rapid.checks", "20"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(stopping{m})
}

// onBoth runs a test on PostgreSQL and on SQLite; address is an empty database.
func onBoth(t *testing.T, test func(t *testing.T, address string)) {
	t.Helper()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, sqltest.Postgres(t))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, "sqlite:"+filepath.Join(t.TempDir(), "tickets.db"))
	})
}

// onPools is onBoth, and a third time with a pool of one connection for each node:
// promise 8. `make test-pool` does so with every test.
func onPools(t *testing.T, test func(t *testing.T, address string)) {
	t.Helper()
	onBoth(t, test)
	t.Run("pool of one", func(t *testing.T) {
		t.Parallel()
		test(t, withPool(sqltest.Postgres(t), "1"))
	})
}

// withPool is an address with so many connections.
func withPool(address, n string) string {
	return address + map[bool]string{true: "&", false: "?"}[strings.Contains(address, "?")] + "pool_max_conns=" + n
}

// openStore opens one node's store. TEST_POOL=1 gives it a pool of one connection.
func openStore(tb testing.TB, address string, cfg Config) *Store {
	tb.Helper()
	if n := os.Getenv("TEST_POOL"); n != "" && !strings.Contains(address, "pool_max_conns") {
		address = withPool(address, n)
	}
	db, err := Open(tb.Context(), address)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	require.NoError(tb, Migrate(tb.Context(), db))
	if cfg.CallTimeout == 0 {
		cfg.CallTimeout = 15 * time.Second // the machine may be busy; no test is about speed
	}
	s, err := New(cfg, db, zaptest.NewLogger(tb), nil)
	require.NoError(tb, err)
	return s
}

// running runs a store until the test ends.
func running(tb testing.TB, s *Store) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		require.NoError(tb, <-ended)
	})
}

// body is what tests encode answers as.
type body struct {
	ID, Refusal string
	Seats       []string
	Amount      int64
	Status      Status
	Expires     time.Time
}

var refusals = []error{
	ErrTokenUsed, ErrSeatTaken, ErrSoldOut, ErrAlreadyReserved, ErrHoldExpired, ErrNoSeat, ErrNoReservation, ErrWrongMode,
	ErrTimetableClash, ErrCompanion,
}

func encode(r Reservation, refusal error) (int, []byte) {
	b := body{ID: r.ID, Seats: r.Seats, Amount: r.AmountCents, Status: r.Status, Expires: r.ExpiresAt}
	status := 201
	for _, known := range refusals {
		if errors.Is(refusal, known) {
			status, b.Refusal = 409, known.Error()
		}
	}
	packed, err := json.Marshal(b)
	if err != nil {
		panic(err)
	}
	return status, packed
}

func decode(tb testing.TB, a Answer) body {
	tb.Helper()
	var b body
	require.NoError(tb, json.Unmarshal(a.Body, &b))
	return b
}

// buyer is one person with one token, whose keys are all their own.
type buyer struct {
	event, name string
	calls       int
}

func (b *buyer) key(content string) Key {
	b.calls++
	return Key{Caller: b.name, Route: "reserve " + b.event, Value: fmt.Sprintf("k%d", b.calls), BodyHash: sha256.Sum256([]byte(content))}
}

func (b *buyer) seats(ids ...string) ReserveRequest {
	return ReserveRequest{Event: b.event, JTI: "jti-" + b.name, Person: b.name, Seats: ids, Key: b.key(fmt.Sprint(ids)), Encode: encode}
}

func (b *buyer) quantity(n int) ReserveRequest {
	return ReserveRequest{Event: b.event, JTI: "jti-" + b.name, Person: b.name, Quantity: n, Key: b.key(fmt.Sprint(n)), Encode: encode}
}

func (b *buyer) pay(id string) PayRequest {
	k := b.key(id)
	k.Route = "pay " + b.event
	return PayRequest{Event: b.event, ReservationID: id, Person: b.name, Method: "approve", Key: k, Encode: encode}
}

// refusal is the refusal in an answer, "" for a success.
func refusal(tb testing.TB, s *Store, q ReserveRequest) string {
	tb.Helper()
	a, err := s.Reserve(tb.Context(), q)
	require.NoError(tb, err)
	return decode(tb, a).Refusal
}

// holds reserves, and wants it to succeed.
func holds(tb testing.TB, s *Store, q ReserveRequest) body {
	tb.Helper()
	a, err := s.Reserve(tb.Context(), q)
	require.NoError(tb, err)
	b := decode(tb, a)
	require.Empty(tb, b.Refusal)
	return b
}

// count asks the database for a number.
func count(tb testing.TB, s *Store, query string, args ...any) int64 {
	tb.Helper()
	var n int64
	require.NoError(tb, s.db.look(tb.Context(), func(ctx context.Context, x tx) error {
		return x.query(ctx, func(scan func(...any) error) error { return scan(&n) }, query, nil, args...)
	}))
	return n
}

// hallOf is a catalogue of rows × seats.
func hallOf(rows, seats int) Catalogue {
	return Catalogue{Kind: KindSeats, PriceCents: 5000, Sections: []SectionSpec{{ID: "A", Rows: rows, SeatsPerRow: seats}}}
}
