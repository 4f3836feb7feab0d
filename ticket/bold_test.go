package ticket

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket/sqltest"
)

// A group asks nothing while it supposes rightly; a wrong supposition costs a
// question and changes no answer, and those that come next ask first.
func TestBoldGroupAsksOnlyWhenItWasWrong(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{})
		require.NoError(t, s.Put(t.Context(), "e", hallOf(1, 40)))
		_, _, err := s.Map(t.Context(), "e")
		require.NoError(t, err)
		var asked atomic.Int64
		s.db.watch = func(_ context.Context, _ tx, statement string, _ []any) {
			if strings.Contains(statement, "FROM answers a") {
				asked.Add(1)
			}
		}
		ann, bob := &buyer{event: "e", name: "ann"}, &buyer{event: "e", name: "bob"}
		first := ann.quantity(1)
		want, err := s.Reserve(t.Context(), first)
		require.NoError(t, err)
		holds(t, s, bob.seats("A-3"))
		require.Zero(t, asked.Load())

		got, err := s.Reserve(t.Context(), first)
		require.NoError(t, err)
		require.True(t, got.Replayed)
		require.Equal(t, want.Body, got.Body)
		require.NotZero(t, asked.Load())
		require.Equal(t, ErrTokenUsed.Error(), refusal(t, s, ann.quantity(1)))

		asked.Store(0)
		for n := range caution {
			holds(t, s, (&buyer{event: "e", name: fmt.Sprint("cid", n)}).quantity(1))
		}
		require.NotZero(t, asked.Load())
		asked.Store(0)
		holds(t, s, (&buyer{event: "e", name: "dan"}).quantity(1))
		require.Zero(t, asked.Load(), "bold again")
	})
}

// Who has a share already costs their group another try and changes no answer, and the
// next groups look before they write; none of them asks the whole question.
func TestBoldGroupLooksForSharesAfterSomebodyReturned(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{})
		c := hallOf(1, 100)
		c.PerUser = 3
		require.NoError(t, s.Put(t.Context(), "e", c))
		_, _, err := s.Map(t.Context(), "e")
		require.NoError(t, err)
		var asked, blind, looking atomic.Int64
		s.db.watch = func(_ context.Context, _ tx, statement string, _ []any) {
			switch {
			case strings.Contains(statement, "FROM answers a"):
				asked.Add(1)
			case strings.Contains(statement, "INTO shares") && strings.Contains(statement, "DO UPDATE"):
				looking.Add(1)
			case strings.Contains(statement, "INTO shares"):
				blind.Add(1)
			}
		}
		ann := &buyer{event: "e", name: "ann"}
		holds(t, s, ann.quantity(1))
		require.EqualValues(t, 1, blind.Load())
		holds(t, s, ann.device(2, ann.quantity(2)))
		require.EqualValues(t, 2, blind.Load(), "it was supposed that she is new")
		require.EqualValues(t, 1, looking.Load(), "and then looked")
		require.EqualValues(t, 3, count(t, s, `SELECT n FROM shares WHERE person = 'ann'`))
		require.Zero(t, asked.Load())
		for n := range caution {
			holds(t, s, (&buyer{event: "e", name: fmt.Sprint("bob", n)}).quantity(1))
		}
		require.EqualValues(t, 2, blind.Load())
		require.EqualValues(t, 1+caution, looking.Load())
		holds(t, s, (&buyer{event: "e", name: "cid"}).quantity(1))
		require.EqualValues(t, 3, blind.Load(), "bold again")
		require.Equal(t, ErrAlreadyReserved.Error(), refusal(t, s, ann.device(3, ann.quantity(1))), "the limit holds")
	})
}

// A group that sells neighbours leaves their new versions on the pages of the old ones.
func TestAPageHasRoomForTheNewVersionOfEachSeat(t *testing.T) {
	t.Parallel()
	s := openStore(t, sqltest.Postgres(t), Config{})
	require.NoError(t, s.Put(t.Context(), "an-event-of-a-usual-name", hallOf(20, 100)))
	h, err := s.hall(t.Context(), "an-event-of-a-usual-name")
	require.NoError(t, err)
	size := func() int64 { return count(t, s, `SELECT pg_relation_size('seats') + pg_relation_size('seats_pkey')`) }
	before := size()
	asks := make([]*ask, 512)
	for i := range asks {
		b := &buyer{event: h.event, name: fmt.Sprint("buyer", i)}
		q := b.seats(fmt.Sprintf("A-%d-%d", i/100+1, i%100+1))
		asks[i] = &ask{ReserveRequest: q, key: q.Key.hash()}
	}
	s.reserveAll(t.Context(), h, asks)
	require.EqualValues(t, len(asks), count(t, s, `SELECT count(*) FROM seats WHERE status = 'held'`))
	require.Equal(t, before, size())
}
