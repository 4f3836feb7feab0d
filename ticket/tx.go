package ticket

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/stdlib"
)

// tx runs statements on one connection, in a transaction or outside.
type tx struct {
	db   *DB
	conn *sql.Conn
	// doubt: an earlier try of this change may have been committed.
	doubt bool
	on    interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}
}

// spell writes a statement in the database's dialect.
func (t tx) spell(ctx context.Context, statement string, l *list, args []any) (string, []any, error) {
	statement, args, err := t.db.dialect.spell(statement, l, args)
	if err == nil && t.db.watch != nil {
		t.db.watch(ctx, t, statement, args)
	}
	return statement, args, err
}

// exec gives the number of rows affected.
func (t tx) exec(ctx context.Context, statement string, l *list, args ...any) (int64, error) {
	statement, args, err := t.spell(ctx, statement, l, args)
	if err != nil {
		return 0, err
	}
	res, err := t.on.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, t.db.fail(err)
	}
	n, err := res.RowsAffected()
	return n, t.db.fail(err)
}

// query calls scan for each row; read spells the destinations.
func (t tx) query(ctx context.Context, each func(scan func(...any) error) error, statement string, l *list, args ...any) error {
	statement, args, err := t.spell(ctx, statement, l, args)
	if err != nil {
		return err
	}
	rows, err := t.on.QueryContext(ctx, statement, args...)
	if err != nil {
		return t.db.fail(err)
	}
	defer func() { _ = rows.Close() }() // rows.Err has said what there is to say
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return t.db.fail(err)
		}
	}
	return t.db.fail(rows.Err())
}

// step is one of several statements that do not depend on each other's answers.
type step struct {
	statement string
	rows      *list
	args      []any
	// want is the number of rows that must be affected; fewer mean that somebody
	// else was there first.
	want int
	// less, if set, is what fewer mean beside errConflict.
	less error
	// each, if set, is called for each row that the statement returns.
	each func(scan func(...any) error) error
}

// all runs steps in order; on PostgreSQL they go in one round trip.
func (t tx) all(ctx context.Context, steps []step) error {
	if t.conn == nil || t.db.dialect != postgres {
		for _, s := range steps {
			if err := t.one(ctx, s); err != nil {
				return err
			}
		}
		return nil
	}
	all := make([]spelled, len(steps))
	for i, s := range steps {
		statement, args, err := t.spell(ctx, s.statement, s.rows, s.args)
		if err != nil {
			return err
		}
		all[i] = spelled{step: s, statement: statement, args: args}
	}
	return t.conn.Raw(func(driver any) error {
		return t.pipeline(ctx, driver.(*stdlib.Conn).Conn(), all)
	})
}

// one runs a step by itself.
func (t tx) one(ctx context.Context, s step) error {
	if s.each == nil {
		got, err := t.exec(ctx, s.statement, s.rows, s.args...)
		if err != nil {
			return s.fewer(err)
		}
		return s.fewer(s.enough(got))
	}
	var got int64
	err := t.query(ctx, func(scan func(...any) error) error {
		got++
		return s.each(scan)
	}, s.statement, s.rows, s.args...)
	if err != nil {
		return err
	}
	return s.enough(got)
}

// fewer says what it means that rows were fewer than wanted.
func (s step) fewer(err error) error {
	if s.less == nil || !errors.Is(err, errConflict) {
		return err
	}
	return fmt.Errorf("%w: %w", s.less, err)
}

func (s step) enough(got int64) error {
	if got < int64(s.want) {
		return fmt.Errorf("%w: %d of %d rows", errConflict, got, s.want)
	}
	return nil
}

// insert is exec for a statement that must affect n rows; fewer mean that
// somebody else was there first.
func (t tx) insert(ctx context.Context, n int, statement string, l *list, args ...any) error {
	return t.one(ctx, step{statement: statement, rows: l, args: args, want: n})
}
