package archive

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/sqltest"
)

// stopping ends the test databases before the leak check.
type stopping struct{ m *testing.M }

func (s stopping) Run() int {
	defer sqltest.Stop()
	return s.m.Run()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(stopping{m}) }

var errCrash = errors.New("crashed here")

// shelf is an archive in memory, with the group's rules in the fewest lines.
type shelf struct {
	mu      sync.Mutex
	events  []string
	records map[string]map[string]ticket.IssuedToken
	taken   map[string]time.Time
	// fail is asked before and after each step, and may be the crash.
	fail func(step string) error
}

func newShelf(events ...string) *shelf {
	return &shelf{
		events: events, records: make(map[string]map[string]ticket.IssuedToken), taken: make(map[string]time.Time),
		fail: func(string) error { return nil },
	}
}

func (s *shelf) put(event string, n int) {
	s.records[event] = make(map[string]ticket.IssuedToken)
	for i := range n {
		id := fmt.Sprintf("%s-%d", event, i)
		s.records[event][id] = ticket.IssuedToken{JTI: id, Rank: int64(i + 1), IssuedAt: time.Now(), ExpiresAt: time.Now()}
	}
}

func (s *shelf) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.records {
		n += len(r)
	}
	return n
}

func (s *shelf) Archives(context.Context) ([]string, error) { return s.events, s.fail("archives") }

func (s *shelf) Unfiled(_ context.Context, event string, limit int, idle time.Duration) (Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail("before unfiled of " + event); err != nil {
		return Batch{}, err
	}
	var b Batch
	for id, t := range s.records[event] {
		if len(b.Records) < limit && time.Since(s.taken[id]) >= idle {
			b.Records, b.Tokens = append(b.Records, id), append(b.Tokens, t)
			s.taken[id] = time.Now()
		}
	}
	return b, s.fail("after unfiled")
}

func (s *shelf) Filed(_ context.Context, event string, records []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail("before filed"); err != nil {
		return err
	}
	for _, id := range records {
		delete(s.records[event], id)
	}
	return s.fail("after filed")
}

// crashing files, and crashes before or after.
type crashing struct {
	Files
	s *shelf
}

func (c crashing) FileIssued(ctx context.Context, event string, tokens []ticket.IssuedToken) (int64, error) {
	if err := c.s.fail("before file"); err != nil {
		return 0, err
	}
	n, err := c.Files.FileIssued(ctx, event, tokens)
	return n, errors.Join(err, c.s.fail("after file"))
}

func openStore(t *testing.T, address string) *ticket.Store {
	t.Helper()
	db, err := ticket.Open(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	require.NoError(t, ticket.Migrate(t.Context(), db))
	s, err := ticket.New(ticket.Config{CallTimeout: 15 * time.Second}, db, zap.NewNop(), nil)
	require.NoError(t, err)
	return s
}

// Promise 1: a worker that crashes at any step, and another after it.
func TestPromise1FiledOnceWhateverCrashes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tickets.db")
	for name, address := range map[string]string{"postgres": sqltest.Postgres(t), "sqlite": "sqlite:" + file} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := openStore(t, address)
			for i, step := range []string{"before unfiled of e", "after unfiled", "before file", "after file", "before filed", "after filed"} {
				event := "e" + strconv.Itoa(i)
				s := newShelf(event)
				s.put(event, 100)
				step := step
				if step == "before unfiled of e" {
					step = "before unfiled of " + event
				}
				crashes := 0
				s.fail = func(at string) error {
					if at == step && crashes < 3 {
						crashes++
						return errCrash
					}
					return nil
				}
				for range 100 { // each is a worker that ends at its first failure
					a, err := NewArchiver(Config{Limit: 16, Idle: 100 * time.Millisecond}, s, crashing{store, s}, zap.NewNop(), nil)
					require.NoError(t, err)
					a.cfg.Idle = 0
					if err := a.file(t.Context(), event); err == nil {
						break
					}
				}
				require.Equal(t, 3, crashes, step)
				require.Zero(t, s.left(), step)
				n, err := store.FileIssued(t.Context(), event, func() []ticket.IssuedToken {
					s.put(event, 100)
					var all []ticket.IssuedToken
					for _, r := range s.records[event] {
						all = append(all, r)
					}
					return all
				}())
				require.NoError(t, err)
				require.Zero(t, n, "all 100 are there: %s", step)
			}
			require.EqualValues(t, 600, rows(t, address))
		})
	}
}

