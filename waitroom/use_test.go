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

// A token is used once, whoever races for it, and a repeated call is the same use.
func TestUsedOnce(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := testLine(t, start(t))
			open(t, l, nil)
			joinN(t, l, 20)
			for _, g := range promote(t, l, 20).Grants[:5] {
				var won atomic.Int64
				var racers errgroup.Group
				for i := range 20 {
					racers.Go(func() error {
						err := l.Use(t.Context(), "e", g.JTI, fmt.Sprint("call ", i))
						if err == nil {
							won.Store(int64(i))
							return nil
						}
						if errors.Is(err, ErrUsed) {
							return nil
						}
						return err
					})
				}
				require.NoError(t, racers.Wait())
				require.NoError(t, l.Use(t.Context(), "e", g.JTI, fmt.Sprint("call ", won.Load())), "the same call again")
				require.ErrorIs(t, l.Use(t.Context(), "e", g.JTI, "another"), ErrUsed)
			}
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
