package ticket

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket/sqltest"
)

// before opens a database as an older version left it.
func before(t *testing.T, address string, version int64) *DB {
	t.Helper()
	db, err := Open(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	older, err := db.migrator()
	require.NoError(t, err)
	_, err = older.UpTo(t.Context(), version)
	require.NoError(t, err)
	return db
}

// until waits until somebody waits for the reservations, or nobody does.
func until(t *testing.T, db *DB, waits bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		n := 0
		err := db.read.QueryRowContext(t.Context(),
			`SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'reservations'::regclass`).Scan(&n)
		return err == nil && (n > 0) == waits
	}, 10*time.Second, 2*time.Millisecond)
}

// A newer version's migration comes while an older instance sells. The sale writes one
// table after the other, and the migration neither undoes it nor is undone.
func TestMigrateBesideASale(t *testing.T) {
	t.Parallel()
	db := before(t, sqltest.Postgres(t), 10)
	sale, err := db.write.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = sale.Rollback() }()
	write := func(on *sql.Tx, statement string) {
		t.Helper()
		_, err := on.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	write(sale, `UPDATE seats SET version = 1 WHERE event = 'e'`)
	write(sale, `INSERT INTO reservations (id, event, person, jti, status, reason, seats, n, amount_cents, currency, created_ms, ends_ms)
		VALUES ('r', 'e', 'ann', 'j', 'held', '', '[]', 1, 0, 'EUR', 0, 0)`)
	migrated := make(chan error, 1)
	go func() { migrated <- Migrate(t.Context(), db) }()
	until(t, db, true)
	write(sale, `INSERT INTO outbox (event, topic, key, payload, created_ms) VALUES ('e', 't', 'r', '', 0)`)
	require.NoError(t, sale.Commit())
	require.NoError(t, <-migrated)
}

// A migration that cannot have a table in time lets those go first who wait behind it,
// and tries again.
func TestMigrateTriesAgainAfterALongReader(t *testing.T) {
	t.Parallel()
	address := sqltest.Postgres(t)
	db := before(t, address, 10)
	newer, err := Open(t.Context(), address+"&lock_timeout=500")
	require.NoError(t, err)
	defer func() { require.NoError(t, newer.Close()) }()
	reader, err := db.write.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = reader.Rollback() }()
	var n int
	require.NoError(t, reader.QueryRowContext(t.Context(), `SELECT count(*) FROM reservations`).Scan(&n))
	migrated := make(chan error, 1)
	go func() { migrated <- Migrate(t.Context(), newer) }()
	until(t, db, true)
	until(t, db, false)
	require.NoError(t, reader.Rollback())
	require.NoError(t, <-migrated)
}
