package hub

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

func TestPresenceIsGatheredAndTold(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(1, 1)
	st.seat(2, 2)
	n := startNode(t, quick(), st.deps())
	told := func(entry, what string) {
		until(t, entry+" "+what, func() bool {
			st.mu.Lock()
			defer st.mu.Unlock()
			return st.told[waitroom.EntryID(entry)] == what
		})
	}
	phone := cookie(receiptOf("ann", 1))
	phone.Set("User-Agent", "Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0")
	a, b := dial(t, n, phone), dial(t, n, phone)
	c := dial(t, n, cookie(receiptOf("bob", 2)))
	told("ann", "here")
	told("bob", "here")
	require.NoError(t, a.ws.Close())
	b.wait("position")
	until(t, "the first tab to be gone", func() bool { return n.Sockets() == 2 })
	st.do(func() { require.Equal(t, "here", st.told["ann"], "the other tab is still there") })
	// While the store is away the news waits.
	st.do(func() { st.down = true })
	require.NoError(t, b.ws.Close())
	require.NoError(t, c.ws.Close())
	until(t, "all to be gone", func() bool { return n.Sockets() == 0 })
	st.do(func() { st.down = false })
	told("ann", "mobile")
	told("bob", "away")
	// The store lost everything.
	d := dial(t, n, cookie(receiptOf("bob", 2)))
	d.wait("position")
	told("bob", "here")
	st.do(func() { clear(st.told) })
	n.Forgotten(concert)
	told("bob", "here")
}

// A failover may lose what the store was told last: it is told again in time.
func TestPresenceIsToldAgain(t *testing.T) {
	t.Parallel()
	st := newStage()
	ev := st.events[concert]
	ev.Grace = waitroom.Duration(time.Second)
	st.events[concert] = ev
	st.seat(1, 1)
	n := startNode(t, quick(), st.deps())
	dial(t, n, cookie(receiptOf("ann", 1))).wait("position")
	for range 2 {
		until(t, "the line to be told", func() bool {
			st.mu.Lock()
			defer st.mu.Unlock()
			return st.told["ann"] == "here"
		})
		st.do(func() { clear(st.told) })
	}
}

// Whoever had a turn, joined anew and went leaves nothing behind.
func TestForgottenPeopleLeaveNoName(t *testing.T) {
	t.Parallel()
	st := newStage()
	h, err := New(quick(), st.deps())
	require.NoError(t, err)
	s, r := h.shards[0], h.rooms.enter(st.events[concert])
	ps := s.people(r)
	for _, name := range []waitroom.EntryID{"ann", "bob"} {
		p := &person{room: r, entry: name}
		ps.byEntry[name] = p
		g := grantFor(string(name), 1)
		g.Subject = "the site's " + g.Subject
		s.grant(p, g)
	}
	require.Len(t, ps.bySubject, 2)
	ann := ps.byEntry["ann"]
	ann.moved(5)
	s.forget(ann)
	require.Equal(t, map[string]*person{"the site's bob": ps.byEntry["bob"]}, ps.bySubject)
}

func TestPresenceIsBounded(t *testing.T) {
	t.Parallel()
	p := presence{pending: make(map[waitroom.EventID]map[waitroom.EntryID]whereabouts), limit: 3}
	for i := range 10 {
		p.note(concert, waitroom.EntryID(strconv.Itoa(i)), here)
		p.note(concert, "0", awayMobile)
	}
	require.Equal(t, map[waitroom.EventID]map[waitroom.EntryID]whereabouts{
		concert: {"0": awayMobile, "1": here, "2": here},
	}, p.takeAll())
}

// A shard that is far behind drops what visits will find out anyway.
func TestNewsIsBounded(t *testing.T) {
	t.Parallel()
	h, err := New(quick(), newStage().deps())
	require.NoError(t, err)
	s := h.shards[0]
	for range newsQueue {
		require.True(t, s.notify(news{kind: newsOutcome}))
	}
	require.False(t, s.notify(news{kind: newsAdmitted}))
	require.True(t, s.notify(news{kind: newsDrain}), "what the hub itself wants is never dropped")
}

// Questions beyond the bound are put off, and asked when there is room.
func TestQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	h, err := New(quick(), newStage().deps())
	require.NoError(t, err)
	s := h.shards[0]
	r := &room{id: concert}
	for range askQueue {
		s.ask(&person{room: r, entry: "somebody"})
	}
	require.Len(t, h.questions, askQueue)
	ann := &person{room: r, entry: "ann"}
	s.ask(ann)
	require.False(t, ann.asking)
	<-h.questions
	s.ask(ann)
	require.True(t, ann.asking)
	require.Len(t, h.questions, askQueue)
}

// Whoever has posts for a shard that is behind waits for it.
func TestPostsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, err := New(quick(), newStage().deps())
		require.NoError(t, err)
		s := h.shards[0]
		var served, posted atomic.Int64
		var wg sync.WaitGroup
		wg.Go(func() {
			for range postQueue + 1 {
				s.posts <- post{kind: postCall, call: func() { served.Add(1) }}
				posted.Add(1)
			}
		})
		synctest.Wait()
		require.EqualValues(t, postQueue, posted.Load())
		stop := make(chan struct{})
		wg.Go(func() { s.run(stop) })
		synctest.Wait()
		require.EqualValues(t, postQueue+1, served.Load())
		close(stop)
		wg.Wait()
	})
}

// The grant was dropped on its way: the visit finds it.
func TestMissedAdmissionIsFound(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(7, 1)
	n := startNode(t, quick(), st.deps())
	f := dial(t, n, cookie(receiptOf("ann", 7)))
	f.wait("position")
	st.leaveLine(7)
	st.do(func() {
		st.places["ann"] = waitroom.Place{Event: concert, Entry: "ann", Seq: 7, State: waitroom.EntryAdmitted, Grant: grantFor("ann", 7)}
	})
	require.Equal(t, "token-jti-ann", f.wait("admitted").EntryToken)
}

func TestHelloMovesASocketToAnotherEntry(t *testing.T) {
	t.Parallel()
	st := newStage()
	n := startNode(t, quick(), st.deps())
	for i := range 20 {
		st.seat(i+1, int64(i+1))
	}
	f := dial(t, n, cookie(receiptOf("e0", 1)))
	for i := range 20 {
		f.hello(receiptOf(fmt.Sprint("e", i), i+1))
		until(t, "the other's position", func() bool { return f.wait("position").Position == int64(i+1) })
	}
	until(t, "all but the last to be away", func() bool {
		st.mu.Lock()
		defer st.mu.Unlock()
		return st.told["e19"] == "here" && st.told["e18"] == "away" && st.told["e0"] == "away"
	})
}
