package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/waitroom-dev/waitroom/ticket"
)

// buyers reserve at the same time: a sale's first second. Both sides have as many;
// the naive side waits for its connections.
const buyers = 1024

// ticketUnits measure reservations, each with everything in it: token, seat or
// stock, share, reservation, answer, outbox row.
func ticketUnits() []unit {
	return []unit{
		{bars: []string{"reserve-seats", "reserve-stock", "reserve-refusals", "reserve-lone"}, run: runPostgres},
		{bars: []string{"reserve-sqlite"}, run: runSQLite},
	}
}

// hall is a database with two events of each kind, ours and the naive one's.
type hall struct {
	store    *ticket.Store
	naive    *sql.DB
	perRow   int
	rows     int
	buyers   atomic.Int64 // nobody buys twice
	seats    atomic.Int64 // of our hall, given out so far
	others   atomic.Int64 // of the naive one's
	database string
	ends     []func()
}

func runPostgres(ctx context.Context, b *bench, wanted func(string) bool) ([]result, error) {
	address, end, err := postgresAt(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	// The plans that ours asks for are the best for these statements too.
	db, err := sql.Open("pgx", address+"&enable_seqscan=off&enable_bitmapscan=off&plan_cache_mode=force_generic_plan&jit=off")
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	defer func() { _ = db.Close() }()
	const pool = 10 // as many connections as ours has
	db.SetMaxOpenConns(pool)
	db.SetMaxIdleConns(pool)
	h, err := newHall(ctx, b, address, db, "PostgreSQL, fsync on")
	if err != nil {
		return nil, err
	}
	defer h.close()
	var results []result
	for _, bar := range []struct {
		name string
		run  func(context.Context, *bench) (result, error)
	}{
		{"reserve-lone", h.lone},
		{"reserve-seats", func(ctx context.Context, b *bench) (result, error) {
			return h.distinct(ctx, b, "reserve-seats", 10)
		}},
		{"reserve-stock", h.hot},
		{"reserve-refusals", h.refusals},
	} {
		if !wanted(bar.name) {
			continue
		}
		r, err := bar.run(ctx, b)
		if err != nil {
			return results, fmt.Errorf("%s: %w", bar.name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

func runSQLite(ctx context.Context, b *bench, _ func(string) bool) ([]result, error) {
	dir, err := os.MkdirTemp("", "bench-sqlite")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "tickets.db")
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+
		"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)"+
		"&_pragma=cache_size(-16000)&_pragma=temp_store(MEMORY)") // as ours is opened
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // there is one writer, and waiting here is cheaper than there
	h, err := newHall(ctx, b, "sqlite:"+path, db, "SQLite, WAL, synchronous FULL")
	if err != nil {
		return nil, err
	}
	defer h.close()
	r, err := h.distinct(ctx, b, "reserve-sqlite", 5)
	return []result{r}, err
}

const (
	seatsOurs, seatsNaive = "seats-ours", "seats-naive"
	stockOurs, stockNaive = "stock-ours", "stock-naive"
)

func newHall(ctx context.Context, b *bench, address string, naive *sql.DB, database string) (*hall, error) {
	h := &hall{naive: naive, perRow: 100, rows: b.seats / 100, database: database}
	db, err := ticket.Open(ctx, address)
	if err != nil {
		return nil, err
	}
	h.ends = append(h.ends, func() { _ = db.Close() })
	if err := ticket.Migrate(ctx, db); err != nil {
		h.close()
		return nil, err
	}
	if h.store, err = ticket.New(ticket.Config{CallTimeout: patience}, db, zap.NewNop(), nil); err != nil {
		h.close()
		return nil, err
	}
	for event, c := range map[string]ticket.Catalogue{
		seatsOurs:  {Kind: ticket.KindSeats, Sections: []ticket.SectionSpec{{ID: "A", Rows: h.rows, SeatsPerRow: h.perRow}}},
		seatsNaive: {Kind: ticket.KindSeats, Sections: []ticket.SectionSpec{{ID: "A", Rows: h.rows / 2, SeatsPerRow: h.perRow}}},
		stockOurs:  {Kind: ticket.KindStock, Stock: 1e9},
		stockNaive: {Kind: ticket.KindStock, Stock: 1e9},
	} {
		if err := h.store.Put(ctx, event, c); err != nil {
			h.close()
			return nil, err
		}
		if _, _, err := h.store.Map(ctx, event); err != nil {
			h.close()
			return nil, err
		}
	}
	return h, nil
}

func (h *hall) close() {
	for _, end := range h.ends {
		end()
	}
}

// seat names the n-th seat of a hall with so many rows.
func (h *hall) seat(n int64, rows int) (string, error) {
	if n > int64(rows*h.perRow) {
		return "", errors.New("all seats are taken")
	}
	n--
	return fmt.Sprintf("A-%d-%d", n/int64(h.perRow)+1, n%int64(h.perRow)+1), nil
}

// ask reserves for the n-th buyer. Anything but a success is errRefused.
func (h *hall) ask(ctx context.Context, s *ticket.Store, event string, n int64, seats []string, quantity int) error {
	person := fmt.Sprintf("buyer-%d", n)
	a, err := s.Reserve(ctx, ticket.ReserveRequest{
		Event: event, JTI: "jti-" + person, Person: person, Seats: seats, Quantity: quantity,
		Key:    ticket.Key{Caller: person, Route: "reserve " + event, Value: "1", BodyHash: sha256.Sum256([]byte(person))},
		Encode: encode,
	})
	if err == nil && a.Status != http.StatusCreated {
		err = fmt.Errorf("%w: %s", errRefused, a.Body)
	}
	return err
}

// errRefused is a definite answer, and no reservation.
var errRefused = errors.New("refused")

func encode(r ticket.Reservation, refusal error) (int, []byte) {
	if refusal != nil {
		return http.StatusConflict, []byte(refusal.Error())
	}
	return http.StatusCreated, []byte(`{"reservation_id":"` + r.ID + `"}`)
}

func (h *hall) oursSeat(ctx context.Context) error {
	seat, err := h.seat(h.seats.Add(1), h.rows)
	if err != nil {
		return err
	}
	return h.ask(ctx, h.store, seatsOurs, h.buyers.Add(1), []string{seat}, 0)
}

func (h *hall) naiveSeat(ctx context.Context) error {
	seat, err := h.seat(h.others.Add(1), h.rows/2)
	if err != nil {
		return err
	}
	return (&naive{db: h.naive, event: seatsNaive}).seat(ctx, h.buyers.Add(1), seat)
}

func (h *hall) oursStock(ctx context.Context) error {
	return h.ask(ctx, h.store, stockOurs, h.buyers.Add(1), nil, 1)
}

func (h *hall) naiveStock(ctx context.Context) error {
	return (&naive{db: h.naive, event: stockNaive}).stock(ctx, h.buyers.Add(1), ticket.StockItem)
}

// rate is busy as one side of a duel.
func rate(d time.Duration, most int64, do func(context.Context) error) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		perS, _, err := busy(ctx, buyers, d, most, do)
		return perS, err
	}
}

func (h *hall) distinct(ctx context.Context, b *bench, name string, least float64) (result, error) {
	pairs, err := duel(ctx, b.rounds, rate(b.round, int64(b.group), h.oursSeat), rate(b.round, int64(b.group), h.naiveSeat))
	if err != nil {
		return result{}, err
	}
	s := compare(pairs, itself)
	return result{
		Name: name,
		Measured: fmt.Sprintf("%.1f × (%s/s against %s/s; distinct seats, %s, %d callers)",
			s.ratio, thousands(s.ours), thousands(s.base), h.database, buyers),
		Bar: fmt.Sprintf("≥ %.0f × one transaction a request", least), Verdict: verdict(s.ratio >= least),
		Figures: map[string]float64{"ratio": s.ratio, "per_s": s.ours, "naive_per_s": s.base},
	}, nil
}

func (h *hall) hot(ctx context.Context, b *bench) (result, error) {
	pairs, err := duel(ctx, b.rounds, rate(b.round, int64(b.group), h.oursStock), rate(b.round, int64(b.group), h.naiveStock))
	if err != nil {
		return result{}, err
	}
	s := compare(pairs, itself)
	const least = 20
	return result{
		Name: "reserve-stock",
		Measured: fmt.Sprintf("%.0f × (%s/s against %s/s; one hot stock row, %s, %d callers)",
			s.ratio, thousands(s.ours), thousands(s.base), h.database, buyers),
		Bar: "≥ 20 × the optimistic loop with retries", Verdict: verdict(s.ratio >= least),
		Figures: map[string]float64{"ratio": s.ratio, "per_s": s.ours, "naive_per_s": s.base},
	}, nil
}

// refusals lets a crowd ask for the last hundred at once, with the settings of a
// service: everybody must hear a definite answer.
func (h *hall) refusals(ctx context.Context, b *bench) (result, error) {
	const stock = 100
	if err := h.store.Put(ctx, "rush", ticket.Catalogue{Kind: ticket.KindStock, Stock: stock}); err != nil {
		return result{}, err
	}
	if _, _, err := h.store.Map(ctx, "rush"); err != nil {
		return result{}, err
	}
	took := make([]time.Duration, b.rush)
	var sold, refused, vague atomic.Int64
	var g errgroup.Group
	began := time.Now()
	for i := range took {
		g.Go(func() error {
			err := h.ask(ctx, h.store, "rush", h.buyers.Add(1), nil, 1)
			took[i] = time.Since(began)
			switch {
			case err == nil:
				sold.Add(1)
			case errors.Is(err, errRefused):
				refused.Add(1)
			default:
				vague.Add(1)
			}
			return nil
		})
	}
	_ = g.Wait() // nobody returns an error
	const most = 2 * time.Second
	longest := quantile(took, 1)
	return result{
		Name: "reserve-refusals",
		Measured: fmt.Sprintf("%s (p50 %s; %d sold, %s refused, %d without a definite answer; all at once, %s)",
			millis(longest), millis(quantile(took, .5)), sold.Load(), thousands(float64(refused.Load())), vague.Load(), h.database),
		Bar:     "every refusal definite within 2 s",
		Verdict: verdict(sold.Load() == stock && vague.Load() == 0 && longest <= most),
		Figures: map[string]float64{"longest_ms": longest.Seconds() * 1e3, "sold": float64(sold.Load()), "refused": float64(refused.Load()), "vague": float64(vague.Load())},
	}, nil
}

// lone compares reservations that nobody else is beside.
func (h *hall) lone(ctx context.Context, b *bench) (result, error) {
	alone := func(do func(context.Context) error) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) {
			began := time.Now()
			err := do(ctx)
			return time.Since(began).Seconds() * 1e3, err
		}
	}
	pairs, err := duel(ctx, b.pairs, alone(h.oursSeat), alone(h.naiveSeat))
	if err != nil {
		return result{}, err
	}
	// Single calls scatter: the medians are compared, not the neighbours.
	s := compare(pairs, itself)
	ratio := s.ours / s.base
	const most = 1.2
	return result{
		Name: "reserve-lone",
		Measured: fmt.Sprintf("%.2f × (p50 %.2f ms against %.2f ms; one at a time, %s)",
			ratio, s.ours, s.base, h.database),
		Bar: "≤ 1.2 × the naive transaction", Verdict: verdict(ratio <= most),
		Figures: map[string]float64{"ratio": ratio, "p50_ms": s.ours, "naive_p50_ms": s.base},
	}, nil
}
