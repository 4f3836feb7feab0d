package ledger

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// doc.go promise 3: each lane has an order of its own, and nobody is in twice over all.
func TestLanesHaveTheirOwnOrder(t *testing.T) {
	t.Parallel()
	leaf := func(lane string, first, n int64) string {
		l := Leaf{Kind: ByRate, At: time.UnixMilli(1000).UTC(), Lane: lane, Fence: 1, Asked: 9, RatePerS: 10, Reason: "rate", Usage: math.NaN(), Runs: []Run{{first, n}}}
		return l.String()
	}
	check := func(leaves ...string) []Fault { return Check(sealed(signer(1), leaves)).Faults }
	require.Empty(t, check(leaf("vip", 7, 3), leaf("", 1, 2), leaf("eu-west", 3, 2), leaf("", 10, 1)))
	require.Contains(t, check(leaf("vip", 7, 3), leaf("vip", 1, 2))[0].What, "2 came in after somebody from behind")
	require.Contains(t, check(leaf("vip", 7, 3), leaf("", 9, 2))[0].What, "sequence 9 was let in twice")
}
