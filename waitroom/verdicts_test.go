package waitroom

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// entrances counts the calls that enter a grant or renew sessions, and cuts the store
// off while away is set.
type entrances struct {
	hook
	enters, slides, stopped atomic.Int64
	away                    atomic.Bool
}

func (c *entrances) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if c.away.Load() {
			c.stopped.Add(1)
			cmd.SetErr(errors.New("no route to the store"))
			return cmd.Err()
		}
		if args := cmd.Args(); len(args) > 1 {
			switch args[1] {
			case scriptEnter.Hash():
				c.enters.Add(1)
			case scriptSlide.Hash():
				c.slides.Add(1)
			}
		}
		return next(ctx, cmd)
	}
}

// gatekeeper is a node that checks passes on a store which a test can cut off.
func gatekeeper(tb testing.TB, s *redistest.Server, prefix string) (*View, *entrances) {
	tb.Helper()
	c := &entrances{}
	rdb := s.Client(tb)
	rdb.AddHook(c)
	v := watch(tb, testLineAs(tb, rdb, prefix), nil)
	level(tb, v)
	return v, c
}

// grantsFor lets n people in.
func grantsFor(tb testing.TB, l *Line, n int) []Grant {
	tb.Helper()
	joinMany(tb, l, n)
	g, err := l.Admit(tb.Context(), "e", AdmitRequest{Count: n, By: "test"})
	require.NoError(tb, err)
	require.Equal(tb, n, len(g)) //nolint:testifylint // not all of them, if it fails
	return g
}

// doc.go promise 16: memory says what the store says, on every node, and a turn that
// is over opens nothing any more: revoked, completed, given back, blocked, or its time.
func TestPromise16VerdictsFromMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config{})
	l := testLine(t, s.Client(t))
	open(t, l, nil)
	g := grantsFor(t, l, 6)
	ctx := t.Context()
	a, countA := gatekeeper(t, s, l.cfg.Prefix)
	b, countB := gatekeeper(t, s, l.cfg.Prefix)
	for i, grant := range g {
		var first sync.WaitGroup
		var entered atomic.Int64
		for range 20 { // a page asks for all its pictures at once
			first.Go(func() {
				if in, err := a.Enter(ctx, "e", passOf(grant)); err == nil && in.State == EntryEntered {
					entered.Add(1)
				}
			})
		}
		first.Wait()
		require.EqualValues(t, 20, entered.Load(), "grant %d", i)
		in, err := b.Enter(ctx, "e", passOf(grant))
		require.NoError(t, err)
		require.Equal(t, EntryEntered, in.State)
	}
	ev, err := l.Event(ctx, "e")
	require.NoError(t, err)
	require.EqualValues(t, len(g), ev.Entered, "the store counts each entrance once")
	until(t, "answered from memory, while the feed is not late", func() bool {
		asked := countA.enters.Load()
		for range 1000 {
			in, err := a.Enter(ctx, "e", passOf(g[0]))
			require.NoError(t, err)
			require.Equal(t, g[0].Entry, in.Entry)
			require.False(t, in.Entrance)
		}
		return countA.enters.Load() == asked
	})
	require.LessOrEqual(t, countB.enters.Load(), int64(40))

	want := map[int]error{0: ErrRevoked, 1: ErrNoEntry, 2: ErrNoEntry, 3: ErrRevoked}
	for _, end := range []func() error{
		func() error { return l.Revoke(ctx, "e", g[0].JTI, "op") },
		func() error { return l.Complete(ctx, "e", g[1].JTI) },
		func() error { return l.Leave(ctx, "e", g[2].Entry) },
		func() error { return l.Block(ctx, "e", g[3].Entry, "op") },
		// By the node itself, which knows at once.
		func() error { return a.line.Revoke(ctx, "e", g[5].JTI, "op") },
	} {
		require.NoError(t, end())
	}
	_, err = a.Enter(ctx, "e", passOf(g[5]))
	require.ErrorIs(t, err, ErrRevoked)
	for i, wanted := range want {
		for _, v := range []*View{a, b} {
			until(t, fmt.Sprintf("the end of %d is known", i), func() bool {
				_, err := v.Enter(ctx, "e", passOf(g[i]))
				return errors.Is(err, wanted)
			})
		}
	}
	_, err = a.Enter(ctx, "e", passOf(g[4]))
	require.NoError(t, err, "nobody else's end is meant")
	_, err = a.Enter(ctx, "e", Pass{Event: "f", JTI: g[4].JTI})
	require.ErrorIs(t, err, ErrWrongEvent)
	_, err = a.Enter(ctx, "e", Pass{Event: "e", JTI: "never given"})
	require.ErrorIs(t, err, ErrNoEntry)

	at(t, l, 11*time.Minute)
	for _, v := range []*View{a, b} {
		until(t, "the session's time is over", func() bool {
			_, err := v.Enter(ctx, "e", passOf(g[4]))
			return errors.Is(err, ErrTokenExpired) || errors.Is(err, ErrNoEntry)
		})
	}
}

