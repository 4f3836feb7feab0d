package rank

// fenwick holds running sums over a growing row of counts: add and sum take
// O(log n).
type fenwick struct{ tree []int64 }

// push appends a count.
func (f *fenwick) push(n int64) {
	i := len(f.tree) + 1
	for step := 1; step < i&-i; step <<= 1 {
		n += f.tree[i-step-1]
	}
	f.tree = append(f.tree, n)
}

// add changes the i-th count by d.
func (f *fenwick) add(i int, d int64) {
	for i++; i <= len(f.tree); i += i & -i {
		f.tree[i-1] += d
	}
}

// sum is the total of the first n counts.
func (f *fenwick) sum(n int) int64 {
	var total int64
	for n = min(n, len(f.tree)); n > 0; n &= n - 1 {
		total += f.tree[n-1]
	}
	return total
}

// reset makes f the row of the blocks' counts.
func (f *fenwick) reset(blocks []block) {
	f.tree = f.tree[:0]
	for i := range blocks {
		f.push(int64(blocks[i].n))
	}
}
