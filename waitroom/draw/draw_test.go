package draw

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func keyOf(n int) Hash { return Hash(sha256.Sum256(fmt.Append(nil, "key ", n))) }

// fataler is a test, or rapid's.
type fataler interface {
	require.TestingT
	Helper()
}

func order(tb fataler, key Hash, size int) Order {
	tb.Helper()
	o, err := NewOrder(key, size)
	require.NoError(tb, err)
	return o
}

// doc.go promise 1. With 23 and 119 degrees of freedom, chi-square passes 70 and 190
// by chance less than once in a hundred thousand draws; the keys are fixed.
func TestPromise1EveryOrderIsEquallyLikely(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size, orders int
		limit        float64
	}{{4, 24, 70}, {5, 120, 190}} {
		const each = 60
		seen := map[string]int{}
		for k := range each * c.orders {
			seen[fmt.Sprint(order(t, keyOf(k), c.size).Places())]++
		}
		require.Len(t, seen, c.orders)
		chi := 0.0
		for _, n := range seen {
			chi += float64((n-each)*(n-each)) / each
		}
		require.Less(t, chi, c.limit, "%d orders of %d", c.orders, c.size)
	}
	// Each place of a larger list: entrant 0, in the middle and the last.
	const size, draws = 97, 97 * 20
	var at [3][size]int
	for k := range draws {
		places := order(t, keyOf(k), size).Places()
		for i, entrant := range []int{0, size / 2, size - 1} {
			at[i][places[entrant]]++
		}
	}
	for i := range at {
		chi := 0.0
		for _, n := range at[i] {
			chi += float64((n-draws/size)*(n-draws/size)) / (draws / size)
		}
		require.Less(t, chi, 170.0, "entrant %d of 96 degrees of freedom", i)
	}
}

// doc.go promise 2.
func TestPromise2PlaceAndPlacesAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := order(t, keyOf(rapid.Int().Draw(t, "key")), rapid.IntRange(0, 700).Draw(t, "size"))
		taken := map[int]bool{}
		for i, place := range o.Places() {
			require.False(t, taken[place])
			taken[place] = true
			require.Less(t, place, int(o.size))
			require.Equal(t, place, o.Place(i))
		}
		require.Len(t, taken, int(o.size))
	})
	_, err := NewOrder(Hash{}, -1)
	require.Error(t, err)
	require.Panics(t, func() { order(t, Hash{}, 3).Place(3) })
}

func leaves(n int) []Hash {
	all := make([]Hash, n)
	for i := range all {
		all[i] = Leaf("sale", fmt.Sprint("entry ", i))
	}
	return all
}

// doc.go promise 3.
func TestPromise3ProofsHoldForTheirOwn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 300).Draw(t, "size")
		list, err := NewList(leaves(size))
		require.NoError(t, err)
		root := list.Root()
		i := rapid.IntRange(0, size-1).Draw(t, "entrant")
		p, ok := list.Proof(list[i])
		require.True(t, ok)
		require.Equal(t, i, p.Index)
		require.NoError(t, p.Check(root))

		bad := p
		switch rapid.IntRange(0, 5).Draw(t, "fault") {
		case 0:
			bad.Leaf = Leaf("sale", "stranger")
		case 1:
			bad.Index = (i + rapid.IntRange(1, max(1, size-1)).Draw(t, "by")) % max(2, size)
		case 2:
			bad.Index = -1 - i
		case 3:
			bad.Path = append(slices.Clip(bad.Path), root)
		case 4:
			if len(bad.Path) == 0 {
				return
			}
			bad.Path = bad.Path[1:]
		case 5:
			root[0] ^= 1
		}
		require.Error(t, bad.Check(root))
	})
	_, ok := List(nil).Proof(Hash{})
	require.False(t, ok)
	_, err := NewList([]Hash{{1}, {2}, {1}})
	require.ErrorContains(t, err, "twice")
}

// drawn is the bundle of an honest draw.
func drawn(tb testing.TB, size int, beacon bool) Bundle {
	tb.Helper()
	seed := Seed(sha256.Sum256([]byte("seed")))
	list, err := NewList(leaves(size))
	require.NoError(tb, err)
	b := Bundle{Event: "sale", Commitment: Commitment("sale", seed), Root: list.Root(), Size: size, Seed: seed}
	if beacon {
		signature := Hex("signature of the round")
		b.Round = 4711
		b.Beacon = &Beacon{Round: 4711, Signature: signature, Randomness: sha256.Sum256(signature)}
	}
	b.Line = make([]Hash, size)
	for i, place := range order(tb, b.key(), size).Places() {
		b.Line[place] = list[i]
	}
	return b
}

