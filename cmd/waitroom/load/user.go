package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// user is one person on the way through one event. Only its own goroutine touches it.
type user struct {
	*worker
	habits
	rng    *rand.Rand
	due    time.Duration // scheduled arrival
	target int           // which instance it talks to now
	place  string        // place token
	token  string        // entry token
	link   link
	screen screen
	tab    *tab // the second one, if there is one
	fact   fact
}

// screen is what the user's page shows.
type screen struct {
	position int64 // the least shown so far; 0 before the first
	waiting  int64 // how many wait, as it was shown with it
	target   int   // who showed it
	lowered  int64 // when it last became less
	shown    int64 // when anything was shown last; 0 while the page is away
	asked    bool  // the probes while waiting are done
}

var (
	// errEnough: the moment to wait for has come before the message.
	errEnough = errors.New("enough waited")
	// errGaveUp: every try failed.
	errGaveUp = errors.New("gave up")
)

func (w *worker) newUser(i int, due time.Duration) *user {
	h, rng := w.spec.Config.Crowd.habits(i, w.spec.Config.Checks.Sample)
	if share := w.spec.Config.Checks.PerUser; share >= 1 { // nobody wants more than they may have
		h.seats = min(h.seats, share)
	}
	return &user{worker: w, habits: h, rng: rng, due: due, target: i / w.spec.Config.Workers, fact: fact{User: i, Polled: h.kind == polls}}
}

