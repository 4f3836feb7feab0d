package hub

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// keepFor is how long a person without sockets is remembered, so that a refresh
// of the page never shows a larger position than before.
const keepFor = time.Minute

// people are the persons of r in this shard.
func (s *shard) people(r *room) *people {
	ps := s.rooms[r]
	if ps == nil {
		ps = &people{room: r, byEntry: make(map[waitroom.EntryID]*person)}
		s.rooms[r] = ps
	}
	return ps
}

// opened takes a new socket over, and its identity if a cookie gave one.
func (s *shard) opened(c *client, id identity) {
	s.clients[c] = struct{}{}
	c.since, c.ping = s.wheel.at, s.wheel.at
	if s.closing {
		s.farewell(c, firstSlot)
		return
	}
	if id.entry == "" { // no good cookie: it must say hello
		s.wheel.plan(c, s.h.ticks(s.h.cfg.HelloTimeout))
		return
	}
	s.hello(c, id)
}

// hello makes c one of a person's tabs; if that person belongs to another shard,
// c moves there. Only one shard ever knows of c.
func (s *shard) hello(c *client, id identity) {
	if id.entry == "" { // the cookie counts, if it was good
		if c.person == nil {
			s.end(c, CodeBadToken)
			return
		}
		s.owe(c)
		s.flush(c)
		return
	}
	owner := s.h.shardOf(id.place())
	if owner == s {
		s.attach(c, id)
		return
	}
	s.detach(c)
	delete(s.clients, c)
	c.due, c.waits = 0, false
	c.owner.Store(owner)
	owner.notify(news{kind: newsMoved, client: c, hello: id})
}

// attach makes c a tab of the person that id names, and tells it where it stands.
func (s *shard) attach(c *client, id identity) {
	s.clients[c] = struct{}{}
	switch {
	case s.cutting:
		s.cut(c)
		return
	case s.closing:
		s.farewell(c, firstSlot)
		return
	}
	ps := s.people(c.room)
	p := ps.find(id)
	if p == nil {
		p = &person{room: c.room, entry: id.entry, receipt: id.receipt}
		p.moved(id.seq)
		ps.put(p, id.party)
	}
	if id.seq > p.seq {
		p.receipt = id.receipt
		p.moved(id.seq)
	}
	if c.person != p {
		s.detach(c)
		if p.tabs == nil {
			s.h.presence.note(c.room.id, p.place(), here)
		}
		p.add(c)
	}
	if c.room.event.Load().Party.Size > 0 { // who is in a party, and with whom, only the line knows
		if p.party != nil && p.party.members > 0 {
			c.owes |= owesParty
		} else {
			s.askAnew(p)
		}
	}
	switch p.state {
	case waitroom.EntryWaiting, waitroom.EntryLobby:
	case waitroom.EntryAdmitted, waitroom.EntryEntered:
		// The turn may have ended since; only the line knows.
		c.owes |= owesAdmitted
		s.ask(p)
	case waitroom.EntryCompleted, waitroom.EntryExpired, waitroom.EntryLeft, waitroom.EntryBlocked:
		p.state = waitroom.EntryWaiting // or maybe again in the line: ask
	}
	next := s.owe(c)
	s.soon(c, next)
	s.flush(c)
}

// placeless is whoever waits and has been shown no position yet.
func (p *person) placeless() bool {
	return p.shown == 0 && (p.state == waitroom.EntryWaiting || p.state == waitroom.EntryLobby)
}

// detach takes c from its person. With the last socket the person is away.
func (s *shard) detach(c *client) {
	p := c.person
	if p == nil {
		return
	}
	s.shopped(c)
	p.remove(c)
	if p.tabs != nil {
		return
	}
	state := awayDesktop
	if p.mobile {
		state = awayMobile
	}
	if !s.people(p.room).represented(p) {
		s.h.presence.note(p.room.id, p.place(), state)
	}
	p.gone = s.wheel.at
	s.waning = append(s.waning, p)
	// Nobody remembers more people than sockets are allowed.
	if len(s.waning) > s.h.cfg.MaxSockets {
		s.forget(s.waning[0])
		s.waning = s.waning[1:]
	}
}

// wane forgets whoever has been without sockets for long enough.
func (s *shard) wane() {
	old := s.wheel.at - s.h.ticks(keepFor)
	n := 0
	for n < len(s.waning) && s.waning[n].gone <= old {
		s.forget(s.waning[n])
		n++
	}
	if n > 0 {
		s.waning = slices.Delete(s.waning, 0, n)
	}
}

func (s *shard) forget(p *person) {
	ps := s.rooms[p.room]
	if p.tabs != nil || ps == nil || !ps.drop(p) {
		return
	}
	if ps.bySubject[p.subject] == p {
		delete(ps.bySubject, p.subject)
	}
	if len(ps.byEntry) == 0 && len(ps.byParty) == 0 {
		delete(s.rooms, p.room)
	}
}

// admitted gives each grant's holder the turn, if some socket of theirs is here.
func (s *shard) admitted(r *room, grants []waitroom.Grant) {
	ps := s.rooms[r]
	if ps == nil {
		return
	}
	for _, g := range grants {
		for _, p := range ps.byParty[g.Entry] { // the line knows which of them buys
			s.askAnew(p)
		}
		p := ps.byEntry[g.Entry]
		if p == nil || g.Seq < p.seq || (p.turn != nil && p.turn.jti == g.JTI) {
			continue // not here, of an earlier place, or told already
		}
		s.grant(p, g)
	}
}

