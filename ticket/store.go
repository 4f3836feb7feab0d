package ticket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"
)

// Config are a store's settings. The zero value of each means its default.
type Config struct {
	// CallTimeout bounds each call to the database. Default 2s; 100ms to 30s.
	CallTimeout time.Duration
	// PaymentLease is how long a hold lasts while its payment runs, at most.
	// Default 15m.
	PaymentLease time.Duration
	// Poll is how often changes of other nodes are read. Default 200ms; 10ms to 1s.
	Poll time.Duration
	// Sweep is how often ended holds are looked for. Default 250ms; 10ms to 10s.
	Sweep time.Duration
	// Retention is how long answers are kept under their idempotency keys.
	// Default 24h.
	Retention time.Duration
	// Group is the most reservations in one transaction. Default 512; 1 to 512.
	Group int
	// Lanes is the number of groups of one event that run at once on PostgreSQL.
	// Default 2, so that one is written while the next is made; 1 to 16. SQLite has one.
	Lanes int
	// Queue is the most reservations of one event that wait; more are refused with
	// ErrUnavailable. Default 8192.
	Queue int
	// OutboxAttempts is how often a message is tried before it is parked. Default 10.
	OutboxAttempts int
}

const (
	defaultHold = 3 * time.Minute
	tries       = 3
)

// orDefaults fills in what is left out.
func (c Config) orDefaults() Config {
	c.CallTimeout = cmp.Or(c.CallTimeout, 2*time.Second)
	c.PaymentLease = cmp.Or(c.PaymentLease, 15*time.Minute)
	c.Poll = cmp.Or(c.Poll, 200*time.Millisecond)
	c.Sweep = cmp.Or(c.Sweep, 250*time.Millisecond)
	c.Retention = cmp.Or(c.Retention, 24*time.Hour)
	c.Group = cmp.Or(c.Group, 512)
	c.Lanes = cmp.Or(c.Lanes, 2)
	c.Queue = cmp.Or(c.Queue, 8192)
	c.OutboxAttempts = cmp.Or(c.OutboxAttempts, 10)
	return c
}

// Validate names every wrong field.
func (c Config) Validate() error {
	c = c.orDefaults()
	return errors.Join(
		within("call timeout", c.CallTimeout, 100*time.Millisecond, 30*time.Second),
		within("payment lease", c.PaymentLease, time.Second, 24*time.Hour),
		within("poll", c.Poll, 10*time.Millisecond, time.Second),
		within("sweep", c.Sweep, 10*time.Millisecond, 10*time.Second),
		within("retention", c.Retention, time.Minute, 365*24*time.Hour),
		within("group", c.Group, 1, 512),
		within("lanes", c.Lanes, 1, 16),
		within("queue", c.Queue, 1, 1_000_000),
		within("outbox attempts", c.OutboxAttempts, 1, 1000),
	)
}

func within[T cmp.Ordered](field string, value, least, most T) error {
	if value < least || value > most {
		return fmt.Errorf("%s %v: must be %v to %v", field, value, least, most)
	}
	return nil
}

// Store sells. Its methods may be called concurrently, also before Run.
type Store struct {
	cfg Config
	db  *DB
	log *zap.Logger
	m   *metrics

	loading singleflight.Group
	news    *news
	// skew moves the database's clock in tests, in milliseconds.
	skew atomic.Int64
	// rows counts halls, so that each one's row of changes has numbers of its own.
	rows atomic.Int64
	// claims counts the claims of outbox rows.
	claims atomic.Uint32

	mu      sync.Mutex // guards below
	halls   map[string]*hall
	absent  map[string]time.Time // events that sell nothing, as of then
	running map[string][32]byte  // idempotency keys in work, with their body hashes
}

// New makes a store on an open and migrated database. It starts nothing.
func New(cfg Config, db *DB, log *zap.Logger, reg prometheus.Registerer) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("ticket store: %w", err)
	}
	cfg = cfg.orDefaults()
	if db.dialect == sqlite3 {
		cfg.Lanes = 1
	}
	s := &Store{
		cfg: cfg, db: db, log: log.Named("ticket"),
		news:  newNews(),
		halls: map[string]*hall{}, absent: map[string]time.Time{}, running: map[string][32]byte{},
	}
	var err error
	if s.m, err = newMetrics(reg, s); err != nil {
		return nil, fmt.Errorf("ticket metrics: %w", err)
	}
	return s, nil
}

// Ping says whether the database answers; the error is ErrUnavailable when not.
func (s *Store) Ping(ctx context.Context) error { return s.db.Ping(ctx) }

// Usage says how busy the database connections of this process are. Calls that
// wait for more than the next group count as waiting.
func (s *Store) Usage() Usage {
	u := s.db.usage()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.halls {
		u.Waiting += h.reserves.backlog()
	}
	return u
}

// deadline bounds a call.
func (s *Store) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.cfg.CallTimeout)
}

// now reads the database's clock: the one now of a transaction.
func (s *Store) now(ctx context.Context, t tx) (int64, error) {
	var now int64
	err := t.query(ctx, func(scan func(...any) error) error { return scan(&now) }, `SELECT {now}`, nil)
	return now + s.skew.Load(), err
}

// again runs a change until it has happened or cannot: up to three times, with
// growing, jittered waits between. What comes back is never errConflict.
func (s *Store) again(ctx context.Context, change func(context.Context, tx) error) error {
	return s.againWithin(ctx, s.cfg.CallTimeout, change)
}

// againWithin is again with a time of its own.
func (s *Store) againWithin(ctx context.Context, limit time.Duration, change func(context.Context, tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	doubt := false
	for try := 1; ; try++ {
		err := s.db.change(ctx, func(ctx context.Context, t tx) error {
			t.doubt = doubt
			return change(ctx, t)
		})
		doubt = doubt || errors.Is(err, errCommit)
		if err == nil || !errors.Is(err, errConflict) && !errors.Is(err, ErrUnavailable) {
			return err
		}
		if try == tries || !pause(ctx, try) {
			if errors.Is(err, errConflict) {
				return fmt.Errorf("%w: %w", ErrContended, err)
			}
			return err
		}
		s.m.retries.Inc()
	}
}

// pause waits before the try after this one; false means that there is no time.
func pause(ctx context.Context, try int) bool {
	base := time.Duration(try*try) * 4 * time.Millisecond
	wait := time.NewTimer(base/2 + rand.N(base))
	defer wait.Stop()
	select {
	case <-wait.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// millis is a time as the database keeps it.
func millis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
