package ticket

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A group asks nothing while it supposes rightly; a wrong supposition costs a
// question and changes no answer, and those that come next ask first.
func TestBoldGroupAsksOnlyWhenItWasWrong(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{})
		require.NoError(t, s.Put(t.Context(), "e", hallOf(1, 40)))
		_, _, err := s.Map(t.Context(), "e")
		require.NoError(t, err)
		var asked atomic.Int64
		s.db.watch = func(_ context.Context, _ tx, statement string, _ []any) {
			if strings.Contains(statement, "FROM answers a") {
				asked.Add(1)
			}
		}
		ann, bob := &buyer{event: "e", name: "ann"}, &buyer{event: "e", name: "bob"}
		first := ann.quantity(1)
		want, err := s.Reserve(t.Context(), first)
		require.NoError(t, err)
		holds(t, s, bob.seats("A-3"))
		require.Zero(t, asked.Load())

		got, err := s.Reserve(t.Context(), first)
		require.NoError(t, err)
		require.True(t, got.Replayed)
		require.Equal(t, want.Body, got.Body)
		require.NotZero(t, asked.Load())
		require.Equal(t, ErrTokenUsed.Error(), refusal(t, s, ann.quantity(1)))

		asked.Store(0)
		for n := range caution {
			holds(t, s, (&buyer{event: "e", name: fmt.Sprint("cid", n)}).quantity(1))
		}
		require.NotZero(t, asked.Load())
		asked.Store(0)
		holds(t, s, (&buyer{event: "e", name: "dan"}).quantity(1))
		require.Zero(t, asked.Load(), "bold again")
	})
}
