package web

import (
	"errors"
	"fmt"
	"time"

	"github.com/labstack/echo/v4"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web/limit"
)

// guesses keeps addresses from trying codes. Only wrong codes count, so that an office
// full of people who have one gets in; but an address with too many of them has none
// looked at for a while, right or wrong, and costs the store nothing meanwhile.
type guesses struct {
	until *lru.Cache[string, time.Time] // event and address → when codes are looked at again
}

// guessers is how many addresses a process remembers.
const guessers = 65536

func newGuesses() guesses {
	until, _ := lru.New[string, time.Time](guessers) // fails for a size below one only
	return guesses{until: until}
}

// mayGuess refuses whoever has guessed too often.
func (s *Server) mayGuess(c echo.Context, id waitroom.EventID, code string) error {
	if code == "" {
		return nil
	}
	until, ok := s.guesses.until.Get(s.guesser(c, id))
	if wait := time.Until(until); ok && wait > 0 {
		return After(fmt.Errorf("%w: %s", ErrRateLimited, limit.WhichGuesses), wait)
	}
	return nil
}

// guessed counts a wrong code; every other error is left alone.
func (s *Server) guessed(c echo.Context, ev waitroom.Event, err error) error {
	wrong, ok := errors.AsType[*waitroom.NotEligibleError](err)
	if ok && wrong.Why != waitroom.UnknownCode || !ok && !errors.Is(err, waitroom.ErrNoParty) || s.deps.Limiter == nil {
		return err
	}
	r := c.Request()
	verdict := s.deps.Limiter.Allow(r.Context(), limit.Request{
		Event: string(ev.ID), Call: limit.Guess, Addr: limit.ClientAddr(r, s.cfg.TrustedProxies),
	}, s.limits.of(ev, s.log))
	if verdict.OK {
		return err
	}
	s.guesses.until.Add(s.guesser(c, ev.ID), time.Now().Add(verdict.RetryAfter))
	return After(fmt.Errorf("%w: %s", ErrRateLimited, verdict.Which), verdict.RetryAfter)
}

func (s *Server) guesser(c echo.Context, id waitroom.EventID) string {
	return string(id) + " " + limit.Household(limit.ClientAddr(c.Request(), s.cfg.TrustedProxies)).String()
}

// joinBody is what whoever joins or asks for a token may say.
type joinBody struct{ code, lane, solution string }

// joinBodyOf reads it; a solution may stand in a header instead.
func joinBodyOf(c echo.Context) (said joinBody, err error) {
	err = optional(c, field{"code", &said.code, "a string"}, field{"lane", &said.lane, "the name of a lane"}, field{"challenge", &said.solution, "a solved challenge, as text"})
	if said.solution == "" {
		said.solution = c.Request().Header.Get(headerChallenge)
	}
	return said, err
}
