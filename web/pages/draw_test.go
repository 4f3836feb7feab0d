package pages_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/draw"
	"github.com/waitroom-dev/waitroom/web/browsertest"
)

// Promise 5 of package draw: a browser comes to the same places, and finds what does
// not fit.
func TestDrawIsCheckedInTheBrowser(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := browsertest.NewVisitor(t)
	p.Open(s.address + "/test/blank.html")
	said := func(published draw.Bundle, proof draw.Proof, entry string) string {
		published.Line = nil
		args, err := json.Marshal([]any{published, proof, entry})
		require.NoError(t, err)
		p.Run(fmt.Sprintf(`window.said = null;
			import('/assets/draw.js').then((m) => m.check(...%s)).then((n) => { window.said = String(n); }, (err) => { window.said = err.message; });`, args))
		p.Until("window.said !== null")
		return browsertest.Value[string](p, "window.said")
	}
	for _, size := range []int{1, 2, 7, 300, 1000} {
		seed := draw.Seed(sha256.Sum256(fmt.Append(nil, "seed ", size)))
		leaves := make([]draw.Hash, size)
		for i := range leaves {
			leaves[i] = draw.Leaf("gala", fmt.Sprint("entry-", i))
		}
		list, err := draw.NewList(leaves)
		require.NoError(t, err)
		b := draw.Bundle{Event: "gala", Commitment: draw.Commitment("gala", seed), Root: list.Root(), Size: size, Seed: seed}
		var beacon []byte
		if size > 2 {
			b.Round = 12
			b.Beacon = &draw.Beacon{Round: 12, Signature: draw.Hex("signed"), Randomness: sha256.Sum256([]byte("signed"))}
			beacon = b.Beacon.Randomness[:]
		}
		order, err := draw.NewOrder(draw.Key("gala", seed, b.Root, size, beacon), size)
		require.NoError(t, err)
		for _, n := range []int{0, size / 2, size - 1} {
			proof, ok := list.Proof(leaves[n])
			require.True(t, ok)
			entry := fmt.Sprint("entry-", n)
			require.Equal(t, fmt.Sprint(order.Place(proof.Index)+1), said(b, proof, entry), "entrant %d of %d", n, size)
			require.Equal(t, "draw.proof", said(b, proof, "somebody else"))
		}
		proof, _ := list.Proof(leaves[0])
		bad := b
		bad.Seed[0] ^= 1
		require.Equal(t, "draw.seed", said(bad, proof, "entry-0"))
		bad = b
		bad.Root[0] ^= 1
		require.Equal(t, "draw.proof", said(bad, proof, "entry-0"))
		if b.Beacon != nil {
			bad, other := b, *b.Beacon
			other.Signature = draw.Hex("other")
			bad.Beacon = &other
			require.Equal(t, "draw.beacon", said(bad, proof, "entry-0"))
		}
	}
}
