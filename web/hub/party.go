package hub

import (
	"slices"
	"strconv"
	"time"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// membership is a person's part in a party, as the line said last.
type membership struct {
	entry   waitroom.EntryID // the party's, whose place it is
	members int              // 0: the line has not said yet
	size    int
	buys    bool
	state   waitroom.EntryState
	ends    time.Time // of the turn, while there is one
}

// place is the entry whose place p has.
func (p *person) place() waitroom.EntryID {
	if p.party != nil {
		return p.party.entry
	}
	return p.entry
}

// here is whether p has a socket on this node.
func (p *person) here() bool { return p.tabs != nil }

// overdue is whether p's party has had a turn that is over by now, of which nobody has told.
func (p *person) overdue() bool {
	return p.turn == nil && p.party != nil && !p.party.ends.IsZero() && p.room.event.Load().Now.After(p.party.ends)
}

// find is the person that a receipt names; nil where this shard does not know them.
func (ps *people) find(id identity) *person {
	if id.party == "" {
		return ps.byEntry[id.entry]
	}
	for _, p := range ps.byParty[id.party] {
		if p.entry == id.entry {
			return p
		}
	}
	return nil
}

// put adds a person, alone or to a party.
func (ps *people) put(p *person, party waitroom.EntryID) {
	if party == "" {
		ps.byEntry[p.entry] = p
		return
	}
	p.party = &membership{entry: party}
	if ps.byParty == nil {
		ps.byParty = make(map[waitroom.EntryID][]*person)
	}
	ps.byParty[party] = append(ps.byParty[party], p)
}

// drop takes a person out, and is false where they are another one by now.
func (ps *people) drop(p *person) bool {
	if p.party == nil {
		if ps.byEntry[p.entry] != p {
			return false
		}
		delete(ps.byEntry, p.entry)
		return true
	}
	members := ps.byParty[p.party.entry]
	i := slices.Index(members, p)
	if i < 0 {
		return false
	}
	if members = slices.Delete(members, i, i+1); len(members) == 0 {
		delete(ps.byParty, p.party.entry)
	} else {
		ps.byParty[p.party.entry] = members
	}
	return true
}

// represented is whether another member of p's party has a socket on this node.
func (ps *people) represented(p *person) bool {
	return p.party != nil && slices.ContainsFunc(ps.byParty[p.party.entry], (*person).here)
}

// buyer is the member of a party who has its turn; nil without one here.
func (ps *people) buyer(party waitroom.EntryID) *person {
	for _, p := range ps.byParty[party] {
		if p.turn != nil {
			return p
		}
	}
	return nil
}

// askAnew has the line asked about p, whatever was asked before: something has changed
// since.
func (s *shard) askAnew(p *person) {
	p.again = true
	if !p.asking {
		p.asked = 0
		s.ask(p)
	}
}

// mingled has everybody asked about whose party has changed, or who came or went.
func (s *shard) mingled(r *room, who []waitroom.EntryID) {
	ps := s.rooms[r]
	if ps == nil {
		return
	}
	for _, e := range who {
		if p := ps.byEntry[e]; p != nil && p.here() {
			s.askAnew(p)
		}
		for _, p := range ps.byParty[e] {
			if p.here() {
				s.askAnew(p)
			}
		}
	}
}

// elsewhere is whether the place is not the one that p came with, since p has joined a
// party or left one; all tabs go on with it, perhaps in another shard.
func (s *shard) elsewhere(p *person, place waitroom.Place) bool {
	if place.Entry == p.place() || place.Receipt == "" {
		return false
	}
	if place.State != waitroom.EntryLobby && place.State != waitroom.EntryWaiting &&
		place.State != waitroom.EntryAdmitted && place.State != waitroom.EntryEntered {
		s.over(p, place.State)
		return true
	}
	id := identity{entry: p.entry, seq: place.Seq, receipt: place.Receipt}
	if place.Party != nil {
		id.party = place.Entry
	}
	for c := p.tabs; c != nil; {
		next := c.next // c is another person's from here on
		if c.endBy == 0 {
			s.hello(c, id)
		}
		c = next
	}
	return true
}

// partyIs takes in what the line said of p's party, and tells p if it is another than before.
func (s *shard) partyIs(p *person, place waitroom.Place) {
	if p.party == nil || place.Party == nil {
		return
	}
	now := membership{
		entry: p.party.entry, members: place.Party.Members, size: p.room.event.Load().Party.Size, buys: place.Party.Buys, state: place.State,
	}
	switch place.State { //nolint:exhaustive // the others have no turn
	case waitroom.EntryAdmitted:
		now.ends = place.Grant.ClaimBy
	case waitroom.EntryEntered:
		now.ends = place.Grant.SessionEnds
	}
	if now == *p.party {
		return
	}
	*p.party = now
	for c := p.tabs; c != nil; {
		next := c.next // c may be cut, and leave the list
		c.owes |= owesParty
		s.flush(c)
		c = next
	}
}

// append writes the message. While it is the party's turn it says so to those who do not
// buy, too, and until when.
func (m *membership) append(b []byte) []byte {
	b = append(b, `{"type":"party","members":`...)
	b = strconv.AppendInt(b, int64(m.members), 10)
	b = append(b, `,"size":`...)
	b = strconv.AppendInt(b, int64(m.size), 10)
	b = append(b, `,"you_buy":`...)
	b = strconv.AppendBool(b, m.buys)
	if !m.ends.IsZero() {
		b = append(b, `,"state":`...)
		b = appendString(b, string(m.state))
		b = append(b, `,"expires_at":"`...)
		b = append(m.ends.UTC().AppendFormat(b, stampFormat), '"')
	}
	return append(b, '}')
}
