package ticket

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// imports imports a CSV file, and wants it to succeed.
func imports(tb testing.TB, s *Store, event, file string) Imported {
	tb.Helper()
	done, err := s.Import(tb.Context(), event, read(tb, CSV, file))
	require.NoError(tb, err)
	return done
}

// refused imports a CSV file, and gives what is wrong with it.
func refused(tb testing.TB, s *Store, event, file string) []string {
	tb.Helper()
	_, err := s.Import(tb.Context(), event, read(tb, CSV, file))
	return faultsOf(tb, err)
}

func exports(tb testing.TB, s *Store, event string) Sheet {
	tb.Helper()
	sheet, err := s.Export(tb.Context(), event)
	require.NoError(tb, err)
	return sheet
}

// Promise 20: what is exported and imported elsewhere is the same, of any kind; what
// is imported twice changes nothing.
func TestPromise20AnExportIsImportedElsewhere(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{})
		for i, kind := range []string{KindSeats, KindSlots, KindCourses} {
			from, to := fmt.Sprint("from", i), fmt.Sprint("to", i)
			require.NoError(t, s.Put(t.Context(), from, Catalogue{Kind: kind, PriceCents: 700}))
			require.NoError(t, s.Put(t.Context(), to, Catalogue{Kind: kind, PriceCents: 300}))
			rapid.Check(t, func(rt *rapid.T) {
				sheet := anySheet(rt, kind)
				_, err := s.Import(t.Context(), from, sheet)
				require.NoError(rt, err)
				exported := exports(t, s, from)
				for i := range sheet.Sections {
					if sheet.Sections[i].Name == "" {
						sheet.Sections[i].Name = sheet.Sections[i].ID
					}
				}
				require.Equal(rt, sheet, exported)
				read, err := ReadSheet(CSV, written(t, exported, CSV))
				require.NoError(rt, err)
				_, err = s.Import(t.Context(), to, read)
				require.NoError(rt, err)
				require.Equal(rt, exported, exports(t, s, to))

				before := count(t, s, `SELECT count(*) FROM outbox`)
				again, err := s.Import(t.Context(), to, read)
				require.NoError(rt, err)
				require.Equal(rt, Imported{Places: again.Before, Before: again.Before}, again)
				require.Equal(rt, before, count(t, s, `SELECT count(*) FROM outbox`), "no change, no message")
			})
		}
		require.NoError(t, s.Put(t.Context(), "settings", timetable(t, 4)))
		sheet := exports(t, s, "settings")
		again, err := s.Import(t.Context(), "settings", sheet)
		require.NoError(t, err)
		require.Equal(t, Imported{Places: 12, Before: 12}, again, "an export of what the settings made changes nothing")
		require.NoError(t, s.Put(t.Context(), "settings", Catalogue{Kind: KindCourses, PerUser: 7}))
		require.Equal(t, sheet.Items[0].ID, exports(t, s, "settings").Items[0].ID, "the settings are the terms only")

		require.NoError(t, s.Put(t.Context(), "stock", Catalogue{Kind: KindStock, Stock: 3}))
		_, err = s.Export(t.Context(), "stock")
		require.ErrorIs(t, err, ErrWrongMode)
		for _, event := range []string{"stock", "nothing"} {
			_, err = s.Import(t.Context(), event, sheet)
			require.ErrorIs(t, err, ErrWrongMode)
		}
	})
}

