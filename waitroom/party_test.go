package waitroom

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// asks is a request of the holder of a place.
func asks(p Place) PartyRequest {
	return PartyRequest{JoinRequest: JoinRequest{Event: "e", Receipt: p.Receipt}}
}

// with is the request with a code.
func with(p Place, code string) PartyRequest {
	r := asks(p)
	r.PartyCode = code
	return r
}

func partyLobby(t *testing.T, l *Line, change func(*Settings)) Event {
	t.Helper()
	return lobby(t, l, func(s *Settings) {
		s.Party.Size = 4
		if change != nil {
			change(s)
		}
	})
}

// befriend makes a party of the first's place, and lets the others join.
func befriend(t *testing.T, l *Line, friends ...Place) []Party {
	t.Helper()
	all := make([]Party, len(friends))
	var err error
	all[0], err = l.MakeParty(t.Context(), asks(friends[0]))
	require.NoError(t, err)
	for i, f := range friends[1:] {
		all[i+1], err = l.JoinParty(t.Context(), with(f, all[0].Code))
		require.NoError(t, err)
	}
	return all
}

// drawNow ends the lobby, and waits for the draw.
func drawNow(t *testing.T, l *Line) Event {
	t.Helper()
	_, err := l.Patch(t.Context(), "e", []byte(`{"state":"open"}`), "test")
	require.NoError(t, err)
	return drawnOpen(t, l)
}

// doc.go promise 23: friends are one entry of the draw, see one place, and have one token,
// which only the buyer is handed; it is the one of whoever buys last.
func TestPromise23FriendsShareOnePlace(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := testLine(t, start(t))
			partyLobby(t, l, nil)
			drawers(t, 1, l, nil)
			people := joinN(t, l, 6)
			all := befriend(t, l, people[:4]...)
			for i, p := range all {
				require.Equal(t, all[0].Place.Entry, p.Place.Entry)
				require.Equal(t, all[0].Code, p.Code)
				require.Equal(t, &Membership{Members: i + 1, Buys: i == 0}, p.Place.Party)
				require.Equal(t, EntryLobby, p.Place.State)
			}
			again, err := l.Join(t.Context(), JoinRequest{Event: "e", Receipt: people[2].Receipt})
			require.NoError(t, err)
			require.Equal(t, all[0].Place.Entry, again.Entry, "joining again, also with an old token, gives the party's place")
			_, err = l.JoinParty(t.Context(), with(people[4], all[0].Code))
			require.ErrorIs(t, err, ErrPartyFull)
			_, err = l.JoinParty(t.Context(), with(people[4], "ABCDE-FGHJK"))
			require.ErrorIs(t, err, ErrNoParty)
			other, err := l.MakeParty(t.Context(), asks(people[5]))
			require.NoError(t, err)
			_, err = l.JoinParty(t.Context(), with(all[3].Place, other.Code))
			require.ErrorIs(t, err, ErrInParty)

			e := drawNow(t, l)
			require.Equal(t, 3, e.Draw.Size, "a party of four, one of one, and a single")
			b, err := l.Bundle(t.Context(), e)
			require.NoError(t, err)
			require.NoError(t, b.Verify())
			_, err = l.Proof(t.Context(), e, all[0].Place.Entry)
			require.NoError(t, err)
			_, err = l.MakeParty(t.Context(), asks(people[4]))
			require.ErrorIs(t, err, ErrLobbyOver)
			_, err = l.JoinParty(t.Context(), with(people[4], other.Code))
			require.ErrorIs(t, err, ErrLobbyOver)

			require.Len(t, promote(t, l, 10).Grants, 3)
			var grant Grant
			for i, p := range all {
				now, err := l.Place(t.Context(), "e", p.Place.Receipt)
				require.NoError(t, err)
				require.Equal(t, EntryAdmitted, now.State)
				require.False(t, now.Grant.ClaimBy.IsZero(), "all know that it is their turn")
				require.Equal(t, i == 0, now.Grant.JTI != "", "the token is the buyer's")
				if i == 0 {
					grant = now.Grant
				}
			}
			for range 2 { // it may come twice
				second, err := l.BuyForParty(t.Context(), asks(all[1].Place))
				require.NoError(t, err)
				require.True(t, second.Place.Party.Buys)
				require.NotEqual(t, grant.JTI, second.Place.Grant.JTI)
				_, err = l.Enter(t.Context(), "e", passOf(grant))
				require.ErrorIs(t, err, ErrRevoked, "what the first buyer was handed")
			}
			now, err := l.Place(t.Context(), "e", all[1].Place.Receipt)
			require.NoError(t, err)
			_, err = l.Enter(t.Context(), "e", passOf(now.Grant))
			require.NoError(t, err)
			_, err = l.BuyForParty(t.Context(), asks(all[2].Place))
			require.ErrorIs(t, err, ErrUsed)

			require.NoError(t, l.Leave(t.Context(), "e", people[3].Entry), "leaving goes always")
			require.NoError(t, l.Complete(t.Context(), "e", now.Grant.JTI))
			for i := range all {
				_, err := l.Join(t.Context(), JoinRequest{Event: "e", Receipt: all[i].Place.Receipt})
				var not *NotEligibleError
				require.ErrorAs(t, err, &not, "whose party went in has had their turn")
				require.Equal(t, PartyTurn, not.Why)
			}
		})
	}
}

