package waitroom

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// 200 tokens, each spent 20 times at once on two nodes: one use each, and a repeated
// call is the same use. The embedded store, which is slower, gets fewer.
func TestUsedOnce(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tokens := map[string]int{"redis": 200, "miniredis": 10}[name]
			const times = 20
			rdb := start(t)
			l := testLine(t, rdb)
			nodes := []*Line{l, testLineAs(t, rdb, l.cfg.Prefix)}
			open(t, l, nil)
			grants := grantsFor(t, l, tokens)
			won := make([]atomic.Int64, tokens) // the call that used the token, from 1
			var uses atomic.Int64
			var racers errgroup.Group
			racers.SetLimit(64)
			for i := range tokens * times {
				token, call := i/times, i%times+1
				racers.Go(func() error {
					err := nodes[call%2].Use(t.Context(), "e", grants[token].JTI, fmt.Sprint("call ", call))
					if err == nil {
						uses.Add(1)
						won[token].Store(int64(call))
					}
					if errors.Is(err, ErrUsed) {
						return nil
					}
					return err
				})
			}
			require.NoError(t, racers.Wait())
			require.EqualValues(t, tokens, uses.Load())
			for token := range won {
				require.Positive(t, won[token].Load(), "token %d", token)
			}
			require.NoError(t, l.Use(t.Context(), "e", grants[0].JTI, fmt.Sprint("call ", won[0].Load())), "the same call again")
			require.ErrorIs(t, nodes[1].Use(t.Context(), "e", grants[0].JTI, "another"), ErrUsed)
		})
	}
}

func TestUseNeedsASession(t *testing.T) {
	t.Parallel()
	l := testLine(t, redistest.Mini(t))
	open(t, l, func(s *Settings) { s.ClaimTTL = Duration(5 * time.Minute) })
	joinN(t, l, 4)
	grants := promote(t, l, 3).Grants
	use := func(jti string) error { return l.Use(t.Context(), "e", jti, "call") }
	require.ErrorIs(t, use("never"), ErrNoEntry)
	require.NoError(t, l.Complete(t.Context(), "e", grants[0].JTI))
	require.ErrorIs(t, use(grants[0].JTI), ErrNoEntry)
	require.NoError(t, l.Revoke(t.Context(), "e", grants[1].JTI, "test"))
	require.ErrorIs(t, use(grants[1].JTI), ErrRevoked)
	at(t, l, 6*time.Minute)
	require.ErrorIs(t, use(grants[2].JTI), ErrTokenExpired)
	require.ErrorIs(t, l.Use(t.Context(), "nowhere", "j", "call"), ErrNoEvent)
}
