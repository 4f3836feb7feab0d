package web

import (
	"context"
	"fmt"
	"sync"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web/limit"
)

// Limiter says who has asked too often.
type Limiter interface {
	Allow(ctx context.Context, req limit.Request, rules limit.Rules) limit.Verdict
}

// limited counts a call against its caller's buckets before the handler runs: the
// person's own where a good token names one, else the address's.
func (s *Server) limited(call limit.Call, handler echo.HandlerFunc) echo.HandlerFunc {
	if s.deps.Limiter == nil {
		return handler
	}
	return func(c echo.Context) error {
		id, err := eventID(c)
		if err != nil {
			return err
		}
		r := c.Request()
		ev, err := s.deps.View.Event(r.Context(), id)
		if err != nil {
			return handler(c) // which says the same, and counts nobody
		}
		verdict := s.deps.Limiter.Allow(r.Context(), limit.Request{
			Event: string(id), Call: call, Person: s.caller(c, id, call), Addr: limit.ClientAddr(r, s.cfg.TrustedProxies),
			Cleared: c.Get(clearedKey) == true, Challenge: mayClear(c, ev, call),
		}, s.limits.of(ev, s.log))
		if !verdict.OK {
			if verdict.Which == limit.WhichAddress && mayClear(c, ev, call) { // a challenge instead of a wall
				return wantsChallenge(ErrChallengeRequired, id)
			}
			return After(fmt.Errorf("%w: %s", ErrRateLimited, verdict.Which), verdict.RetryAfter)
		}
		return handler(c)
	}
}

// mayClear tells whether a challenge lifts an address's limit for this call.
func mayClear(c echo.Context, ev waitroom.Event, call limit.Call) bool {
	return c.Get(solvableKey) == true && ev.Challenge.Asked() && joinable(ev, call)
}

// caller is the person of a good token, without asking the store; "" is anybody.
func (s *Server) caller(c echo.Context, id waitroom.EventID, call limit.Call) string {
	if call == limit.Booking {
		person, err := s.person(c.Request(), id)
		if err != nil {
			return ""
		}
		return person
	}
	req, err := s.joinRequest(c.Request(), id)
	switch {
	case err != nil:
		return ""
	case req.Subject != "":
		return req.Subject
	case req.Receipt == "":
		return ""
	}
	entry, _, err := s.deps.Line.ReadReceipt(id, req.Receipt)
	if err != nil {
		return ""
	}
	return string(entry)
}

// limitRules keeps each event's rules, read once a version of its settings.
type limitRules struct {
	mu    sync.Mutex // guards below
	known map[waitroom.EventID]versionedRules
}

type versionedRules struct {
	version int64
	rules   limit.Rules
}

// of never fails: settings that were stored have been checked, and if a newer
// version of this service wrote what we cannot read, nobody is limited by it.
func (l *limitRules) of(ev waitroom.Event, log *zap.Logger) limit.Rules {
	l.mu.Lock()
	defer l.mu.Unlock()
	if have, ok := l.known[ev.ID]; ok && have.version == ev.Version {
		return have.rules
	}
	rules, err := limit.ParseRules(ev.Limits)
	if err != nil {
		log.Error("limits not understood", zap.String("event", string(ev.ID)), zap.Error(err))
	}
	const most = 10_000 // events of one installation; beyond it they are read anew
	if l.known == nil || len(l.known) >= most {
		l.known = make(map[waitroom.EventID]versionedRules)
	}
	l.known[ev.ID] = versionedRules{ev.Version, rules}
	return rules
}
