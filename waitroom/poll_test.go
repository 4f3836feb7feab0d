package waitroom

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// Polls of people who wait cost the store a few calls that renew their graces, and
// nothing for each poll.
func TestPollsAreAnsweredFromMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config{})
	l := testLine(t, s.Client(t))
	open(t, l, nil)
	places := joinMany(t, l, 1000)
	var c counting
	rdb := s.Client(t)
	rdb.AddHook(&c)
	v := watch(t, testLineAs(t, rdb, l.cfg.Prefix), nil)
	level(t, v)

	c.n.Store(0)
	began := time.Now()
	const rounds = 10
	for range rounds {
		for i, p := range places {
			got, err := v.Place(t.Context(), "e", p.Receipt)
			require.NoError(t, err)
			p.Created = false
			require.Equal(t, p, got, "as the store would say, to %d", i)
		}
	}
	calls := int64(len(places)/dueBatch + 1)
	until(t, "the graces are renewed", func() bool {
		v.follower("e").polls.mu.Lock()
		defer v.follower("e").polls.mu.Unlock()
		return len(v.follower("e").polls.due) == 0 && c.places.Load() >= calls // what is due no more may be on its way
	})
	ticks := int64(time.Since(began)/(100*time.Millisecond)) + 2
	t.Logf("%d commands for %d polls in %v", c.n.Load(), rounds*len(places), time.Since(began))
	require.LessOrEqual(t, c.n.Load(), 20*ticks, "what a view costs without anybody who polls")
	require.Equal(t, calls, c.places.Load(), "each was renewed once, many at a time")
}

// Whoever polls as rarely as they are told, keeps the place; whoever stops, loses it
// when the grace is over.
func TestPollsKeepThePlace(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		l := testLine(t, rdb)
		open(t, l, func(s *Settings) { s.Grace, s.GraceMobile = Duration(time.Minute), Duration(time.Minute) })
		places := joinN(t, l, 2)
		v := watch(t, l, nil)
		level(t, v)
		f := v.follower("e")
		now := time.Now()
		for range 9 { // the clock goes on by a third of a grace, with each poll
			now = now.Add(20 * time.Second)
			shift(t, l, 20*time.Second)
			until(t, "an answer from memory", func() bool {
				_, ok := f.remembered(placeCall{entry: places[0].Entry, seq: places[0].Seq}, now)
				return ok
			})
			until(t, "the grace is renewed", func() bool {
				f.polls.mu.Lock()
				defer f.polls.mu.Unlock()
				f.polls.since = time.Time{} // and not when this clock has come so far
				return len(f.polls.due) == 0
			})
			level(t, v)
			_, err := l.Sweep(t.Context(), "e")
			require.NoError(t, err)
		}
		requireRanks(t, l, v, seqsOf(places))
		_, waits := v.Position("e", places[0].Seq)
		require.True(t, waits)
		_, waits = v.Position("e", places[1].Seq)
		require.False(t, waits, "who never asked")
		p, err := v.Place(t.Context(), "e", places[1].Receipt)
		require.NoError(t, err)
		require.Equal(t, EntryExpired, p.State, "the store knows")
	})
}

