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
func flaky(t *testing.T, readTimeout time.Duration) (p *redistest.Proxy, through, direct *Line) {
	t.Helper()
	srv := redistest.Start(t, redistest.Config{})
	p = redistest.NewProxy(t, srv.Addr())
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr(), Protocol: 2, ContextTimeoutEnabled: true, ReadTimeout: readTimeout})
	t.Cleanup(func() { _ = rdb.Close() })
	direct = testLine(t, srv.Client(t))
	return p, testLineAs(t, rdb, direct.cfg.Prefix), direct
}

// lose does something whose replies from the first-th on are lost three times, so
// that the script is sent four times.
func lose(t *testing.T, p *redistest.Proxy, fault redistest.Fault, first int, do func() error) {
	t.Helper()
	p.Fail(func(n int) redistest.Fault {
		if n >= first && n < first+3 {
			return fault
		}
		return redistest.Fault{}
	})
	require.NoError(t, do())
	require.GreaterOrEqual(t, p.Scripts(), first+3, "the fault must have been there")
	p.Fail(nil)
}

// Promise 4: go-redis sends a script again when its reply is lost; the effect is
// one.
func TestPromise4ScriptsSentAgainHaveOneEffect(t *testing.T) {
	t.Parallel()
	p, l, direct := flaky(t, 10*time.Second)
	ctx := t.Context()
	open(t, direct, nil)
	lost := func(do func() error) {
		t.Helper()
		lose(t, p, redistest.Fault{Cut: true}, 1, do)
	}
	var places []Place
	for range 5 {
		lost(func() error {
			pl, err := l.Join(ctx, JoinRequest{Event: "e"})
			require.True(t, pl.Created)
			places = append(places, pl)
			return err
		})
	}
	e, err := direct.Event(ctx, "e")
	require.NoError(t, err)
	require.EqualValues(t, 5, e.Waiting, "a join sent four times is one place")
	for i, pl := range places {
		require.EqualValues(t, e.Epoch+1+int64(i), pl.Seq, "and takes one sequence")
	}

	at(t, direct, time.Second)
	var grants []Grant
	lost(func() error {
		pr, err := l.Promote(ctx, PromoteRequest{Event: "e", Fence: 1, N: 1})
		grants = pr.Grants
		return err
	})
	require.Equal(t, entries(places[:1]), granted(grants), "one call lets one in, and says who")
	lost(func() error {
		gs, err := l.Admit(ctx, "e", AdmitRequest{Count: 1, By: "op"})
		require.Equal(t, entries(places[1:2]), granted(gs))
		return err
	})
	lost(func() error { _, err := l.Enter(ctx, "e", passOf(grants[0])); return err })
	lost(func() error { return l.Complete(ctx, "e", grants[0].JTI) })
	lost(func() error { return l.Leave(ctx, "e", places[2].Entry) })
	lost(func() error { return l.Block(ctx, "e", places[3].Entry, "op") })
	e, err = direct.Event(ctx, "e")
	require.NoError(t, err)
	require.EqualValues(t, 1, e.Waiting)
	require.EqualValues(t, 1, e.Inside)
	require.EqualValues(t, 2, e.Admitted)

	// The first script of a patch reads the event; the second is the move.
	lose(t, p, redistest.Fault{Cut: true}, 2, func() error {
		_, err := l.Patch(ctx, "e", []byte(`{"rate_per_s":7}`), "op")
		return err
	})
	after, err := direct.Event(ctx, "e")
	require.NoError(t, err)
	require.Equal(t, e.Version+1, after.Version)
	lost(func() error { _, err := l.Create(ctx, DefaultSettings("f"), Open, "op"); return err })
	for event, want := range map[EventID]int{"e": 4, "f": 1} { // create, admit, block, patch
		trail, err := direct.Audit(ctx, event, "", 0)
		require.NoError(t, err)
		require.Len(t, trail, want, "each deed is logged once")
	}
	lost(func() error { return l.Delete(ctx, "f", "op") })
}

// Promise 4: the same when replies are late: one promote lets one in.
func TestPromise4LateRepliesHaveOneEffect(t *testing.T) {
	t.Parallel()
	p, l, direct := flaky(t, time.Second)
	open(t, direct, nil)
	places := joinN(t, direct, 3)
	at(t, direct, time.Second)
	var grants []Grant
	lose(t, p, redistest.Fault{Delay: 1500 * time.Millisecond}, 1, func() error {
		pr, err := l.Promote(t.Context(), PromoteRequest{Event: "e", Fence: 1, N: 1})
		grants = pr.Grants
		return err
	})
	require.Equal(t, entries(places[:1]), granted(grants))
	e, err := direct.Event(t.Context(), "e")
	require.NoError(t, err)
	require.EqualValues(t, 2, e.Waiting)
	require.EqualValues(t, 1, e.Inside)
}

// Promise 4: under load with every third reply lost, everyone has one place and
// one grant.
func TestPromise4LostRepliesUnderLoad(t *testing.T) {
	t.Parallel()
	p, l, direct := flaky(t, 10*time.Second)
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
	require.Less(t, time.Since(began), 10*time.Second, "a call ends with its timeout")
	srv.Thaw(t)
	srv.Kill(t)
	_, err = l.Promote(t.Context(), PromoteRequest{Event: "e", Fence: 1, N: 1})
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorIs(t, l.Ping(t.Context()), ErrUnavailable)
}
