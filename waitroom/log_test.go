package waitroom

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// The log has a leaf for every batch that was let in, and one only, however often
// the script comes.
func TestLogHasOneLeafForEachBatch(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		l := testLine(t, rdb)
		e := open(t, l, nil)
		clock := time.UnixMilli(1_800_000_000_000).UTC()
		freeze(t, l, clock)
		base := int64(joinN(t, l, 20)[0].Seq)
		left := joinN(t, l, 1)[0]
		last := joinN(t, l, 3)[2]
		require.NoError(t, l.Leave(t.Context(), "e", left.Entry))
		ask := func(n int, why Why) {
			_, err := l.Promote(t.Context(), PromoteRequest{Event: "e", Fence: 4, N: n, Why: why})
			require.NoError(t, err)
			clock = clock.Add(time.Second)
			freeze(t, l, clock)
		}
		ask(3, Why{RatePerS: 12.5, Reason: "rate", Usage: math.NaN()})
		ask(0, Why{})
		_, err := l.Admit(t.Context(), "e", AdmitRequest{RequestID: "deed", Entry: last.Entry, By: "op"})
		require.NoError(t, err)
		_, err = l.Admit(t.Context(), "e", AdmitRequest{RequestID: "deed", Entry: last.Entry, By: "op"})
		require.NoError(t, err)
		ask(50, Why{RatePerS: 500, Reason: "no word!", Usage: 0.8304})
		ask(50, Why{})
		p, err := l.Log(t.Context(), "e", 0, 10)
		require.NoError(t, err)
		ms := func(seconds int64) int64 { return 1_800_000_000_000 + 1000*seconds }
		require.Equal(t, []string{
			fmt.Sprintf("r %d - 4 3 0 0 12.5 rate - - %d*3 21", ms(0), base),
			fmt.Sprintf("h %d - 0 1 0 0 0 by_hand - - %d 0", ms(2), base+23),
			fmt.Sprintf("r %d - 4 50 0 0 500 - empty 0.830 %d*17,+2*2 1", ms(2), base+3),
		}, p.Leaves)
		require.Equal(t, int64(3), p.Length)
		require.Equal(t, "fifo", p.Order)
		require.NotEmpty(t, p.Chain)
		require.Equal(t, e.ID, EventID("e"))

		p, err = l.Log(t.Context(), "e", 1, 1)
		require.NoError(t, err)
		require.Equal(t, int64(1), p.From)
		require.True(t, strings.HasPrefix(p.Leaves[0], "h "))
		require.NoError(t, l.Delete(t.Context(), "e", "op"))
		_, err = l.Log(t.Context(), "e", 0, 10)
		require.ErrorIs(t, err, ErrNoEvent)
		open(t, l, nil)
		p, err = l.Log(t.Context(), "e", 0, 10)
		require.NoError(t, err)
		require.Empty(t, p.Leaves, "the next event of this name has a log of its own")
	})
}

// A place that the store lost comes back behind people who went in meanwhile: the
// leaf says how many such there are.
func TestLogMarksPlacesThatWerePutBack(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		l := testLine(t, rdb)
		open(t, l, nil)
		places := joinN(t, l, 6)
		lost := places[1]
		require.NoError(t, rdb.ZRem(t.Context(), l.keys.line("e"), string(lost.Entry)).Err())
		promote(t, l, 4)
		_, err := l.Place(t.Context(), "e", lost.Receipt)
		require.NoError(t, err)
		at(t, l, time.Second)
		promote(t, l, 4)
		p, err := l.Log(t.Context(), "e", 0, 10)
		require.NoError(t, err)
		require.Len(t, p.Leaves, 2)
		require.Equal(t, "0", strings.Fields(p.Leaves[0])[6])
		require.Equal(t, "1", strings.Fields(p.Leaves[1])[6])
		require.Equal(t, fmt.Sprintf("%d,+4", lost.Seq), strings.Fields(p.Leaves[1])[11])
	})
}

func TestSealKeepsTheNewestHeadAndCutsAtMarks(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		l := testLine(t, rdb)
		open(t, l, nil)
		joinN(t, l, 10)
		for i := range 10 {
			at(t, l, time.Duration(i)*time.Second)
			promote(t, l, 1)
		}
		p, err := l.Log(t.Context(), "e", 0, 0)
		require.NoError(t, err)
		seal := func(n int64, head, mark string) error {
			return l.SealLog(t.Context(), "e", Seal{Chain: p.Chain, N: n, Head: head, Mark: mark, Step: 3, Keep: 6})
		}
		require.NoError(t, seal(3, "three", "h3"))
		require.NoError(t, seal(6, "six", "h6"))
		require.NoError(t, seal(5, "five", ""), "an old notary is late, and does no harm")
		require.ErrorIs(t, seal(11, "eleven", ""), ErrStaleLog, "there are ten")
		p2, err := l.Log(t.Context(), "e", 0, 10)
		require.NoError(t, err)
		require.Equal(t, "six", p2.Head)
		require.Equal(t, int64(6), p2.First, "cut at both marks, since more than six were kept")
		require.Equal(t, "h6", p2.Start)
		require.Equal(t, int64(6), p2.From)
		require.Len(t, p2.Leaves, 4)
		require.ErrorIs(t, l.SealLog(t.Context(), "e", Seal{Chain: "another", N: 1, Head: "x"}), ErrStaleLog)
		require.ErrorIs(t, l.SealLog(t.Context(), "nobody", Seal{}), ErrNoEvent)
	})
}
