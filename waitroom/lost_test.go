package waitroom

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// Promise 7: a store that began empty gets its line back from the receipts.
func TestPromise7ReceiptsReseatAfterTheStoreIsLost(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			before := open(t, l, nil)
			old := joinN(t, l, 10)
			require.NoError(t, rdb.FlushAll(t.Context()).Err())
			_, err := l.Join(t.Context(), JoinRequest{Event: "e", Receipt: old[0].Receipt})
			require.ErrorIs(t, err, ErrNoEvent)
			_, err = l.Place(t.Context(), "e", old[0].Receipt)
			require.ErrorIs(t, err, ErrNoEvent)

			after := open(t, l, nil)
			require.Greater(t, after.Epoch, int64(old[9].Seq), "a new epoch is above all earlier sequences")
			require.Greater(t, after.Epoch, before.Epoch)
			fresh := joinN(t, l, 3)
			// Back in any order, by asking or by joining, some of them twice.
			for _, i := range []int{7, 2, 9, 0, 2, 4} {
				p, err := l.Place(t.Context(), "e", old[i].Receipt)
				require.NoError(t, err)
				require.Equal(t, old[i].Seq, p.Seq, "the place is the one of the receipt")
				require.Equal(t, EntryWaiting, p.State)
			}
			p, err := l.Join(t.Context(), JoinRequest{Event: "e", Receipt: old[1].Receipt})
			require.NoError(t, err)
			require.Equal(t, old[1].Seq, p.Seq)
			require.False(t, p.Created)

			grants := promote(t, l, 100).Grants
			want := entries([]Place{old[0], old[1], old[2], old[4], old[7], old[9], fresh[0], fresh[1], fresh[2]})
			require.Equal(t, want, granted(grants), "old places stand before new ones")

			// Once: what is known to have ended stays ended.
			require.NoError(t, l.Complete(t.Context(), "e", grants[0].JTI))
			require.Equal(t, EntryCompleted, state(t, l, old[0]))
			p, err = l.Join(t.Context(), JoinRequest{Event: "e", Receipt: old[0].Receipt})
			require.NoError(t, err)
			require.Greater(t, p.Seq, fresh[2].Seq, "a new join is at the end")
			require.True(t, p.Created)
		})
	}
}

// Promise 7: a store that fell back to an older copy gives no sequence twice.
func TestPromise7NoSequenceIsGivenTwice(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			open(t, l, nil)
			kept := joinN(t, l, 5)
			lost := joinN(t, l, 5)
			// The replica that took over had not got the last five joins.
			require.NoError(t, rdb.HSet(t.Context(), l.keys.meta("e"), "seq", int64(kept[4].Seq)).Err())
			for _, p := range lost {
				require.NoError(t, rdb.ZRem(t.Context(), l.keys.line("e"), string(p.Entry)).Err())
			}
			other := testLineAs(t, rdb, l.cfg.Prefix)
			p, err := other.Place(t.Context(), "e", lost[1].Receipt) // the first to ask
			require.NoError(t, err)
			require.Equal(t, lost[1].Seq, p.Seq)
			fresh := joinN(t, other, 1)[0]
			require.Greater(t, fresh.Seq, lost[4].Seq, "above all that was given out")
			for _, q := range lost {
				p, err := l.Place(t.Context(), "e", q.Receipt)
				require.NoError(t, err)
				require.Equal(t, q.Seq, p.Seq)
			}

			// A node that gave the lost sequences out needs no receipt to know.
			require.NoError(t, rdb.HSet(t.Context(), l.keys.meta("e"), "seq", int64(kept[0].Seq)).Err())
			l.saw("e", fresh.Seq)
			require.Greater(t, joinN(t, l, 1)[0].Seq, fresh.Seq)

			// Nor does one that only looked at the event while they were given out.
			given := joinN(t, l, 3)
			bystander := testLineAs(t, rdb, l.cfg.Prefix)
			_, err = bystander.Event(t.Context(), "e")
			require.NoError(t, err)
			require.NoError(t, rdb.HSet(t.Context(), l.keys.meta("e"), "seq", int64(fresh.Seq)).Err())
			require.Greater(t, joinN(t, bystander, 1)[0].Seq, given[2].Seq)
		})
	}
}

