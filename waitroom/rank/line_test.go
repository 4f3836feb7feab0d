package rank

import (
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model is the plain thing that a Line must equal: who waits, spelled out.
type model map[int64]bool

func (m model) position(seq int64) (int64, bool) {
	if !m[seq] {
		return 0, false
	}
	pos := int64(0)
	for s := range m {
		if s <= seq {
			pos++
		}
	}
	return pos, true
}

func newModel(base, last int64) model {
	m := model{}
	for s := base + 1; s <= last; s++ {
		m[s] = true
	}
	return m
}

func newLine(t require.TestingT, base int64) *Line {
	l, err := New(base)
	require.NoError(t, err)
	return l
}

// requireSame compares every place up to last, and some beyond the edges.
func requireSame(t require.TestingT, l *Line, m model, base, last int64) {
	order := slices.Sorted(maps.Keys(m))
	require.Equal(t, int64(len(order)), l.Waiting(last), "waiting")
	want := int64(0)
	for s := max(1, base-200); s <= last; s++ {
		pos, ok := l.Position(s)
		if m[s] {
			want++
		}
		if ok != m[s] || ok && pos != want { // require for each is too slow to fuzz with
			require.Failf(t, "wrong place", "seq %d: got %d, %t; want %d, %t", s, pos, ok, want, m[s])
		}
	}
	require.Len(t, order, int(want), "sequences out of the range compared")
	next, ok := l.Position(last + 1)
	require.True(t, ok)
	require.Equal(t, int64(len(order))+1, next, "who joins next stands last")
}

// Promises 1 and 2: places equal a plain count after every order of moves, and a
// move says truly whether it changed something.
func TestLineEqualsAPlainCount(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Int64Range(0, 1<<40).Draw(t, "base")
		last := base + rapid.Int64Range(1, 3*blockSize).Draw(t, "joined")
		l, m := newLine(t, base), newModel(base, last)
		seq := rapid.OneOf(
			rapid.Int64Range(base+1, last),
			rapid.Int64Range(base+1, min(last, base+40)),
			rapid.Int64Range(max(1, base-200), max(1, base)),
		)
		t.Repeat(map[string]func(*rapid.T){
			"depart": func(t *rapid.T) {
				s := seq.Draw(t, "seq")
				changed, err := l.Depart(s)
				require.NoError(t, err)
				require.Equal(t, m[s], changed)
				delete(m, s)
			},
			"return": func(t *rapid.T) {
				s := seq.Draw(t, "seq")
				changed, err := l.Return(s)
				require.NoError(t, err)
				require.Equal(t, !m[s], changed)
				m[s] = true
			},
			"promote": func(t *rapid.T) {
				n := rapid.IntRange(1, blockSize+100).Draw(t, "n")
				order := slices.Sorted(maps.Keys(m))
				for _, s := range order[:min(n, len(order))] {
					changed, err := l.Depart(s)
					require.NoError(t, err)
					require.True(t, changed)
					delete(m, s)
				}
			},
			"depart range": func(t *rapid.T) {
				lo := rapid.Int64Range(base+1, last).Draw(t, "lo")
				hi := rapid.Int64Range(base+1, last+1).Draw(t, "hi")
				start := l.Start()
				require.NoError(t, l.DepartRange(lo, hi))
				for s := max(lo, start); s < hi; s++ {
					delete(m, s)
				}
			},
			"": func(t *rapid.T) {
				s := seq.Draw(t, "seq")
				want, wantOK := m.position(s)
				pos, ok := l.Position(s)
				require.Equal(t, want, pos)
				require.Equal(t, wantOK, ok)
			},
		})
		requireSame(t, l, m, base, last)
	})
}

// Promise 3: a long history at the front leaves nothing behind.
func TestLineForgetsThePast(t *testing.T) {
	t.Parallel()
	const joined, kept = 2_000_000, 5_000
	l := newLine(t, 0)
	for s := int64(1); s <= joined-kept; s++ {
		_, err := l.Depart(s)
		require.NoError(t, err)
	}
	pos, ok := l.Position(joined)
	require.True(t, ok)
	require.Equal(t, int64(kept), pos)
	require.LessOrEqual(t, len(l.gone), 130, "blocks kept for 5,000 who wait")

	// Who comes back from the past stands before everyone, in order.
	for _, s := range []int64{joined - kept, 7, 1_000_000} {
		changed, err := l.Return(s)
		require.NoError(t, err)
		require.True(t, changed)
	}
	for i, s := range []int64{7, 1_000_000, joined - kept, joined - kept + 1} {
		pos, ok := l.Position(s)
		require.True(t, ok)
		require.Equal(t, int64(i)+1, pos, "position of %d", s)
	}
}

// A line loaded from a list of those who wait begins where the list does.
func TestDepartRangeOnANewLineCostsNothing(t *testing.T) {
	t.Parallel()
	l := newLine(t, 1000)
	require.NoError(t, l.DepartRange(1001, 1<<50))
	require.Equal(t, int64(1<<50), l.Start())
	require.Empty(t, l.gone)
	pos, ok := l.Position(1 << 50)
	require.True(t, ok)
	require.Equal(t, int64(1), pos)
	_, ok = l.Position(1<<50 - 1)
	require.False(t, ok)
}

