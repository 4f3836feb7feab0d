package waitroom

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// Promise 14: a credit brings its own holder in once, when the turn that went wrong is over and
// while it is good; nobody else, nowhere else, and never above max_active.
func TestPromise15Credit(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := testLine(t, start(t))
			open(t, l, func(s *Settings) { s.MaxActive = 2 })
			ps := joinN(t, l, 6)
			ann, bob := ps[0], ps[1]
			turn := promote(t, l, 2).Grants[0]
			token := l.Credit(passOf(turn))
			asks := func(p Place, token string) (Place, error) {
				return l.MakeGood(t.Context(), JoinRequest{Event: "e", Receipt: p.Receipt}, token)
			}
			jti, err := l.ReadCredit("e", token)
			require.NoError(t, err)
			require.Equal(t, turn.JTI, jti)

			p, err := asks(ann, token)
			require.NoError(t, err)
			require.Equal(t, turn.JTI, p.Grant.JTI, "the turn still runs, and the credit is kept")
			require.NoError(t, l.Complete(t.Context(), "e", turn.JTI))
			require.Len(t, promote(t, l, 1).Grants, 1)

			for _, bad := range []string{"", "x", token[:len(token)-1], token + "A", "B" + token[1:], ann.Receipt} {
				_, err = asks(ann, bad)
				require.ErrorIs(t, err, ErrTokenInvalid, bad)
			}
			_, err = asks(bob, token)
			require.ErrorIs(t, err, ErrTokenInvalid, "somebody else's")
			_, err = asks(Place{}, token)
			require.ErrorIs(t, err, ErrTokenRequired)
			_, err = l.MakeGood(t.Context(), JoinRequest{Event: "f", Receipt: ann.Receipt}, token)
			require.ErrorIs(t, err, ErrWrongEvent)
			old := l.signer.signCredit(credit{event: "e", jti: turn.JTI, subject: turn.Subject, end: time.Now().Add(-time.Second)})
			_, err = asks(ann, old)
			require.ErrorIs(t, err, ErrTokenExpired)

			_, err = asks(ann, token)
			require.ErrorIs(t, err, ErrFull)
			l2 := promote(t, l, 0)
			require.EqualValues(t, 2, l2.Inside)
			place, err := l.Place(t.Context(), "e", bob.Receipt)
			require.NoError(t, err)
			require.NoError(t, l.Complete(t.Context(), "e", place.Grant.JTI))
			shift(t, l, time.Second)
			require.Empty(t, promote(t, l, 5).Grants, "the free place is kept for who has a credit")
			p, err = asks(ann, token)
			require.NoError(t, err)
			require.Equal(t, EntryAdmitted, p.State)
			require.Equal(t, ann.Entry, p.Entry)
			require.NotEqual(t, turn.JTI, p.Grant.JTI)
			require.Equal(t, EntryAdmitted, state(t, l, p))
			again, err := asks(p, token)
			require.NoError(t, err)
			require.Equal(t, p.Grant, again.Grant, "an answer that was lost comes again")
			page, err := l.Log(t.Context(), "e", 0, 100)
			require.NoError(t, err)
			require.Contains(t, page.Leaves[len(page.Leaves)-1], " make_good ")
			records, err := l.Audit(t.Context(), "e", "", 100)
			require.NoError(t, err)
			require.Contains(t, records[len(records)-1].What+records[0].What, "make_good")

			require.NoError(t, l.Complete(t.Context(), "e", p.Grant.JTI))
			_, err = asks(ann, token)
			require.ErrorIs(t, err, ErrUsed)
			_, err = asks(ann, l.Credit(passOf(turn)))
			require.ErrorIs(t, err, ErrUsed, "all credits of a turn count once")

			// Whoever asks no more keeps nobody out.
			shift(t, l, time.Minute)
			require.Len(t, promote(t, l, 5).Grants, 1)

			// Out is out, and closed is closed.
			second := l.Credit(passOf(p.Grant))
			_, err = l.Patch(t.Context(), "e", []byte(`{"state":"paused","max_active":10}`), "op")
			require.NoError(t, err)
			_, err = asks(ann, second)
			require.ErrorIs(t, err, ErrNotOpen)
			_, err = l.Patch(t.Context(), "e", []byte(`{"state":"open"}`), "op")
			require.NoError(t, err)
			require.NoError(t, l.Block(t.Context(), "e", ann.Entry, "op"))
			_, err = asks(ann, second)
			require.ErrorIs(t, err, ErrRevoked)
			third := l.Credit(passOf(place.Grant))
			_, err = l.Patch(t.Context(), "e", []byte(`{"state":"closed"}`), "op")
			require.NoError(t, err)
			_, err = asks(bob, third)
			require.ErrorIs(t, err, ErrClosed)
		})
	}
}

// Promise 15: in mode instant a credit gives one more token for the one that bought
// nothing, and never more than the quota; a turn that was late counts only if it had
// begun.
func TestPromise15CreditInInstant(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := testLine(t, start(t))
			instant(t, l, 2, nil)
			ann, bob := issue(t, l, ""), issue(t, l, "")
			asks := func(p Place, token string) (Place, error) {
				return l.MakeGood(t.Context(), JoinRequest{Event: "e", Receipt: p.Receipt}, token)
			}
			late := func(g Grant) string {
				p := passOf(g)
				p.Expired = true
				return l.Credit(p)
			}
			token := l.Credit(passOf(ann.Grant))
			p, err := asks(ann.Place, token)
			require.NoError(t, err)
			require.Equal(t, ann.Grant.JTI, p.Grant.JTI, "the turn still runs")

			_, err = l.Enter(t.Context(), "e", passOf(ann.Grant))
			require.NoError(t, err)
			shift(t, l, 30*time.Minute) // both are over: ann came in, bob never did
			_, err = asks(bob.Place, late(bob.Grant))
			require.ErrorIs(t, err, ErrTokenExpired, "who never came in")
			used, err := ask(t, l, ann.Receipt)
			require.NoError(t, err)
			require.Equal(t, EntryCompleted, used.State, "used up")
			second := issue(t, l, "") // of what bob gave back
			p, err = asks(ann.Place, late(ann.Grant))
			require.NoError(t, err)
			require.Equal(t, EntryAdmitted, p.State)
			require.NotEqual(t, ann.Grant.JTI, p.Grant.JTI)
			again := issue(t, l, ann.Receipt)
			require.Equal(t, []any{p.Grant.JTI, int64(4)}, []any{again.Grant.JTI, again.Rank}, "she has it, whenever she asks")
			_, err = ask(t, l, "")
			require.ErrorIs(t, err, ErrExhausted, "the quota holds")

			_, err = asks(bob.Place, l.Credit(passOf(bob.Grant)))
			require.ErrorIs(t, err, ErrFull)
			require.NoError(t, l.Leave(t.Context(), "e", second.Entry))
			p, err = asks(bob.Place, l.Credit(passOf(bob.Grant)))
			require.NoError(t, err, "one is free")
			_, err = l.Enter(t.Context(), "e", passOf(p.Grant))
			require.NoError(t, err)
			require.NoError(t, l.Complete(t.Context(), "e", p.Grant.JTI))
			_, err = asks(bob.Place, late(bob.Grant))
			require.ErrorIs(t, err, ErrUsed)
			require.NoError(t, l.Supply(t.Context(), "e", false))
			_, err = asks(bob.Place, late(p.Grant))
			require.ErrorIs(t, err, ErrSoldOut)
			batch, err := l.Unfiled(t.Context(), "e", 10, 0)
			require.NoError(t, err)
			require.Len(t, batch.Given, 5, "and all of them are filed")
		})
	}
}
