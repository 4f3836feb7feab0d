package ticket

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket/sqltest"
)

// A group is written the same, however the address has statements sent; a guard that
// says no in the middle of a pipeline leaves the connection as good as before.
func TestPipelineInEachModeOfTheDriver(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := openStore(t, withPool(sqltest.Postgres(t), "1")+"&default_query_exec_mode="+mode, Config{})
			c := hallOf(2, 100)
			c.PerUser = 3
			require.NoError(t, s.Put(t.Context(), "e", c))
			h, err := s.hall(t.Context(), "e")
			require.NoError(t, err)
			for round := range 2 { // the second time everybody has been here
				asks := make([]*ask, 100)
				for i := range asks {
					b := &buyer{event: "e", name: fmt.Sprint("buyer", i), calls: round}
					q := b.device(round, b.seats(fmt.Sprintf("A-%d-%d", round+1, i+1)))
					asks[i] = &ask{ReserveRequest: q, key: q.Key.hash()}
				}
				s.reserveAll(t.Context(), h, asks)
				for _, a := range asks {
					require.NoError(t, a.err)
				}
				require.EqualValues(t, 100*(round+1), count(t, s, `SELECT count(*) FROM seats WHERE status = 'held'`))
				require.EqualValues(t, 100*(round+1), count(t, s, `SELECT sum(n) FROM shares`))
			}
		})
	}
}

// A database that is away in the middle of a pipeline is ErrUnavailable.
func TestPipelineToADatabaseThatIsGone(t *testing.T) {
	t.Parallel()
	address := sqltest.Postgres(t)
	s, other := openStore(t, address, Config{}), openStore(t, address, Config{})
	err := s.db.change(t.Context(), func(ctx context.Context, x tx) error {
		var pid int64
		if err := x.query(ctx, func(scan func(...any) error) error { return scan(&pid) }, `SELECT pg_backend_pid()`, nil); err != nil {
			return err
		}
		ended := false
		err := other.db.look(ctx, func(ctx context.Context, y tx) error {
			return y.query(ctx, func(scan func(...any) error) error { return scan(&ended) }, `SELECT pg_terminate_backend($1, 5000)`, nil, pid)
		})
		require.NoError(t, err)
		require.True(t, ended)
		return x.all(ctx, []step{{statement: `DELETE FROM outbox WHERE id = $1`, args: []any{int64(1)}}})
	})
	require.ErrorIs(t, err, ErrUnavailable)
}

// A connection whose prepared statements somebody discarded is given up, and the call
// that found it out succeeds on another.
func TestPipelineAfterStatementsWereDiscarded(t *testing.T) {
	t.Parallel()
	s := openStore(t, withPool(sqltest.Postgres(t), "1"), Config{})
	c := hallOf(1, 10)
	c.PerUser = 4
	require.NoError(t, s.Put(t.Context(), "e", c))
	holds(t, s, (&buyer{event: "e", name: "ann"}).quantity(1))
	for n, statement := range []string{"DISCARD ALL", "DEALLOCATE ALL"} {
		_, err := s.db.write.ExecContext(t.Context(), statement)
		require.NoError(t, err)
		holds(t, s, (&buyer{event: "e", name: fmt.Sprint("bob", n)}).quantity(1))
	}
	require.EqualValues(t, 3, count(t, s, `SELECT count(*) FROM seats WHERE status = 'held'`))
}

// Rows that nobody asked for are passed over, and counted.
func TestPipelineWithRowsForNobody(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{})
		require.NoError(t, s.db.change(t.Context(), func(ctx context.Context, x tx) error {
			return x.all(ctx, []step{{
				statement: `INSERT INTO counters (event, last, fence) VALUES ('a', 1, 1), ('b', 1, 1) RETURNING event`, want: 2,
			}})
		}))
		require.EqualValues(t, 2, count(t, s, `SELECT count(*) FROM counters`))
	})
}
