package waitroom

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

func TestSessionsRunFromTheEntrance(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			for _, kind := range []string{"fixed", "sliding"} {
				l := testLine(t, rdb)
				open(t, l, func(s *Settings) {
					s.Session, s.SessionTTL, s.ClaimTTL = kind, Duration(10*time.Minute), Duration(5*time.Minute)
				})
				place := joinN(t, l, 2)[0]
				p := promote(t, l, 1)
				require.Len(t, p.Grants, 1)
				g := p.Grants[0]
				require.Equal(t, string(place.Entry), g.Subject)
				require.Equal(t, p.Now, g.AdmittedAt)
				require.Equal(t, g.ClaimBy.Truncate(time.Second), g.ClaimBy, "a token's exp has whole seconds")
				require.GreaterOrEqual(t, g.ClaimBy.Sub(p.Now), 5*time.Minute)
				require.Less(t, g.ClaimBy.Sub(p.Now), 5*time.Minute+time.Second)

				at(t, l, 4*time.Minute)
				in, err := l.Enter(t.Context(), "e", passOf(g))
				require.NoError(t, err)
				require.True(t, in.Entrance)
				require.Equal(t, EntryEntered, in.State)
				require.WithinDuration(t, p.Now.Add(14*time.Minute), in.SessionEnds, 5*time.Second)
				// Past the token's exp, the session is what counts.
				at(t, l, 12*time.Minute)
				again, err := l.Enter(t.Context(), "e", passOf(g))
				require.NoError(t, err)
				require.False(t, again.Entrance)
				require.Equal(t, EntryEntered, state(t, l, place))
				at(t, l, 15*time.Minute)
				_, err = l.Enter(t.Context(), "e", passOf(g))
				if kind == "sliding" {
					require.NoError(t, err, "a pass of the gate renews it")
					at(t, l, 26*time.Minute)
					_, err = l.Enter(t.Context(), "e", passOf(g))
				}
				require.ErrorIs(t, err, ErrTokenExpired, kind)
				require.Equal(t, EntryCompleted, state(t, l, place))
			}
		})
	}
}

func TestEndsOfGrants(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			ctx := t.Context()
			open(t, l, nil)
			places := joinN(t, l, 6)
			g := promote(t, l, 6).Grants
			require.Len(t, g, 6)

			require.NoError(t, l.Complete(ctx, "e", g[0].JTI))
			require.NoError(t, l.Complete(ctx, "e", g[0].JTI), "harmless if repeated")
			_, err := l.Enter(ctx, "e", passOf(g[0]))
			require.ErrorIs(t, err, ErrNoEntry)

			require.NoError(t, l.Revoke(ctx, "e", g[1].JTI, "op"))
			require.NoError(t, l.Revoke(ctx, "e", g[1].JTI, "op"))
			_, err = l.Enter(ctx, "e", passOf(g[1]))
			require.ErrorIs(t, err, ErrRevoked)
			require.NoError(t, l.Revoke(ctx, "e", g[0].JTI, "op"), "also after a purchase")
			_, err = l.Enter(ctx, "e", passOf(g[0]))
			require.ErrorIs(t, err, ErrRevoked)

			require.NoError(t, l.Leave(ctx, "e", g[2].Entry))
			_, err = l.Enter(ctx, "e", passOf(g[2]))
			require.ErrorIs(t, err, ErrNoEntry)
			require.Equal(t, EntryLeft, state(t, l, places[2]))

			require.NoError(t, l.Block(ctx, "e", g[3].Entry, "op"))
			_, err = l.Enter(ctx, "e", passOf(g[3]))
			require.ErrorIs(t, err, ErrRevoked)
			_, err = l.Join(ctx, JoinRequest{Event: "e", Receipt: places[3].Receipt})
			require.ErrorIs(t, err, ErrBlocked)
			_, err = l.Place(ctx, "e", places[3].Receipt)
			require.ErrorIs(t, err, ErrBlocked)

			require.NoError(t, l.Block(ctx, "e", g[3].Entry, "op"), "again")
			require.NoError(t, l.Block(ctx, "e", g[2].Entry, "op"), "also who has left")
			require.ErrorIs(t, l.Block(ctx, "e", "never-was", "op"), ErrNoEntry)
			require.NoError(t, l.BlockSubject(ctx, "e", "eve", "op"), "who has not come yet")
			_, err = l.Join(ctx, JoinRequest{Event: "e", Subject: "eve"})
			require.ErrorIs(t, err, ErrBlocked)

			at(t, l, 6*time.Minute)
			_, err = l.Enter(ctx, "e", passOf(g[4]))
			require.ErrorIs(t, err, ErrTokenExpired, "the claim time is over, swept or not")
			require.Equal(t, EntryExpired, state(t, l, places[5]))
			late := passOf(g[5])
			late.Expired = true
			_, err = l.Enter(ctx, "e", late)
			require.ErrorIs(t, err, ErrTokenExpired)
			require.ErrorIs(t, l.Complete(ctx, "e", "never given"), ErrNoEntry)
			_, err = l.Enter(ctx, "e", Pass{Event: "f", JTI: g[4].JTI})
			require.ErrorIs(t, err, ErrWrongEvent)

			// Who ended may come again, at the end.
			p, err := l.Join(ctx, JoinRequest{Event: "e", Receipt: places[4].Receipt})
			require.NoError(t, err)
			require.True(t, p.Created)
			require.Greater(t, p.Seq, places[5].Seq)
			old, err := l.Place(ctx, "e", places[4].Receipt)
			require.NoError(t, err)
			require.Equal(t, p.Seq, old.Seq, "the old receipt finds the new place")
		})
	}
}