// doc.go promise 16, without news: a verdict is believed for a second, and then
// nobody passes until the store answers again; what ended meanwhile stays ended.
func TestPromise16NoNewsNoVerdict(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config{})
	l := testLine(t, s.Client(t))
	open(t, l, nil)
	g := grantsFor(t, l, 3)
	ctx := t.Context()
	v, c := gatekeeper(t, s, l.cfg.Prefix)
	for _, grant := range g[:2] {
		_, err := v.Enter(ctx, "e", passOf(grant))
		require.NoError(t, err)
	}
	c.away.Store(true)
	_, err := v.Enter(ctx, "e", passOf(g[2]))
	require.ErrorIs(t, err, ErrUnavailable, "who never entered here")
	// As if the last news were a little more than a second old: the clock is not waited for.
	f := v.follower("e")
	until(t, "the outage is noticed", func() bool { return c.stopped.Load() > 2 })
	f.state.mu.Lock()
	f.state.sure = f.state.sure.Add(-verdictFresh)
	f.state.mu.Unlock()
	_, err = v.Enter(ctx, "e", passOf(g[0]))
	require.ErrorIs(t, err, ErrUnavailable)
	require.NoError(t, l.Revoke(ctx, "e", g[0].JTI, "op"))
	c.away.Store(false)
	until(t, "revoked while nobody was told", func() bool {
		_, err := v.Enter(ctx, "e", passOf(g[0]))
		require.Error(t, err)
		return errors.Is(err, ErrRevoked)
	})
	until(t, "the other passes again", func() bool {
		_, err := v.Enter(ctx, "e", passOf(g[1]))
		return err == nil
	})
	// The store forgets the feed: what it told is not known, and the store is asked.
	asked := c.enters.Load()
	misplace(t, l, joinN(t, l, 1)[0])
	until(t, "the store is asked anew", func() bool {
		_, err := v.Enter(ctx, "e", passOf(g[1]))
		require.NoError(t, err)
		return c.enters.Load() > asked
	})
}

// doc.go promise 20: with fail open, who was let in passes while the store is away,
// until their time ends, and nobody else; the store decides again when it is back.
func TestPromise20FailOpen(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config{})
	l := testLine(t, s.Client(t))
	open(t, l, func(s *Settings) { s.Fail = "open" })
	g := grantsFor(t, l, 6)
	ctx := t.Context()
	v, c := gatekeeper(t, s, l.cfg.Prefix)
	const entered, holder, revoked, done, late, unseen = 0, 1, 2, 3, 4, 5
	for _, i := range []int{entered, revoked, done} {
		in, err := v.Enter(ctx, "e", passOf(g[i]))
		require.NoError(t, err)
		require.False(t, in.Unchecked)
	}
	require.NoError(t, l.Revoke(ctx, "e", g[revoked].JTI, "op"))
	require.NoError(t, l.Complete(ctx, "e", g[done].JTI))
	until(t, "the ends are known", func() bool {
		_, err := v.Enter(ctx, "e", passOf(g[done]))
		return err != nil
	})
	c.away.Store(true)
	f := v.follower("e")
	until(t, "the outage is noticed", func() bool { return c.stopped.Load() > 2 })
	f.state.mu.Lock()
	f.state.sure = time.Time{}
	f.state.mu.Unlock()
	require.NoError(t, l.Revoke(ctx, "e", g[unseen].JTI, "op"), "while this node hears nothing")

	in, err := v.Enter(ctx, "e", passOf(g[entered]))
	require.NoError(t, err)
	require.True(t, in.Unchecked)
	require.Equal(t, EntryEntered, in.State)
	in, err = v.Enter(ctx, "e", passOf(g[holder]))
	require.NoError(t, err)
	require.Equal(t, Grant{
		Event: "e", Entry: g[holder].Entry, Subject: g[holder].Subject, JTI: g[holder].JTI,
		AdmittedAt: g[holder].AdmittedAt, ClaimBy: g[holder].ClaimBy, State: EntryAdmitted, Unchecked: true,
	}, in)
	_, err = v.Enter(ctx, "e", passOf(g[unseen]))
	require.NoError(t, err, "what open gives up")
	_, err = v.Enter(ctx, "e", passOf(g[revoked]))
	require.ErrorIs(t, err, ErrRevoked)
	_, err = v.Enter(ctx, "e", passOf(g[done]))
	require.ErrorIs(t, err, ErrNoEntry)
	over := passOf(g[late])
	over.ClaimBy = time.Now().Add(-time.Minute)
	_, err = v.Enter(ctx, "e", over)
	require.ErrorIs(t, err, ErrUnavailable, "the claim time is over")
	f.verdicts.mu.Lock()
	f.verdicts.find(g[entered].JTI).grant.SessionEnds = time.Now().Add(-time.Minute)
	f.verdicts.mu.Unlock()
	_, err = v.Enter(ctx, "e", passOf(g[entered]))
	require.ErrorIs(t, err, ErrUnavailable, "the session is over")

	c.away.Store(false)
	until(t, "the store decides again", func() bool {
		in, err := v.Enter(ctx, "e", passOf(g[holder]))
		require.NoError(t, err)
		return !in.Unchecked
	})
	_, err = v.Enter(ctx, "e", passOf(g[unseen]))
	require.ErrorIs(t, err, ErrRevoked)
	ev, err := l.Event(ctx, "e")
	require.NoError(t, err)
	require.EqualValues(t, 4, ev.Entered, "the holder has entered now")
}

