package waitroom

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// Promise 1: order.
func TestPromise1WhoJoinedBeforeIsPromotedBefore(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			a := testLine(t, rdb)
			b := testLineAs(t, rdb, a.cfg.Prefix) // another node; no clock of its own has a say
			open(t, a, nil)
			var order []EntryID
			for i := range 60 {
				l := []*Line{a, b}[i%2]
				p, err := l.Join(t.Context(), JoinRequest{Event: "e"})
				require.NoError(t, err)
				order = append(order, p.Entry)
			}
			var got []EntryID
			for i := range 6 {
				at(t, a, time.Duration(i)*time.Second)
				got = append(got, granted(promote(t, []*Line{a, b}[i%2], 10).Grants)...)
			}
			require.Equal(t, order, got, "people must come in in the order of their joins")
		})
	}
}

// Promise 2: a place is kept.
func TestPromise2FiftyJoinsAtOnceAreOnePlace(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			other := testLineAs(t, rdb, l.cfg.Prefix)
			open(t, l, func(s *Settings) { s.Identity = "jwt" })
			first := joinN(t, l, 1)[0]
			joinN(t, l, 5)
			requests := map[string]JoinRequest{
				"receipt": {Event: "e", Receipt: first.Receipt},
				"subject": {Event: "e", Subject: "student-17"},
			}
			for name, req := range requests {
				places := make([]Place, 50)
				errs := make([]error, len(places))
				var wg sync.WaitGroup
				for i := range places {
					wg.Go(func() { places[i], errs[i] = []*Line{l, other}[i%2].Join(t.Context(), req) })
				}
				wg.Wait()
				created := 0
				for i, p := range places {
					require.NoError(t, errs[i])
					require.Equal(t, places[0].Entry, p.Entry, name)
					require.Equal(t, places[0].Seq, p.Seq, "%s: the place must stay", name)
					if p.Created {
						created++
					}
				}
				if name == "receipt" {
					require.Equal(t, first.Seq, places[0].Seq)
					require.Zero(t, created)
				} else {
					require.Equal(t, 1, created, "one join of the fifty makes the place")
				}
			}
			e, err := l.Event(t.Context(), "e")
			require.NoError(t, err)
			require.EqualValues(t, 7, e.Waiting)
		})
	}
}

// Promise 4: one grant for one place.
func TestPromise4EveryPlaceGetsOneGrant(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			open(t, l, func(s *Settings) { s.RatePerS = 100_000 })
			places := joinMany(t, l, 500)
			var wg sync.WaitGroup
			var mu sync.Mutex
			var got []EntryID
			jtis := make(map[string]bool)
			for range 25 {
				wg.Go(func() {
					p, err := l.Promote(t.Context(), PromoteRequest{Event: "e", Fence: 1, N: 20})
					if err != nil {
						t.Errorf("promote: %v", err)
					}
					mu.Lock()
					defer mu.Unlock()
					got = append(got, granted(p.Grants)...)
					for _, g := range p.Grants {
						jtis[g.JTI] = true
					}
				})
			}
			wg.Wait()
			require.ElementsMatch(t, entries(places), got)
			require.Len(t, jtis, len(places), "every jti is unique")
			for _, p := range places[:20] {
				now, err := l.Place(t.Context(), "e", p.Receipt)
				require.NoError(t, err)
				require.Equal(t, EntryAdmitted, now.State)
				require.True(t, jtis[now.Grant.JTI], "asking finds the same grant")
				again, err := l.Join(t.Context(), JoinRequest{Event: "e", Receipt: p.Receipt})
				require.NoError(t, err)
				require.Equal(t, now.Grant, again.Grant, "joining again gives no second turn")
			}
		})
	}
}

// Promise 5: an old fence promotes nobody.
func TestPromise5OldFencePromotesNobody(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			open(t, l, nil)
			joinMany(t, l, 50)
			ask := func(fence int64) (Promotion, error) {
				return l.Promote(t.Context(), PromoteRequest{Event: "e", Fence: fence, N: 5})
			}
			p, err := ask(7)
			require.NoError(t, err)
			require.Len(t, p.Grants, 5)
			at(t, l, time.Second)
			p, err = ask(6)
			require.ErrorIs(t, err, ErrFenced)
			require.Empty(t, p.Grants)
			require.EqualValues(t, 45, p.Waiting)
			require.Equal(t, "fenced", p.Reason)
			p, err = ask(8)
			require.NoError(t, err)
			require.Len(t, p.Grants, 5)
			_, err = ask(7)
			require.ErrorIs(t, err, ErrFenced)
		})
	}
}

// Promise 8: the inside count equals a recount.
func TestPromise8InsideIsTheSetOfGrants(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			open(t, l, nil)
			joinMany(t, l, 60)
			grants := promote(t, l, 40).Grants
			require.Len(t, grants, 40)
			for i, g := range grants {
				var err error
				switch i % 5 {
				case 0:
					_, err = l.Enter(t.Context(), "e", passOf(g))
				case 1:
					err = l.Complete(t.Context(), "e", g.JTI)
				case 2:
					err = l.Leave(t.Context(), "e", g.Entry)
				case 3:
					err = l.Revoke(t.Context(), "e", g.JTI, "op")
				}
				require.NoError(t, err)
			}
			count := func() int64 {
				n, err := rdb.HLen(t.Context(), l.keys.grants("e")).Result()
				require.NoError(t, err)
				e, err := l.Event(t.Context(), "e")
				require.NoError(t, err)
				require.Equal(t, n, e.Inside)
				return n
			}
			require.EqualValues(t, 16, count())
			at(t, l, time.Hour)
			_, err := l.Sweep(t.Context(), "e")
			require.NoError(t, err)
			require.Zero(t, count())
		})
	}
}

// Promise 9: batches are bounded.
func TestPromise9SweepsAreBounded(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			open(t, l, nil)
			crowd(t, l, 12_000)
			at(t, l, 3*time.Minute)
			var total, calls int
			for {
				s, err := l.Sweep(t.Context(), "e")
				require.NoError(t, err)
				require.LessOrEqual(t, s.Departed, sweepBatch*sweepRounds)
				total += s.Departed
				calls++
				if !s.More {
					break
				}
			}
			require.Equal(t, 12_000, total)
			require.Equal(t, 3, calls)
			records, err := rdb.XRange(t.Context(), l.keys.feed("e"), "-", "+").Result()
			require.NoError(t, err)
			for _, r := range records {
				if d, ok := r.Values["d"].(string); ok {
					require.LessOrEqual(t, len(slices.Collect(linesOf(d))), sweepBatch)
				}
			}
		})
	}
}