// rows counts what a database has, past everything of ours.
func rows(t *testing.T, address string) (n int64) {
	t.Helper()
	driver, dsn := "pgx", address
	if rest, ok := strings.CutPrefix(address, "sqlite:"); ok {
		driver, dsn = "sqlite", rest
	}
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM issued`).Scan(&n))
	return n
}

// fakeFiles are away as long as they are told.
type fakeFiles struct {
	mu   sync.Mutex
	away bool
	have map[string]bool
}

func (f *fakeFiles) FileIssued(_ context.Context, _ string, tokens []ticket.IssuedToken) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return 0, ticket.ErrUnavailable
	}
	n := int64(0)
	for _, t := range tokens {
		if !f.have[t.JTI] {
			n++
		}
		f.have[t.JTI] = true
	}
	return n, nil
}

// Promise 1: a database that was away for three hours is caught up with.
// Promise 2: and an event that fails stops no other.
func TestPromise1CatchesUpAndPromise2OthersGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf("bad", "e")
		s.put("e", 500)
		s.fail = func(step string) error {
			if step == "before unfiled of bad" {
				return errCrash
			}
			return nil
		}
		f := &fakeFiles{away: true, have: make(map[string]bool)}
		a, err := NewArchiver(Config{}, s, f, zap.NewNop(), nil)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- a.Run(ctx) }()
		time.Sleep(3 * time.Hour)
		require.Equal(t, 500, s.left(), "nothing is taken out that is not filed")
		f.mu.Lock()
		f.away = false
		f.mu.Unlock()
		time.Sleep(11 * time.Second) // Idle: what was taken last comes again
		require.Zero(t, s.left())
		require.Len(t, f.have, 500)
		cancel()
		require.NoError(t, <-ended)
	})
}

// fakeLine hears the stocktaker.
type fakeLine struct {
	mu   sync.Mutex // guards said
	said []bool
}

func (l *fakeLine) heard() []bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.said)
}

func (*fakeLine) Supplied() []string { return []string{"e"} }

func (l *fakeLine) Supply(_ context.Context, _ string, left bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, left)
	return nil
}

type fakeStock struct {
	mu   sync.Mutex // guards what follows
	left bool
	err  error
}

func (s *fakeStock) set(left bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left, s.err = left, err
}

func (s *fakeStock) AnyLeft(context.Context, string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left, s.err
}

// Promise 3: changes are told within a tick, and again now and then.
func TestPromise3TheLineHears(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		line, stock := &fakeLine{}, &fakeStock{left: true}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- NewStocktaker(line, stock, zap.NewNop()).Run(ctx) }()
		step := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		step(time.Second + time.Millisecond)
		require.Equal(t, []bool{true}, line.heard())
		stock.set(false, nil)
		step(100 * time.Millisecond)
		require.Equal(t, []bool{true, false}, line.heard())
		stock.set(false, ticket.ErrUnavailable)
		step(time.Minute)
		require.Equal(t, []bool{true, false}, line.heard(), "away, nothing is said")
		stock.set(true, nil)
		step(100 * time.Millisecond)
		require.Equal(t, []bool{true, false, true}, line.heard())
		step(5100 * time.Millisecond)
		require.Equal(t, []bool{true, false, true, true}, line.heard(), "for a line that lost it")
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestArchiverSettings(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{Every: time.Millisecond}, {Idle: time.Millisecond}, {Limit: 65}, {Limit: -1}} {
		_, err := NewArchiver(cfg, newShelf(), &fakeFiles{}, zap.NewNop(), nil)
		require.Error(t, err)
	}
}
