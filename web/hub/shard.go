package hub

import (
	"cmp"
	"sync"
	"time"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

const (
	// postQueue is how many messages of readers and askers may wait for a shard;
	// further ones make their sender wait, and so the peer that sends too much.
	postQueue = 1024
	// newsQueue is how many items from the listeners may wait for a shard. Further
	// ones are dropped and counted: each visit finds out by itself that somebody is
	// not in the line any more, and asks.
	newsQueue = 1 << 16
	// chunk is how many clients are served between two looks at what else came.
	chunk = 128
	// glance is how many visits lie between two looks for news within one tick.
	glance = 16
)

// post is what a reader or an asker has to say about one client or person.
type post struct {
	kind    postKind
	client  *client
	person  *person
	hello   identity
	frame   []byte
	version string // of the map that it has
	code    Code
	answer  answer
	call    func()
}

type postKind int

const (
	postOpened  postKind = iota // a new socket
	postHello                   // it said who it is
	postLeave                   // it gives its place up
	postSeats                   // it wants to be told what changes on the map
	postNoSeats                 // or no more
	postFrame                   // an answer to its ping
	postRefuse                  // it broke the rules; close with code
	postClosed                  // it sent a close frame, of its own or for ours
	postGone                    // its connection has ended
	postAnswer                  // the line answered
	postCall                    // the hub wants a function run, after all posts before
)

// identity is what a good receipt says.
type identity struct {
	entry   waitroom.EntryID
	party   waitroom.EntryID // whose entry the place is of; empty: their own
	seq     waitroom.Seq
	receipt string
}

// place is the entry whose place it is.
func (id identity) place() waitroom.EntryID { return cmp.Or(id.party, id.entry) }

// news is what happened to the line, or what another shard or the hub wants done.
type news struct {
	kind    newsKind
	room    *room
	grants  []waitroom.Grant
	gone    []waitroom.Departure
	ended   []waitroom.End
	numbers []waitroom.Result
	parties []waitroom.EntryID // of which something changed, and of people
	outcome ticket.Outcome
	client  *client
	hello   identity
	post    post
	slots   slots
}

type newsKind int

const (
	newsAdmitted newsKind = iota
	newsDeparted
	newsEnded
	newsOutcome
	newsNumbered
	newsParties // members came or went, or another one buys
	newsNotice  // the room's notice changed
	newsSeats   // the room's map changed
	newsMoved   // a client comes over from another shard
	newsPost    // a post for a client that came over
	newsRecount // say again who is here
	newsDrain   // farewell to everybody
	newsCut     // close every socket at once
)

// people are the persons of one room in one shard.
type people struct {
	room    *room
	byEntry map[waitroom.EntryID]*person
	// byParty finds the members of a party.
	byParty map[waitroom.EntryID][]*person
	// bySubject finds persons whom the site knows under a name of its own.
	bySubject map[string]*person
	// tails is what a position message says to all alike, as of tick: to those of each
	// lane, or of the event where it has none.
	tails [][]byte
	tick  int64
	// near is where the front ends: who is nearer is told every NearEvery.
	near int64
	// shoppers are told what changes on the map, and delta is what they were told last.
	shoppers map[*client]struct{}
	delta    delta
}

// shard owns a part of the clients and is the only one that writes to them.
type shard struct {
	h       *Hub
	index   int
	posts   chan post
	wake    chan struct{} // capacity 1: there is news
	wheel   wheel
	rooms   map[*room]*people
	clients map[*client]struct{}
	backlog []*client // to be served as soon as there is nothing more urgent
	waning  []*person // without sockets, in the order they went
	visited int       // counts visits, for the looks between them
	closing bool      // a drain has begun
	cutting bool      // its grace is over
	pen     pen
	buf     []byte // where messages are put together
	tmp     []byte // where one message is put together before its frame

	mu    sync.Mutex // guards the following
	inbox []news
}

func newShard(h *Hub, index int) *shard {
	s := &shard{
		h:       h,
		index:   index,
		posts:   make(chan post, postQueue),
		wake:    make(chan struct{}, 1),
		rooms:   make(map[*room]*people),
		clients: make(map[*client]struct{}),
		pen:     newPen(),
	}
	s.wheel.owner = s
	return s
}

// notify hands news over without ever blocking. It reports false if the shard is
// so far behind that the news was dropped. What other shards hand over is never
// dropped: there is no more of it than the sockets and their readers' allowance.
func (s *shard) notify(n news) bool {
	s.mu.Lock()
	full := len(s.inbox) >= newsQueue && (n.kind == newsAdmitted || n.kind == newsDeparted || n.kind == newsEnded || n.kind == newsOutcome || n.kind == newsNumbered || n.kind == newsParties)
	if !full {
		s.inbox = append(s.inbox, n)
	}
	s.mu.Unlock()
	if full {
		s.h.metrics.dropped.Inc()
		return false
	}
	select {
	case s.wake <- struct{}{}:
	default: // it is awake already
	}
	return true
}

// run serves the shard's clients until stop is closed.
func (s *shard) run(stop <-chan struct{}) {
	tick := time.NewTicker(s.h.cfg.Tick)
	defer tick.Stop()
	ready := make(chan struct{})
	close(ready)
	for {
		var backlog <-chan struct{}
		if len(s.backlog) > 0 {
			backlog = ready
		}
		select {
		case <-stop:
			return
		case p := <-s.posts:
			s.take(p)
		case <-s.wake:
			s.read()
		case <-tick.C:
			// Every tick of the wheel is visited, however late; what is late is not
			// made up for, since each visit plans the next from now.
			for now := s.h.now(); s.wheel.at < now; {
				s.wheel.turn(s.visitAmong)
			}
			s.wane()
		case <-backlog:
			s.serve()
		}
	}
}

// visitAmong is one visit of many that are due. News overtakes the others: whoever was
// admitted is told before the next few positions, however many a tick brings.
func (s *shard) visitAmong(c *client) {
	s.visit(c)
	if s.visited++; s.visited%glance == 0 {
		s.hurry()
	}
}

// hurry takes in news if there is some.
func (s *shard) hurry() {
	select {
	case <-s.wake:
		s.read()
	default:
	}
}

// serve brings the next few of the backlog up to date.
func (s *shard) serve() {
	n := min(chunk, len(s.backlog))
	for _, c := range s.backlog[:n] {
		if c.owner.Load() == s { // it may have moved
			c.waits = false
			s.flush(c)
		}
	}
	clear(s.backlog[:n])
	s.backlog = s.backlog[n:]
	if len(s.backlog) == 0 {
		s.backlog = nil
	}
}

// read takes in all news there is.
func (s *shard) read() {
	s.mu.Lock()
	list := s.inbox
	s.inbox = nil
	s.mu.Unlock()
	for _, n := range list {
		switch n.kind {
		case newsAdmitted:
			s.admitted(n.room, n.grants)
		case newsDeparted:
			s.departed(n.room, n.gone)
		case newsEnded:
			s.ended(n.room, n.ended)
		case newsOutcome:
			s.outcome(n.room, n.outcome)
		case newsNumbered:
			s.numbered(n.room, n.numbers)
		case newsParties:
			s.mingled(n.room, n.parties)
		case newsNotice:
			s.noticed(n.room)
		case newsSeats:
			s.stepped(n.room)
		case newsMoved:
			s.attach(n.client, n.hello)
		case newsPost:
			s.take(n.post)
		case newsRecount:
			s.recount(n.room)
		case newsDrain:
			s.drain(n.slots)
		case newsCut:
			s.cutting = true
			s.cutAll()
		}
	}
}

// take does what a reader or an asker wants.
func (s *shard) take(p post) {
	c := p.client
	switch p.kind {
	case postAnswer:
		s.answered(p.person, p.answer)
		return
	case postCall:
		p.call()
		return
	case postOpened:
		s.opened(c, p.hello)
		return
	case postHello, postLeave, postSeats, postNoSeats, postFrame, postRefuse, postGone, postClosed: // of a client; see below
	}
	if owner := c.owner.Load(); owner != s {
		// A reader's posts all come through its client's first shard and keep their order.
		owner.notify(news{kind: newsPost, post: p})
		return
	}
	switch {
	case p.kind == postGone:
		s.cut(c)
	case p.kind == postClosed && !c.done:
		s.end(c, p.code) // nothing, if this is the answer to ours
		if c.stuck == 0 {
			s.cut(c) // the server hangs up first
		}
	}
	if c.done || c.endBy != 0 {
		return // too late: nothing follows a close frame
	}
	switch p.kind {
	case postHello:
		s.hello(c, p.hello)
	case postLeave:
		if c.person != nil {
			c.person.leaving = true
			s.ask(c.person)
		}
	case postSeats:
		s.shop(c, p.version)
	case postNoSeats:
		s.shopped(c)
	case postFrame:
		s.enqueue(c, p.frame)
		s.flush(c)
	case postRefuse:
		s.end(c, p.code)
	case postOpened, postAnswer, postCall, postGone, postClosed: // done above
	}
}
