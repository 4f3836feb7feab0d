package ledger

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// testSigner is a key of an installation.
type testSigner struct {
	kid string
	key ed25519.PrivateKey
}

func signer(seed byte) testSigner {
	return testSigner{kid: "key-" + string('a'+rune(seed)), key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))}
}

func (s testSigner) KID() string             { return s.kid }
func (s testSigner) Sign(text []byte) []byte { return ed25519.Sign(s.key, text) }

func (s testSigner) public() Key {
	return Key{KID: s.kid, KTY: "OKP", CRV: "Ed25519", X: base64.RawURLEncoding.EncodeToString(s.key.Public().(ed25519.PublicKey))}
}

// sealed is a bundle of these leaves with a good head.
func sealed(by testSigner, leaves []string) Bundle {
	b := Bundle{Format: Format, Event: "e", Chain: "c1", Keys: []Key{by.public()}, Leaves: leaves}
	b.Head = headOf(by, leaves)
	return b
}

func headOf(by testSigner, leaves []string) Head {
	h := Head{Event: "e", Chain: "c1", N: int64(len(leaves)), Hash: Start("e", "c1")}
	for _, l := range leaves {
		h.Hash = h.Hash.Next(l)
		if leaf, err := Parse(l); err == nil {
			h.At = leaf.At.UnixMilli()
		}
	}
	return Sign(h, by)
}

// logs draws the log of a line: people go in order, some leave, some are let in by
// hand, and some come back late.
func logs(t *rapid.T) []string {
	var leaves []string
	waiting := make([]int64, rapid.IntRange(10, 60).Draw(t, "people"))
	for i := range waiting {
		waiting[i] = 1_700_000_000_000_000 + int64(i)
	}
	var lost []int64
	var top int64
	at := time.UnixMilli(1_700_000_000_000).UTC()
	for len(waiting) > 0 {
		at = at.Add(time.Duration(rapid.IntRange(1, 1000).Draw(t, "ms")) * time.Millisecond)
		n := rapid.IntRange(1, min(5, len(waiting))).Draw(t, "n")
		l := Leaf{Kind: ByRate, At: at, Fence: 7, Asked: int64(n), RatePerS: 50, Reason: "rate", Usage: math.NaN()}
		switch rapid.IntRange(0, 5).Draw(t, "act") {
		case 0: // somebody leaves
			i := rapid.IntRange(0, len(waiting)-1).Draw(t, "who")
			waiting = slices.Delete(waiting, i, i+1)
			continue
		case 1: // the store loses a place
			i := rapid.IntRange(0, len(waiting)-1).Draw(t, "whom")
			lost = append(lost, waiting[i])
			waiting = slices.Delete(waiting, i, i+1)
			continue
		case 2: // and its holder comes back
			waiting = append(waiting, lost...)
			slices.Sort(waiting)
			lost = nil
			continue
		case 3: // by hand, from anywhere
			i := rapid.IntRange(0, len(waiting)-1).Draw(t, "picked")
			l.Kind, l.Fence, l.RatePerS, l.Reason, l.Asked = ByHand, 0, 0, "by_hand", 1
			l.Runs = []Run{{First: waiting[i], Len: 1}}
			waiting = slices.Delete(waiting, i, i+1)
			leaves = append(leaves, l.String())
			continue
		}
		for _, seq := range waiting[:n] {
			if seq < top {
				l.Kept++
			}
			if k := len(l.Runs); k > 0 && l.Runs[k-1].last()+1 == seq {
				l.Runs[k-1].Len++
			} else {
				l.Runs = append(l.Runs, Run{First: seq, Len: 1})
			}
		}
		top = max(top, waiting[n-1])
		waiting = waiting[n:]
		l.Usage = float64(rapid.IntRange(0, 1000).Draw(t, "usage")) / 1000
		leaves = append(leaves, l.String())
	}
	return leaves
}

