package rank

import "slices"

// early is a set of sequences far apart: those that wait before the window. Blocks
// stand in the order of their keys (sequence / blockSize); none is empty.
type early struct {
	n      int64
	keys   []int64
	blocks []block
	counts fenwick
}

func (e *early) add(seq int64) bool {
	key, off := seq>>blockBits, uint16(seq&blockMask)
	i, found := slices.BinarySearch(e.keys, key)
	if !found {
		e.keys = slices.Insert(e.keys, i, key)
		e.blocks = slices.Insert(e.blocks, i, block{})
		if i == len(e.keys)-1 {
			e.counts.push(0)
		} else {
			e.counts.reset(e.blocks)
		}
	}
	if !e.blocks[i].add(off) {
		return false
	}
	e.counts.add(i, 1)
	e.n++
	return true
}

func (e *early) remove(seq int64) bool {
	i, found := slices.BinarySearch(e.keys, seq>>blockBits)
	if !found || !e.blocks[i].remove(uint16(seq&blockMask)) {
		return false
	}
	e.n--
	if e.blocks[i].n > 0 {
		e.counts.add(i, -1)
		return true
	}
	e.keys = slices.Delete(e.keys, i, i+1)
	e.blocks = slices.Delete(e.blocks, i, i+1)
	e.counts.reset(e.blocks)
	return true
}

// position is the place of seq among the early ones.
func (e *early) position(seq int64) (int64, bool) {
	i, found := slices.BinarySearch(e.keys, seq>>blockBits)
	off := uint16(seq & blockMask)
	if !found || !e.blocks[i].has(off) {
		return 0, false
	}
	return e.counts.sum(i) + e.blocks[i].below(off) + 1, true
}