// grant tells all tabs of p that they may come in.
func (s *shard) grant(p *person, g waitroom.Grant) {
	expires := g.ClaimBy
	if g.State == waitroom.EntryEntered && !g.SessionEnds.IsZero() {
		expires = g.SessionEnds
	}
	if p.turn != nil && p.turn.jti == g.JTI && p.state == g.State {
		p.turn.ends = expires
		return // told already
	}
	token, err := s.h.deps.Passes.Mint(g)
	if err != nil {
		// Asking again mints again; the grant itself is safe in the store.
		s.h.log.Error("token not minted", zap.String("event", string(g.Event)), zap.Error(err))
		return
	}
	p.seq = g.Seq
	p.state = g.State
	if p.state != waitroom.EntryEntered {
		p.state = waitroom.EntryAdmitted
	}
	p.turn = &turn{jti: g.JTI, ends: expires}
	p.turn.message = appendAdmitted(nil, token, g.AdmittedAt, expires, s.h.deps.Redirect(*p.room.event.Load()))
	if ps := s.people(p.room); g.Subject != "" && g.Subject != string(g.Entry) {
		if ps.bySubject == nil {
			ps.bySubject = make(map[string]*person)
		}
		p.subject = g.Subject
		ps.bySubject[p.subject] = p
	}
	for c := p.tabs; c != nil; {
		next := c.next // c may be cut, and leave the list
		c.owes |= owesAdmitted
		s.flush(c)
		c = next
	}
}

// ended tells those whose turns are over.
func (s *shard) ended(r *room, ends []waitroom.End) {
	ps := s.rooms[r]
	if ps == nil {
		return
	}
	for _, e := range ends {
		for _, p := range ps.byParty[e.Entry] {
			if p.turn == nil || p.turn.jti == e.JTI {
				s.over(p, e.State)
			}
		}
		if p := ps.byEntry[e.Entry]; p != nil && p.turn != nil && p.turn.jti == e.JTI {
			s.over(p, e.State)
		}
	}
}

// departed tells whoever stopped waiting.
func (s *shard) departed(r *room, gone []waitroom.Departure) {
	ps := s.rooms[r]
	if ps == nil {
		return
	}
	for _, d := range gone {
		for _, p := range ps.byParty[d.Entry] {
			if d.Seq >= p.seq {
				s.over(p, d.State)
			}
		}
		if p := ps.byEntry[d.Entry]; p != nil && d.Seq >= p.seq {
			s.over(p, d.State)
		}
	}
}

// over ends p's place or turn on all its tabs.
func (s *shard) over(p *person, state waitroom.EntryState) {
	code, closes := endCode(state, p.turn != nil)
	if p.state == state && !closes {
		return // told already
	}
	p.state, p.leaving = state, false
	for c := p.tabs; c != nil; {
		next := c.next // c may be cut, and leave the list
		c.owes |= owesEnded
		if closes {
			s.end(c, code)
		} else {
			s.flush(c)
		}
		c = next
	}
}

// outcome tells a buyer what became of a reservation.
func (s *shard) outcome(r *room, o ticket.Outcome) {
	ps := s.rooms[r]
	if ps == nil {
		return
	}
	p := ps.bySubject[o.Person]
	if p == nil {
		p = ps.byEntry[waitroom.EntryID(o.Person)]
	}
	if p == nil {
		p = ps.buyer(waitroom.EntryID(o.Person))
	}
	if p == nil {
		return
	}
	s.tmp = appendReservation(s.tmp[:0], o)
	for c := p.tabs; c != nil; {
		next := c.next
		s.enqueue(c, appendFrame(nil, c.sse, s.tmp))
		s.flush(c)
		c = next
	}
}

// numbered tells people their numbers.
func (s *shard) numbered(r *room, results []waitroom.Result) {
	ps := s.rooms[r]
	if ps == nil {
		return
	}
	for _, n := range results {
		p := ps.byEntry[n.Entry]
		if p == nil {
			continue
		}
		s.tmp = appendResult(s.tmp[:0], n)
		for c := p.tabs; c != nil; {
			next := c.next
			s.enqueue(c, appendFrame(nil, c.sse, s.tmp))
			s.flush(c)
			c = next
		}
	}
}

// noticed has everybody of the room told its notice, a few at a time. Where the notice
// is that their order is drawn, everybody hears their place within NearEvery.
func (s *shard) noticed(r *room) {
	gone, drawn := r.said.Load().gone, !r.event.Load().Undrawn()
	for c := range s.clients {
		if p := c.person; c.room == r && drawn && p != nil && p.placeless() && c.endBy == 0 {
			s.soon(c, s.h.ticks(s.h.cfg.NearEvery)/2)
		}
		switch {
		case c.room != r:
		case gone:
			c.owes |= owesNotice
			s.end(c, CodeNoEvent)
		case !c.waits:
			c.waits = true
			s.backlog = append(s.backlog, c)
		}
	}
}

// recount says again of everybody of the room that they are here.
func (s *shard) recount(r *room) {
	if ps := s.rooms[r]; ps != nil {
		for _, p := range ps.byEntry {
			if p.tabs != nil {
				s.h.presence.note(r.id, p.entry, here)
			}
		}
		for party, members := range ps.byParty {
			if slices.ContainsFunc(members, (*person).here) {
				s.h.presence.note(r.id, party, here)
			}
		}
	}
}
