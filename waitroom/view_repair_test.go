package waitroom

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"
	"golang.org/x/sync/errgroup"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// misplace makes the store forget a place and the feed so far, as a failover may.
func misplace(tb testing.TB, l *Line, p Place) {
	tb.Helper()
	tx := l.rdb.TxPipeline()
	tx.ZRem(tb.Context(), l.keys.line("e"), string(p.Entry))
	tx.Del(tb.Context(), l.keys.feed("e"))
	tx.XAdd(tb.Context(), &redis.XAddArgs{Stream: l.keys.feed("e"), Values: feedFields(feedRecord{base: 1, moment: 1, ended: []End{{Entry: "somebody", JTI: "jti.1", State: EntryCompleted}}})})
	_, err := tx.Exec(tb.Context())
	require.NoError(tb, err)
}

// fallBack makes the store forget the newest n who wait, and that they ever came.
func fallBack(tb testing.TB, l *Line, n int) {
	tb.Helper()
	newest, err := l.rdb.ZRevRangeWithScores(tb.Context(), l.keys.line("e"), 0, int64(n-1)).Result()
	require.NoError(tb, err)
	tx := l.rdb.TxPipeline()
	for _, z := range newest {
		tx.ZRem(tb.Context(), l.keys.line("e"), z.Member)
		tx.ZRem(tb.Context(), l.keys.away("e"), z.Member)
		tx.HSet(tb.Context(), l.keys.meta("e"), "seq", int64(z.Score)-1)
	}
	_, err = tx.Exec(tb.Context())
	require.NoError(tb, err)
}

// The feed is bounded. Whoever does not read while more happens than it holds, has
// the line read anew, and loses nothing.
func TestFeedIsTrimmedAndMended(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config{})
	rdb := s.Client(t)
	l := testLine(t, rdb)
	open(t, l, nil)
	places := joinMany(t, l, 12_000)
	var g gate
	slow := s.Client(t)
	slow.AddHook(&g)
	v := watch(t, testLineAs(t, slow, l.cfg.Prefix), nil)
	level(t, v)
	g.mu.Lock()
	var leaving errgroup.Group
	leaving.SetLimit(64)
	for _, p := range places[:11_000] {
		leaving.Go(func() error { return l.Leave(t.Context(), "e", p.Entry) })
	}
	require.NoError(t, leaving.Wait())
	const length, node = 10_000, 100 // FEED_LENGTH of common.lua, and by how much Redis rounds up
	require.InDelta(t, length, rdb.XLen(t.Context(), l.keys.feed("e")).Val(), node)
	g.mu.Unlock()
	requireRanks(t, l, v, seqsOf(places))
}

// A feed trimmed past a view that did not read it has the line read anew.
func TestViewMendsAGapInTheFeed(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			open(t, l, nil)
			var lis heardOf
			v := watch(t, l, &lis)
			places := joinMany(t, l, 200)
			level(t, v)
			for i := range 5 {
				misplace(t, l, places[10*i])
				until(t, "the gap is seen", func() bool {
					_, ok := v.Position("e", places[10*i].Seq)
					return !ok
				})
				requireRanks(t, l, v, seqsOf(places))
			}
		})
	}
}

// What the feed still has of what was missed is told: those were admitted.
func TestViewTellsWhatTheFeedStillHasAfterAGap(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config{})
	rdb := s.Client(t)
	l := testLine(t, rdb)
	open(t, l, nil)
	joinMany(t, l, 50)
	var g gate
	slow := s.Client(t)
	slow.AddHook(&g)
	var lis heardOf
	v := watch(t, testLineAs(t, slow, l.cfg.Prefix), &lis)
	level(t, v)

	// While the view cannot read, people are admitted, and the feed is trimmed.
	g.mu.Lock()
	first := promote(t, l, 10).Grants
	shift(t, l, time.Second)
	second := promote(t, l, 10).Grants
	require.NoError(t, rdb.XTrimMaxLen(t.Context(), l.keys.feed("e"), 1).Err())
	g.mu.Unlock()
	level(t, v)
	until(t, "the second ten", func() bool { return len(lis.grants()) >= len(second) })
	require.Equal(t, second, lis.grants())
	for _, g := range first {
		_, ok := v.Position("e", g.Seq)
		require.False(t, ok, "the others find out by asking")
	}
}

// A bad record is never a wrong number: the line is read anew behind it.
func TestViewMendsABadRecord(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			ev := open(t, l, nil)
			v := watch(t, l, nil)
			places := joinMany(t, l, 100)
			level(t, v)
			good := map[string]any{"b": fmt.Sprint(ev.Epoch), "m": fmt.Sprint(ev.Now.UnixMilli())}
			for _, bad := range []map[string]any{
				{"d": "somebody x left"},
				{"d": fmt.Sprintf("somebody %d left", int64(1)<<52)}, // in bounds of a record, not of the line
				{"b": fmt.Sprint(ev.Epoch + 1)},                      // an epoch that there is not
				{"m": "-1"},
				{"g": "half a grant"},
				{"hello": "world"}, // without harm
			} {
				fields := maps.Clone(good)
				maps.Copy(fields, bad)
				require.NoError(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: l.keys.feed("e"), Values: fields}).Err())
				require.NoError(t, l.Leave(t.Context(), "e", places[0].Entry))
				requireRanks(t, l, v, seqsOf(places))
				places = places[1:]
			}
		})
	}
}

