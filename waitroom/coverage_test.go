package waitroom

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCoverageIsWhatCame(t *testing.T) {
	t.Parallel()
	var c coverage
	_, ok := c.figures()
	require.False(t, ok)
	front := int64(0) // 1,000 people in line, let in at half the speed that they are told
	position := func(s Seq) (int64, bool) { return int64(s) - front, int64(s) > front }
	now := int64(1_000_000)
	for range 200 {
		now += 1000
		c.note(now, 1000, position, Flow{PerS: 10, Spread: 0.05})
		for range 5 {
			front++
			c.admit(now, Seq(front))
		}
	}
	got, ok := c.figures()
	require.True(t, ok)
	require.Positive(t, got.Told)
	require.Less(t, got.By90, 0.5, "twice as long as they were told")

	c = coverage{}
	for front = 0; front < 1000; {
		now += 1000
		c.note(now, 1000, position, Flow{PerS: 10, Spread: 0.25})
		for range 10 {
			front++
			c.admit(now, Seq(front))
		}
	}
	got, _ = c.figures()
	require.Greater(t, got.By90, 0.9, "as they were told")
	require.LessOrEqual(t, got.By50, got.By90)
}

func TestCoverageIsBoundedAndForgetsWhoLeft(t *testing.T) {
	t.Parallel()
	var c coverage
	now := int64(1_000_000)
	for range 2000 {
		now += 1000
		c.note(now, 100_000, func(s Seq) (int64, bool) { return int64(s), true }, Flow{PerS: 10})
	}
	require.Len(t, c.noted, mostNoted)
	for seq := range c.noted {
		c.depart(seq)
	}
	require.Empty(t, c.noted)
	_, ok := c.figures()
	require.False(t, ok, "who left was promised nothing")
}