// Promise 7: a killed server that keeps its data has every answered join.
func TestPromise7WhatWasAnsweredSurvivesTheStoresCrash(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.Config{AOF: "always"})
	l := testLine(t, srv.Client(t))
	open(t, l, func(s *Settings) { s.RatePerS = 10 })
	places := joinMany(t, l, 200)
	in := promote(t, l, 1).Grants
	require.Len(t, in, 1)
	srv.Kill(t)
	_, err := l.Place(t.Context(), "e", places[1].Receipt)
	require.ErrorIs(t, err, ErrUnavailable)
	srv.Restart(t)
	for i, p := range places {
		now, err := l.Place(t.Context(), "e", p.Receipt)
		require.NoError(t, err)
		require.Equal(t, p.Seq, now.Seq)
		if i == 0 {
			require.Equal(t, in[0], now.Grant)
		}
	}
}

func TestDeletedEventsDoNotComeBackByReceipts(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			open(t, l, nil)
			old := joinN(t, l, 2)
			require.NoError(t, l.Here(t.Context(), "e", entries(old)))
			require.NoError(t, l.Delete(t.Context(), "e", "op"))
			require.ErrorIs(t, l.Delete(t.Context(), "e", "op"), ErrNoEvent)
			_, err := l.Event(t.Context(), "e")
			require.ErrorIs(t, err, ErrNoEvent)
			events, err := l.Events(t.Context())
			require.NoError(t, err)
			require.Empty(t, events)
			keys, err := rdb.Keys(t.Context(), l.cfg.Prefix+"*").Result()
			require.NoError(t, err)
			require.ElementsMatch(t, []string{l.keys.feed("e"), l.keys.audit("e"), l.keys.grave("e")}, keys)

			open(t, l, nil)
			_, err = l.Place(t.Context(), "e", old[0].Receipt)
			require.ErrorIs(t, err, ErrNoEntry)
			p, err := l.Join(t.Context(), JoinRequest{Event: "e", Receipt: old[0].Receipt})
			require.NoError(t, err)
			require.True(t, p.Created)
			require.Greater(t, p.Seq, old[1].Seq)
			trail, err := l.Audit(t.Context(), "e", "", 0)
			require.NoError(t, err)
			require.Len(t, trail, 3, "the trail outlives its event")
		})
	}
}

func TestGhostsHurtNobody(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			open(t, l, func(s *Settings) {
				s.MaxActive, s.Grace, s.ClaimTTL = 10, Duration(30*time.Second), Duration(time.Minute)
			})
			places := joinN(t, l, 30)
			require.NoError(t, l.Here(t.Context(), "e", entries(places)))
			first := promote(t, l, 10).Grants
			require.Equal(t, entries(places[:10]), granted(first))
			// 11 to 20 close their pages; the ten inside finish 31 s later.
			require.NoError(t, l.Away(t.Context(), "e", entries(places[10:20]), nil))
			for _, g := range first {
				_, err := l.Enter(t.Context(), "e", passOf(g))
				require.NoError(t, err)
			}
			at(t, l, 31*time.Second)
			s, err := l.Sweep(t.Context(), "e")
			require.NoError(t, err)
			require.Equal(t, Swept{Departed: 10}, s)
			for _, g := range first {
				require.NoError(t, l.Complete(t.Context(), "e", g.JTI))
			}
			second := promote(t, l, 10)
			require.Equal(t, entries(places[20:]), granted(second.Grants), "21 to 30 are in within the grace and one tick")
			require.Equal(t, EntryExpired, state(t, l, places[10]))
			// They never come: their turns go back.
			at(t, l, 31*time.Second+62*time.Second)
			_, err = l.Sweep(t.Context(), "e")
			require.NoError(t, err)
			e, err := l.Event(t.Context(), "e")
			require.NoError(t, err)
			require.Zero(t, e.Waiting)
			require.Zero(t, e.Inside)
			for _, name := range []string{"line", "away", "grants", "claims"} {
				n, err := rdb.Exists(t.Context(), l.keys.of("e", name)).Result()
				require.NoError(t, err)
				require.Zero(t, n, name)
			}
		})
	}
}

