package ticket

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// explainer asks for the plan of each statement before it runs.
type explainer struct {
	mu    sync.Mutex
	plans map[string]string // by statement, as spelled
}

func (e *explainer) look(ctx context.Context, t tx, statement string, args []any) {
	words := strings.Fields(statement)
	switch words[0] {
	case "SELECT", "INSERT", "UPDATE", "DELETE", "WITH":
	default:
		return
	}
	plan, err := explain(ctx, t, statement, args)
	if err != nil {
		plan = fmt.Sprint("Seq Scan for all we know: ", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.plans[statement] = plan
}

// explain gives the plan of a statement.
func explain(ctx context.Context, t tx, statement string, args []any) (string, error) {
	word := "EXPLAIN "
	if t.db.dialect == sqlite3 {
		word = "EXPLAIN QUERY PLAN "
	}
	rows, err := t.on.QueryContext(ctx, word+statement, args...)
	if err != nil {
		return "", err
	}
	defer func() { _ = rows.Close() }()
	var plan strings.Builder
	for rows.Next() {
		var a, b, c int
		var line string
		into := []any{&line}
		if t.db.dialect == sqlite3 {
			into = []any{&a, &b, &c, &line}
		}
		if err := rows.Scan(into...); err != nil {
			return "", err
		}
		fmt.Fprintln(&plan, line)
	}
	return plan.String(), rows.Err()
}

// Promise 16: every statement on the way of a purchase finds its rows by an
// index, by the plan that is made while the tables are all but empty, also where
// the planner was told that they are.
func TestPromise16EveryStatementHasAnIndex(t *testing.T) {
	t.Parallel()
	for name, analysed := range map[string]bool{"no statistics": false, "analysed while empty": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, address string) {
				t.Helper()
				everyStatementHasAnIndex(t, openStore(t, address, Config{}), analysed)
			})
		})
	}
}

// sellElsewhere makes the table of reservations as large as other events' sales do.
func sellElsewhere(t *testing.T, s *Store) {
	t.Helper()
	_, err := s.db.write.ExecContext(t.Context(), `INSERT INTO reservations
			(id, event, person, jti, status, reason, seats, n, amount_cents, currency, created_ms, ends_ms)
		WITH RECURSIVE all_of (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM all_of WHERE i < 4000)
		SELECT 'elsewhere' || i, 'event' || i % 20, 'p' || i, 'j' || i, CASE WHEN i > 3600 THEN 'held' ELSE 'paid' END,
			'', '["A-1-1"]', 1, 5000, 'EUR', 0, 2790000000000 + i FROM all_of`)
	require.NoError(t, err)
}

