package load

import (
	"context"
	"net/http"
	"time"
)

// poll asks entries/me in place of listening, as a page does where no socket gets
// through: never before it was told to, and naming the answer that it has. The empty
// message: nothing new.
func (u *user) poll(ctx context.Context, until time.Time) (message, error) {
	next := u.link.backAt
	if u.token != "" || until.Before(next) { // with a token there is nothing to ask for
		if err := pause(ctx, time.Until(until)); err != nil {
			return message{}, err
		}
		return message{}, errEnough
	}
	if err := pause(ctx, time.Until(next)); err != nil {
		return message{}, err
	}
	sent := u.clock.now()
	a, err := u.try(ctx, call{method: http.MethodGet, path: u.path("/entries/me"), bearer: u.place, etag: u.link.etag}, u.link.tries+1)
	switch {
	case ctx.Err() != nil:
		return message{}, ctx.Err()
	case err != nil || again(a):
		if u.link.tries++; u.link.tries == retryTries {
			return message{}, errGaveUp
		}
		u.link.backAt = time.Now().Add(backoff(u.link.tries, a.retryAfter(), u.rng))
		return message{}, nil
	}
	u.link.tries = 0
	u.live.polls.Add(1)
	return u.polled(a, sent)
}

// pollAgain is when to ask again where the service does not say so, which is a fault.
const pollAgain = 5 * time.Second

// polled takes in an answer to a question that was sent at sent.
func (u *user) polled(a answer, sent int64) (message, error) {
	var p place
	switch {
	case a.status == http.StatusNotModified:
		u.live.notModified.Add(1)
		p = u.link.polled // what was said before still holds; a page shows the least it knows
		if p.Position != nil && u.screen.position > 0 {
			p.Position = new(min(*p.Position, u.screen.position))
		}
	case a.status != http.StatusOK:
		return message{}, errEnded
	case decode(a.body, &p) != nil:
		u.serverFault("bad_answer", "entries/me: %.200s", a.body)
	default:
		u.link.etag, u.link.polled = a.header.Get("ETag"), place{EntryID: p.EntryID, State: p.State, Position: p.Position}
	}
	wait := a.retryAfter()
	switch {
	case p.inside() && p.EntryToken != "":
		u.admit(p.turn(), false)
		return message{Type: typeAdmitted}, nil
	case p.inside(), p.EntryID == "":
	case !p.waits():
		return message{}, errEnded
	default:
		u.fact.Waiting = sent
		if wait == 0 {
			u.serverFault("no_retry_after", "entries/me: http %d without Retry-After", a.status)
		}
	}
	if wait == 0 {
		wait = pollAgain
	}
	u.link.backAt = time.Now().Add(wait + time.Duration(u.rng.Int64N(int64(wait/10)+1)))
	if p.waits() && p.Position != nil {
		return message{Type: typePosition, Position: *p.Position}, nil
	}
	return message{}, nil
}
