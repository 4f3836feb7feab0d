package waitroom

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// followedAtOnce lets a replica have its copy without a delay.
var followedAtOnce = []string{"--repl-diskless-sync-delay", "0"}

// issueMany lets n strangers ask at the same time.
func issueMany(tb testing.TB, l *Line, n int) []Issued {
	tb.Helper()
	got := make([]Issued, n)
	var g errgroup.Group
	for i := range got {
		g.Go(func() (err error) {
			got[i], err = l.Issue(tb.Context(), IssueRequest{Event: "e"})
			return err
		})
	}
	require.NoError(tb, g.Wait())
	return got
}

// doc.go, "Lost tokens": each row of its table is measured here. kept were answered
// before the moment that the store's disk or replica has, late after it.
func TestWhatACrashLosesOfTokens(t *testing.T) {
	t.Parallel()
	const kept, late = 300, 200
	dies := func(t *testing.T, srv *redistest.Server, l *Line, more func()) *Line {
		t.Helper()
		more()
		srv.Kill(t)
		srv.Restart(t)
		return l
	}
	crash := map[string]struct {
		aof string
		// breaks gives the line on the store as it is after a crash; it calls more for
		// the late ones, once what is kept is safe.
		breaks func(t *testing.T, srv *redistest.Server, l *Line, more func()) *Line
		lost   int
	}{
		"always, the process dies": {"always", dies, 0},
		"everysec, the process dies": {"everysec", func(t *testing.T, srv *redistest.Server, l *Line, more func()) *Line {
			t.Helper()
			return dies(t, srv, l, func() {
				more()
				// While the disk is too slow for its syncs, Redis holds back what it would write.
				until(t, "nothing held back", func() bool {
					return strings.Contains(l.rdb.Info(t.Context(), "persistence").Val(), "aof_buffer_length:0\r\n")
				})
			})
		}, 0},
		"everysec, the machine dies": {"everysec", func(t *testing.T, srv *redistest.Server, l *Line, more func()) *Line {
			t.Helper()
			synced := srv.Written(t)
			more()
			srv.Kill(t)
			srv.Forget(t, synced)
			srv.Restart(t)
			return l
		}, late},
		"a replica takes over that is behind": {"", func(t *testing.T, srv *redistest.Server, l *Line, more func()) *Line {
			t.Helper()
			replica := redistest.Start(t, redistest.Config{})
			to := replica.Client(t)
			host, port, err := net.SplitHostPort(srv.Addr())
			require.NoError(t, err)
			require.NoError(t, to.Do(t.Context(), "REPLICAOF", host, port).Err())
			until(t, "the copy", func() bool { return l.rdb.Do(t.Context(), "WAIT", 1, 100).Val() == int64(1) })
			require.NoError(t, to.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
			more()
			srv.Kill(t)
			return testLineAs(t, to, l.cfg.Prefix)
		}, late},
	}
	for name, row := range crash {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t, redistest.Config{AOF: row.aof, Args: followedAtOnce})
			before := testLine(t, srv.Client(t))
			instant(t, before, kept+late, nil)
			people := issueMany(t, before, kept)
			l := row.breaks(t, srv, before, func() { people = append(people, issueMany(t, before, late)...) })

			lost := 0
			for i, p := range people {
				_, err := l.Enter(t.Context(), "e", passOf(p.Grant))
				if err == nil {
					continue
				}
				require.ErrorIs(t, err, ErrNoEntry, "a token that was lost opens nothing")
				require.GreaterOrEqual(t, i, kept)
				lost++
			}
			require.Equal(t, row.lost, lost)
			// Whoever lost one asks again, as somebody else may, and the quota holds.
			ranks := make(map[int64]bool)
			for _, p := range people {
				again := issue(t, l, p.Receipt)
				require.False(t, ranks[again.Rank], "no rank is twice in the store")
				ranks[again.Rank] = true
			}
			_, err := ask(t, l, "")
			require.Error(t, err, "none over")
			e, err := l.Event(t.Context(), "e")
			require.NoError(t, err)
			require.EqualValues(t, kept+late, e.Inside)
			t.Logf("%d tokens were answered for, %d of them lost", len(people), lost)
		})
	}
}

// Without `durable` a replica that follows is behind by what is on its way: what a
// master's death loses under load is counted, and is of its last moment.
func TestWhatAFailoverLosesOfTokens(t *testing.T) {
	t.Parallel()
	master, replica := redistest.Start(t, redistest.Config{Args: followedAtOnce}), redistest.Start(t, redistest.Config{})
	before, err := New(Config{Prefix: "f", ReceiptKeys: [][]byte{testKey(1)}, CallTimeout: time.Second}, master.Client(t), zap.NewNop())
	require.NoError(t, err)
	instant(t, before, 100_000, nil)
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	to := replica.Client(t)
	require.NoError(t, to.Do(t.Context(), "REPLICAOF", host, port).Err())
	until(t, "the copy", func() bool { return before.rdb.Do(t.Context(), "WAIT", 1, 100).Val() == int64(1) })

	type told struct {
		Issued
		at time.Time
	}
	answered := make(chan told, 100_000)
	var askers sync.WaitGroup
	for range 32 {
		askers.Go(func() {
			for got, err := ask(t, before, ""); err == nil; got, err = ask(t, before, "") {
				answered <- told{got, time.Now()}
			}
		})
	}
	until(t, "a crowd", func() bool { return len(answered) > 1000 })
	died := time.Now()
	master.Kill(t)
	require.NoError(t, to.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	askers.Wait()
	close(answered)
	after := testLineAs(t, to, before.cfg.Prefix)
	all, lost := 0, 0
	for p := range answered {
		all++
		if _, err := after.Enter(t.Context(), "e", passOf(p.Grant)); err != nil {
			require.ErrorIs(t, err, ErrNoEntry)
			require.Greater(t, p.at, died.Add(-time.Second), "lost is only what was on its way")
			lost++
		}
	}
	t.Logf("%d tokens were answered for, %d of them lost", all, lost)
}
