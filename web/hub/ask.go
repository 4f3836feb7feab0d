package hub

import (
	"context"
	"errors"
	"math/rand/v2"

	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// askQueue is how many questions may wait for an asker. A person whose question
// finds no room is asked about at the next visit.
const askQueue = 4096

// question is about a person whom the view does not find in the line.
type question struct {
	shard   *shard
	person  *person
	event   waitroom.EventID
	receipt string
	leaves  waitroom.EntryID // not empty: who gives the place up
}

// answer is what the line says.
type answer struct {
	place waitroom.Place
	left  bool // the place, or the turn, is given up
	err   error
}

// asker asks the line until the questions end.
func (h *Hub) asker(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-h.questions:
			a := h.answer(ctx, q)
			select {
			case q.shard.posts <- post{kind: postAnswer, person: q.person, answer: a}:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (h *Hub) answer(ctx context.Context, q question) answer {
	call, cancel := context.WithTimeout(ctx, h.cfg.StoreTimeout)
	defer cancel()
	if q.leaves != "" {
		err := h.deps.Line.Leave(call, q.event, q.leaves)
		return answer{left: err == nil, err: err}
	}
	place, err := h.deps.Line.Place(call, q.event, q.receipt)
	return answer{place: place, err: err}
}

// ask has the line asked about p, or told that p leaves, unless that is on its way
// or was done just now.
func (s *shard) ask(p *person) {
	now := s.wheel.at
	if p.asking || (p.asked != 0 && now < p.asked) {
		return
	}
	q := question{shard: s, person: p, event: p.room.id, receipt: p.receipt}
	if p.leaving {
		q.leaves = p.entry
	}
	select {
	case s.h.questions <- q:
		p.asking, p.again = true, false
		pause := s.h.ticks(askAgain)
		p.asked = now + pause + rand.Int64N(pause+1)
	default:
		s.h.metrics.unasked.Inc()
	}
}

// answered takes in what the line said of p.
func (s *shard) answered(p *person, a answer) {
	p.asking = false
	if p.tabs == nil {
		return
	}
	if p.again { // this may be of before
		s.askAnew(p)
	}
	switch {
	case a.left:
		s.over(p, waitroom.EntryLeft)
	case a.err == nil:
		s.placed(p, a.place)
	case errors.Is(a.err, waitroom.ErrNoEntry):
		s.over(p, waitroom.EntryExpired)
	case errors.Is(a.err, waitroom.ErrBlocked):
		s.over(p, waitroom.EntryBlocked)
	case errors.Is(a.err, waitroom.ErrTokenInvalid), errors.Is(a.err, waitroom.ErrWrongEvent):
		s.endAll(p, CodeBadToken)
	default:
		// The next visits ask again, about once a second and person. An event that is
		// missing may come back: its room says when that is given up.
		s.h.log.Debug("place not known", zap.String("event", string(p.room.id)), zap.Error(a.err))
	}
}

func (s *shard) placed(p *person, place waitroom.Place) {
	if s.elsewhere(p, place) {
		return
	}
	if place.Seq < p.seq {
		return // asked before p joined anew
	}
	if place.Seq > p.seq {
		p.moved(place.Seq)
	}
	if place.Receipt != "" {
		p.receipt = place.Receipt
	}
	switch place.State {
	case waitroom.EntryWaiting, waitroom.EntryLobby:
		p.state, p.turn = place.State, nil
		if place.Number != nil { // decided before the socket was there
			s.numbered(p.room, []waitroom.Result{*place.Number})
		}
		for c := p.tabs; c != nil; c = c.next {
			if p.shown == 0 {
				s.wheel.plan(c, 1) // the view hears of it within a tick
			}
		}
	case waitroom.EntryAdmitted, waitroom.EntryEntered:
		if place.Party != nil && !place.Party.Buys {
			p.state, p.turn = place.State, nil
			break
		}
		s.grant(p, place.Grant)
	case waitroom.EntryCompleted, waitroom.EntryExpired, waitroom.EntryLeft, waitroom.EntryBlocked:
		s.over(p, place.State)
	}
	s.partyIs(p, place)
}

// endAll closes every tab of p.
func (s *shard) endAll(p *person, code Code) {
	for c := p.tabs; c != nil; {
		next := c.next
		s.end(c, code)
		c = next
	}
}
