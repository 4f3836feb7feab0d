package waitroom

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// flaky is a line on a real server behind a proxy, and the same line without it.
func flaky(t *testing.T) (p *redistest.Proxy, through, direct *Line) {
	t.Helper()
	srv := redistest.Start(t, redistest.Config{})
	p = redistest.NewProxy(t, srv.Addr())
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr(), Protocol: 2, ContextTimeoutEnabled: true, ReadTimeout: 300 * time.Millisecond})
	t.Cleanup(func() { _ = rdb.Close() })
	direct = testLine(t, srv.Client(t))
	return p, testLineAs(t, rdb, direct.cfg.Prefix), direct
}

// Promise 4: go-redis sends a script again when its reply is late or lost; the
// effect is one.
func TestPromise4ScriptsSentAgainHaveOneEffect(t *testing.T) {
	t.Parallel()
	faults := map[string]redistest.Fault{
		"cut":  {Cut: true},
		"late": {Delay: 600 * time.Millisecond},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, l, direct := flaky(t)
			ctx := t.Context()
			open(t, direct, func(s *Settings) { s.RatePerS = 1000 })
			// lose drops the first three replies of what do does, so that it is sent four times.
			lose := func(do func() error) {
				t.Helper()
				p.Fail(func(n int) redistest.Fault {
					if n <= 3 {
						return fault
					}
					return redistest.Fault{}
				})
				require.NoError(t, do())
				require.GreaterOrEqual(t, p.Scripts(), 4, "the fault must have been there")
				p.Fail(nil)
			}
			var places []Place
			for range 5 {
				lose(func() error {
					pl, err := l.Join(ctx, JoinRequest{Event: "e"})
					require.True(t, pl.Created)
					places = append(places, pl)
					return err
				})
			}
			e, err := direct.Event(ctx, "e")
			require.NoError(t, err)
			require.EqualValues(t, 5, e.Waiting, "a join sent four times is one place")

			at(t, direct, time.Second)
			var grants []Grant
			lose(func() error {
				pr, err := l.Promote(ctx, PromoteRequest{Event: "e", Fence: 1, N: 1})
				grants = pr.Grants
				return err
			})
			require.Equal(t, entries(places[:1]), granted(grants), "one call lets one in, and says who")
			lose(func() error {
				gs, err := l.Admit(ctx, "e", AdmitRequest{Count: 1, By: "op"})
				require.Equal(t, entries(places[1:2]), granted(gs))
				return err
			})
			lose(func() error { _, err := l.Enter(ctx, "e", passOf(grants[0])); return err })
			lose(func() error { return l.Complete(ctx, "e", grants[0].JTI) })
			lose(func() error { return l.Leave(ctx, "e", places[2].Entry) })
			lose(func() error { return l.Block(ctx, "e", places[3].Entry, "op") })
			e, err = direct.Event(ctx, "e")
			require.NoError(t, err)
			require.EqualValues(t, 1, e.Waiting)
			require.EqualValues(t, 1, e.Inside)
			require.EqualValues(t, 2, e.Admitted)
			lose(func() error { _, err := l.Patch(ctx, "e", []byte(`{"rate_per_s":7}`), "op"); return err })
			after, err := direct.Event(ctx, "e")
			require.NoError(t, err)
			require.Equal(t, e.Version+1, after.Version)
			trail, err := direct.Audit(ctx, "e", "", 0)
			require.NoError(t, err)
			require.Len(t, trail, 4, "create, admit, block, patch: each once")
		})
	}
}

// Promise 4: under load with every third reply lost, everyone has one place and
// one grant.
func TestPromise4LostRepliesUnderLoad(t *testing.T) {
	t.Parallel()
	p, l, direct := flaky(t)
	open(t, direct, func(s *Settings) { s.RatePerS = 100_000 })
	p.Fail(func(n int) redistest.Fault { return redistest.Fault{Cut: n%3 == 0} })
	places := make([]Place, 300)
	var wg sync.WaitGroup
	for i := range places {
		wg.Go(func() {
			var err error
			for range 5 { // a caller that was refused tries again with what it has
				if places[i], err = l.Join(t.Context(), JoinRequest{Event: "e", Subject: "person " + strconv.Itoa(i)}); err == nil {
					return
				}
			}
			t.Errorf("join: %v", err)
		})
	}
	wg.Wait()
	seqs := make(map[Seq]bool)
	for _, pl := range places {
		seqs[pl.Seq] = true
	}
	require.Len(t, seqs, len(places))
	e, err := direct.Event(t.Context(), "e")
	require.NoError(t, err)
	require.EqualValues(t, len(places), e.Waiting)
	got := make(map[EntryID]int)
	for range 40 {
		pr, err := l.Promote(t.Context(), PromoteRequest{Event: "e", Fence: 1, N: 10})
		if err != nil {
			require.ErrorIs(t, err, ErrUnavailable)
		}
		for _, g := range pr.Grants {
			got[g.Entry]++
		}
	}
	require.Len(t, got, len(places))
	for _, n := range got {
		require.Equal(t, 1, n)
	}
}

func TestStoreAwayIsUnavailableInTime(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.Config{})
	l := testLine(t, srv.Client(t))
	l.cfg.CallTimeout = 500 * time.Millisecond
	open(t, l, nil)
	srv.Freeze(t)
	began := time.Now()
	_, err := l.Join(t.Context(), JoinRequest{Event: "e"})
	require.ErrorIs(t, err, ErrUnavailable)
	require.Less(t, time.Since(began), 5*time.Second)
	srv.Thaw(t)
	srv.Kill(t)
	_, err = l.Promote(t.Context(), PromoteRequest{Event: "e", Fence: 1, N: 1})
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorIs(t, l.Ping(t.Context()), ErrUnavailable)
}