func everyStatementHasAnIndex(t *testing.T, s *Store, analysed bool) {
	t.Helper()
	if analysed {
		for _, table := range []string{"answers", "reservations", "shares", "payments", "outbox", "items", "bookings", "numbers", "issued", "catalogues", "seats", "sections"} {
			require.NoError(t, s.db.change(t.Context(), func(ctx context.Context, x tx) error {
				_, err := x.exec(ctx, "ANALYZE "+table, nil)
				return err
			}))
		}
	}
	{
		for _, locking := range []string{Optimistic, Pessimistic} {
			c := hallOf(2, 10)
			c.Locking = locking
			require.NoError(t, s.Put(t.Context(), locking, c))
			require.NoError(t, s.Put(t.Context(), "stock "+locking, Catalogue{Kind: KindStock, Stock: 10, Locking: locking}))
			c = timetable(t, 2)
			c.Locking = locking
			require.NoError(t, s.Put(t.Context(), "courses "+locking, c))
		}
		sellElsewhere(t, s)
		e := &explainer{plans: map[string]string{}}
		s.db.watch = e.look
		for _, locking := range []string{Optimistic, Pessimistic} {
			ann, bob := &buyer{event: locking, name: "ann"}, &buyer{event: locking, name: "bob"}
			first := holds(t, s, ann.seats("A-1-1", "A-1-2"))
			require.Equal(t, ErrSeatTaken.Error(), refusal(t, s, bob.seats("A-1-1")))
			second := holds(t, s, bob.quantity(2))
			require.Equal(t, ErrSoldOut.Error(), refusal(t, s, (&buyer{event: locking, name: "all"}).quantity(20)))
			again := (&buyer{event: "stock " + locking, name: "ann"}).quantity(2)
			holds(t, s, again)
			holds(t, s, again)
			student := &buyer{event: "courses " + locking, name: "ann"}
			held := holds(t, s, student.seats("math", "gym"))
			require.Equal(t, ErrTimetableClash.Error(), refusal(t, s, student.device(2, student.seats("art"))))
			require.NoError(t, s.Cancel(t.Context(), student.event, held.ID, "ann"))
			held = holds(t, s, student.quantity(1))
			_, err := s.Pay(t.Context(), student.pay(held.ID)) // for nothing
			require.NoError(t, err)
			_, err = s.Pay(t.Context(), ann.pay(first.ID))
			require.NoError(t, err)
			_, err = s.Pay(t.Context(), ann.pay(first.ID))
			require.NoError(t, err)
			_, _, err = s.ClaimPayment(t.Context(), paymentOf(t, s, first.ID), 0)
			require.NoError(t, err)
			_, err = s.ClaimUnsent(t.Context(), 10, 0)
			require.NoError(t, err)
			_, err = s.Payment(t.Context(), paymentOf(t, s, first.ID))
			require.NoError(t, err)
			_, err = s.ClaimStalePayments(t.Context(), 10, 0)
			require.NoError(t, err)
			_, err = s.Settle(t.Context(), paymentOf(t, s, first.ID), ResultCaptured)
			require.NoError(t, err)
			_, err = s.Reservation(t.Context(), locking, second.ID, "bob")
			require.NoError(t, err)
			require.NoError(t, s.Cancel(t.Context(), locking, second.ID, "bob"))
			require.NoError(t, s.expireAll(t.Context(), locking, true))
			require.NoError(t, s.expireAll(t.Context(), locking, false))
			require.NoError(t, s.sweep(t.Context()))
			require.NoError(t, s.ReleasePayment(t.Context(), Payment{ID: "none"}, 0))
			third := holds(t, s, bob.quantity(1))
			_, err = s.Pay(t.Context(), bob.pay(third.ID))
			require.NoError(t, err)
			s.skew.Add(time.Hour.Milliseconds())
			require.NoError(t, s.expireAll(t.Context(), locking, false))
			rows, err := s.ClaimOutbox(t.Context(), 10, 0)
			require.NoError(t, err)
			require.NoError(t, s.MarkFailed(t.Context(), rows[0].ID, "why"))
			require.NoError(t, s.MarkPublished(t.Context(), ids(rows)))
			require.NoError(t, s.catchUp(t.Context()))
			bought, err := s.Bought(t.Context(), locking, ann.seats().JTI) // before a credit is given
			require.NoError(t, err)
			require.True(t, bought)
			_, err = s.AnyLeft(t.Context(), locking)
			require.NoError(t, err)
			blocks(t, s, locking, []string{"A-2-10"}, nil)
			blocks(t, s, student.event, []string{"gym"}, nil)
			_, err = s.Number(t.Context(), locking, 1, []NumberRequest{{Entry: "ann", Request: "1", Person: "ann"}}, []int64{1})
			require.NoError(t, err)
			_, err = s.FileIssued(t.Context(), locking, []IssuedToken{{JTI: "x", Rank: 1, Entry: "x", Person: "x"}})
			require.NoError(t, err)
			s.cfg.Retention = time.Minute
			require.NoError(t, newForgetter(s).share(t.Context()))
			_, err = s.SweepOutbox(t.Context(), 0, 10)
			require.NoError(t, err)
			_, err = s.Unpark(t.Context(), locking, 10)
			require.NoError(t, err)
		}
		s.db.watch = nil
		require.Greater(t, len(e.plans), 25)
		for statement, plan := range e.plans {
			for line := range strings.Lines(plan) {
				line = strings.TrimSpace(line)
				for _, bad := range []string{"Seq Scan", "Join Filter", "Hash Join", "Materialize"} {
					require.NotContains(t, line, bad, "%s\n%s", statement, plan)
				}
				if strings.Contains(line, "reservations_due") && !strings.Contains(statement, "OR EXISTS") { // of a stock that is sold out
					require.Contains(t, statement, "ends_ms <=", "all holds there are: %s\n%s", statement, plan)
				}
				if _, rest, ok := strings.Cut(plan, "reservations_token"); ok && strings.Contains(line, "reservations_token") {
					require.Regexp(t, `^[^\n]*\n?[^\n]*jti`, rest, "all tokens that bought: %s\n%s", statement, plan)
				}
				if rest, ok := strings.CutPrefix(line, "SCAN "); ok {
					fine := strings.HasPrefix(rest, "jsonb_each") || strings.HasPrefix(rest, "CONSTANT ROW") ||
						strings.HasPrefix(rest, "outbox") || // by its key, from the end
						rest == "o USING INDEX outbox_unpublished" || // walked in its order
						rest == "due" || strings.HasPrefix(rest, "due ")
					require.True(t, fine, "%s\n%s", statement, plan)
				}
				if rest, ok := strings.CutPrefix(line, "SEARCH seats USING "); ok && strings.Contains(statement, "reservation") {
					require.Contains(t, rest, "id=?", "not all seats of the event: %s\n%s", statement, plan)
				}
				if rest, ok := strings.CutPrefix(line, "SEARCH bookings USING "); ok {
					require.Contains(t, rest, "item=?", "not all bookings of the event: %s\n%s", statement, plan)
				}
			}
		}
	}
}