// doc.go promises 1 and 2: whatever is done to the leaves is found, also by somebody
// who holds the signing key, if a head from before was kept.
func TestEveryMutationIsFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		by := signer(1)
		leaves := logs(t)
		if len(leaves) < 2 {
			t.Skip("too few")
		}
		good := sealed(by, leaves)
		n := rapid.IntRange(1, len(leaves)).Draw(t, "kept at")
		kept := headOf(by, leaves[:n])
		good.Kept = []Head{kept}
		require.Empty(t, Check(good).Faults)

		changed := slices.Clone(leaves)
		i := rapid.IntRange(0, len(leaves)-1).Draw(t, "leaf")
		switch rapid.SampledFrom([]string{"change", "remove", "add", "move", "double"}).Draw(t, "mutation") {
		case "change":
			b := []byte(changed[i])
			at := rapid.IntRange(0, len(b)-1).Draw(t, "byte")
			b[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
			changed[i] = string(b)
		case "remove":
			changed = slices.Delete(changed, i, i+1)
		case "add":
			l, err := Parse(leaves[i])
			require.NoError(t, err)
			l.Runs = []Run{{First: 3, Len: 1}}
			changed = slices.Insert(changed, i, l.String())
		case "move":
			j := rapid.IntRange(0, len(leaves)-1).Filter(func(j int) bool { return leaves[j] != leaves[i] }).Draw(t, "with")
			changed[i], changed[j] = changed[j], changed[i]
		case "double":
			changed = slices.Insert(changed, i, changed[i])
		}
		bad := good
		bad.Leaves, bad.Kept = changed, nil
		require.NotEmpty(t, Check(bad).Faults, "against its head")
		if i < n && !slices.Equal(changed[:min(n, len(changed))], leaves[:n]) {
			forged := sealed(by, changed)
			forged.Kept = []Head{kept}
			require.NotEmpty(t, Check(forged).Faults, "sealed anew, against a head that was kept")
		}
	})
}

// doc.go promise 3: also a log that is sealed as it should be shows who was favoured.
func TestWhoWasWavedPastIsFound(t *testing.T) {
	t.Parallel()
	leaf := func(kind Kind, fence, asked, kept int64, runs ...Run) string {
		return Leaf{Kind: kind, At: time.UnixMilli(1000).UTC(), Fence: fence, Asked: asked, Kept: kept, RatePerS: 10, Reason: "rate", Usage: math.NaN(), Runs: runs}.String()
	}
	for name, row := range map[string]struct {
		leaves []string
		want   string
	}{
		"in order":                      {[]string{leaf(ByRate, 1, 3, 0, Run{1, 3}), leaf(ByRate, 1, 3, 0, Run{5, 2})}, ""},
		"by hand, then the rest":        {[]string{leaf(ByHand, 0, 1, 0, Run{9, 1}), leaf(ByRate, 1, 9, 0, Run{1, 8}, Run{10, 1})}, ""},
		"put back":                      {[]string{leaf(ByRate, 1, 3, 0, Run{4, 3}), leaf(ByRate, 1, 3, 2, Run{1, 2}, Run{7, 1})}, ""},
		"passed through":                {[]string{leaf(Through, 1, 0, 0, Run{1, 50})}, ""},
		"twice by the rate":             {[]string{leaf(ByRate, 1, 3, 0, Run{1, 3}), leaf(ByRate, 1, 3, 1, Run{3, 3})}, "sequence 3 was let in twice"},
		"by hand, and again":            {[]string{leaf(ByHand, 0, 1, 0, Run{9, 1}), leaf(ByRate, 1, 9, 0, Run{1, 9})}, "sequence 9 was let in twice"},
		"past the front":                {[]string{leaf(ByRate, 1, 3, 0, Run{7, 1}), leaf(ByRate, 1, 3, 0, Run{1, 2})}, "2 came in after somebody from behind"},
		"called put back, and was not":  {[]string{leaf(ByRate, 1, 3, 2, Run{1, 3})}, "0 came in after somebody from behind them, and 2 are marked"},
		"more than were asked for":      {[]string{leaf(ByRate, 1, 2, 0, Run{1, 3})}, "3 were let in where 2 were asked for"},
		"an old leader after a new one": {[]string{leaf(ByRate, 2, 3, 0, Run{1, 3}), leaf(ByRate, 1, 3, 0, Run{4, 1})}, "an old leader"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Check(sealed(signer(1), row.leaves))
			if row.want == "" {
				require.Empty(t, r.Faults)
				return
			}
			require.NotEmpty(t, r.Faults)
			require.Contains(t, r.Faults[0].What, row.want)
		})
	}
}

