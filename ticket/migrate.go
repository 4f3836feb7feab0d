package ticket

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrate brings the schema up to this version's. Several processes may call it
// at once; one of them does it. The error is ErrUnavailable where the database
// is away.
func Migrate(ctx context.Context, db *DB) error {
	provider, err := db.migrator()
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		_, err := provider.Up(ctx)
		if err == nil {
			return nil
		}
		// On PostgreSQL a lock lets one process in at a time, and who sells meanwhile may
		// keep a table for longer than a lock is waited for. SQLite has no such lock: of
		// two processes that start at once one fails, undoes its step, and finds it done
		// when it looks again.
		again := db.dialect != postgres || db.dialect.classify(err) == faultRetry
		if !again || try == tries || !pause(ctx, try) {
			return fmt.Errorf("migrate: %w", db.fail(err))
		}
	}
}

// migrator reads the embedded files, spelled in the database's dialect.
func (db *DB) migrator() (*goose.Provider, error) {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	var steps []*goose.Migration
	for _, file := range files {
		number, _, _ := strings.Cut(file.Name(), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", file.Name(), err)
		}
		text, err := migrations.ReadFile("migrations/" + file.Name())
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", file.Name(), err)
		}
		spelled, _, err := db.dialect.spell(string(text), nil, nil)
		if err != nil {
			return nil, err
		}
		steps = append(steps, goose.NewGoMigration(version, &goose.GoFunc{
			RunTx: func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, spelled) //nolint:gosec // a file of ours
				return err
			},
		}, nil))
	}
	options := []goose.ProviderOption{
		goose.WithGoMigrations(steps...),
		goose.WithDisableGlobalRegistry(true),
		goose.WithTableName("ticket_migrations"),
	}
	kind := goose.DialectSQLite3
	if db.dialect == postgres {
		kind = goose.DialectPostgres
		// Asked for each second, not each fifth: nodes that start together take turns.
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
		if err != nil {
			return nil, fmt.Errorf("migration lock: %w", err)
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	provider, err := goose.NewProvider(kind, db.write, nil, options...)
	if err != nil && !errors.Is(err, goose.ErrNoMigrations) {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	return provider, nil
}