// doc.go promise 24: whoever leaves has one chance of their own, or none; the party goes
// on with the others, and ends with the last.
func TestPromise24LeavingAParty(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := testLine(t, start(t))
			partyLobby(t, l, nil)
			people := joinN(t, l, 3)
			all := befriend(t, l, people...)
			waiting := func(n int64) {
				t.Helper()
				e, err := l.Event(t.Context(), "e")
				require.NoError(t, err)
				require.Equal(t, n, e.Waiting)
			}
			waiting(1)
			for range 2 {
				require.NoError(t, l.LeaveParty(t.Context(), asks(all[0].Place)))
			}
			for _, token := range []Place{all[0].Place, people[0]} {
				require.Equal(t, EntryLeft, state(t, l, token), "no token of somebody who left holds a place")
			}
			_, err := l.Party(t.Context(), asks(all[0].Place))
			require.ErrorIs(t, err, ErrNoParty)
			heir, err := l.Party(t.Context(), asks(all[1].Place))
			require.NoError(t, err)
			require.Equal(t, &Membership{Members: 2, Buys: true}, heir.Place.Party, "who has been in it the longest buys")

			alone, err := l.Join(t.Context(), JoinRequest{Event: "e", Receipt: all[0].Place.Receipt})
			require.NoError(t, err)
			require.True(t, alone.Created)
			require.Nil(t, alone.Party)
			waiting(2)
			for _, token := range []Place{all[0].Place, people[0], alone} {
				now, err := l.Place(t.Context(), "e", token.Receipt)
				require.NoError(t, err)
				require.Equal(t, alone.Entry, now.Entry)
				require.Equal(t, alone.Seq, now.Seq)
			}
			_, err = l.JoinParty(t.Context(), with(alone, all[0].Code))
			require.NoError(t, err)
			waiting(1)
			for _, p := range all {
				require.NoError(t, l.Leave(t.Context(), "e", p.Place.Entry), "the party's entry is nobody's to give up")
				now, err := l.Place(t.Context(), "e", p.Place.Receipt)
				require.NoError(t, err)
				require.Equal(t, EntryLobby, now.State)
				require.Equal(t, 3, now.Party.Members)
			}
			for _, p := range people {
				require.NoError(t, l.Leave(t.Context(), "e", p.Entry))
			}
			waiting(0)
			fresh := joinN(t, l, 1)
			_, err = l.JoinParty(t.Context(), with(fresh[0], all[0].Code))
			require.ErrorIs(t, err, ErrNoParty)
			keys, err := l.rdb.HGetAll(t.Context(), l.keys.party("e")).Result()
			require.NoError(t, err)
			require.Empty(t, keys, "nothing stays of a party that is no more")
		})
	}
}