// FLUSHALL: the event is gone; made again, it is another epoch, in which those who
// come back with their receipts stand in their old order before all others.
func TestViewSurvivesAnEmptiedStore(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			open(t, l, nil)
			var lis heardOf
			v := watch(t, l, &lis)
			old := joinMany(t, l, 60)
			requireRanks(t, l, v, seqsOf(old))

			require.NoError(t, rdb.FlushAll(t.Context()).Err())
			until(t, "the event is gone", func() bool { return lis.last().Reason == "deleted" })
			_, err := v.Event(t.Context(), "e")
			require.ErrorIs(t, err, ErrNoEvent)
			_, ok := v.Position("e", old[0].Seq)
			require.False(t, ok)

			open(t, l, nil)
			_, err = v.Event(t.Context(), "e")
			require.NoError(t, err)
			fresh := joinMany(t, l, 20)
			for _, p := range old[:40] {
				_, err := l.Place(t.Context(), "e", p.Receipt)
				require.NoError(t, err)
			}
			requireRanks(t, l, v, seqsOf(slices.Concat(old, fresh)))
			for i, p := range old[:40] {
				pos, ok := v.Position("e", p.Seq)
				require.True(t, ok)
				require.EqualValues(t, i+1, pos, "the old order")
			}

			// The same without the view seeing an event gone: flushed and made again at once.
			tx := rdb.TxPipeline()
			tx.FlushAll(t.Context())
			tx.SAdd(t.Context(), l.keys.index(), "e")
			_, err = tx.Exec(t.Context())
			require.NoError(t, err)
			open(t, l, nil)
			again := joinMany(t, l, 10)
			for _, p := range old[40:] {
				_, err := l.Place(t.Context(), "e", p.Receipt)
				require.NoError(t, err)
			}
			until(t, "the event again", func() bool { _, err := v.Event(t.Context(), "e"); return err == nil })
			requireRanks(t, l, v, seqsOf(slices.Concat(old, fresh, again)))
		})
	}
}

// A store whose counter is behind starts a new epoch in the middle of its line.
func TestViewFollowsANewEpochInALivingLine(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			open(t, l, nil)
			v := watch(t, l, nil)
			kept := joinMany(t, l, 40)
			lost := joinMany(t, l, 40)
			level(t, v)
			// The failover: the last forty joins were never replicated.
			tx := rdb.TxPipeline()
			for _, p := range lost {
				tx.ZRem(t.Context(), l.keys.line("e"), string(p.Entry))
				tx.ZRem(t.Context(), l.keys.away("e"), string(p.Entry))
			}
			tx.HSet(t.Context(), l.keys.meta("e"), "seq", int64(kept[39].Seq))
			_, err := tx.Exec(t.Context())
			require.NoError(t, err)

			fresh := joinMany(t, l, 10)
			for _, i := range rand.Perm(30) {
				_, err := l.Place(t.Context(), "e", lost[i].Receipt)
				require.NoError(t, err)
			}
			require.NoError(t, l.Leave(t.Context(), "e", kept[3].Entry))
			requireRanks(t, l, v, seqsOf(slices.Concat(kept, lost, fresh)))
			for i, p := range lost[:30] {
				pos, ok := v.Position("e", p.Seq)
				require.True(t, ok)
				require.EqualValues(t, 40+i, pos, "behind the kept, in the old order, before the fresh")
			}
		})
	}
}

// While the store is away everything stays as it was, and is stale; afterwards the
// view goes on by itself.
func TestViewOutlivesItsStore(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config{AOF: "always"})
	l, err := New(Config{ReceiptKeys: [][]byte{testKey(1)}, CallTimeout: time.Second}, s.Client(t), zaptest.NewLogger(t))
	require.NoError(t, err)
	open(t, l, nil)
	var lis heardOf
	v := watch(t, l, &lis)
	places := joinMany(t, l, 100)
	requireRanks(t, l, v, seqsOf(places))

	away := func() {
		until(t, "the view to notice", func() bool { return !v.Level("e") })
		pos, ok := v.Position("e", places[50].Seq)
		require.True(t, ok, "the last state is kept")
		require.Positive(t, pos)
		ev, err := v.Event(t.Context(), "e")
		require.NoError(t, err)
		require.Equal(t, Open, ev.State)
		_, err = v.Event(t.Context(), "other")
		require.ErrorIs(t, err, ErrUnavailable, "nobody can say that there is no such event")
	}
	back := func(leaves int) {
		until(t, "the store again", func() bool { return l.Leave(t.Context(), "e", places[leaves].Entry) == nil })
		requireRanks(t, l, v, seqsOf(places))
	}
	s.Kill(t)
	away()
	s.Restart(t)
	back(1)
	s.Freeze(t)
	away()
	s.Thaw(t)
	back(2)
}

// Between a new epoch's beginning and the view's hearing of it, its places are not
// there rather than absurd.
func TestViewShowsNoPlaceOfAnEpochThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config{})
	rdb := s.Client(t)
	l := testLine(t, rdb)
	open(t, l, nil)
	kept := joinMany(t, l, 10)
	var g gate
	slow := s.Client(t)
	slow.AddHook(&g)
	v := watch(t, testLineAs(t, slow, l.cfg.Prefix), nil)
	level(t, v)

	g.mu.Lock()
	shift(t, l, time.Hour)
	require.NoError(t, rdb.HSet(t.Context(), l.keys.meta("e"), "seq", int64(kept[8].Seq)).Err()) // a write is lost
	p := joinN(t, l, 1)[0]
	require.Greater(t, p.Seq, kept[9].Seq+1_000_000, "a new epoch")
	_, ok := v.Position("e", p.Seq)
	require.False(t, ok)
	pos, ok := v.Position("e", kept[5].Seq)
	require.True(t, ok, "the others stay where they are")
	require.EqualValues(t, 6, pos)
	g.mu.Unlock()
	requireRanks(t, l, v, append(seqsOf(kept), p.Seq))
	pos, ok = v.Position("e", p.Seq)
	require.True(t, ok)
	require.EqualValues(t, 11, pos)
}