// done leaves the user's fact in the books.
func (u *user) done(end string) {
	u.fact.End = end
	u.tab.end()
	if u.link.sock != nil {
		u.link.sock.farewell()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.facts = append(u.facts, u.fact)
}

// way is the user's whole way after the join; it returns how it ended.
func (u *user) way(ctx context.Context) string {
	u.live.waiting.Add(1)
	end := u.wait(ctx)
	u.live.waiting.Add(-1)
	if end != "" {
		return end
	}
	u.live.admitted.Add(1)
	u.probeGrant(ctx)
	if err := u.hold(ctx); err != nil {
		return endGone
	}
	if u.buys {
		return u.buy(ctx)
	}
	return u.leave(ctx)
}

// path is a path below the event.
func (u *user) path(rest string) string {
	return "/v1/events/" + u.spec.Config.Event + rest
}

// join takes a place. Its latency runs from the scheduled arrival.
func (u *user) join(ctx context.Context) bool {
	u.fact.Sent = u.clock.now()
	a, worked, err := u.challenged(ctx, call{method: http.MethodPost, path: u.path("/entries"), key: u.newKey("join"), body: laneBody(u.spec.Config.Crowd.lane(u.fact.User))})
	if err != nil {
		return false
	}
	var p place
	switch a.status {
	case http.StatusCreated, http.StatusOK:
		wants := u.spec.Config.Crowd.lane(u.fact.User)
		if err := decode(a.body, &p); err != nil || p.EntryID == "" || p.PlaceToken == "" || wants != "" && p.Lane != wants {
			return u.broken("join", a)
		}
	case http.StatusForbidden:
		u.refusal(a.code(), "join")
		if wantsChallenge(a) {
			u.live.failed.Add(1) // a person who is taken for a bot is not served
			return false
		}
		u.live.refused.Add(1)
		return false
	default:
		return u.broken("join", a)
	}
	u.fact.Answered = u.clock.now()
	u.hist.record(mJoin, time.Duration(u.fact.Answered)*time.Microsecond-u.due-worked)
	u.live.joined.Add(1)
	u.fact.Entry, u.fact.Lane, u.place = p.EntryID, p.Lane, p.PlaceToken
	if p.waits() {
		u.fact.Waiting = u.fact.Answered
	}
	if p.Position != nil {
		u.show(*p.Position)
	}
	if p.EntryToken != "" {
		u.admit(p.turn(), true)
	}
	return true
}

// broken books an answer that the contract does not know and ends the user's way.
func (u *user) broken(deed string, a answer) bool {
	u.live.failed.Add(1)
	u.serverFault("bad_answer", "%s: http %d %.200s", deed, a.status, a.body)
	return false
}

// wait follows the line until the user is admitted: then it returns "". Otherwise it
// says how the wait ended.
func (u *user) wait(ctx context.Context) string {
	deeds := u.deeds()
	for u.token == "" {
		until := u.limit
		if len(deeds) > 0 && deeds[0].at.Before(until) {
			until = deeds[0].at
		}
		m, err := u.next(ctx, until)
		switch {
		case errors.Is(err, errEnough) && len(deeds) > 0 && time.Now().Before(u.limit):
			next := deeds[0]
			deeds = deeds[1:]
			if end := next.do(ctx); end != "" {
				return end
			}
		case errors.Is(err, errEnough):
			u.gap()
			return u.stillWaiting(ctx)
		case errors.Is(err, errGaveUp):
			u.live.failed.Add(1)
			return endGone
		case errors.Is(err, errEnded):
			return u.ended()
		case err != nil:
			u.gap()
			return endWaiting
		case m.Type == typePosition:
			if u.kind != polls { // who asked knows what was true when asking
				u.fact.Waiting = u.clock.now()
			}
			u.show(m.Position)
			u.screen.waiting = m.Waiting
			u.probePlace(ctx)
		case m.Type == typeEvent && m.State == "closed":
			u.live.refused.Add(1)
			u.refusal("closed", "while waiting")
			return endGone
		}
	}
	return ""
}

// ended judges a place that is over although its user stayed.
func (u *user) ended() string {
	u.live.failed.Add(1)
	u.serverFault("place_ended", "user %d: entry %s ended while its user waited", u.fact.User, u.fact.Entry)
	return endGone
}

// show puts a position on the screen: it is at least 1 and never grows. What another
// instance says within two seconds of the last change may be as old as that: it is
// not held against the service.
func (u *user) show(position int64) {
	now, s := u.clock.now(), &u.screen
	u.gap()
	s.shown = now
	u.live.positions.Add(1)
	otherView := s.target != u.target && now-s.lowered < 2_000_000
	if position < 1 || s.position > 0 && position > s.position && !otherView {
		u.tally.check(promisePlace, false, "user %d, entry %s: position %d shown after %d", u.fact.User, u.fact.Entry, position, s.position)
		return
	}
	if s.position == 0 || position < s.position {
		s.position, s.target, s.lowered = position, u.target, now
	}
}

// gap records how old the shown position has become.
func (u *user) gap() {
	s := &u.screen
	if s.shown == 0 || s.position == 0 {
		return
	}
	age := time.Duration(u.clock.now()-s.shown) * time.Microsecond
	if u.kind == polls { // how often they ask is what the service tells them
		u.hist.record(mPositionAgePolled, age)
		return
	}
	u.hist.record(mPositionAge, age)
	if s.position <= 1000 {
		u.hist.record(mPositionAgeFront, age)
	}
}

// admit takes the entry token, once; another one for the same person is a breach.
func (u *user) admit(t turn, prompt bool) {
	if u.token != "" {
		u.tally.check(promiseGrant, t.token == u.token, "user %d, entry %s: a second entry token, other bytes than the first", u.fact.User, u.fact.Entry)
		return
	}
	now := u.clock.now()
	p, err := parseToken(t.token)
	if err == nil {
		err = p.claims.faults(u.spec.Config.Event)
	}
	u.tally.check(promiseGrant, err == nil, "user %d, entry %s: entry token: %v", u.fact.User, u.fact.Entry, err)
	u.gap()
	u.token = t.token
	u.tab.tell(t.token)
	u.fact.Admitted, u.fact.IAT, u.fact.JTI = now, p.claims.IAT, p.claims.JTI
	u.fact.Expires, u.fact.Prompt = t.expires.UnixMilli(), prompt
	if t.at.Unix() == p.claims.IAT {
		u.fact.Promoted = t.at.UnixMilli()
	}
}

// hold looks around inside, still listening.
func (u *user) hold(ctx context.Context) error {
	until := time.Now().Add(u.spec.Config.Crowd.Hold)
	for {
		switch _, err := u.next(ctx, until); {
		case errors.Is(err, errEnough):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil: // no socket any more: a token is enough to buy
			return pause(ctx, time.Until(until))
		}
	}
}

// leave gives the place up.
func (u *user) leave(ctx context.Context) string {
	u.fact.Left = u.clock.now()
	a, err := u.ask(ctx, call{method: http.MethodDelete, path: u.path("/entries/me"), bearer: u.place})
	switch {
	case err != nil:
	case a.status == http.StatusNoContent:
		u.live.left.Add(1)
		u.fact.LeftOK = true
	default:
		u.broken("leave", a)
	}
	return endLeft
}

// newKey is an idempotency key that no other user and no other run has.
func (u *user) newKey(deed string) string {
	return fmt.Sprintf("%s-%d-%d-%x", deed, u.spec.Start.UnixMilli(), u.fact.User, u.rng.Uint64())
}
