package ticket

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Answers are kept for their retention, and forgotten after it, whatever share of the
// keys they fall into and however few are looked at at once.
func TestAnswersAreForgotten(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{Retention: 2 * time.Hour})
		require.NoError(t, s.Put(t.Context(), "e", Catalogue{Kind: KindStock, Stock: 1000}))
		reserve := func(from, to int) {
			for i := from; i < to; i++ {
				holds(t, s, (&buyer{event: "e", name: fmt.Sprint("p", i)}).quantity(1))
			}
		}
		reserve(0, 40)
		s.skew.Add((2*time.Hour - time.Minute).Milliseconds())
		reserve(40, 50)
		f := newForgetter(s)
		require.Equal(t, 5, f.shares())
		for range f.shares() {
			require.NoError(t, f.share(t.Context()))
		}
		require.EqualValues(t, 50, count(t, s, `SELECT count(*) FROM answers`), "none is old enough")
		s.skew.Add(2 * time.Minute.Milliseconds())
		from, to := keyShare(0, 1)
		for steps := 0; from != nil; steps++ {
			require.Less(t, steps, 20)
			var err error
			from, err = s.forgetAnswers(t.Context(), from, to, 3)
			require.NoError(t, err)
		}
		require.EqualValues(t, 10, count(t, s, `SELECT count(*) FROM answers`))
		s.skew.Add(3 * time.Hour.Milliseconds())
		left := count(t, s, `SELECT count(*) FROM answers`)
		for range f.shares() {
			require.NoError(t, f.share(t.Context()))
			now := count(t, s, `SELECT count(*) FROM answers`)
			require.LessOrEqual(t, now, left)
			left = now
		}
		require.Zero(t, left)
	})
}

// The shares are all keys, each once.
func TestKeySharesMeet(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 5, forgetShares} {
		first, _ := keyShare(0, n)
		require.Equal(t, []byte{0, 0}, first)
		for i := range n - 1 {
			_, to := keyShare(i, n)
			from, _ := keyShare(i+1, n)
			require.Equal(t, to, from)
		}
		_, last := keyShare(n-1, n)
		require.Len(t, last, 33)
	}
}