// Promise 4.
func TestLineRefusesWhatIsOutOfBounds(t *testing.T) {
	t.Parallel()
	l := newLine(t, 100)
	for _, s := range []int64{-1, 0, 101 + MaxWindow, MaxSeq + 1, 1<<63 - 1, -1 << 63} {
		_, err := l.Depart(s)
		require.ErrorIs(t, err, ErrSeq, "depart %d", s)
		_, err = l.Return(s)
		require.ErrorIs(t, err, ErrSeq, "return %d", s)
		_, ok := l.Position(s)
		require.False(t, ok, "position of %d", s)
	}
	require.Empty(t, l.gone)
	_, err := l.Depart(100 + MaxWindow)
	require.NoError(t, err)
	require.ErrorIs(t, l.DepartRange(102, MaxSeq+1), ErrSeq)
	require.ErrorIs(t, l.DepartRange(102, 1<<40), ErrSeq)
	for _, base := range []int64{-1, MaxSeq, 1<<63 - 1} {
		_, err := New(base)
		require.ErrorIs(t, err, ErrSeq, "base %d", base)
	}
}

// A Fenwick tree that grows and changes equals the plain sums.
func TestFenwick(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var f fenwick
		var plain []int64
		for range rapid.IntRange(1, 100).Draw(t, "moves") {
			d := rapid.Int64Range(-5, 50).Draw(t, "d")
			if len(plain) == 0 || rapid.Bool().Draw(t, "push") {
				f.push(d)
				plain = append(plain, d)
				continue
			}
			i := rapid.IntRange(0, len(plain)-1).Draw(t, "i")
			f.add(i, d)
			plain[i] += d
		}
		total := int64(0)
		for i, n := range plain {
			require.Equal(t, total, f.sum(i))
			total += n
		}
		require.Equal(t, total, f.sum(len(plain)+7))
	})
}

// Promises 1, 2 and 4 for any bytes: each three are a move and a sequence.
func FuzzLine(f *testing.F) {
	f.Add([]byte{0, 0, 1, 1, 0, 1, 2, 0, 200})
	f.Add([]byte("depart and return, in no order at all"))
	f.Fuzz(func(t *testing.T, data []byte) {
		const base, last = 5_000, 5_000 + 2*blockSize
		l, m := newLine(t, base), newModel(base, last)
		for ; len(data) >= 3; data = data[3:] {
			s := min(base-190+int64(data[1])<<8+int64(data[2]), last)
			switch data[0] % 3 {
			case 0:
				changed, err := l.Depart(s)
				require.NoError(t, err)
				require.Equal(t, m[s], changed)
				delete(m, s)
			case 1:
				changed, err := l.Return(s)
				require.NoError(t, err)
				require.Equal(t, !m[s], changed)
				m[s] = true
			default:
				start, hi := l.Start(), s+int64(data[0])*100
				require.NoError(t, l.DepartRange(s, min(hi, last)))
				for ; s < min(hi, last); s++ {
					if s >= start {
						delete(m, s)
					}
				}
			}
		}
		requireSame(t, l, m, base, last)
	})
}

// heap is what is in use after a collection.
func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// million builds a line in which a million wait and 200,000 among them are gone.
func million(tb testing.TB) *Line {
	tb.Helper()
	l := newLine(tb, 1)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		_, err := l.Depart(2 + rng.Int64N(1_200_000))
		require.NoError(tb, err)
	}
	return l
}

// BenchmarkMemory prints what a million in line take: in one epoch with 200,000
// gone at random among them, and all put back from an earlier epoch.
func BenchmarkMemory(b *testing.B) {
	b.Run("window", func(b *testing.B) {
		var bytes uint64
		for b.Loop() {
			before := heap()
			l := million(b)
			bytes = heap() - before
			runtime.KeepAlive(l)
		}
		b.ReportMetric(float64(bytes), "bytes/1M")
	})
	b.Run("early", func(b *testing.B) {
		var bytes uint64
		for b.Loop() {
			before := heap()
			l := newLine(b, 1<<40)
			for s := range int64(1_000_000) {
				_, err := l.Return(s*7 + 1)
				require.NoError(b, err)
			}
			bytes = heap() - before
			runtime.KeepAlive(l)
		}
		b.ReportMetric(float64(bytes), "bytes/1M")
	})
}

func BenchmarkPosition(b *testing.B) {
	l := million(b)
	rng := rand.New(rand.NewPCG(3, 4))
	for b.Loop() {
		l.Position(2 + rng.Int64N(1_200_000))
	}
}

func BenchmarkDepart(b *testing.B) {
	l := million(b)
	rng := rand.New(rand.NewPCG(3, 4))
	for b.Loop() {
		s := 2 + rng.Int64N(1_200_000)
		if gone, _ := l.Depart(s); gone {
			_, _ = l.Return(s)
		}
	}
}
