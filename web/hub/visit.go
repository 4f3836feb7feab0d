package hub

import (
	"math/rand/v2"
	"net"
	"time"

	"github.com/waitroom-dev/waitroom/waitroom"
)

const (
	// lingering is how long a peer has to answer a close frame.
	lingering = 2 * time.Second
	// stuckRetry is the time between two tries to write to a full socket.
	stuckRetry = 500 * time.Millisecond
	// askAgain is the least time between two questions to the line about one person.
	askAgain = time.Second
	// lookAgain is the time between two looks for a place that the view does not know.
	lookAgain = 200 * time.Millisecond
	// furthestNear bounds how much of the line counts as near because it moves fast.
	furthestNear = 5
)

// visit looks after c: is it alive, what is it to be told, when is it next.
func (s *shard) visit(c *client) {
	if c.done {
		return
	}
	now := s.wheel.at
	if c.endBy != 0 {
		if now >= c.endBy {
			s.cut(c)
			return
		}
		s.wheel.plan(c, c.endBy-now)
		s.flush(c)
		return
	}
	if !c.sse && now-c.heard.Load() > s.h.ticks(s.h.cfg.PongWait) {
		s.h.metrics.lost.Inc()
		s.cut(c)
		return
	}
	if now-c.ping >= s.h.ticks(s.h.cfg.PingEvery) {
		c.ping = now
		c.owes |= owesPing
	}
	var next int64
	if c.person == nil {
		left := c.since + s.h.ticks(s.h.cfg.HelloTimeout) - now
		if left <= 0 {
			s.end(c, CodeNoHello)
			return
		}
		next = left
	} else {
		next = s.owe(c)
	}
	// The longest plan is still short enough to notice a ping that is due.
	s.wheel.plan(c, min(next, c.ping+s.h.ticks(s.h.cfg.PingEvery)-now))
	s.flush(c)
}

// owe notes what c is to be told now and returns the ticks until the next visit.
func (s *shard) owe(c *client) int64 {
	p := c.person
	if p.leaving {
		s.ask(p) // the last try failed
	}
	if p.again {
		s.askAnew(p) // there was no room for the question
	}
	if p.state != waitroom.EntryWaiting && p.state != waitroom.EntryLobby {
		if p.overdue() {
			s.ask(p)
		}
		if c.owes&(owesAdmitted|owesEnded) == 0 {
			c.owes |= owesNotice // something to say, so that no proxy hangs up
			if p.turn != nil && p.room.event.Load().Now.After(p.turn.ends) {
				s.ask(p) // it began its session, or nobody has swept, or the news was lost
			}
		}
		return s.h.ticks(s.h.cfg.IdleEvery)
	}
	if p.room.event.Load().Undrawn() {
		c.owes |= owesNotice // nobody has a position yet
		return s.h.ticks(s.h.cfg.FarEvery)
	}
	pos, ok := s.h.deps.View.Position(p.room.id, p.seq)
	if !ok {
		s.ask(p) // a draw has just given a new place, perhaps
		if p.shown > 0 && !p.asking {
			c.owes |= owesPosition
		}
		return s.h.ticks(lookAgain)
	}
	if p.shown == 0 || pos < p.shown {
		p.shown = pos
	}
	c.owes |= owesPosition
	if p.shown <= s.people(p.room).front(s) {
		return s.h.ticks(s.h.cfg.NearEvery)
	}
	return s.h.ticks(s.h.cfg.FarEvery)
}

// front brings what all positions of the room share up to the tick and returns
// where the front ends: whoever may be among the first Near before a far
// message's time is near already.
func (ps *people) front(s *shard) int64 {
	if ps.tick == s.wheel.at && ps.near != 0 {
		return ps.near
	}
	ps.tick = s.wheel.at
	cfg := &s.h.cfg
	ev := ps.room.event.Load()
	seats, ok := s.h.deps.SeatsLeft(ev.ID)
	if !ok {
		seats = -1
	}
	ps.brief(ev, seats)
	ps.near = cfg.Near + int64(min(ev.RatePerS*cfg.FarEvery.Seconds(), float64(furthestNear*cfg.Near)))
	return ps.near
}

// brief makes the tails anew, in the memory of those before.
func (ps *people) brief(ev *waitroom.Event, seats int64) {
	n := max(1, len(ev.LaneCounts))
	if len(ps.tails) != n {
		ps.tails = make([][]byte, n)
	}
	if len(ev.LaneCounts) == 0 {
		ps.tails[0] = appendTail(ps.tails[0][:0], "", ev.RatePerS, seats)
	}
	for i, l := range ev.LaneCounts {
		ps.tails[i] = appendTail(ps.tails[i][:0], l.Name, l.RatePerS, seats)
	}
}

// soon plans c's next visit within its period, at a random tick, so that those
// who came together are not served together for ever.
func (s *shard) soon(c *client, period int64) {
	s.wheel.plan(c, 1+rand.Int64N(max(period, 1)))
}

// flush writes what c is owed, as far as its socket takes it. It never blocks.
func (s *shard) flush(c *client) {
	if c.done {
		return
	}
	b := append(s.buf[:0], c.rest...)
	if c.stuck == 0 && !c.sealed {
		b = s.gather(c, b)
		c.sealed = c.endBy != 0 // the close frame was the last
	}
	s.buf = b
	if len(b) == 0 {
		return
	}
	n, err := s.pen.write(c, b)
	switch {
	case err != nil:
		s.cut(c)
	case n < len(b):
		s.keep(c, b[n:])
	default:
		c.rest = nil
		s.h.metrics.bytes.Add(float64(n))
		if c.stuck != 0 {
			c.stuck = 0
			s.flush(c) // what came meanwhile
			return
		}
		s.written(c)
	}
}

