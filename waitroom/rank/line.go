package rank

import (
	"errors"
	"fmt"
	"slices"
)

const (
	// MaxSeq is the largest sequence: what a sorted set's score holds exactly.
	MaxSeq = 1<<53 - 1
	// MaxWindow is the most sequences that a window spans. It bounds what a wrong
	// number can make a Line allocate (about 4 MB).
	MaxWindow = 1 << 28
)

// ErrSeq is returned for a sequence that is not positive, above MaxSeq, or further
// than MaxWindow from the window's start. The line is unchanged.
var ErrSeq = errors.New("sequence out of bounds")

// Line is who waits in one line, as a set of sequences. It is for one goroutine at
// a time; Position, Waiting and Start only read and may run side by side.
type Line struct {
	early early

	// The window. Its i-th block begins at origin + i*blockSize; the first dropped
	// blocks are all gone and hold nothing, and start is the first sequence behind.
	origin  int64
	dropped int
	gone    []block
	counts  fenwick
}

// New makes a line in which everyone from base+1 on waits.
func New(base int64) (*Line, error) {
	if base < 0 || base >= MaxSeq {
		return nil, fmt.Errorf("base %d: %w", base, ErrSeq)
	}
	return &Line{origin: base + 1}, nil
}

// Start is the first sequence of the window: nobody before it waits but the early.
func (l *Line) Start() int64 { return l.origin + int64(l.dropped)<<blockBits }

// Depart marks seq as gone and reports whether it waited until now.
func (l *Line) Depart(seq int64) (bool, error) {
	if err := l.check(seq); err != nil {
		return false, err
	}
	if seq < l.Start() {
		return l.early.remove(seq), nil
	}
	i, off := l.index(seq)
	l.grow(i + 1)
	if !l.gone[i].add(off) {
		return false, nil
	}
	l.counts.add(i, 1)
	l.shrink()
	return true, nil
}

// Return marks seq as waiting and reports whether it was gone until now.
func (l *Line) Return(seq int64) (bool, error) {
	if err := l.check(seq); err != nil {
		return false, err
	}
	if seq < l.Start() {
		return l.early.add(seq), nil
	}
	i, off := l.index(seq)
	if i >= len(l.gone) || !l.gone[i].remove(off) {
		return false, nil
	}
	l.counts.add(i, -1)
	return true, nil
}

// DepartRange marks everyone of the window from lo up to but not including hi as
// gone, in time that follows the number of blocks; the early ones stay. It is for
// loading a line from a list of those who wait: the gaps between them are gone.
func (l *Line) DepartRange(lo, hi int64) error {
	if lo = max(lo, l.Start()); hi <= lo {
		return nil
	}
	if hi > MaxSeq {
		return fmt.Errorf("sequence %d: %w", hi, ErrSeq)
	}
	// A window of which nothing is known yet can begin anywhere.
	if lo == l.Start() && l.untouched() {
		l.origin, l.dropped, l.gone, l.counts = hi, 0, nil, fenwick{}
		return nil
	}
	if err := l.check(hi - 1); err != nil {
		return err
	}
	first, _ := l.index(lo)
	last, _ := l.index(hi - 1)
	l.grow(last + 1)
	for i := first; i <= last; i++ {
		from := max(lo-l.origin-int64(i)<<blockBits, 0)
		to := min(hi-l.origin-int64(i)<<blockBits, blockSize)
		l.counts.add(i, l.gone[i].fill(int(from), int(to)))
	}
	l.shrink()
	return nil
}

// Position is the place of seq: 1 is the front. It is false for a sequence that
// does not wait.
func (l *Line) Position(seq int64) (int64, bool) {
	if l.check(seq) != nil {
		return 0, false
	}
	if seq < l.Start() {
		return l.early.position(seq)
	}
	i, off := l.index(seq)
	before := l.counts.sum(i)
	if i < len(l.gone) {
		if l.gone[i].has(off) {
			return 0, false
		}
		before += l.gone[i].below(off)
	}
	return l.early.n + seq - l.origin - before + 1, true
}

// Waiting is how many wait if last is the newest sequence given.
func (l *Line) Waiting(last int64) int64 {
	if last < l.Start() || l.check(last) != nil {
		return l.early.n
	}
	i, off := l.index(last)
	before := l.counts.sum(i)
	if i < len(l.gone) {
		before += l.gone[i].below(off)
		if l.gone[i].has(off) {
			before++
		}
	}
	return l.early.n + last - l.origin - before + 1
}

func (l *Line) check(seq int64) error {
	if seq < 1 || seq > MaxSeq || seq-l.Start() >= MaxWindow {
		return fmt.Errorf("sequence %d in a window from %d: %w", seq, l.Start(), ErrSeq)
	}
	return nil
}

func (l *Line) index(seq int64) (int, uint16) {
	at := seq - l.origin
	return int(at >> blockBits), uint16(at & blockMask)
}

func (l *Line) untouched() bool {
	return l.counts.sum(len(l.gone)) == int64(l.dropped)<<blockBits
}

func (l *Line) grow(n int) {
	for len(l.gone) < n {
		l.gone = append(l.gone, block{})
		l.counts.push(0)
	}
}

// shrink moves the start behind the blocks that are gone altogether, and forgets
// them once they are half of the window, so that the work is paid for by the
// departures that led to it.
func (l *Line) shrink() {
	for l.dropped < len(l.gone) && l.gone[l.dropped].full() {
		l.dropped++
	}
	if l.dropped < 64 || l.dropped < len(l.gone)/2 {
		return
	}
	l.origin = l.Start()
	l.gone = slices.Clone(l.gone[l.dropped:])
	l.dropped = 0
	l.counts.reset(l.gone)
}
