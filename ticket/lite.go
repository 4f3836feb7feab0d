package ticket

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"modernc.org/sqlite"
)

// statementsKept is the most prepared statements of one SQLite connection; one more
// and all are dropped. The package has about a hundred.
const statementsKept = 256

// openLite opens a pool whose connections keep their prepared statements, as the
// driver for PostgreSQL does by itself: preparing the same few anew for each
// transaction took a fifth of a reservation.
func openLite(dsn string) (*sql.DB, error) {
	under, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(liteConnector{under}), nil
}

type liteConnector struct{ driver.Connector }

// Connect opens a connection.
func (c liteConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	under, ok := conn.(liteDriverConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("sqlite driver's connection is a %T", conn), conn.Close())
	}
	return &liteConn{liteDriverConn: under, kept: map[string]*liteStmt{}}, nil
}

// liteDriverConn is what a connection of the driver can do.
type liteDriverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// liteConn is a connection that keeps its prepared statements. As any connection of
// database/sql it is used by one goroutine at a time.
type liteConn struct {
	liteDriverConn
	kept map[string]*liteStmt
}

// liteStmt is a prepared statement: busy while rows of it are being read, dropped
// when it is to end after that.
type liteStmt struct {
	driver.Stmt
	busy, dropped bool
}

// Unwrap gives the driver's own connection, as its documentation asks of a wrapper.
func (c *liteConn) Unwrap() driver.Conn { return c.liteDriverConn }

// Close ends the statements and the connection.
func (c *liteConn) Close() error { return errors.Join(c.forget(), c.liteDriverConn.Close()) }

// forget keeps none of the statements; one that is read from ends with its rows.
func (c *liteConn) forget() error {
	var faults []error
	for text, s := range c.kept {
		delete(c.kept, text)
		if s.dropped = true; !s.busy {
			faults = append(faults, s.Close())
		}
	}
	return errors.Join(faults...)
}

// keep gives the prepared statement of a text, nil where none is kept: for anything
// but a single statement that reads or writes rows, and for one that is busy.
func (c *liteConn) keep(ctx context.Context, text string) (*liteStmt, error) {
	if s, ok := c.kept[text]; ok {
		if s.busy {
			return nil, nil //nolint:nilnil // as documented
		}
		return s, nil
	}
	switch word, _, _ := strings.Cut(strings.TrimSpace(text), " "); word {
	case "SELECT", "INSERT", "UPDATE", "DELETE", "WITH":
	default:
		return nil, nil //nolint:nilnil // as documented
	}
	if len(c.kept) >= statementsKept {
		if err := c.forget(); err != nil {
			return nil, err
		}
	}
	made, err := c.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	s := &liteStmt{Stmt: made}
	c.kept[text] = s
	return s, nil
}

// ExecContext runs a statement.
func (c *liteConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	s, err := c.keep(ctx, text)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.liteDriverConn.ExecContext(ctx, text, args)
	}
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

// QueryContext runs a statement and reads its rows.
func (c *liteConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := c.keep(ctx, text)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.liteDriverConn.QueryContext(ctx, text, args)
	}
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	if err != nil {
		return nil, err
	}
	s.busy = true
	return &liteRows{Rows: rows, of: s}, nil
}

// liteRows are the rows of a kept statement.
type liteRows struct {
	driver.Rows
	of *liteStmt
}

// Close makes the statement usable again.
func (r *liteRows) Close() error {
	r.of.busy = false
	err := r.Rows.Close()
	if r.of.dropped {
		err = errors.Join(err, r.of.Close())
	}
	return err
}
