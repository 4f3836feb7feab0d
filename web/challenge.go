package web

import (
	"context"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web/challenge"
	"github.com/waitroom-dev/waitroom/web/limit"
)

// Challenges say who has to solve something before joining, and whether they have.
type Challenges interface {
	Knows(kind string) bool
	Wanted(event waitroom.EventID, s waitroom.ChallengeSettings) bool
	Offer(event waitroom.EventID, s waitroom.ChallengeSettings, host string) ([]byte, error)
	Check(ctx context.Context, a challenge.Attempt) (cleared bool, err error)
}

const (
	headerChallenge = "X-Challenge"
	clearedKey      = "web.cleared"
	solvableKey     = "web.solvable" // a solution would be looked at in this call
)

// challengeError adds to a refusal where a challenge is to be had.
type challengeError struct {
	error
	address string
}

func (e *challengeError) Unwrap() error { return e.error }

func wantsChallenge(err error, event waitroom.EventID) error {
	return &challengeError{err, "/v1/events/" + string(event) + "/challenge"}
}

// challenge gives out a challenge of the event. It costs the store nothing, and no
// limit stands before it: it is the way past a limit.
func (s *Server) challenge(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	ev, err := s.deps.View.Event(c.Request().Context(), id)
	if err != nil {
		return err
	}
	settings := ev.Challenge
	if s.deps.Challenges == nil {
		return c.JSONBlob(http.StatusOK, []byte(`{"kind":"none"}`))
	}
	offer, err := s.deps.Challenges.Offer(id, settings, c.Request().Host)
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, mimeJSON, offer)
}

// challenged has a stranger solve the event's challenge, where it is wanted, before the
// handler runs. Whoever brings a solution is asked about it in any case. A call that is
// refused for something else anyway is left to the handler, which says why.
func (s *Server) challenged(call limit.Call, handler echo.HandlerFunc) echo.HandlerFunc {
	if s.deps.Challenges == nil {
		return handler
	}
	return func(c echo.Context) error {
		id, err := eventID(c)
		if err != nil {
			return err
		}
		c.Set(solvableKey, true)
		r := c.Request()
		ev, err := s.deps.View.Event(r.Context(), id)
		if err != nil || !ev.Challenge.Asked() || !joinable(ev, call) {
			return handler(c)
		}
		who, err := s.joinRequestIn(r, &ev)
		if err != nil || s.hasPlace(who) {
			return handler(c)
		}
		said, err := joinBodyOf(c)
		if err != nil {
			return err
		}
		wanted := s.deps.Challenges.Wanted(id, ev.Challenge)
		switch {
		case said.solution == "" && wanted:
			return wantsChallenge(ErrChallengeRequired, id)
		case said.solution == "":
			return handler(c)
		}
		cleared, err := s.deps.Challenges.Check(r.Context(), challenge.Attempt{
			Event: id, Settings: ev.Challenge, Solution: said.solution, Host: r.Host, Addr: limit.ClientAddr(r, s.cfg.TrustedProxies),
		})
		if err != nil {
			return s.failed(c, ev, call, err)
		}
		c.Set(clearedKey, cleared)
		return handler(c)
	}
}

// failed counts a solution that is wrong as any stranger's call, so that a flood of
// them ends at its address's limit.
func (s *Server) failed(c echo.Context, ev waitroom.Event, call limit.Call, err error) error {
	return s.limited(call, func(echo.Context) error {
		s.log.Debug("challenge failed", zap.String("event", string(ev.ID)), zap.Error(err))
		return wantsChallenge(err, ev.ID)
	})(c)
}

// joinable tells whether a join or an issue has a chance: an event that people may
// come to, and the call that its mode has.
func joinable(ev waitroom.Event, call limit.Call) bool {
	switch ev.State {
	case waitroom.Lobby, waitroom.Open, waitroom.Paused:
		return (ev.Mode == waitroom.ModeInstant) == (call == limit.Issue)
	case waitroom.Scheduled, waitroom.Draining, waitroom.Closed:
	}
	return false
}

// hasPlace tells whether somebody shows a place token of ours: they have passed
// already. A site's own JWT is none: with accounts that cost nothing it would open the
// door to whoever makes a thousand.
func (s *Server) hasPlace(who waitroom.JoinRequest) bool {
	if who.Receipt == "" {
		return false
	}
	_, _, err := s.deps.Line.ReadReceipt(who.Event, who.Receipt)
	return err == nil
}

// canChallenge refuses an event whose challenge this installation could not check.
func (s *Server) canChallenge(kind string) error {
	if s.deps.Challenges == nil || kind == "" || s.deps.Challenges.Knows(kind) {
		return nil
	}
	return wrongField("challenge.kind", fmt.Sprintf("%s needs challenge-secrets in the service's configuration", kind))
}
