package draw

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// List is the leaves of a lobby in ascending order, each once.
type List []Hash

// NewList sorts the leaves. It fails if one is there twice.
func NewList(leaves []Hash) (List, error) {
	list := List(slices.Clone(leaves))
	slices.SortFunc(list, compare)
	for i := range list[min(1, len(list)):] {
		if list[i] == list[i+1] {
			return nil, fmt.Errorf("draw: entrant %s is there twice", list[i])
		}
	}
	return list, nil
}

func compare(a, b Hash) int { return bytes.Compare(a[:], b[:]) }

// Index is where a leaf stands in the list.
func (l List) Index(leaf Hash) (int, bool) { return slices.BinarySearchFunc(l, leaf, compare) }

// Root is the Merkle tree hash of RFC 9162, 2.1.1, with a leaf's 32 bytes as its
// entry.
func (l List) Root() Hash { return subtree(l) }

func leafHash(leaf Hash) Hash {
	return Hash(sha256.Sum256(append([]byte{0}, leaf[:]...)))
}

func nodeHash(left, right Hash) Hash {
	return Hash(sha256.Sum256(slices.Concat([]byte{1}, left[:], right[:])))
}

func subtree(l List) Hash {
	switch len(l) {
	case 0:
		return Hash(sha256.Sum256(nil))
	case 1:
		return leafHash(l[0])
	}
	k := split(len(l))
	return nodeHash(subtree(l[:k]), subtree(l[k:]))
}

// split is the largest power of two below n.
func split(n int) int { return 1 << (bits.Len(uint(n-1)) - 1) }

// Path is the audit path of entrant i, from the leaf up (RFC 9162, 2.1.3.1).
func (l List) Path(i int) []Hash {
	if len(l) <= 1 {
		return []Hash{}
	}
	k := split(len(l))
	if i < k {
		return append(l[:k].Path(i), subtree(l[k:]))
	}
	return append(l[k:].Path(i-k), subtree(l[:k]))
}

// Proof shows one entrant that it was in the list.
type Proof struct {
	Leaf  Hash   `json:"leaf"`
	Index int    `json:"index"`
	Size  int    `json:"size"`
	Path  []Hash `json:"path"`
}

// Proof of the entrant with this leaf; ok is false if it is not in the list.
func (l List) Proof(leaf Hash) (p Proof, ok bool) {
	i, ok := l.Index(leaf)
	if !ok {
		return Proof{}, false
	}
	return Proof{Leaf: leaf, Index: i, Size: len(l), Path: l.Path(i)}, true
}

var errProof = errors.New("draw: the proof does not lead to the root")

// Check is nil if the proof leads to this root (RFC 9162, 2.1.3.2).
func (p Proof) Check(root Hash) error {
	if p.Index < 0 || p.Index >= p.Size {
		return fmt.Errorf("draw: index %d is not in a list of %d", p.Index, p.Size)
	}
	at, last, h := p.Index, p.Size-1, leafHash(p.Leaf)
	for _, sibling := range p.Path {
		if last == 0 {
			return errProof
		}
		if at%2 == 1 || at == last {
			h = nodeHash(sibling, h)
			for at%2 == 0 && at != 0 {
				at, last = at/2, last/2
			}
		} else {
			h = nodeHash(h, sibling)
		}
		at, last = at/2, last/2
	}
	if last != 0 || h != root {
		return errProof
	}
	return nil
}
