package ticket

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
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

// flushFrom is the size of a statement's values that are sent at once, in bytes: the
// driver's buffer would grow with all of them, and be given up.
const flushFrom = 8 << 10

func sizeOf(values [][]byte) int {
	n := 0
	for _, v := range values {
		n += len(v)
	}
	return n
}

// spelled is a step in the database's dialect.
type spelled struct {
	step
	statement string
	args      []any
}

// pipeline sends steps as the protocol has them. The driver's own batches copy each
// value once more, into a buffer that grows.
func (t tx) pipeline(ctx context.Context, conn *pgx.Conn, steps []spelled) error {
	type bound struct {
		as     *pgconn.StatementDescription
		values [][]byte
	}
	all := make([]bound, len(steps))
	for i, s := range steps {
		as, err := conn.Prepare(ctx, s.statement, s.statement) // once a connection
		if err != nil {
			return t.db.fail(err)
		}
		values, err := parameters(conn.TypeMap(), as.ParamOIDs, s.args)
		if err != nil {
			return err
		}
		all[i] = bound{as, values}
	}
	p := conn.PgConn().StartPipeline(ctx)
	binary := []int16{pgx.BinaryFormatCode}
	var err error
	for _, b := range all {
		p.SendQueryStatement(b.as, b.values, binary, binary)
		if err == nil && sizeOf(b.values) > flushFrom {
			err = p.Flush()
		}
	}
	if err == nil {
		err = p.Sync()
	}
	for i := 0; err == nil && i < len(steps); i++ {
		err = steps[i].fewer(t.db.fail(steps[i].read(p, conn.TypeMap())))
	}
	return errors.Join(err, t.db.fail(p.Close()))
}

// parameters packs a statement's parameters.
func parameters(types *pgtype.Map, oids []uint32, args []any) ([][]byte, error) {
	if len(oids) != len(args) {
		return nil, fmt.Errorf("%d parameters for a statement of %d", len(args), len(oids))
	}
	values := make([][]byte, len(args))
	for i, arg := range args {
		if list, ok := arg.(packed); ok {
			values[i] = list
			continue
		}
		value, err := types.Encode(oids[i], pgx.BinaryFormatCode, arg, []byte{})
		if err != nil {
			return nil, fmt.Errorf("parameter %d: %w", i+1, err)
		}
		values[i] = value
	}
	return values, nil
}

// read takes a step's result from the pipeline.
func (s step) read(p *pgconn.Pipeline, types *pgtype.Map) error {
	results, err := p.GetResults()
	if err != nil {
		return err
	}
	reader, ok := results.(*pgconn.ResultReader)
	if !ok {
		return fmt.Errorf("a result of a pipeline is a %T", results)
	}
	rows := pgx.RowsFromResultReader(types, reader)
	defer rows.Close()
	for rows.Next() {
		if err := s.each(rows.Scan); err != nil {
			return err
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return err
	}
	return s.enough(rows.CommandTag().RowsAffected())
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
