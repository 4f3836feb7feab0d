package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"
)

// link is a user's tie to the service: a socket, or the wait for the next one.
type link struct {
	sock   *socket
	tries  int       // failed in a row
	backAt time.Time // no new socket before
	want   time.Time // since when the next one is tried for; zero while there is one
	hello  int64     // when the hello of a socket that has said nothing yet was sent
	had    bool      // there was one before
	lostAt time.Time // when a socket ended without a word that said when to come back
	absent bool      // away by the user's own doing
	etag   string    // of the answer that a polling page has
	polled place     // that answer, without its tokens
}

// errEnded: the entry is over.
var errEnded = errors.New("entry ended")

// silence is how long a socket may say nothing: data is promised each 25 s.
const silence = 40 * time.Second

// drop ends the socket without a word.
func (l *link) drop() {
	if l.sock != nil {
		l.sock.close()
		l.sock = nil
	}
}

// next gives the next message, from the socket or, while there is none, from
// entries/me. It reconnects as often as needed, within the bounds of every retry.
// errEnough: until has come; errEnded: the entry is over; errGaveUp: nobody answers.
func (u *user) next(ctx context.Context, until time.Time) (message, error) {
	for {
		if u.link.sock == nil {
			m, err := u.reach(ctx, until)
			if err != nil || m.Type != "" {
				return m, err
			}
			continue
		}
		deadline := time.Now().Add(silence)
		if until.Before(deadline) {
			deadline = until
		}
		b, err := u.link.sock.next(deadline)
		switch {
		case ctx.Err() != nil:
			return message{}, ctx.Err()
		case errors.Is(err, os.ErrDeadlineExceeded) && deadline.Equal(until):
			return message{}, errEnough
		case err != nil:
			u.lost(ctx, err)
			continue
		}
		m, err := parseMessage(b)
		if err != nil {
			u.serverFault("bad_message", "%v: %.200s", err, b)
			continue
		}
		u.live.messages.Add(1)
		u.heard(m)
		if m.Type == typeBye {
			u.link.drop()
			u.target++
			u.comeBack(time.Duration(m.RetryAfterMS) * time.Millisecond)
			continue
		}
		return m, nil
	}
}

// heard notes what any message on the socket tells.
func (u *user) heard(m message) {
	u.link.tries = 0
	if u.link.hello != 0 && (m.Type == typePosition || m.Type == typeAdmitted) {
		if !u.link.had && u.token == "" {
			u.hist.record(mFirstPosition, time.Duration(u.clock.now()-u.link.hello)*time.Microsecond)
		}
		u.link.hello, u.link.had = 0, true
	}
	if m.Type == typeAdmitted {
		u.admit(m.turn(), !u.link.absent)
	}
	if m.Type == typePosition {
		u.link.absent = false
	}
}

