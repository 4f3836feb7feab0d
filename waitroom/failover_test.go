package waitroom

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// tally is what the callers of a line were answered.
type tally struct {
	mu     sync.Mutex
	places []Place
	grants []Grant
	spent  []Grant // completed
	joined int     // since the last reset
}

func (y *tally) do(f func()) {
	y.mu.Lock()
	defer y.mu.Unlock()
	f()
}

// Promise 7, with a sentinel trio: the master dies in the middle of joins and
// promotions, with writes that no replica has. Service comes back by itself, every
// receipt brings its place back, no sequence is given twice, and what was spent
// stays spent.
func TestPromise7AFailoverLosesNobody(t *testing.T) {
	t.Parallel()
	trio := redistest.StartSentinels(t)
	var nodes []*Line
	for range 3 {
		l, err := New(Config{Prefix: "f", ReceiptKeys: [][]byte{testKey(1)}, CallTimeout: time.Second}, trio.Client(t), zap.NewNop())
		require.NoError(t, err)
		nodes = append(nodes, l)
	}
	open(t, nodes[0], func(s *Settings) { s.RatePerS = 50 })
	v := watch(t, nodes[0], nil)

	var y tally
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	work := func(every time.Duration, do func()) {
		wg.Go(func() {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					do()
				}
			}
		})
	}
	for i := range 9 {
		work(10*time.Millisecond, func() {
			p, err := nodes[i%3].Join(ctx, JoinRequest{Event: "e"})
			if err == nil {
				y.do(func() { y.places, y.joined = append(y.places, p), y.joined+1 })
			}
		})
	}
	work(100*time.Millisecond, func() {
		pr, err := nodes[1].Promote(ctx, PromoteRequest{Event: "e", Fence: 1, N: 5})
		if err != nil {
			return
		}
		y.do(func() { y.grants = append(y.grants, pr.Grants...) })
		for _, g := range pr.Grants[:len(pr.Grants)/2] {
			if _, err := nodes[2].Enter(ctx, "e", passOf(g)); err == nil && nodes[2].Complete(ctx, "e", g.JTI) == nil {
				y.do(func() { y.spent = append(y.spent, g) })
			}
		}
	})
	joined := func(n int) func() bool {
		return func() (enough bool) {
			y.do(func() { enough = y.joined >= n })
			return enough
		}
	}
	until(t, "a crowd", func() (some bool) {
		y.do(func() { some = y.joined > 100 && len(y.spent) > 4 })
		return some
	})

	// From here on no replica has what is answered, until the master is dead.
	master := trio.Master().Client(t)
	require.NoError(t, master.Do(t.Context(), "WAIT", 2, 2000).Err())
	var spent []Grant
	y.do(func() { spent, y.joined = append(spent, y.spent...), 0 })
	require.NoError(t, master.Do(t.Context(), "CLIENT", "KILL", "TYPE", "replica").Err())
	until(t, "joins that get lost", joined(20))
	trio.Master().Kill(t)
	began := time.Now()
	y.do(func() { y.joined = 0 })
	until(t, "joins come back", joined(100))
	t.Logf("joins came back within %v", time.Since(began))
	for _, l := range nodes { // each hears of the new master by itself
		until(t, "each node comes back", func() bool { return l.Ping(t.Context()) == nil })
	}
	stop()
	wg.Wait()

	ctx = t.Context()
	seqs := make(map[Seq]EntryID, len(y.places))
	for _, p := range y.places {
		require.Empty(t, seqs[p.Seq], "sequence %d was given twice", p.Seq)
		seqs[p.Seq] = p.Entry
	}
	lost := 0
	for _, p := range y.places {
		was, err := nodes[0].rdb.ZScore(ctx, nodes[0].keys.line("e"), string(p.Entry)).Result()
		if err != nil {
			lost++
		} else {
			require.Equal(t, p.Seq, Seq(was))
		}
		now, err := nodes[0].Place(ctx, "e", p.Receipt)
		require.NoError(t, err, "the place of %d", p.Seq)
		require.Equal(t, p.Seq, now.Seq)
		require.Contains(t, []EntryState{EntryWaiting, EntryAdmitted, EntryEntered, EntryCompleted}, now.State)
	}
	t.Logf("%d places, %d of them no longer in the line when asked for, %d promoted, %d spent before", len(y.places), lost, len(y.grants), len(spent))
	for _, g := range spent {
		_, err := nodes[1].Enter(ctx, "e", passOf(g))
		require.ErrorIs(t, err, ErrNoEntry, "spent is spent")
	}
	requireRanks(t, nodes[0], v, seqsOf(y.places))
}

// Promise 7: of two nodes, the one that knows nothing of the sequences that a dead
// master gave to the other gives none of them again, in the first call it makes.
func TestPromise7APromotedReplicaGivesNoSequenceTwice(t *testing.T) {
	t.Parallel()
	master, replica := redistest.Start(t, redistest.Config{}), redistest.Start(t, redistest.Config{})
	before := testLine(t, master.Client(t))
	open(t, before, nil)
	joinN(t, before, 3)
	host, port, _ := bytes.Cut([]byte(master.Addr()), []byte(":"))
	to := replica.Client(t)
	require.NoError(t, to.Do(t.Context(), "REPLICAOF", string(host), string(port)).Err())
	until(t, "the copy", func() bool {
		return master.Client(t).Do(t.Context(), "WAIT", 1, 100).Val() == int64(1)
	})
	require.NoError(t, to.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err()) // from here on it is behind
	lost := joinN(t, before, 5)
	master.Kill(t)

	after := testLineAs(t, to, before.cfg.Prefix)
	fresh := joinN(t, after, 1)[0]
	require.Greater(t, fresh.Seq, lost[4].Seq)
	for _, p := range lost {
		now, err := after.Place(t.Context(), "e", p.Receipt)
		require.NoError(t, err)
		require.Equal(t, p.Seq, now.Seq, "put back, before the fresh one")
	}
	require.EqualValues(t, 8, to.ZRank(t.Context(), after.keys.line("e"), string(fresh.Entry)).Val())
	ev, err := after.Event(t.Context(), "e")
	require.NoError(t, err)
	require.NoError(t, to.ScriptFlush(t.Context()).Err())
	require.Equal(t, fresh.Seq+1, joinN(t, after, 1)[0].Seq, "the same server, though it has lost its scripts")

	// A server that has the scripts is known by the next look at the event.
	_, err = to.HSet(t.Context(), after.keys.meta("e"), "store", "0123456789abcdef").Result()
	require.NoError(t, err)
	again, err := after.Event(t.Context(), "e")
	require.NoError(t, err)
	require.Greater(t, again.Epoch, ev.Epoch)
}
