package ticket

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket/sqltest"
)

// Promise 15: with the database away a call ends in time with ErrUnavailable and
// nothing half done; when it is back, calls succeed without a restart.
func TestPromise15DatabaseAwayAndBack(t *testing.T) {
	t.Parallel()
	server := sqltest.Alone(t)
	s := openStore(t, server.Schema(t), Config{CallTimeout: 3 * time.Second})
	require.NoError(t, s.Put(t.Context(), "e", Catalogue{Kind: KindStock, Stock: 1000}))
	running(t, s)
	holds(t, s, (&buyer{event: "e", name: "first"}).quantity(1))

	// Buyers keep their key until they know; the server dies under them.
	stop := make(chan struct{})
	ended := make(chan map[string]int, 1)
	go func() {
		ended <- atOnce(8, func(i int) string {
			for n := 0; ; n++ {
				q := (&buyer{event: "e", name: fmt.Sprint(i, "-", n)}).quantity(1)
				for {
					a, err := s.Reserve(t.Context(), q)
					if err == nil && a.Status == 201 {
						break
					}
					if err == nil {
						return "refused: " + string(a.Body)
					}
					if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrContended) {
						return err.Error()
					}
				}
				select {
				case <-stop:
					return "ok"
				default:
				}
			}
		})
	}()
	for range 2 {
		server.Stop()
		_, err := s.Reserve(t.Context(), (&buyer{event: "e", name: "away"}).quantity(1))
		require.ErrorIs(t, err, ErrUnavailable)
		require.ErrorIs(t, s.Ping(t.Context()), ErrUnavailable)
		_, _, err = s.Map(t.Context(), "e")
		require.NoError(t, err, "the map is in memory")
		require.NoError(t, server.Start())
		waitFor(t, "reservations to succeed again", func() bool {
			a, err := s.Reserve(t.Context(), (&buyer{event: "e", name: "back"}).quantity(1))
			return err == nil && (a.Status == 201 || a.Replayed)
		})
	}
	close(stop)
	require.Equal(t, map[string]int{"ok": 8}, <-ended)
	sold := 1000 - count(t, s, `SELECT free FROM items`)
	require.Equal(t, sold, count(t, s, `SELECT sum(n) FROM reservations`))
	require.Equal(t, sold, count(t, s, `SELECT sum(n) FROM shares`))
	require.Equal(t, sold, count(t, s, `SELECT count(*) FROM outbox`))
	require.Equal(t, sold, count(t, s, `SELECT count(*) FROM answers WHERE status = 201`))
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"", "mysql://x", "sqlite:", "sqlite:x?pool_max_conns=0", "postgres://u:secret@h:port/x",
		"postgres://u:secret@h/x?default_query_exec_mode=exec",
	} {
		_, err := Open(t.Context(), address)
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrUnavailable, address)
		require.NotContains(t, err.Error(), "secret")
	}
	_, err := Open(t.Context(), "postgres://u:secret@127.0.0.1:1/x?connect_timeout=1")
	require.ErrorIs(t, err, ErrUnavailable)
	require.NotContains(t, err.Error(), "secret")
}

func TestMigrateAtOnceAndAgain(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		got := atOnce(4, func(int) string {
			db, err := Open(t.Context(), address)
			if err != nil {
				return err.Error()
			}
			err = errors.Join(Migrate(t.Context(), db), Migrate(t.Context(), db), db.Close())
			return fmt.Sprint(err)
		})
		require.Equal(t, map[string]int{"<nil>": 4}, got)
	})
}

// What an older version wrote is there after a newer one's migration.
func TestMigrateKeepsShares(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		db, err := Open(t.Context(), address)
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Close()) }()
		older, err := db.migrator()
		require.NoError(t, err)
		_, err = older.UpTo(t.Context(), 8)
		require.NoError(t, err)
		_, err = db.write.ExecContext(t.Context(), `INSERT INTO shares (event, person, n, version) VALUES ('e', 'ann', 2, 5)`)
		require.NoError(t, err)
		require.NoError(t, Migrate(t.Context(), db))
		var n, version int
		require.NoError(t, db.read.QueryRowContext(t.Context(), `SELECT n, version FROM shares WHERE event = 'e' AND person = 'ann'`).Scan(&n, &version))
		require.Equal(t, []int{2, 5}, []int{n, version})
	})
}

func TestConfigNamesEachFault(t *testing.T) {
	t.Parallel()
	require.NoError(t, Config{}.Validate())
	err := Config{CallTimeout: time.Hour, Group: 100_000}.Validate()
	require.ErrorContains(t, err, "call timeout 1h0m0s: must be 100ms to 30s")
	require.ErrorContains(t, err, "group 100000: must be 1 to 512")
}
