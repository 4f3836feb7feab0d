package rank

import (
	"math/bits"
	"slices"
)

const (
	blockBits  = 12
	blockSize  = 1 << blockBits // sequences in a block
	blockMask  = blockSize - 1
	blockWords = blockSize / 64
	// listMax is the number up to which a sorted list is kept: at 128 bytes it is a
	// quarter of the bitmap.
	listMax = 64
)

// block is a set of offsets from 0 to blockSize-1. The zero value is empty.
//
// A full block holds neither list nor words; so does an empty one.
type block struct {
	n     int32
	list  []uint16
	words *[blockWords]uint64
}

func (b *block) full() bool { return b.n == blockSize }

func (b *block) has(off uint16) bool {
	switch {
	case b.full():
		return true
	case b.words != nil:
		return b.words[off>>6]&(1<<(off&63)) != 0
	default:
		_, found := slices.BinarySearch(b.list, off)
		return found
	}
}

// below is the number of members smaller than off.
func (b *block) below(off uint16) int64 {
	switch {
	case b.full():
		return int64(off)
	case b.words != nil:
		w := int(off >> 6)
		n := bits.OnesCount64(b.words[w] & (1<<(off&63) - 1))
		for _, word := range b.words[:w] {
			n += bits.OnesCount64(word)
		}
		return int64(n)
	default:
		i, _ := slices.BinarySearch(b.list, off)
		return int64(i)
	}
}

// add reports whether off was new.
func (b *block) add(off uint16) bool {
	if b.full() {
		return false
	}
	if b.words == nil {
		i, found := slices.BinarySearch(b.list, off)
		if found {
			return false
		}
		if len(b.list) < listMax {
			b.list = slices.Insert(b.list, i, off)
			b.n++
			return true
		}
		b.spread()
	}
	word, bit := &b.words[off>>6], uint64(1)<<(off&63)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	b.n++
	if b.full() {
		b.words = nil
	}
	return true
}

// remove reports whether off was there. A bitmap stays one until it is empty, so
// that a block at the edge does not change its form with every move.
func (b *block) remove(off uint16) bool {
	if b.full() {
		b.words = new([blockWords]uint64)
		for i := range b.words {
			b.words[i] = ^uint64(0)
		}
	}
	if b.words == nil {
		i, found := slices.BinarySearch(b.list, off)
		if !found {
			return false
		}
		b.list = slices.Delete(b.list, i, i+1)
		b.n--
		return true
	}
	word, bit := &b.words[off>>6], uint64(1)<<(off&63)
	if *word&bit == 0 {
		return false
	}
	*word &^= bit
	b.n--
	if b.n == 0 {
		b.words = nil
	}
	return true
}

// fill makes every offset from lo up to but not including hi a member, and returns
// how many were new.
func (b *block) fill(lo, hi int) int64 {
	before := b.n
	if lo == 0 && hi == blockSize {
		*b = block{n: blockSize}
		return int64(blockSize - before)
	}
	for off := lo; off < hi; off++ {
		b.add(uint16(off & blockMask))
	}
	return int64(b.n - before)
}

func (b *block) spread() {
	b.words = new([blockWords]uint64)
	for _, off := range b.list {
		b.words[off>>6] |= 1 << (off & 63)
	}
	b.list = nil
}