// keep holds what did not fit into the socket, and cuts c when it has waited too
// long. Between two tries nothing else is put together for c.
func (s *shard) keep(c *client, rest []byte) {
	now := s.wheel.at
	if c.stuck == 0 {
		c.stuck = max(now, 1)
		c.rest = append([]byte(nil), rest...)
	} else {
		c.rest = c.rest[len(c.rest)-len(rest):]
	}
	if now-c.stuck >= s.h.ticks(s.h.cfg.WriteTimeout) {
		s.slow(c)
		return
	}
	next := s.h.ticks(stuckRetry)
	if c.endBy != 0 {
		next = min(next, c.endBy-now)
	}
	s.wheel.plan(c, next)
}

// slow cuts a client that does not keep up. The close code says so if the socket
// stands between two frames and takes it; otherwise the connection just ends.
func (s *shard) slow(c *client) {
	s.h.metrics.slow.Inc()
	if len(c.rest) == 0 {
		_, _ = s.pen.write(c, appendClose(s.buf[:0], c.sse, CodeSlow))
	}
	s.cut(c)
}

// gather appends everything that c is owed, each as it is now.
func (s *shard) gather(c *client, b []byte) []byte {
	said := c.room.said.Load()
	if said.number > c.notice {
		c.owes |= owesNotice
	}
	owes := c.owes
	c.owes = 0
	p := c.person
	if p == nil {
		owes &^= owesPosition | owesAdmitted | owesEnded | owesNotice | owesSeats | owesParty
	}
	frame := func(msg []byte) {
		b = appendFrame(b, c.sse, msg)
		s.h.metrics.messages.Inc()
	}
	if owes&owesNotice != 0 {
		c.notice = said.number
		frame(said.message)
	}
	if owes&owesPosition != 0 && p.state == waitroom.EntryWaiting && p.shown > 0 {
		s.tmp = s.position(p).append(s.tmp[:0])
		frame(s.tmp)
	}
	if owes&owesParty != 0 && p.party != nil && p.party.members > 0 {
		s.tmp = p.party.append(s.tmp[:0])
		frame(s.tmp)
	}
	if owes&owesAdmitted != 0 && p.turn != nil {
		frame(p.turn.message)
	}
	if owes&owesSeats != 0 {
		if msg := s.changes(c); msg != nil {
			frame(msg)
		}
	}
	for _, f := range c.queue {
		b = append(b, f...)
	}
	c.queue = nil
	if owes&owesEnded != 0 {
		s.tmp = appendEnded(s.tmp[:0], p.state)
		frame(s.tmp)
	}
	if owes&owesBye != 0 {
		s.tmp = appendBye(s.tmp[:0], c.bye)
		if c.sse {
			b = appendRetry(b, c.bye)
		}
		frame(s.tmp)
	}
	if owes&owesPing != 0 {
		b = appendPing(b, c.sse)
	}
	if owes&owesClose != 0 {
		b = appendClose(b, c.sse, c.code)
	}
	return b
}

// position is what p is told: the least so far, and what is true for all.
func (s *shard) position(p *person) position {
	ps := s.people(p.room)
	ps.front(s)
	ev := ps.room.event.Load()
	lane := min(ev.LaneNumber(p.seq), len(ps.tails)-1) // a foreign sequence is nobody's to shape
	m := position{pos: p.shown, waiting: ev.WaitingWith(p.seq), tail: ps.tails[lane]}
	if eta, p90, ok := s.h.deps.View.Estimate(p.room.id, p.seq, p.shown); ok {
		m.eta, m.p90 = eta, p90
	}
	return m
}

// enqueue adds one frame that nothing replaces. A client that has not taken the
// ones before is cut; it finds out by asking what it missed.
func (s *shard) enqueue(c *client, frame []byte) {
	if len(c.queue) >= s.h.cfg.QueueLen {
		s.slow(c)
		return
	}
	c.queue = append(c.queue, frame)
}

// end closes c with a code: the frame goes out after everything c is owed, then
// the peer has a moment to answer.
func (s *shard) end(c *client, code Code) {
	if c.done || c.endBy != 0 {
		return
	}
	c.code = code
	c.owes |= owesClose
	c.endBy = s.wheel.at + s.h.ticks(lingering)
	s.wheel.plan(c, s.h.ticks(lingering))
	s.flush(c)
}

// written is called when all of c's messages are in the kernel's hands. If the
// last was a close, the peer sees the end of the stream.
func (s *shard) written(c *client) {
	if !c.sealed {
		return
	}
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		return
	}
	s.cut(c)
}

// cut closes the connection at once and forgets the client.
func (s *shard) cut(c *client) {
	if c.done {
		return
	}
	c.done, c.due, c.queue, c.rest = true, 0, nil, nil
	s.detach(c)
	delete(s.clients, c)
	s.h.poller.remove(c)
	closeConn(c.conn)
	s.h.rooms.leave(c.room)
	s.h.release()
}

func (s *shard) cutAll() {
	for c := range s.clients {
		s.cut(c)
	}
}

func closeConn(conn net.Conn) {
	_ = conn.Close() // nothing is left to do for a connection that fails to close
}
