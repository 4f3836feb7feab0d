package waitroom

import (
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func testReceipt() receipt {
	return receipt{Event: "concert-1", Entry: EntryID(newID()), Seq: 1_796_000_000_123_456, Mobile: true}
}

func TestReceiptReadsBack(t *testing.T) {
	t.Parallel()
	r := newReceipts(testKey(1))
	for range 200 {
		want := testReceipt()
		want.Seq = Seq(1 + rand.Int64N(seqLimit-1))
		want.Mobile = rand.IntN(2) == 0
		if rand.IntN(2) == 0 {
			want.Entry = newEntry()
			want.Member = []EntryID{"", newEntry(), EntryID(newID())}[rand.IntN(3)]
		}
		token := r.sign(want)
		require.Less(t, len(token), 96)
		got, err := r.read(token)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestReceiptKeysRotate(t *testing.T) {
	t.Parallel()
	rc := testReceipt()
	token := newReceipts(testKey(1)).sign(rc)
	got, err := newReceipts(testKey(2), testKey(1)).read(token)
	require.NoError(t, err)
	require.Equal(t, rc, got)
	_, err = newReceipts(testKey(2)).read(token)
	require.ErrorIs(t, err, ErrTokenInvalid)
}

func TestReceiptRefusesEveryChange(t *testing.T) {
	t.Parallel()
	r := newReceipts(testKey(1))
	token := r.sign(testReceipt())
	raw, err := base64.RawURLEncoding.DecodeString(token)
	require.NoError(t, err)
	for i := range raw {
		for bit := range 8 {
			raw[i] ^= 1 << bit
			_, err := r.read(base64.RawURLEncoding.EncodeToString(raw))
			require.ErrorIs(t, err, ErrTokenInvalid, "byte %d bit %d", i, bit)
			raw[i] ^= 1 << bit
		}
	}
	for _, bad := range []string{"", "x", token + "A", token[1:], token + "=", token[:len(token)-1], strings.Repeat("A", 4000), "not base64!"} {
		_, err := r.read(bad)
		require.ErrorIs(t, err, ErrTokenInvalid, "%q", bad)
	}
}

func TestReceiptOfAnotherEvent(t *testing.T) {
	t.Parallel()
	l := &Line{signer: newReceipts(testKey(1))}
	rc := testReceipt()
	entry, seq, err := l.ReadReceipt(rc.Event, l.signer.sign(rc))
	require.NoError(t, err)
	require.Equal(t, rc.Entry, entry)
	require.Equal(t, rc.Seq, seq)
	_, _, err = l.ReadReceipt("another", l.signer.sign(rc))
	require.ErrorIs(t, err, ErrWrongEvent)
}

func FuzzReceipt(f *testing.F) {
	r := newReceipts(testKey(1))
	f.Add(r.sign(testReceipt()))
	f.Add(r.sign(receipt{Event: "e", Entry: newEntry(), Seq: 7}))
	f.Add(r.sign(receipt{Event: "e", Entry: newEntry(), Member: newEntry(), Seq: 7}))
	f.Add(r.sign(receipt{Event: "e", Entry: newEntry(), Member: EntryID(newID()), Seq: 7, Mobile: true}))
	f.Add("")
	f.Add("AQAB")
	broken := r.sign(testReceipt())
	f.Add(broken[:5] + "\n" + broken[5:])
	f.Add(broken + "\r\n")
	f.Fuzz(func(t *testing.T, token string) {
		rc, err := r.read(token)
		if err != nil {
			require.ErrorIs(t, err, ErrTokenInvalid)
			return
		}
		require.Equal(t, token, r.sign(rc), "what reads as ours is exactly what we sign")
	})
}

func FuzzPlaceReply(f *testing.F) {
	for _, s := range []string{"-", "b", "c 17", "w 9", "e left 3", "g j 1 2 3 admitted - 5", "g x", "c x", "n 17 3", "n 17 3 l", "", "p ABCDEFGHIJKL 3 1 w 9 l", "p ABCDEFGHIJKL 2 0 g j 1 2 3 admitted - 5", "p x 1 1 p x 1 1 b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parsePlace("e", "entry", placeReply(s))
		if err == nil {
			require.NotEmpty(t, p.State)
		}
		rs, err := joinReplies(reply{outcome: outcomeOK, rest: []string{s}}, 3)
		if err == nil {
			require.Len(t, rs, 3)
			require.Positive(t, rs[0].seq)
		}
	})
}
