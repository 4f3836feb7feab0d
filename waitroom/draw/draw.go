package draw

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// Hash is 32 bytes, written as 64 hexadecimal digits.
type Hash [sha256.Size]byte

// String is the hexadecimal form.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText is the hexadecimal form.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads exactly 64 hexadecimal digits.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return fmt.Errorf("%d characters where %d hexadecimal digits belong", len(text), hex.EncodedLen(len(h)))
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// Seed is the secret behind a draw.
type Seed = Hash

// NewSeed draws one.
func NewSeed() Seed {
	var s Seed
	_, _ = rand.Read(s[:]) // never fails
	return s
}

// Each hash is told what it is for, so that none can stand for another.
const (
	forCommitment = "waitroom draw commitment 1\n"
	forEntrant    = "waitroom draw entrant 1\n"
	forKey        = "waitroom draw key 1\n"
)

// Commitment is what is published of a seed in advance.
func Commitment(event string, seed Seed) Hash {
	return Hash(sha256.Sum256(fmt.Appendf(nil, "%s%s\n%s", forCommitment, event, seed[:])))
}

// Leaf is how an entrant is known outside.
func Leaf(event, entry string) Hash {
	return Hash(sha256.Sum256([]byte(forEntrant + event + "\n" + entry)))
}

// Key picks the order. The beacon is nil where none is configured.
func Key(event string, seed Seed, root Hash, size int, beacon []byte) Hash {
	mac := hmac.New(sha256.New, seed[:])
	mac.Write([]byte(forKey + event + "\n"))
	mac.Write(root[:])
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(size))) //nolint:gosec // a size is never negative
	mac.Write(beacon)
	return Hash(mac.Sum(nil))
}

// Order is the permutation of a list of one size that a key picks.
type Order struct {
	key  Hash
	size uint64
}

// rounds is how often each place may change; see the package.
const rounds = 128

// NewOrder needs a size from 0 up.
func NewOrder(key Hash, size int) (Order, error) {
	if size < 0 {
		return Order{}, errors.New("draw: a list has no negative size")
	}
	return Order{key: key, size: uint64(size)}, nil
}

// block is how many places share one hash of bits.
const block = 8 * sha256.Size

// Place is where entrant i of the list stands, from 0. It panics outside the list,
// as an index does.
func (o Order) Place(i int) int {
	if i < 0 || uint64(i) >= o.size {
		panic(fmt.Sprintf("draw: entrant %d of %d", i, o.size))
	}
	x := uint64(i)
	for r := range rounds {
		partner := (o.pivot(r) + o.size - x) % o.size
		if top := max(x, partner); o.bits(r, top/block).at(top % block) {
			x = partner
		}
	}
	return int(x) //nolint:gosec // below size, which came as an int
}

// Places is Place of every entrant, in far less time than one by one: 128 rounds
// over the list with one hash for 256 places.
func (o Order) Places() []int {
	// at[x] is who stands at x; each round swaps whole pairs.
	at := make([]int, o.size)
	for x := range at {
		at[x] = x
	}
	for r := range rounds {
		o.round(r, at)
	}
	places := make([]int, len(at))
	for x, i := range at {
		places[i] = x
	}
	return places
}

func (o Order) round(r int, at []int) {
	if o.size == 0 {
		return
	}
	pivot := o.pivot(r)
	var bits *hashBits
	of := ^uint64(0) // no block yet
	for top := range o.size {
		partner := (pivot + o.size - top) % o.size
		if partner >= top { // each pair once, at its larger place
			continue
		}
		if top/block != of {
			of = top / block
			bits = o.bits(r, of)
		}
		if bits.at(top % block) {
			at[top], at[partner] = at[partner], at[top]
		}
	}
}

// pivot is what a place and its partner sum up to in a round. Its bias is below
// size / 2^64.
func (o Order) pivot(r int) uint64 {
	sum := sha256.Sum256(append(o.key[:], byte(r))) //nolint:gosec // 128 rounds
	return binary.BigEndian.Uint64(sum[:]) % o.size
}

// hashBits are 256 fair coins.
type hashBits [sha256.Size]byte

func (b *hashBits) at(i uint64) bool { return b[i/8]>>(i%8)&1 == 1 }

func (o Order) bits(r int, block uint64) *hashBits {
	sum := hashBits(sha256.Sum256(binary.BigEndian.AppendUint64(append(o.key[:], byte(r)), block))) //nolint:gosec // 128 rounds
	return &sum
}