func TestSubjectsAreOnePersonEach(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			ctx := t.Context()
			open(t, l, func(s *Settings) { s.Identity = "jwt" })
			const sub = "a person: with blanks\nand a line"
			p, err := l.Join(ctx, JoinRequest{Event: "e", Subject: sub})
			require.NoError(t, err)
			q, err := l.PlaceOf(ctx, "e", sub)
			require.NoError(t, err)
			p.Created = false
			require.Equal(t, p, q)
			_, err = l.PlaceOf(ctx, "e", "somebody else")
			require.ErrorIs(t, err, ErrNoEntry)
			g := promote(t, l, 1).Grants
			require.Len(t, g, 1)
			require.Equal(t, sub, g[0].Subject)
			q, err = l.PlaceOf(ctx, "e", sub)
			require.NoError(t, err)
			require.Equal(t, g[0], q.Grant)
			in, err := l.Enter(ctx, "e", passOf(g[0]))
			require.NoError(t, err)
			require.Equal(t, sub, in.Subject)
		})
	}
}

func TestAdmitByHand(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			ctx := t.Context()
			open(t, l, func(s *Settings) { s.RatePerS, s.MaxActive = 0, 8 })
			places := joinN(t, l, 12)
			for _, bad := range []AdmitRequest{{}, {Count: 1, Entry: "x"}, {Count: -1}, {Count: mostGrants + 1}} {
				_, err := l.Admit(ctx, "e", bad)
				require.ErrorContains(t, err, "count")
			}
			g, err := l.Admit(ctx, "e", AdmitRequest{RequestID: "r1", Count: 3, By: "op"})
			require.NoError(t, err)
			require.Equal(t, entries(places[:3]), granted(g))
			again, err := l.Admit(ctx, "e", AdmitRequest{RequestID: "r1", Count: 3, By: "op"})
			require.NoError(t, err)
			require.Equal(t, g, again, "one request id acts once")
			g, err = l.Admit(ctx, "e", AdmitRequest{Entry: places[7].Entry, By: "op"})
			require.NoError(t, err)
			require.Equal(t, []EntryID{places[7].Entry}, granted(g))
			again, err = l.Admit(ctx, "e", AdmitRequest{Entry: places[7].Entry, By: "op"})
			require.NoError(t, err)
			require.Equal(t, g, again, "who is in already has one grant")
			_, err = l.Admit(ctx, "e", AdmitRequest{Entry: "nobody", By: "op"})
			require.ErrorIs(t, err, ErrNoEntry)
			g, err = l.Admit(ctx, "e", AdmitRequest{Count: 10, By: "op"})
			require.NoError(t, err)
			require.Equal(t, entries(places[3:7]), granted(g), "inside max_active")
			trail, err := l.Audit(ctx, "e", "", 0)
			require.NoError(t, err)
			require.Len(t, trail, 4)
			require.Equal(t, "admit", trail[1].What)
		})
	}
}
