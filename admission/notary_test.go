package admission

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/admission/ledger"
	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

var _ Book = (*waitroom.Line)(nil)

// bundle is the whole log as it is published.
func bundle(t *testing.T, n *Notary, event waitroom.EventID) ledger.Bundle {
	t.Helper()
	var jwks struct {
		Keys []json.RawMessage `json:"keys"`
	}
	passes, err := NewPasses(n.keys, "https://wait.example")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(passes.JWKS(), &jwks))
	b := ledger.Bundle{Format: ledger.Format, Event: string(event)}
	b.Keys, err = ledger.ReadKeys(jwks.Keys)
	require.NoError(t, err)
	for from := int64(0); ; {
		page, _, err := n.Page(t.Context(), event, from, 3)
		require.NoError(t, err)
		var p logBody
		require.NoError(t, json.Unmarshal(page, &p))
		if from == 0 {
			b.Chain, b.First, b.Start, from = p.Chain, p.First, p.Start, p.From
		}
		require.Equal(t, from, p.From)
		b.Head, b.Leaves, from = p.Head, append(b.Leaves, p.Leaves...), p.Next
		if from >= p.Head.N {
			return b
		}
	}
}

// Promise 12: the sealed log covers whoever was let in, whoever sealed and when, and
// whichever notary died before it had.
func TestLogIsSealedByWhoeverLeads(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		line := realLine(t, rdb, 1000, 60)
		keys := NewKeys()
		n, other := NewNotary(line, keys), NewNotary(line, keys)
		n.page, other.page = 4, 7
		first, err := n.Seal(t.Context(), "a")
		require.NoError(t, err)
		require.Zero(t, first.N)
		require.True(t, ledger.Check(bundle(t, n, "a")).OK(), "a log of nothing is good")
		in := 0
		for i := range 20 {
			require.NoError(t, line.ShiftClock(t.Context(), "a", time.Duration(i)*time.Second))
			p, err := line.Promote(t.Context(), waitroom.PromoteRequest{Event: "a", Fence: 1, N: 2, Why: waitroom.Why{RatePerS: 20, Reason: ReasonRate}})
			require.NoError(t, err)
			in += len(p.Grants)
		}
		page, full, err := n.Page(t.Context(), "a", 0, 3)
		require.NoError(t, err)
		require.False(t, full)
		require.Contains(t, string(page), `"leaves":[]`, "what is not sealed is not published")
		a, err := n.Seal(t.Context(), "a")
		require.NoError(t, err)
		b, err := other.Seal(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, a, b, "two that seal the same write the same")
		_, full, err = n.Page(t.Context(), "a", 0, 3)
		require.NoError(t, err)
		require.True(t, full)
		_, err = line.Admit(t.Context(), "a", waitroom.AdmitRequest{Count: 1, By: "op"})
		require.NoError(t, err)
		rotated := NewNotary(line, keys.Rotated())
		_, err = rotated.Seal(t.Context(), "a")
		require.NoError(t, err)
		all := bundle(t, rotated, "a")
		all.Kept = []ledger.Head{first, a}
		r := ledger.Check(all)
		require.Empty(t, r.Faults)
		require.Equal(t, int64(in+1), r.People)
		require.Equal(t, int64(1), r.ByHand)
		require.Equal(t, map[string]int64{ReasonRate: int64(in), "by_hand": 1}, r.Reasons)

		// Somebody at the store takes a leaf out, and puts another in.
		key := "wr:{a}:log"
		leaf := rdb.LIndex(t.Context(), key, 5).Val()
		require.NoError(t, rdb.LSet(t.Context(), key, 5, leaf+"0").Err())
		require.False(t, ledger.Check(bundle(t, n, "a")).OK())
		require.NoError(t, rdb.LSet(t.Context(), key, 5, leaf).Err())
		require.True(t, ledger.Check(bundle(t, rotated, "a")).OK())
		require.NoError(t, rdb.LTrim(t.Context(), key, 0, 10).Err())
		_, err = n.Seal(t.Context(), "a")
		require.ErrorIs(t, err, waitroom.ErrStaleLog)
	})
}

// A very long log loses its front, and goes on from there.
func TestVeryLongLogIsCutWhereItWasSealed(t *testing.T) {
	t.Parallel()
	rdb := redistest.Mini(t)
	line := realLine(t, rdb, 1000, 40)
	n := NewNotary(line, NewKeys())
	n.page, n.step, n.keep = 4, 5, 12
	var whole []string
	for i := range 30 {
		require.NoError(t, line.ShiftClock(t.Context(), "a", time.Duration(i)*time.Second))
		_, err := line.Promote(t.Context(), waitroom.PromoteRequest{Event: "a", Fence: 1, N: 1})
		require.NoError(t, err)
		p, err := line.Log(t.Context(), "a", int64(i), 1)
		require.NoError(t, err)
		whole = append(whole, p.Leaves...)
		if i%7 == 6 {
			_, err := n.Seal(t.Context(), "a")
			require.NoError(t, err)
		}
	}
	_, err := n.Seal(t.Context(), "a")
	require.NoError(t, err)
	b := bundle(t, n, "a")
	require.Equal(t, int64(20), b.First, "marks every five, at most twelve stay")
	require.Empty(t, ledger.Check(b).Faults)
	require.Equal(t, whole[20:], b.Leaves)
	b.First, b.Start, b.Leaves = 0, ledger.Hash{}, whole
	require.Empty(t, ledger.Check(b).Faults, "with the leaves that somebody kept it is whole again")
}