// doc.go promise 4.
func TestPromise4TamperingIsFoundAndNamed(t *testing.T) {
	t.Parallel()
	const committed, otherRoot = "not the one that was committed to", "the root differs"
	for name, c := range map[string]struct {
		change func(*Bundle)
		want   string
	}{
		"an entrant added": {func(b *Bundle) { b.Line = append(b.Line, Leaf("sale", "late")) }, "101 stand in the line, but 100"},
		"an entrant added, and counted": {func(b *Bundle) {
			b.Line, b.Size = append(b.Line, Leaf("sale", "late")), 101
		}, otherRoot},
		"an entrant removed":  {func(b *Bundle) { b.Line = b.Line[1:] }, "99 stand in the line, but 100"},
		"a latecomer ahead":   {func(b *Bundle) { b.Line[0] = Leaf("sale", "late") }, otherRoot},
		"somebody twice":      {func(b *Bundle) { b.Line[0] = b.Line[1] }, "twice"},
		"two moved":           {func(b *Bundle) { b.Line[3], b.Line[90] = b.Line[90], b.Line[3] }, "stands there, whose place is"},
		"another seed":        {func(b *Bundle) { b.Seed[0] ^= 1 }, committed},
		"another event":       {func(b *Bundle) { b.Event = "other" }, committed},
		"another commitment":  {func(b *Bundle) { b.Commitment[5] ^= 1 }, committed},
		"another root":        {func(b *Bundle) { b.Root[5] ^= 1 }, otherRoot},
		"another round":       {func(b *Bundle) { b.Beacon.Round++ }, "is of round 4712, not of 4711"},
		"another randomness":  {func(b *Bundle) { b.Beacon.Randomness[0] ^= 1 }, "not its signature's hash"},
		"another signature":   {func(b *Bundle) { b.Beacon.Signature[0] ^= 1 }, "not its signature's hash"},
		"no signature":        {func(b *Bundle) { b.Beacon.Signature = nil }, "not its signature's hash"},
		"no beacon":           {func(b *Bundle) { b.Beacon = nil }, "round 4711 is missing"},
		"a beacon not named":  {func(b *Bundle) { b.Round = 0 }, "not named in advance"},
		"beacon and fallback": {func(b *Bundle) { b.Fallback = true }, "none came"},
		"fallback, though drawn with a beacon": {func(b *Bundle) {
			b.Beacon, b.Fallback = nil, true
		}, "stands there, whose place is"},
		"a beacon of one's own": {func(b *Bundle) {
			b.Beacon.Signature = Hex("mine")
			b.Beacon.Randomness = sha256.Sum256(b.Beacon.Signature)
		}, "stands there, whose place is"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := drawn(t, 100, true)
			require.NoError(t, b.Verify())
			c.change(&b)
			require.ErrorContains(t, b.Verify(), c.want)
		})
	}
	for _, size := range []int{0, 1, 2, 3, 1000} {
		for _, beacon := range []bool{false, true} {
			b := drawn(t, size, beacon)
			require.NoError(t, b.Verify(), "%d entrants", size)
			raw, err := json.Marshal(b)
			require.NoError(t, err)
			again, err := ReadBundle(bytes.NewReader(raw))
			require.NoError(t, err)
			require.NoError(t, again.Verify())
		}
	}
	for _, bad := range []string{"", "{", `{"event":"x","more":1}`, `{"seed":"00"}`, `{"event":"x"} {}`, `{"line":["zz"]}`} {
		_, err := ReadBundle(strings.NewReader(bad))
		require.ErrorContains(t, err, "draw: bundle:", bad)
	}
}

func FuzzReadBundle(f *testing.F) {
	raw, err := json.Marshal(drawn(f, 3, true))
	require.NoError(f, err)
	f.Add(string(raw))
	f.Fuzz(func(t *testing.T, raw string) {
		b, err := ReadBundle(strings.NewReader(raw))
		if err == nil && b.Verify() == nil && b.Size > 0 {
			require.Len(t, b.Line, b.Size)
		}
	})
}

// BenchmarkPlaces is what the draw of a million costs.
func BenchmarkPlaces(b *testing.B) {
	o := order(b, keyOf(1), 1_000_000)
	for b.Loop() {
		o.Places()
	}
}
