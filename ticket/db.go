package ticket

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// DB is a database of tickets: PostgreSQL, or an SQLite file.
type DB struct {
	// write is where transactions run; read may be a second pool (SQLite has one
	// writer and any number of readers).
	write, read *sql.DB
	dialect     *dialect
	max         int
	// waiting counts callers that wait for a connection.
	waiting atomic.Int64
	// watch, if set, sees each statement before it runs; tests look at plans.
	watch func(ctx context.Context, t tx, statement string, args []any)
}

const (
	defaultPool = 10 // PostgreSQL connections of one process
	liteReaders = 4  // SQLite connections that only read
)

// Open connects to a database: "postgres://…" or "sqlite:path". The parameter
// pool_max_conns bounds the connections (PostgreSQL: default 10; SQLite has one
// writer and four readers, or with 1 a single connection). It runs no migration.
// An error that is not ErrUnavailable says that the address is wrong.
func Open(ctx context.Context, address string) (*DB, error) {
	scheme, rest, _ := strings.Cut(address, ":")
	var db *DB
	var err error
	switch scheme {
	case "postgres", "postgresql":
		db, err = openPostgres(address)
	case "sqlite":
		db, err = openSQLite(rest)
	default:
		return nil, errors.New(`database address must start with "postgres://" or "sqlite:"`)
	}
	if err != nil {
		return nil, err
	}
	if err := db.Ping(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// poolSize takes pool_max_conns out of the parameters.
func poolSize(params url.Values, preset int) (int, error) {
	given := params.Get("pool_max_conns")
	params.Del("pool_max_conns")
	if given == "" {
		return preset, nil
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 1 || n > 1000 {
		return 0, fmt.Errorf("pool_max_conns %q: must be 1 to 1000", given)
	}
	return n, nil
}

func openPostgres(address string) (*DB, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("database address is no URL") // the cause repeats the password
	}
	params := u.Query()
	size, err := poolSize(params, defaultPool)
	if err != nil {
		return nil, err
	}
	u.RawQuery = params.Encode()
	cfg, err := pgx.ParseConfig(u.String())
	if err != nil {
		return nil, fmt.Errorf("database address: %w", err)
	}
	switch cfg.DefaultQueryExecMode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol: // guess how values are sent
		return nil, errors.New("database address: default_query_exec_mode must be cache_statement, cache_describe or describe_exec")
	case pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec:
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 3 * time.Second
	}
	for name, value := range map[string]string{
		"application_name": "waitroom",
		"lock_timeout":     "1500",
		// A frozen process must not hold its row locks for ever.
		"idle_in_transaction_session_timeout": "5000",
		// Every statement of ours finds its rows by a key. A new table has no
		// statistics yet, and a plan made for it then, a scan of the whole, would stay
		// in use while the sale fills it.
		"enable_seqscan":    "off",
		"enable_hashjoin":   "off",
		"enable_mergejoin":  "off",
		"enable_bitmapscan": "off",
		"enable_material":   "off",
		"plan_cache_mode":   "force_generic_plan",
		"jit":               "off",
	} {
		if _, given := cfg.RuntimeParams[name]; !given {
			cfg.RuntimeParams[name] = value
		}
	}
	pool := stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(takePacked))
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	return &DB{write: pool, read: pool, dialect: postgres, max: size}, nil
}

func openSQLite(rest string) (*DB, error) {
	path, query, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "?")
	params, err := url.ParseQuery(query)
	if err != nil || path == "" {
		return nil, errors.New("database address must be sqlite:path")
	}
	readers, err := poolSize(params, liteReaders)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil { //nolint:gosec // where the operator wants it
		return nil, fmt.Errorf("database directory: %w", err)
	}
	// The path goes escaped: SQLite reads a name that starts with file: as a URI.
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() +
		"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)" +
		// 16 MB of pages, so that a large hall stays in memory; what a statement would need
		// to be undone alone goes to no file.
		"&_pragma=cache_size(-16000)&_pragma=temp_store(MEMORY)"
	db := &DB{dialect: sqlite3, max: 1}
	if db.write, err = openLite(dsn); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db.write.SetMaxOpenConns(1)
	db.read = db.write
	if readers > 1 {
		if db.read, err = openLite(dsn + "&_pragma=query_only(1)"); err != nil {
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		db.read.SetMaxOpenConns(readers)
		db.read.SetMaxIdleConns(readers)
	}
	return db, nil
}

// Close ends all connections.
func (db *DB) Close() error {
	err := db.write.Close()
	if db.read != db.write {
		err = errors.Join(err, db.read.Close())
	}
	return err
}

// Ping says whether the database answers. The error is ErrUnavailable when not.
func (db *DB) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for try := 1; ; try++ {
		err := db.write.PingContext(ctx)
		if err == nil {
			return nil
		}
		// SQLite's change to WAL, the first time, waits for nobody.
		if db.dialect.classify(err) != faultRetry || try > 3*tries || !pause(ctx, try) {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
}

// usage reads the pool of writers.
func (db *DB) usage() Usage {
	u := Usage{InUse: db.write.Stats().InUse, Max: db.max}
	if u.InUse >= u.Max { // else whoever waits is only connecting
		u.Waiting = int(db.waiting.Load())
	}
	return u
}

// Errors of the layer below the deeds.
var (
	errConflict = errors.New("conflict")        // again may succeed
	errCommit   = errors.New("commit in doubt") // it may have happened
)

// fail names what an error of the database means.
func (db *DB) fail(err error) error {
	switch db.dialect.classify(err) {
	case faultNone:
		return nil
	case faultRetry:
		return fmt.Errorf("%w: %w", errConflict, err)
	case faultAway:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case faultOther:
	}
	return err
}

// conn takes a connection, counting the wait for it.
func (db *DB) conn(ctx context.Context, pool *sql.DB) (*sql.Conn, error) {
	db.waiting.Add(1)
	defer db.waiting.Add(-1)
	return pool.Conn(ctx)
}

// change runs do in a transaction. An error from do rolls it back; errCommit
// says that nobody knows whether it was committed.
func (db *DB) change(ctx context.Context, do func(context.Context, tx) error) (err error) {
	conn, err := db.conn(ctx, db.write)
	if err != nil {
		return db.fail(err)
	}
	defer func() { err = errors.Join(err, giveBack(conn)) }()
	sqltx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return db.fail(err)
	}
	if err := do(ctx, tx{db: db, conn: conn, on: sqltx}); err != nil {
		// A rollback that fails has lost its connection, which is a rollback too.
		_ = sqltx.Rollback()
		if forgotten(err) {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		return err
	}
	if err := sqltx.Commit(); err != nil {
		if db.dialect.classify(err) == faultAway {
			return fmt.Errorf("%w: %w", errCommit, db.fail(err))
		}
		return db.fail(err)
	}
	return nil
}

// look runs do on a connection outside of any transaction.
func (db *DB) look(ctx context.Context, do func(context.Context, tx) error) (err error) {
	conn, err := db.conn(ctx, db.read)
	if err != nil {
		return db.fail(err)
	}
	defer func() { err = errors.Join(err, giveBack(conn)) }()
	return do(ctx, tx{db: db, on: conn})
}

// giveBack returns a connection to its pool; one that broke is gone already.
func giveBack(conn *sql.Conn) error {
	if err := conn.Close(); err != nil && !errors.Is(err, sql.ErrConnDone) {
		return fmt.Errorf("give back connection: %w", err)
	}
	return nil
}
