package ticket

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket/sqltest"
)

// benchStore is a store on a database that waits for the disk at each commit.
func benchStore(b *testing.B, address string, cfg Config) *Store {
	b.Helper()
	db, err := Open(b.Context(), address)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	require.NoError(b, Migrate(b.Context(), db))
	cfg.CallTimeout = 30 * time.Second
	s, err := New(cfg, db, zap.NewNop(), nil)
	require.NoError(b, err)
	return s
}

const benchSeats = 60_000

// BenchmarkReserve measures reservations with everything in them (token, seat or
// stock, share, reservation, answer, outbox row): gathered, and as a naive
// program does it, one transaction each. Every commit waits for the disk.
func BenchmarkReserve(b *testing.B) {
	for _, db := range []struct {
		name    string
		address func(testing.TB) string
	}{
		{"postgres", func(tb testing.TB) string { tb.Helper(); return sqltest.Durable(tb) }},
		{"sqlite", func(tb testing.TB) string { tb.Helper(); return "sqlite:" + filepath.Join(tb.TempDir(), "t.db") }},
	} {
		for _, kind := range []string{KindSeats, KindStock} {
			b.Run(db.name+"/"+kind, func(b *testing.B) {
				s := benchStore(b, db.address(b), Config{})
				require.NoError(b, s.Put(b.Context(), "e", Catalogue{
					Kind: kind, Stock: 1e9, Sections: []SectionSpec{{ID: "A", Rows: benchSeats / 100, SeatsPerRow: 100}},
				}))
				_, _, err := s.Map(b.Context(), "e")
				require.NoError(b, err)
				var n atomic.Int64 // every seat is asked for once, whoever asks
				ways := map[string]func(context.Context) error{
					"gathered": func(ctx context.Context) error { return reserveNext(ctx, s, kind, n.Add(1)) },
					"naive":    func(ctx context.Context) error { return naive(ctx, s, kind, n.Add(1)) },
				}
				for _, way := range []string{"gathered", "naive"} {
					do := ways[way]
					b.Run("alone-"+way, func(b *testing.B) {
						for b.Loop() {
							require.NoError(b, do(b.Context()))
						}
					})
					b.Run("parallel-"+way, func(b *testing.B) {
						b.SetParallelism(64)
						b.RunParallel(func(pb *testing.PB) {
							for pb.Next() {
								if err := do(b.Context()); err != nil {
									b.Error(err)
								}
							}
						})
						b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reservations/s")
					})
				}
			})
		}
	}
}

func benchSeat(n int64) string {
	n %= benchSeats
	return fmt.Sprintf("A-%d-%d", n/100+1, n%100+1)
}

// reserveNext reserves for the n-th buyer.
func reserveNext(ctx context.Context, s *Store, kind string, n int64) error {
	by := &buyer{event: "e", name: fmt.Sprint("buyer", n)}
	q := by.quantity(1)
	if kind == KindSeats {
		q = by.seats(benchSeat(n))
	}
	_, err := s.Reserve(ctx, q)
	return err
}

// errBehind: the version was another one by the time of the update.
var errBehind = errors.New("behind")

// naive is what one would write first: a transaction for each request, read then
// guarded write, the hot stock row by an optimistic loop.
func naive(ctx context.Context, s *Store, kind string, n int64) error {
	for {
		err := naiveOnce(ctx, s, kind, n)
		if !errors.Is(err, errBehind) && !errors.Is(s.db.fail(err), errConflict) {
			return err
		}
	}
}

func naiveOnce(ctx context.Context, s *Store, kind string, n int64) error {
	sqltx, err := s.db.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = sqltx.Rollback() }()
	id, person, key := newID(time.Now().UnixMilli()), fmt.Sprint("buyer", n), fmt.Sprintf("%032d", n)
	var old int64
	if err := sqltx.QueryRowContext(ctx, `SELECT status FROM answers WHERE key = $1`, []byte(key)).Scan(&old); !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	read, write, what := `SELECT version FROM seats WHERE event = $1 AND id = $2`, `UPDATE seats SET status = 'held',
		version = version + 1, reservation = $4 WHERE event = $1 AND id = $2 AND version = $3`, benchSeat(n)
	if kind == KindStock {
		read, what = `SELECT version FROM items WHERE event = $1 AND id = $2`, StockItem
		write = `UPDATE items SET free = free - 1, version = version + 1 WHERE event = $1 AND id = $2 AND version = $3 AND $4 <> ''`
	}
	if err := sqltx.QueryRowContext(ctx, read, "e", what).Scan(&old); err != nil {
		return err
	}
	res, err := sqltx.ExecContext(ctx, write, "e", what, old, id)
	if err != nil {
		return err
	}
	if rows, err := res.RowsAffected(); err != nil || rows != 1 {
		return errors.Join(err, errBehind)
	}
	for _, step := range []struct {
		statement string
		args      []any
	}{
		{`INSERT INTO reservations (id, event, person, jti, status, reason, seats, n, amount_cents, currency, created_ms, ends_ms)
			VALUES ($1, $2, $3, $4, 'held', '', $5, 1, 5000, 'EUR', 1, 180000)`, []any{id, "e", person, "jti-" + person, `["` + what + `"]`}},
		{`INSERT INTO shares (event, person, n) VALUES ($1, $2, 1) ON CONFLICT (event, person) DO UPDATE SET n = shares.n + 1`, []any{"e", person}},
		{`INSERT INTO outbox (event, topic, key, payload, created_ms) VALUES ($1, $2, $3, $4, 1)`, []any{"e", TopicHeld, id, []byte(`{"seats":["` + what + `"]}`)}},
		{`INSERT INTO answers (key, body_hash, status, body, created_ms) VALUES ($1, $2, 201, $3, 1)`, []any{[]byte(key), []byte(key), []byte(`{"reservation_id":"` + id + `"}`)}},
	} {
		if _, err := sqltx.ExecContext(ctx, step.statement, step.args...); err != nil {
			return err
		}
	}
	return sqltx.Commit()
}

// BenchmarkMap reads a map of 5,000 seats, of which one changes every hundred reads.
func BenchmarkMap(b *testing.B) {
	s := openStore(b, "sqlite:"+filepath.Join(b.TempDir(), "tickets.db"), Config{})
	require.NoError(b, s.Put(b.Context(), "e", hallOf(50, 100)))
	h, err := s.hall(b.Context(), "e")
	require.NoError(b, err)
	for n := int64(0); b.Loop(); n++ {
		if n%100 == 0 {
			h.learn([]seatRow{{fmt.Sprint("A-1-", n/100%100+1), SeatHeld, n + 2}})
		}
		if _, _, err := s.Map(b.Context(), "e"); err != nil {
			b.Fatal(err)
		}
	}
}
