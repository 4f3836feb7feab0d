package simulate

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/waitroom-dev/waitroom/admission/ledger"
)

// seal is a key of an installation.
type seal struct{ ed25519.PrivateKey }

func (seal) KID() string               { return "k" }
func (s seal) Sign(text []byte) []byte { return ed25519.Sign(s.PrivateKey, text) }

// logged is the good log of people who came at these moments (ms) and were let in from
// the front, so many a second from the opening on.
func logged(came []int64, opens int64, perS int, says bool) ledger.Bundle {
	const base = 1_700_000_000_000_000
	key := seal{ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))}
	b := ledger.Bundle{Format: ledger.Format, Event: "e", Chain: "c", Keys: []ledger.Key{{
		KID: "k", KTY: "OKP", CRV: "Ed25519", X: base64.RawURLEncoding.EncodeToString(key.Public().(ed25519.PublicKey)),
	}}}
	hash, next := ledger.Start("e", "c"), 0
	for at := opens; next < len(came); at += 1000 {
		here, _ := slices.BinarySearch(came, at+1)
		n := min(perS, here-next)
		if n == 0 {
			continue
		}
		l := ledger.Leaf{
			Kind: ledger.ByRate, At: time.UnixMilli(1_700_000_000_000 + at).UTC(), Fence: 1, Asked: int64(perS), RatePerS: float64(perS), Reason: "rate",
			Usage: math.NaN(), Runs: []ledger.Run{{First: base + int64(next) + 1, Len: int64(n)}}, Behind: -1,
		}
		if next += n; says {
			l.Behind = int64(here - next)
		}
		b.Leaves = append(b.Leaves, l.String())
		hash = hash.Next(l.String())
	}
	b.Head = ledger.Sign(ledger.Head{Event: "e", Chain: "c", N: int64(len(b.Leaves)), Hash: hash}, key)
	return b
}

// doc.go promise 6: from a log everybody comes again, those after the opening within the
// time between two leaves, whatever the rate held back in the past.
func TestReplayBringsThemAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		came := rapid.SliceOfN(rapid.Int64Range(0, 90_000), 1, 300).Draw(t, "came")
		slices.Sort(came)
		opens, perS := rapid.Int64Range(0, 30_000).Draw(t, "opens"), rapid.IntRange(1, 20).Draw(t, "per second")
		early := time.Duration(opens) * time.Millisecond
		first := max(opens, opens+(came[0]-opens+999)/1000*1000)
		got, err := Replay(logged(came, opens, perS, true), early)
		require.NoError(t, err)
		require.Len(t, got, len(came))
		require.True(t, slices.IsSorted(got))
		for i, at := range came {
			if at > first { // after the first leaf
				require.InDelta(t, float64(at-first)+float64(opens), float64(got[i].Milliseconds()), 1000*float64(1+gap(came, at)), "person %d of %v", i, came)
			} else {
				require.LessOrEqual(t, got[i], early+time.Millisecond)
			}
		}
	})
}

// gap is for how many seconds nobody had come, and nobody was there to be let in, before
// a moment.
func gap(came []int64, at int64) int64 {
	i, _ := slices.BinarySearch(came, at)
	if i == 0 {
		return 0
	}
	return (at-came[i-1])/1000 + 1
}

func TestReplayOfAnEarlierVersionAndOfABadLog(t *testing.T) {
	t.Parallel()
	came := []int64{0, 0, 0, 0, 500, 2500}
	got, err := Replay(logged(came, 0, 2, false), 0)
	require.NoError(t, err)
	require.Len(t, got, len(came))
	require.Equal(t, 3*time.Second, got[5].Round(time.Second), "when they were let in")
	b := logged(came, 0, 2, true)
	b.Leaves = b.Leaves[1:]
	_, err = Replay(b, 0)
	require.ErrorContains(t, err, "log of e")
	_, err = Replay(ledger.Bundle{Format: ledger.Format, Event: "e", Chain: "c", Keys: b.Keys}, 0)
	require.Error(t, err)
}

// Lanes count their sequences apart, and their people come to one event.
func TestReplayOfLanes(t *testing.T) {
	t.Parallel()
	key := seal{ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))}
	b := logged([]int64{0}, 0, 1, true)
	b.Leaves = nil
	hash := ledger.Start("e", "c")
	for i, lane := range []string{"eu", "us", "eu"} {
		l := ledger.Leaf{
			Kind: ledger.ByRate, At: time.UnixMilli(1_700_000_000_000 + int64(i)*1000).UTC(), Lane: lane, Fence: 1, Asked: 2, RatePerS: 2, Reason: "rate",
			Usage: math.NaN(), Runs: []ledger.Run{{First: []int64{1001, 3_000_000_000_001, 1003}[i], Len: 2}}, Behind: []int64{0, 5, 3}[i],
		}
		b.Leaves = append(b.Leaves, l.String())
		hash = hash.Next(l.String())
	}
	b.Head = ledger.Sign(ledger.Head{Event: "e", Chain: "c", N: 3, Hash: hash}, key)
	got, err := Replay(b, 0)
	require.NoError(t, err)
	require.Len(t, got, 2+7+5)
	require.True(t, slices.IsSorted(got))
}