// Promise 20: what somebody holds or owns is not touched, and a file that would is
// refused as a whole, by its lines.
func TestPromise20AnImportTakesNothingFromAnybody(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s, other := openStore(t, address, Config{}), openStore(t, address, Config{})
		require.NoError(t, other.catchUp(t.Context()))
		require.NoError(t, s.Put(t.Context(), "e", Catalogue{Kind: KindSeats, PriceCents: 500, PerUser: 9}))
		const head = "section,number,blocked\n"
		require.Equal(t, Imported{Added: 3, Places: 2}, imports(t, s, "e", head+"A,1,\nA,2,\nA,3,true\n"))
		ann := &buyer{event: "e", name: "ann"}
		held := holds(t, other, ann.seats("A-1"))
		require.Equal(t, []string{"2 blocked"}, refused(t, s, "e", head+"A,1,true\nB,1,\n"))
		require.Equal(t, []string{"3 id"}, refused(t, s, "e", head+"A,2,\nB,1,\n"))
		require.EqualValues(t, 3, count(t, s, `SELECT count(*) FROM seats WHERE event = 'e'`), "nothing was applied")
		require.Equal(t, []string{"3 row"}, refused(t, s, "e", "id,section,row,number\nA-2,A,,2\nA-1,A,7,1\n"))

		require.Equal(t, Imported{Added: 1, Changed: 1, Removed: 1, Places: 3, Before: 2}, imports(t, s, "e", head+"B,1,\nA,1,\nA,3,false\n"))
		require.Equal(t, held.ID, ask1(t, s, `SELECT reservation FROM seats WHERE event = 'e' AND id = 'A-1'`))
		require.NoError(t, other.catchUp(t.Context()))
		m, _, err := other.Map(t.Context(), "e")
		require.NoError(t, err)
		require.Equal(t, "B", m.Sections[0].ID)
		require.Equal(t, SeatHeld, m.Sections[1].Seats[0].Status)
		require.Equal(t, ErrNoSeat.Error(), refusal(t, other, (&buyer{event: "e", name: "bob"}).seats("A-2")))

		slots := "id,starts_at,ends_at,capacity\ns1,2026-05-01T10:00:00Z,2026-05-01T11:00:00Z,%d\ns2,2026-05-01T12:00:00Z,2026-05-01T13:00:00Z,5\n"
		require.NoError(t, s.Put(t.Context(), "slots", Catalogue{Kind: KindSlots, PerUser: 9}))
		imports(t, s, "slots", fmt.Sprintf(slots, 2))
		for _, name := range []string{"ann", "bob"} {
			holds(t, other, (&buyer{event: "slots", name: name}).seats("s1"))
		}
		require.Equal(t, []string{"2 capacity"}, refused(t, s, "slots", fmt.Sprintf(slots, 1)))
		require.Equal(t, []string{"2 starts_at"}, refused(t, s, "slots", strings.Replace(fmt.Sprintf(slots, 2), "T10", "T09", 1)))
		require.Equal(t, []string{"2 id"}, refused(t, s, "slots", "id,starts_at,ends_at,capacity\ns2,2026-05-01T12:00:00Z,2026-05-01T13:00:00Z,5\n"))
		require.Equal(t, Imported{Changed: 1, Places: 8, Before: 7}, imports(t, s, "slots", fmt.Sprintf(slots, 3)))
		holds(t, other, (&buyer{event: "slots", name: "cid"}).seats("s1"))
		require.Equal(t, ErrSeatTaken.Error(), refusal(t, other, (&buyer{event: "slots", name: "dan"}).seats("s1")))
	})
}

// A node that missed a seat's deletion believes the one that was put back.
func TestASeatThatIsPutBackIsNew(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s, other := openStore(t, address, Config{}), openStore(t, address, Config{})
		require.NoError(t, s.Put(t.Context(), "e", hallOf(1, 2)))
		require.NoError(t, other.catchUp(t.Context()))
		ann := &buyer{event: "e", name: "ann"}
		for range 5 { // its version grows
			held := holds(t, other, ann.seats("A-1"))
			require.NoError(t, other.Cancel(t.Context(), "e", held.ID, "ann"))
		}
		imports(t, s, "e", "id,section,number,blocked\nA-1,A,1,true\nA-2,A,2,\n")
		require.NoError(t, other.catchUp(t.Context()))
		imports(t, s, "e", "section,number\nA,2\n")
		imports(t, s, "e", "section,number\nA,1\nA,2\n")
		require.NoError(t, other.catchUp(t.Context()))
		require.Equal(t, []string{"A-1"}, holds(t, other, ann.seats("A-1")).Seats)
		m, _, err := other.Map(t.Context(), "e")
		require.NoError(t, err)
		require.EqualValues(t, 1, m.Left)
	})
}

// An import while a sale runs: every seat is owned by who bought it, or free.
func TestAnImportDuringASale(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		nodes := []*Store{openStore(t, address, Config{}), openStore(t, address, Config{})}
		require.NoError(t, nodes[0].Put(t.Context(), "e", Catalogue{Kind: KindSeats, PriceCents: 500}))
		sheet := func(n int) Sheet {
			var b strings.Builder
			b.WriteString("section,row,number\n")
			for i := 1; i <= n; i++ {
				fmt.Fprintf(&b, "A,%d,%d\n", (i-1)/10+1, i)
			}
			return read(t, CSV, b.String())
		}
		_, err := nodes[0].Import(t.Context(), "e", sheet(40))
		require.NoError(t, err)
		got := atOnce(61, func(i int) string {
			if i == 60 {
				_, err := nodes[0].Import(t.Context(), "e", sheet(80))
				require.NoError(t, err)
				return "import"
			}
			return reserveOn(t, nodes[i%2], (&buyer{event: "e", name: fmt.Sprint("p", i)}).quantity(1))
		})
		require.Equal(t, 1, got["import"])
		require.Equal(t, 60, got[""]+got[ErrSoldOut.Error()], "%v", got)
		require.EqualValues(t, got[""], count(t, nodes[0], `SELECT count(*) FROM seats WHERE event = 'e' AND status = 'held' AND reservation <> ''`))
		require.EqualValues(t, got[""], count(t, nodes[0], `SELECT sum(n) FROM shares WHERE event = 'e'`))
		require.EqualValues(t, 80, count(t, nodes[0], `SELECT count(*) FROM seats WHERE event = 'e'`))
	})
}