// lost books a socket that ended without a bye and sets the moment of the next.
func (u *user) lost(ctx context.Context, err error) {
	u.link.drop()
	var closed *closeError
	switch {
	case errors.As(err, &closed) && (closed.code == 1001 || closed.code == 1012):
		u.refusal(fmt.Sprint("socket_", closed.code), closed.Error())
		u.target++
	case errors.As(err, &closed):
		u.serverFault(fmt.Sprint("socket_", closed.code), "%v", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		u.serverFault("socket_silent", "user %d: nothing for %v", u.fact.User, silence)
	default:
		u.fault(ctx, err)
		u.target++
	}
	u.link.tries++
	if u.link.lostAt.IsZero() {
		u.link.lostAt = time.Now()
	}
	if slot := appointment(u.screen.position, u.screen.waiting); u.link.tries == 1 && slot > 0 {
		u.link.backAt = time.Now().Add(slot + backoff(1, 0, u.rng))
		return
	}
	u.comeBack(0)
}

// The time over which those whose sockets ended without a word come back.
const (
	lostWindow = 12 * time.Second      // so that no second holds a tenth of them
	lostEach   = 60 * time.Millisecond // a few are no herd
)

// appointment is when to come back after an instance was lost, which tells nobody a
// time: the nearest to the front first, as the waiting page does. Zero where the
// place is not known.
func appointment(position, waiting int64) time.Duration {
	if position < 1 || waiting < 1 {
		return 0
	}
	window := min(lostWindow, time.Duration(waiting)*lostEach)
	return time.Duration(float64(window) * float64(min(position, waiting)-1) / float64(waiting))
}

// comeBack sets when the next socket may be tried.
func (u *user) comeBack(after time.Duration) {
	if after > 0 && u.link.tries == 0 {
		u.link.backAt = time.Now().Add(after) // an appointment of one's own needs no jitter
		return
	}
	u.link.backAt = time.Now().Add(backoff(max(1, u.link.tries), after, u.rng))
}

// reach is one try to hear something without a socket.
func (u *user) reach(ctx context.Context, until time.Time) (message, error) {
	if u.kind == polls {
		return u.poll(ctx, until)
	}
	return u.connect(ctx, until)
}

// connect waits for its moment, then tries once to open a socket; where that fails
// it asks entries/me, so that nobody misses a turn for want of a socket.
func (u *user) connect(ctx context.Context, until time.Time) (message, error) {
	if until.Before(u.link.backAt) {
		if err := pause(ctx, time.Until(until)); err != nil {
			return message{}, err
		}
		return message{}, errEnough
	}
	if err := pause(ctx, time.Until(u.link.backAt)); err != nil {
		return message{}, err
	}
	if u.link.want.IsZero() {
		u.link.want = time.Now()
	}
	var err error
	u.live.calls.Add(1)
	again := u.link.had
	if doErr := u.crew.do(ctx, func() { err = u.openAndGreet(ctx) }); doErr != nil {
		return message{}, doErr
	}
	if err == nil {
		if again {
			u.live.reconnects.Add(1)
		}
		u.hist.record(mConnect, time.Since(u.link.want))
		u.link.want = time.Time{}
		if !u.link.lostAt.IsZero() {
			u.hist.record(mReconnect, time.Since(u.link.lostAt))
			u.link.lostAt = time.Time{}
		}
		return message{}, nil
	}
	if ctx.Err() != nil {
		return message{}, ctx.Err()
	}
	u.link.tries++
	wait := u.bookRefusedSocket(ctx, err)
	u.target++
	u.comeBack(wait)
	if u.link.tries >= retryTries {
		return message{}, errGaveUp
	}
	return u.askPlace(ctx)
}

// bookRefusedSocket books why there is no socket and returns what the server asked for.
func (u *user) bookRefusedSocket(ctx context.Context, err error) time.Duration {
	var refused *refusedError
	if !errors.As(err, &refused) {
		u.fault(ctx, err)
		return 0
	}
	switch a := refused.answer; a.status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		u.refusal("socket_"+statusKind(a.status), string(a.body))
		return a.retryAfter()
	default:
		u.serverFault("socket_"+statusKind(a.status), "%.200s", a.body)
		return 0
	}
}

// openAndGreet opens the user's socket; for the crew.
func (u *user) openAndGreet(ctx context.Context) (err error) {
	if u.link.sock, err = u.greet(ctx); err == nil {
		u.link.hello = u.clock.now()
	}
	return err
}

// greet opens a socket and says who it is for; for the crew.
func (u *user) greet(ctx context.Context) (*socket, error) {
	targets := u.spec.Config.Targets
	header := http.Header{}
	if tries := u.link.tries; tries > 0 {
		header.Set("X-Attempt", strconv.Itoa(tries+1))
	}
	if from := u.addressOf(u.fact.User); from != "" {
		header.Set("X-Forwarded-For", from)
	}
	s, err := openSocket(ctx, u.dialer, targets[u.target%len(targets)]+u.path("/live"), header)
	if err != nil {
		return nil, err
	}
	hello, err := json.Marshal(map[string]string{"type": "hello", "place_token": u.place})
	if err == nil {
		err = s.write(opText, hello)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("hello: %w", err)
	}
	return s, nil
}

// askPlace asks entries/me once, in place of a socket. The empty message: nothing new.
func (u *user) askPlace(ctx context.Context) (message, error) {
	a, err := u.try(ctx, call{method: http.MethodGet, path: u.path("/entries/me"), bearer: u.place}, 1)
	if err != nil || a.status != http.StatusOK {
		return message{}, ctx.Err()
	}
	var p place
	known := decode(a.body, &p) == nil
	switch {
	case !known:
		u.serverFault("bad_answer", "entries/me: %.200s", a.body)
		return message{}, nil
	case p.inside() && p.EntryToken != "":
		u.admit(p.turn(), !u.link.absent)
		return message{Type: typeAdmitted}, nil
	case p.waits() && p.Position != nil:
		return message{Type: typePosition, Position: *p.Position}, nil
	case p.waits(), p.inside():
		return message{}, nil
	default:
		return message{}, errEnded
	}
}
