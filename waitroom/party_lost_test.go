package waitroom

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// doc.go promise 25, over a store that fell back to an older copy: each member's token
// brings back the party's place, and nobody has one beside it.
func TestPromise25APartyComesBackByItsTokens(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Config{}).Client(t)
	l := testLine(t, rdb)
	partyLobby(t, l, nil)
	drawers(t, 1, l, nil)
	maker, guest, late := joinN(t, l, 1)[0], joinN(t, l, 1)[0], joinN(t, l, 1)[0]
	dumps := make(map[string]string)
	keys, err := rdb.Keys(t.Context(), l.keys.prefix+":{e}:*").Result()
	require.NoError(t, err)
	for _, k := range keys {
		dumps[k], err = rdb.Dump(t.Context(), k).Result()
		require.NoError(t, err)
	}
	all := befriend(t, l, maker, guest, late)
	keys, err = rdb.Keys(t.Context(), l.keys.prefix+":{e}:*").Result()
	require.NoError(t, err)
	require.NoError(t, rdb.Del(t.Context(), keys...).Err())
	for k, dump := range dumps {
		require.NoError(t, rdb.Restore(t.Context(), k, 0, dump).Err())
	}

	back, err := l.Place(t.Context(), "e", all[1].Place.Receipt)
	require.NoError(t, err)
	require.Equal(t, all[1].Place.Entry, back.Entry)
	require.Equal(t, all[1].Place.Seq, back.Seq)
	require.Equal(t, &Membership{Members: 2}, back.Party, "who stands at its sequence has made it, and buys")
	_, err = l.JoinParty(t.Context(), with(joinN(t, l, 1)[0], all[0].Code))
	require.ErrorIs(t, err, ErrNoParty, "the code is known again when a member has asked for it")
	seen, err := l.Party(t.Context(), asks(all[0].Place))
	require.NoError(t, err)
	require.Equal(t, all[0].Code, seen.Code)
	require.True(t, seen.Place.Party.Buys)
	stranger := joinN(t, l, 1)[0]
	_, err = l.JoinParty(t.Context(), with(stranger, all[0].Code))
	require.NoError(t, err)

	e := drawNow(t, l)
	require.Equal(t, 3, e.Draw.Size, "the party, who had no luck with the code, and who was in the party that was lost")
	now, err := l.Place(t.Context(), "e", all[2].Place.Receipt)
	require.NoError(t, err)
	require.Equal(t, late.Entry, now.Entry, "who took part in the draw alone stays alone")
	require.Nil(t, now.Party)
}

// doc.go promise 25: a token of a party of an event that was deleted, and made again under
// the same name, takes nothing from the place that its holder has now.
func TestPromise25TokensOfADeletedEventTakeNoPlace(t *testing.T) {
	t.Parallel()
	l := testLine(t, redistest.Start(t, redistest.Config{}).Client(t))
	jwt := func(s *Settings) { s.Identity = identityJWT }
	ada := JoinRequest{Event: "e", Subject: "ada"}
	partyLobby(t, l, jwt)
	was, err := l.Join(t.Context(), ada)
	require.NoError(t, err)
	old := befriend(t, l, was)[0].Place
	require.NoError(t, l.Delete(t.Context(), "e", "op"))

	partyLobby(t, l, jwt)
	now, err := l.Join(t.Context(), ada)
	require.NoError(t, err)
	ada.Receipt = old.Receipt
	for range 2 {
		again, err := l.Join(t.Context(), ada)
		require.NoError(t, err)
		require.False(t, again.Created)
		require.Equal(t, now.Seq, again.Seq)
		asked, err := l.Place(t.Context(), "e", old.Receipt)
		require.NoError(t, err)
		require.Equal(t, now.Entry, asked.Entry)
		require.Equal(t, now.Seq, asked.Seq)
	}
}
