package ticket

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

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
	// Under a name once a connection, or where a pooler forbids names, each time.
	named := conn.Config().DefaultQueryExecMode == pgx.QueryExecModeCacheStatement
	all := make([]bound, len(steps))
	for i, s := range steps {
		name := ""
		if named {
			name = s.statement
		}
		as, err := conn.Prepare(ctx, name, s.statement)
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
	for i, b := range all {
		if named {
			p.SendQueryStatement(b.as, b.values, binary, binary)
		} else {
			p.SendQueryParams(steps[i].statement, b.values, b.as.ParamOIDs, binary, binary)
		}
		if err == nil && sizeOf(b.values) > flushFrom {
			err = t.db.fail(p.Flush())
		}
	}
	if err == nil {
		err = t.db.fail(p.Sync())
	}
	for i := 0; err == nil && i < len(steps); i++ {
		err = steps[i].fewer(t.db.fail(steps[i].read(p, conn.TypeMap())))
	}
	return errors.Join(err, t.db.fail(p.Close()))
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
	rows := pgx.RowsFromResultReader(types, reader) //nolint:sqlclosecheck // it is, by the next line
	defer rows.Close()
	for rows.Next() {
		if s.each == nil {
			continue // nobody asked for them
		}
		if err := s.each(rows.Scan); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return s.enough(rows.CommandTag().RowsAffected())
}