// What memory cannot know, the store is asked: whoever was promoted, left, came back
// or is of an event that is not followed; and everything while the view is behind.
func TestPollsAskTheStoreWhereMemoryCannotKnow(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		l := testLine(t, rdb)
		open(t, l, func(s *Settings) { s.Identity = "jwt" })
		v, err := NewView(l, nil)
		require.NoError(t, err)
		ann, err := l.Join(t.Context(), JoinRequest{Event: "e", Subject: "ann"})
		require.NoError(t, err)
		bob, err := l.Join(t.Context(), JoinRequest{Event: "e", Subject: "bob"})
		require.NoError(t, err)
		p, err := v.Place(t.Context(), "e", bob.Receipt)
		require.NoError(t, err, "a view that does not run asks")
		require.Equal(t, bob.Seq, p.Seq)

		v = watch(t, l, nil)
		level(t, v)
		for range 2 { // asked, then remembered
			p, err := v.PlaceOf(t.Context(), "e", "bob")
			require.NoError(t, err)
			require.Equal(t, bob.Seq, p.Seq)
			require.Equal(t, EntryWaiting, p.State)
		}
		_, ok := v.follower("e").remembered(placeCall{entry: bob.Entry, subject: "bob"}, time.Now())
		require.True(t, ok)
		_, ok = v.follower("e").remembered(placeCall{entry: ann.Entry, subject: "ann"}, time.Now())
		require.False(t, ok, "nobody has asked for her yet")

		grants := promote(t, l, 1).Grants
		require.Len(t, grants, 1)
		p, err = v.Place(t.Context(), "e", ann.Receipt) // at once, whatever the feed has told
		require.NoError(t, err)
		require.Equal(t, grants[0], p.Grant)

		require.NoError(t, l.Leave(t.Context(), "e", bob.Entry))
		p, err = v.PlaceOf(t.Context(), "e", "bob")
		require.NoError(t, err)
		require.Equal(t, EntryLeft, p.State)
		again, err := l.Join(t.Context(), JoinRequest{Event: "e", Subject: "bob"})
		require.NoError(t, err)
		for _, ask := range []func() (Place, error){
			func() (Place, error) { return v.PlaceOf(t.Context(), "e", "bob") },
			func() (Place, error) { return v.Place(t.Context(), "e", bob.Receipt) }, // of the first place
		} {
			p, err := ask()
			require.NoError(t, err)
			require.Equal(t, again.Seq, p.Seq)
		}

		// A place that the store has lost, with the news of it.
		misplace(t, l, again)
		until(t, "the gap is seen", func() bool { _, ok := v.Position("e", again.Seq); return !ok })
		p, err = v.Place(t.Context(), "e", again.Receipt)
		require.NoError(t, err)
		require.Equal(t, again.Seq, p.Seq, "put back")

		_, err = v.Place(t.Context(), "e", "x")
		require.ErrorIs(t, err, ErrTokenInvalid)
	})
}

// The position that is shown to somebody who polls never grows, also where places
// before theirs come back; memory is bounded.
func TestPollsShowTheLeastPosition(t *testing.T) {
	t.Parallel()
	l := testLine(t, redistest.Mini(t))
	open(t, l, nil)
	v := watch(t, l, nil)
	level(t, v)
	require.EqualValues(t, 7, v.Shown("e", "ann", 50, 7))
	require.EqualValues(t, 7, v.Shown("e", "ann", 50, 9))
	require.EqualValues(t, 6, v.Shown("e", "ann", 50, 6))
	require.EqualValues(t, 90, v.Shown("e", "ann", 140, 90), "another place")
	require.EqualValues(t, 90, v.Shown("none", "ann", 140, 90))
	p := &v.follower("e").polls
	for i := range 3 * pollsMost {
		v.Shown("e", EntryID(fmt.Sprint(i)), 1, 1)
		if i%1000 == 0 {
			v.Shown("e", "ann", 140, 99) // whoever goes on asking is remembered
		}
	}
	require.EqualValues(t, 90, v.Shown("e", "ann", 140, 99))
	require.LessOrEqual(t, len(p.young)+len(p.old), 2*pollsMost)
}

// More that have moved than are noted: nothing is answered from memory until the feed
// has told of them.
func TestPollsMovedAreBounded(t *testing.T) {
	t.Parallel()
	var p polls
	many := make([]EntryID, movedMost)
	for i := range many {
		many[i] = EntryID(fmt.Sprint(i))
	}
	during := p.begin()
	p.move(many...)
	p.caughtUp(during)
	require.True(t, p.hasMoved("5"), "the reading may have passed it by")
	require.False(t, p.hasMoved("other"))
	p.move("one more")
	p.caughtUp(during)
	require.True(t, p.hasMoved("other"))
	require.Len(t, p.moved, movedMost)
	p.caughtUp(p.begin())
	require.False(t, p.hasMoved("other"))
	require.Empty(t, p.moved)
}

// More graces to renew than may wait: whoever polls asks the store, which renews.
func TestPollsDueAreBounded(t *testing.T) {
	t.Parallel()
	l := testLine(t, redistest.Mini(t))
	open(t, l, nil)
	f := newFollower("e", l, nil, l.log)
	now := time.Now()
	f.polls.mu.Lock()
	defer f.polls.mu.Unlock()
	for i := range dueMost {
		require.True(t, f.polls.renew(placeCall{entry: EntryID(fmt.Sprint(i)), seq: 1}, now, time.Minute))
	}
	require.True(t, f.polls.renew(placeCall{entry: "0", seq: 1}, now, time.Minute), "one who is renewed already")
	require.False(t, f.polls.renew(placeCall{entry: "one more", seq: 1}, now, time.Minute))
	require.Len(t, f.polls.due, dueMost)
}