// An answer that was on its way while the feed told of the end is the older one.
func TestVerdictsEndedMeanwhile(t *testing.T) {
	t.Parallel()
	var vs verdicts
	running := Grant{JTI: "j", SessionEnds: time.Now().Add(time.Hour)}
	mark := vs.ask("j")
	vs.end("j", EntryBlocked)
	vs.answered("j", mark, running, nil)
	require.Equal(t, ErrRevoked, vs.find("j").ended)
	require.Empty(t, vs.find("j").grant.JTI)

	mark = vs.ask("k")
	vs.clear()
	vs.answered("k", mark, running, nil)
	require.Nil(t, vs.find("k"), "asked before what was known was dropped")

	for i := range 2*verdictsMost + 1 {
		jti := fmt.Sprint(i)
		vs.answered(jti, vs.ask(jti), Grant{JTI: jti}, nil)
	}
	require.LessOrEqual(t, len(vs.young)+len(vs.old), 2*verdictsMost)
	require.Nil(t, vs.find("0"), "the oldest is forgotten")
	require.NotNil(t, vs.find(fmt.Sprint(verdictsMost+5)))
	for range slidesMost {
		require.True(t, vs.slide(&verdict{}, time.Now()))
	}
	require.False(t, vs.slide(&verdict{}, time.Now()), "the store is asked instead")
}

// Sliding sessions run from the last pass, and many passes are few writes.
func TestSlidingFromMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config{})
	l := testLine(t, s.Client(t))
	open(t, l, func(s *Settings) { s.Session = "sliding" })
	g := grantsFor(t, l, 600)
	ctx := t.Context()
	v, c := gatekeeper(t, s, l.cfg.Prefix)
	var ends []time.Time
	for _, grant := range g {
		in, err := v.Enter(ctx, "e", passOf(grant))
		require.NoError(t, err)
		ends = append(ends, in.SessionEnds)
	}
	at(t, l, 5*time.Minute)
	until(t, "the view knows the time", func() bool {
		moment, _, _ := v.follower("e").sure(time.Now())
		return moment.After(ends[0].Add(-6 * time.Minute))
	})
	level(t, v)
	entered, slid := c.enters.Load(), c.slides.Load()
	for range 3 {
		for _, grant := range g {
			_, err := v.Enter(ctx, "e", passOf(grant))
			require.NoError(t, err)
		}
	}
	deadline := func(grant Grant) time.Time {
		ms, err := l.rdb.ZScore(ctx, l.keys.claims("e"), string(grant.Entry)).Result()
		require.NoError(t, err)
		return millis(int64(ms))
	}
	for i, grant := range []Grant{g[0], g[len(g)-1]} {
		until(t, "renewed", func() bool { return deadline(grant).After(ends[i].Add(4 * time.Minute)) })
	}
	require.LessOrEqual(t, c.enters.Load()-entered, int64(900), "most were answered from memory, also on a machine that stood still")
	require.LessOrEqual(t, c.slides.Load()-slid, int64(60), "1,800 passes of 600 people")

	// A session that has ended is not renewed, and one near its end asks at once.
	require.NoError(t, l.Complete(ctx, "e", g[0].JTI))
	f := v.follower("e")
	f.verdicts.mu.Lock()
	f.verdicts.slid = append(f.verdicts.slid, &verdict{grant: g[0], passed: time.Now()})
	f.verdicts.mu.Unlock()
	ev, err := l.Event(ctx, "e")
	require.NoError(t, err)
	at(t, l, 5*time.Minute+10*time.Minute-2*time.Second)
	until(t, "the view knows the time", func() bool {
		moment, _, _ := f.sure(time.Now())
		return moment.After(ev.Now.Add(9 * time.Minute))
	})
	entered = c.enters.Load()
	in, err := v.Enter(ctx, "e", passOf(g[1]))
	if err == nil { // else the machine was slow, and the time is over
		require.Greater(t, c.enters.Load(), entered)
		require.True(t, in.SessionEnds.After(ev.Now.Add(19*time.Minute-5*time.Second)), "%s", in.SessionEnds)
	}
	require.ErrorIs(t, l.Complete(ctx, "e", "x"), ErrNoEntry)
	_, err = l.Enter(ctx, "e", passOf(g[0]))
	require.ErrorIs(t, err, ErrNoEntry)
}

// BenchmarkViewEnter is a verdict from memory.
func BenchmarkViewEnter(b *testing.B) {
	s := redistest.Start(b, redistest.Config{})
	l := testLine(b, s.Client(b))
	open(b, l, nil)
	g := grantsFor(b, l, 1)
	v, _ := gatekeeper(b, s, l.cfg.Prefix)
	for b.Loop() {
		if _, err := v.Enter(b.Context(), "e", passOf(g[0])); err != nil {
			b.Fatal(err)
		}
	}
}