// doc.go promises 23 and 25, where all come at once: no party has more members than it may,
// and the draw has each person once, whoever was faster, the lobby's end or they.
func TestPromise25EverybodyAtOnce(t *testing.T) {
	t.Parallel()
	l := testLine(t, redistest.Start(t, redistest.Config{}).Client(t))
	partyLobby(t, l, nil)
	drawers(t, 1, l, nil)
	people := joinMany(t, l, 60)
	makers, guests := people[:5], people[5:]
	codes := make([]string, len(makers))
	for i, p := range makers {
		made, err := l.MakeParty(t.Context(), asks(p))
		require.NoError(t, err)
		codes[i] = made.Code
	}
	var in, full, late atomic.Int64
	var all errgroup.Group
	for i, p := range guests {
		all.Go(func() error {
			if i == 3*len(guests)/4 {
				_, err := l.Patch(t.Context(), "e", []byte(`{"state":"open"}`), "test")
				return err
			}
			_, err := l.JoinParty(t.Context(), with(p, codes[i%4])) // the fifth stays as it is
			switch {
			case err == nil:
				in.Add(1)
			case errors.Is(err, ErrPartyFull):
				full.Add(1)
			case errors.Is(err, ErrLobbyOver):
				late.Add(1)
			default:
				return err
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
	e := drawnOpen(t, l)
	members := make(map[EntryID]int)
	for _, p := range people {
		now, err := l.Place(t.Context(), "e", p.Receipt)
		require.NoError(t, err)
		require.Equal(t, EntryWaiting, now.State)
		members[now.Entry]++
	}
	for _, n := range members {
		require.LessOrEqual(t, n, 4)
	}
	require.LessOrEqual(t, in.Load(), int64(12))
	require.Equal(t, int64(len(guests)-1), in.Load()+full.Load()+late.Load())
	require.Len(t, members, len(people)-int(in.Load()))
	require.Equal(t, len(members), e.Draw.Size)
	b, err := l.Bundle(t.Context(), e)
	require.NoError(t, err)
	require.NoError(t, b.Verify())
}

// doc.go promise 15, for a party: the credit of its buyer lets the party in once more.
func TestPromise15ACreditIsTheWholePartys(t *testing.T) {
	t.Parallel()
	l := testLine(t, redistest.Start(t, redistest.Config{}).Client(t))
	partyLobby(t, l, nil)
	drawers(t, 1, l, nil)
	all := befriend(t, l, joinN(t, l, 2)...)
	drawNow(t, l)
	turn := promote(t, l, 1).Grants[0]
	_, err := l.Enter(t.Context(), "e", passOf(turn))
	require.NoError(t, err)
	credit := l.Credit(passOf(turn))
	require.NoError(t, l.Complete(t.Context(), "e", turn.JTI))
	for range 2 { // the second finds the turn running
		place, err := l.MakeGood(t.Context(), JoinRequest{Event: "e", Receipt: all[0].Place.Receipt}, credit)
		require.NoError(t, err)
		require.Equal(t, EntryAdmitted, place.State)
		require.Equal(t, turn.Entry, place.Grant.Entry)
		require.NotEmpty(t, place.Grant.JTI)
		require.NotEqual(t, turn.JTI, place.Grant.JTI)
		require.Equal(t, &Membership{Members: 2, Buys: true}, place.Party)
	}
	other, err := l.Place(t.Context(), "e", all[1].Place.Receipt)
	require.NoError(t, err)
	require.Equal(t, EntryAdmitted, other.State)
	require.Empty(t, other.Grant.JTI)
}

// doc.go promise 24, where an operator does it: whoever is blocked is out of their party, by
// whichever of their tokens, and what they were handed opens nothing; the others go on.
func TestPromise24WhoIsBlockedIsOutOfTheirParty(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := testLine(t, start(t))
			partyLobby(t, l, nil)
			drawers(t, 1, l, nil)
			people := joinN(t, l, 3)
			all := befriend(t, l, people...)
			out := func(i, left int) {
				t.Helper()
				for range 2 {
					require.NoError(t, l.Block(t.Context(), "e", people[i].Entry, "op"))
				}
				for _, token := range []Place{people[i], all[i].Place} {
					_, err := l.Place(t.Context(), "e", token.Receipt)
					require.ErrorIs(t, err, ErrBlocked)
					_, err = l.Join(t.Context(), JoinRequest{Event: "e", Receipt: token.Receipt})
					require.ErrorIs(t, err, ErrBlocked)
					_, err = l.Party(t.Context(), asks(token))
					require.ErrorIs(t, err, ErrBlocked)
				}
				heir, err := l.Party(t.Context(), asks(all[i+1].Place))
				require.NoError(t, err)
				require.Equal(t, &Membership{Members: left, Buys: true}, heir.Place.Party)
			}
			out(0, 2)
			_, err := l.JoinParty(t.Context(), with(people[0], all[0].Code))
			require.ErrorIs(t, err, ErrBlocked)
			require.Equal(t, 1, drawNow(t, l).Draw.Size)
			require.Len(t, promote(t, l, 1).Grants, 1)
			was, err := l.Place(t.Context(), "e", all[1].Place.Receipt)
			require.NoError(t, err)
			require.NotEmpty(t, was.Grant.JTI)
			out(1, 1)
			_, err = l.Enter(t.Context(), "e", passOf(was.Grant))
			require.ErrorIs(t, err, ErrRevoked)
			require.NoError(t, l.Block(t.Context(), "e", all[2].Place.Entry, "op"))
			_, err = l.Place(t.Context(), "e", all[2].Place.Receipt)
			require.ErrorIs(t, err, ErrBlocked, "the party's entry blocks its members")
		})
	}
}
