package ticket

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// Tokens are filed once each, by however many workers at once.
func TestFileIssuedOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{})
		now := time.UnixMilli(1_700_000_000_000).UTC()
		tokens := make([]IssuedToken, 300)
		for i := range tokens {
			tokens[i] = IssuedToken{
				JTI: fmt.Sprintf("j.%d", i+1), Rank: int64(i + 1), Entry: fmt.Sprintf("entry-%d", i), Person: fmt.Sprintf("ann %d", i),
				IssuedAt: now, ExpiresAt: now.Add(time.Minute),
			}
		}
		filed := make([]int64, 4)
		var g errgroup.Group
		for i := range filed {
			g.Go(func() (err error) {
				filed[i], err = s.FileIssued(t.Context(), "e", tokens[:200+i*30])
				return err
			})
		}
		require.NoError(t, g.Wait())
		require.EqualValues(t, 290, filed[0]+filed[1]+filed[2]+filed[3], "each token is new to one of them")
		n, err := s.FileIssued(t.Context(), "e", tokens)
		require.NoError(t, err)
		require.EqualValues(t, 10, n)
		n, err = s.FileIssued(t.Context(), "another", tokens[:1])
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.EqualValues(t, 300, count(t, s, `SELECT count(*) FROM issued WHERE event = 'e'`))
		require.EqualValues(t, 300*301/2, count(t, s, `SELECT CAST(sum(rank) AS BIGINT) FROM issued WHERE event = 'e'`))
		require.EqualValues(t, 1, count(t, s, `SELECT count(*) FROM issued WHERE event = 'e' AND jti = 'j.7' AND person = 'ann 6'
			AND entry = 'entry-6' AND issued_ms = 1700000000000 AND expires_ms = 1700000060000`))
	})
}

// Something is left until the last piece is paid, not only held.
func TestAnyLeft(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{})
		_, err := s.AnyLeft(t.Context(), "e")
		require.ErrorIs(t, err, ErrWrongMode)
		require.NoError(t, s.Put(t.Context(), "e", Catalogue{Kind: KindStock, Stock: 1, PriceCents: 500}))
		left := func() bool {
			left, err := s.AnyLeft(t.Context(), "e")
			require.NoError(t, err)
			return left
		}
		require.True(t, left())
		ann := &buyer{event: "e", name: "ann"}
		id := holds(t, s, ann.quantity(1)).ID
		require.True(t, left(), "whoever holds it may not pay")
		_, err = s.Pay(t.Context(), ann.pay(id))
		require.NoError(t, err)
		require.True(t, left())
		_, err = s.Settle(t.Context(), paymentOf(t, s, id), ResultCaptured)
		require.NoError(t, err)
		require.False(t, left())
		require.NoError(t, s.Put(t.Context(), "e", Catalogue{Kind: KindStock, Stock: 2, PriceCents: 500}))
		require.True(t, left(), "there is more")
		require.NoError(t, s.Put(t.Context(), "later", Catalogue{Kind: KindSeats, PriceCents: 500}))
		toCome, err := s.AnyLeft(t.Context(), "later")
		require.NoError(t, err)
		require.True(t, toCome, "its places are still to be imported")
	})
}