// doc.go promise 2.
func TestAHeadThatWasKeptMustBeInTheLog(t *testing.T) {
	t.Parallel()
	by := signer(1)
	leaves := rapid.Custom(logs).Filter(func(l []string) bool { return len(l) > 3 }).Example(3)
	for name, head := range map[string]func() Head{
		"of a longer log": func() Head { return headOf(by, append(slices.Clone(leaves), leaves[0])) },
		"of another log":  func() Head { h := headOf(by, leaves); h.Chain = "c2"; return Sign(h, by) },
		"of another key":  func() Head { return headOf(signer(2), leaves) },
		"not signed":      func() Head { h := headOf(by, leaves); h.Sig = ""; return h },
		"another number":  func() Head { h := headOf(by, leaves); h.N--; return h },
	} {
		b := sealed(by, leaves)
		b.Kept = []Head{head()}
		require.False(t, Check(b).OK(), name)
	}
}

// doc.go promise 4: what is signed begins with a line of its own.
func TestHeadIsSignedApart(t *testing.T) {
	t.Parallel()
	h := headOf(signer(1), nil)
	require.True(t, strings.HasPrefix(string(h.text()), "waitroom admission log 1: head\n"))
	require.NotEqual(t, domainHead, domainLeaf)
	require.NotEqual(t, domainStart, domainLeaf)
	got, err := DecodeHead("e", "c1", h.Encode())
	require.NoError(t, err)
	require.Equal(t, h, got)
	for _, text := range []string{"", "1 2 3 4 5", "x " + h.Encode(), strings.Replace(h.Encode(), " ", "x ", 1)} {
		_, err := DecodeHead("e", "c1", text)
		require.Error(t, err, text)
	}
}

func TestLogOfWhichTheFrontIsGone(t *testing.T) {
	t.Parallel()
	by := signer(1)
	leaves := rapid.Custom(logs).Filter(func(l []string) bool { return len(l) > 6 }).Example(1)
	b := sealed(by, leaves)
	b.First, b.Start, b.Leaves = 3, headOf(by, leaves[:3]).Hash, leaves[3:]
	b.Kept = []Head{headOf(by, leaves[:3]), headOf(by, leaves[:5]), headOf(by, leaves[:2])}
	require.Empty(t, Check(b).Faults)
	b.Start = headOf(by, leaves[:2]).Hash
	require.False(t, Check(b).OK())
}

func TestLeafHasOneForm(t *testing.T) {
	t.Parallel()
	const good = "r 1700000000000 - 5 10 0 1 12.5 rate - 0.830 17*3,+2,+5*2"
	l, err := Parse(good)
	require.NoError(t, err)
	require.Equal(t, []Run{{17, 3}, {21, 1}, {26, 2}}, l.Runs)
	require.Equal(t, int64(6), l.People())
	require.Equal(t, int64(-1), l.Behind, "an earlier version did not say it")
	newer, err := Parse(good + " 1204")
	require.NoError(t, err)
	require.Equal(t, int64(1204), newer.Behind)
	for _, bad := range []string{
		"", good + " ", " " + good, good + " -1", good + " 01", good + " 1 1", good + " 9007199254740993", strings.Replace(good, "r ", "x ", 1), strings.Replace(good, "12.5", "12.50", 1),
		strings.Replace(good, "0.830", "0.83", 1), strings.Replace(good, "17*3", "017*3", 1), strings.Replace(good, "+2", "+1", 1),
		strings.Replace(good, "+2", "2", 1), strings.Replace(good, "*3", "*1", 1), strings.Replace(good, "*3", "*0", 1),
		strings.Replace(good, "17*3", "+17*3", 1), strings.Replace(good, "*3", "*9999999999999999", 1), strings.Replace(good, "12.5", "NaN", 1),
		strings.Replace(good, "rate", "Rate", 1), strings.Replace(good, " 5 ", " -5 ", 1), strings.Replace(good, "0.830", "NaN", 1),
	} {
		_, err := Parse(bad)
		require.ErrorIs(t, err, ErrLeaf, bad)
	}
}

// doc.go promise 5.
func FuzzBundle(f *testing.F) {
	good, err := json.Marshal(sealed(signer(1), []string{"r 1700000000000 - 5 10 0 0 12.5 rate - 0.830 17*3,+2,+5*2"}))
	require.NoError(f, err)
	f.Add(good)
	f.Add(bytes.Replace(good, []byte("17*3"), []byte("17*9007199254740990"), 1))
	f.Add([]byte(`{"format":"waitroom-admission-log/1","leaves":["r"],"keys":[{}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := ReadBundle(bytes.NewReader(raw))
		if err != nil {
			return
		}
		r := Check(b)
		if r.OK() {
			require.Equal(t, b.Head.N, r.First+r.Leaves, "nothing is good that the head does not cover")
		}
	})
}