func TestPresence(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			a := testLine(t, rdb)
			b := testLineAs(t, rdb, a.cfg.Prefix)
			open(t, a, nil)
			p := joinN(t, a, 4)
			ids := entries(p)
			ctx := t.Context()
			known, err := a.beat(ctx, "e")
			require.NoError(t, err)
			require.False(t, known, "the first beat is new")
			require.NoError(t, a.Here(ctx, "e", ids[:3]))
			require.NoError(t, b.Here(ctx, "e", ids[:1])) // a second tab, elsewhere
			require.NoError(t, a.Away(ctx, "e", ids[:1], ids[1:2]))
			live := func() { // both nodes beat at the moment that the clock was moved to
				for _, l := range []*Line{a, b} {
					_, err := l.beat(ctx, "e")
					require.NoError(t, err)
				}
			}
			live()
			at(t, a, 3*time.Minute)
			live()
			s, err := a.Sweep(ctx, "e")
			require.NoError(t, err)
			require.Equal(t, 1, s.Departed, "only the fourth, who never opened a socket")
			at(t, a, 11*time.Minute)
			live()
			s, err = a.Sweep(ctx, "e")
			require.NoError(t, err)
			require.Equal(t, 1, s.Departed, "the phone's grace is longer")
			for i, want := range []EntryState{EntryWaiting, EntryExpired, EntryWaiting, EntryExpired} {
				require.Equal(t, want, state(t, a, p[i]), "entry %d", i)
			}

			// Node a dies: the graces of those on it begin.
			at(t, a, 12*time.Minute)
			_, err = b.beat(ctx, "e")
			require.NoError(t, err)
			_, err = b.Sweep(ctx, "e")
			require.NoError(t, err)
			known, err = a.beat(ctx, "e")
			require.NoError(t, err)
			require.False(t, known, "whoever was swept has to say again who is here")
			at(t, a, 23*time.Minute)
			live()
			s, err = b.Sweep(ctx, "e")
			require.NoError(t, err)
			require.Equal(t, 1, s.Departed)
			n, err := rdb.ZCard(ctx, a.keys.line("e")).Result()
			require.NoError(t, err)
			require.EqualValues(t, 1, n, "the one on node b stays")
		})
	}
}

// A node that was given up while it slept is told so at its next heartbeat, whatever
// it said of its sockets before that, and however far the giving up had come.
func TestForgottenNodesAreTold(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		l := testLine(t, rdb)
		ctx := t.Context()
		open(t, l, nil)
		beat := func() bool {
			t.Helper()
			known, err := l.beat(ctx, "e")
			require.NoError(t, err)
			return known
		}
		require.False(t, beat())
		require.True(t, beat())
		many := make([]EntryID, sweepBatch+100)
		for i := range many {
			many[i] = EntryID(newID())
		}
		require.NoError(t, l.Here(ctx, "e", many))
		require.True(t, beat())

		shift(t, l, HeartbeatTTL+time.Second)
		more, err := l.sweepLost(ctx, "e", l.Node())
		require.NoError(t, err)
		require.True(t, more, "a part of its sockets is still counted")
		require.False(t, beat())
		require.True(t, beat())

		shift(t, l, HeartbeatTTL+time.Second)
		_, err = l.Sweep(ctx, "e")
		require.NoError(t, err)
		require.NoError(t, l.Here(ctx, "e", many[:1]))
		require.False(t, beat())
		require.True(t, beat())
	})
}

// Who asks with a subject does not say that it is a phone, and keeps a phone's grace.
func TestPollingShortensNoGrace(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		l := testLine(t, rdb)
		ctx := t.Context()
		open(t, l, func(s *Settings) {
			s.Identity, s.Grace, s.GraceMobile = "jwt", Duration(time.Minute), Duration(10*time.Minute)
		})
		_, err := l.Join(ctx, JoinRequest{Event: "e", Subject: "ann", Mobile: true})
		require.NoError(t, err)
		_, err = l.PlaceOf(ctx, "e", "ann")
		require.NoError(t, err)
		shift(t, l, 5*time.Minute)
		_, err = l.Sweep(ctx, "e")
		require.NoError(t, err)
		p, err := l.PlaceOf(ctx, "e", "ann")
		require.NoError(t, err)
		require.Equal(t, EntryWaiting, p.State)
	})
}
