package ticket

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A connection keeps its statements, also where one is asked again while rows of it
// are read, where there are too many, and where the schema changes below them.
func TestLiteKeepsStatements(t *testing.T) {
	t.Parallel()
	db, err := openLite("file:" + filepath.Join(t.TempDir(), "t.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	kept := func() (n int) {
		require.NoError(t, conn.Raw(func(driver any) error { n = len(driver.(*liteConn).kept); return nil }))
		return n
	}
	exec := func(text string, args ...any) int64 {
		res, err := conn.ExecContext(t.Context(), text, args...)
		require.NoError(t, err, text)
		n, err := res.RowsAffected()
		require.NoError(t, err)
		return n
	}
	read := func(text string, args ...any) (all []int64) {
		rows, err := conn.QueryContext(t.Context(), text, args...)
		require.NoError(t, err, text)
		defer func() { require.NoError(t, rows.Close()) }()
		for rows.Next() {
			var n int64
			require.NoError(t, rows.Scan(&n))
			all = append(all, n)
		}
		require.NoError(t, rows.Err())
		return all
	}
	exec(`CREATE TABLE t (n BIGINT NOT NULL PRIMARY KEY)`)
	require.Zero(t, kept(), "only what reads and writes rows")
	for n := range 3 {
		require.EqualValues(t, 1, exec(`INSERT INTO t (n) VALUES ($1)`, n))
	}
	_, err = conn.ExecContext(t.Context(), `INSERT INTO t (n) VALUES ($1)`, 2)
	require.ErrorContains(t, err, "UNIQUE")
	require.EqualValues(t, 1, exec(`INSERT INTO t (n) VALUES ($1)`, 3), "after a failure too")
	require.Equal(t, 1, kept())

	const all = `SELECT n FROM t WHERE n >= $1 ORDER BY n`
	rows, err := conn.QueryContext(t.Context(), all, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	require.True(t, rows.Next())
	require.Equal(t, []int64{2, 3}, read(all, 2), "the same one while it is read")
	exec(`ALTER TABLE t ADD COLUMN more BIGINT NOT NULL DEFAULT 0`)
	for i := range statementsKept { // all are dropped meanwhile, also the one that is read
		require.Equal(t, []int64{int64(i)}, read(fmt.Sprintf(`SELECT %d`, i)))
	}
	require.LessOrEqual(t, kept(), statementsKept)
	left := 0
	for rows.Next() { // its end closes them
		left++
	}
	require.NoError(t, rows.Err())
	require.Equal(t, 3, left)
	require.Equal(t, []int64{0, 1, 2, 3}, read(all, 0))
	require.EqualValues(t, 1, exec(`INSERT INTO t (n) VALUES ($1)`, 4))
}
