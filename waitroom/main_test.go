package waitroom

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"
	"golang.org/x/sync/errgroup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testKey is a receipt key.
func testKey(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

// testLine is a Line on a store, with a prefix of its own.
func testLine(tb testing.TB, rdb redis.UniversalClient) *Line {
	tb.Helper()
	return testLineAs(tb, rdb, fmt.Sprintf("t%d", rand.Int64()))
}

// testLineAs is another node of the same installation.
func testLineAs(tb testing.TB, rdb redis.UniversalClient, prefix string) *Line {
	tb.Helper()
	l, err := New(Config{
		Prefix: prefix, ReceiptKeys: [][]byte{testKey(1)}, CallTimeout: 20 * time.Second,
	}, rdb, zaptest.NewLogger(tb))
	require.NoError(tb, err)
	return l
}

// open makes an open event e with these settings on top of the defaults.
func open(tb testing.TB, l *Line, change func(*Settings)) Event {
	tb.Helper()
	s := DefaultSettings("e")
	s.RatePerS = 1000
	if change != nil {
		change(&s)
	}
	e, err := l.Create(tb.Context(), s, Open, "test")
	require.NoError(tb, err)
	return e
}

// joinN lets n strangers join, one after the other.
func joinN(tb testing.TB, l *Line, n int) []Place {
	tb.Helper()
	places := make([]Place, n)
	for i := range places {
		p, err := l.Join(tb.Context(), JoinRequest{Event: "e"})
		require.NoError(tb, err)
		places[i] = p
	}
	return places
}

// promote lets up to n in.
func promote(tb testing.TB, l *Line, n int) Promotion {
	tb.Helper()
	p, err := l.Promote(tb.Context(), PromoteRequest{Event: "e", Fence: 1, N: n})
	require.NoError(tb, err)
	return p
}

// at moves the event's clock to d ahead of the store's.
func at(tb testing.TB, l *Line, d time.Duration) {
	tb.Helper()
	require.NoError(tb, l.ShiftClock(tb.Context(), "e", d))
}

// entries are the ids of places, in their order.
func entries(places []Place) []EntryID {
	ids := make([]EntryID, len(places))
	for i, p := range places {
		ids[i] = p.Entry
	}
	return ids
}

func granted(grants []Grant) []EntryID {
	ids := make([]EntryID, len(grants))
	for i, g := range grants {
		ids[i] = g.Entry
	}
	return ids
}

func passOf(g Grant) Pass {
	return Pass{Event: g.Event, Subject: g.Subject, JTI: g.JTI, AdmittedAt: g.AdmittedAt, ClaimBy: g.ClaimBy}
}

// state is where the holder of a place stands.
func state(tb testing.TB, l *Line, p Place) EntryState {
	tb.Helper()
	now, err := l.Place(tb.Context(), "e", p.Receipt)
	require.NoError(tb, err)
	return now.State
}

// joinMany lets n strangers join at the same time; the places are in line order.
func joinMany(tb testing.TB, l *Line, n int) []Place {
	tb.Helper()
	places := make([]Place, n)
	var g errgroup.Group
	g.SetLimit(128)
	for i := range places {
		g.Go(func() (err error) {
			places[i], err = l.Join(tb.Context(), JoinRequest{Event: "e"})
			return err
		})
	}
	require.NoError(tb, g.Wait())
	slices.SortFunc(places, func(a, b Place) int { return cmp.Compare(a.Seq, b.Seq) })
	return places
}

// freeze lets the event's clock stand at a moment, so that nothing depends on how
// long the test takes.
func freeze(tb testing.TB, l *Line, at time.Time) {
	tb.Helper()
	require.NoError(tb, l.rdb.HSet(tb.Context(), l.keys.meta("e"), "clock_ms", at.UnixMilli()).Err())
}

// shift moves the event's clock by d from where it is.
func shift(tb testing.TB, l *Line, d time.Duration) {
	tb.Helper()
	was, err := l.rdb.HGet(tb.Context(), l.keys.meta("e"), "clock_offset_ms").Int64()
	if err != nil {
		require.ErrorIs(tb, err, redis.Nil)
	}
	at(tb, l, time.Duration(was)*time.Millisecond+d)
}

// crowd lets n strangers join in as few calls as there can be.
func crowd(tb testing.TB, l *Line, n int) {
	tb.Helper()
	for left := n; left > 0; left -= 256 {
		calls := make([]joinCall, min(left, 256))
		for i := range calls {
			calls[i] = joinCall{placeCall: placeCall{entry: newEntry()}, fresh: true}
		}
		_, err := l.sendJoins(tb.Context(), "e", calls)
		require.NoError(tb, err)
	}
}

func linesOf(s string) iter.Seq[string] { return strings.SplitSeq(s, "\n") }
