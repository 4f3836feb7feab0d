package ticket

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Promise 17: bookings, timetables, numbers, wins and issued tokens are counted, too,
// each corruption fails its own sum; also of events that sell nothing.
func TestPromise17BooksOfOtherKinds(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{})
		audit := func(event string) Books {
			b, err := s.Audit(t.Context(), AuditRequest{Event: event})
			require.NoError(t, err, event)
			return b
		}
		spoilt := func(event string, want []string, statement string, args ...any) {
			forger{t: t, s: s}.spoil(statement, args...)
			require.Equal(t, want, failing(audit(event)), statement)
		}
		_, err := s.Audit(t.Context(), AuditRequest{Event: "nothing"})
		require.ErrorIs(t, err, ErrWrongMode)
		b, err := s.Audit(t.Context(), AuditRequest{Event: "gate only", Line: map[string]int64{"line inside": 7}, Grants: granted(9), Broker: &brokerOf{}})
		require.NoError(t, err)
		require.Equal(t, Books{Event: "gate only", At: b.At, Pass: true, Sums: []Sum{}, Counts: map[string]int64{"line inside": 7}}, b, "no null in JSON")

		require.NoError(t, s.Put(t.Context(), "courses", timetable(t, 4)))
		for _, who := range []string{"ann", "bob", "cem"} {
			b := &buyer{event: "courses", name: who}
			r := holds(t, s, b.seats("math", "gym"))
			if who == "bob" {
				require.NoError(t, s.Cancel(t.Context(), "courses", r.ID, who))
			}
		}
		books := audit("courses")
		require.Empty(t, books.Failed())
		require.Contains(t, books.Sums, Sum{Name: "bookings", Expected: 4, Found: 4, Pass: true})
		require.EqualValues(t, 4, books.Counts["bookings"])
		spoilt("courses", []string{"bookings"}, `DELETE FROM bookings WHERE person = 'ann' AND item = 'gym'`)
		spoilt("courses", []string{"bookings"}, `INSERT INTO bookings (event, person, item, reservation) VALUES ('courses', 'bob', 'gym', 'left over')`)
		spoilt("courses", []string{"bookings", "timetable"}, `UPDATE items SET meetings = '["wed 11:30-12:00"]' WHERE event = 'courses' AND id = 'gym'`)
		require.NoError(t, s.Remove(t.Context(), "courses"))
		require.Empty(t, failing(audit("courses")), "what is left of a sale that was removed")
		s.skew.Add(10) // the database's clock has gone on
		require.NoError(t, s.Put(t.Context(), "courses", hallOf(1, 2)))
		holds(t, s, (&buyer{event: "courses", name: "dan"}).quantity(1))
		require.Empty(t, failing(audit("courses")), "another sale under the name")

		requests := []NumberRequest{{Entry: "a", Request: "1", Person: "a"}, {Entry: "b", Request: "2", Person: "b"}, {Entry: "c", Request: "3", Person: "c"}}
		_, err = s.Number(t.Context(), "count", 1, requests, []int64{2})
		require.NoError(t, err)
		books = audit("count")
		require.Empty(t, books.Failed())
		require.Equal(t, []Sum{{Name: "numbers", Expected: 3, Found: 3, Pass: true}, {Name: "winners_told", Expected: 1, Found: 1, Pass: true}}, books.Sums[:2])
		require.Equal(t, map[string]int64{"numbers": 3, "winners": 1, "outbox waiting": 1}, books.Counts)
		spoilt("count", []string{"winners_told"}, `DELETE FROM outbox WHERE event = 'count'`)
		spoilt("count", []string{"numbers", "winners_told"}, `UPDATE numbers SET seq = 9 WHERE event = 'count' AND seq = 3`)

		_, err = s.FileIssued(t.Context(), "drop", []IssuedToken{{JTI: "x", Rank: 1, Entry: "x", Person: "x"}, {JTI: "y", Rank: 2, Entry: "y", Person: "y"}})
		require.NoError(t, err)
		require.Equal(t, []Sum{{Name: "issued_ranks", Expected: 2, Found: 2, Pass: true}}, audit("drop").Sums)
		spoilt("drop", []string{"issued_ranks"}, `UPDATE issued SET rank = 1 WHERE event = 'drop'`)
	})
}
