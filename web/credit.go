package web

import (
	"net/http"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// creditError is a fault of ours with what makes it good.
type creditError struct {
	error
	credit string
}

func (e *creditError) Unwrap() error { return e.error }

// makeGood adds a credit to the answer when it was the service that failed somebody
// with a good entry token: it needs no store, so it is given while all are away.
func (s *Server) makeGood(c echo.Context, pass waitroom.Pass, err error) error {
	if ev, unseen := s.deps.View.Event(c.Request().Context(), pass.Event); unseen == nil && !sells(ev.Settings) {
		return err // only what is sold here is known to have failed
	}
	if err == nil || pass.JTI == "" || pass.Expired || problemOf(err).Status < http.StatusInternalServerError {
		return err
	}
	if ev, viewErr := s.deps.View.Event(c.Request().Context(), pass.Event); viewErr == nil && (ev.Mode == waitroom.ModeInstant || ev.Mode == waitroom.ModeBuffered) {
		return err // there is no line to be in front of
	}
	s.metrics.credits.WithLabelValues("given").Inc()
	s.log.Info("credit given", zap.String("event", string(pass.Event)), zap.String("jti", pass.JTI), zap.Error(err))
	return &creditError{err, s.deps.Line.Credit(pass)}
}

// credit lets somebody in again whom the service failed.
func (s *Server) credit(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	var token string
	if err := required(c, field{"credit", &token, "the credit of an answer that failed"}); err != nil {
		return err
	}
	if token == "" {
		return wrongField("credit", "is needed")
	}
	place, err := s.redeemCredit(c, id, token)
	if err != nil {
		s.metrics.credits.WithLabelValues(problemOf(err).Code).Inc()
		return err
	}
	s.setCookie(c, placeCookie+string(id), place.Receipt, placeCookieAge)
	body, wait, err := s.placeBody(c, place, 0)
	if err != nil {
		return err
	}
	setRetryAfter(c.Response().Header(), wait)
	status, result := http.StatusOK, "running"
	if place.Created {
		status, result = http.StatusCreated, "admitted"
		s.log.Info("credit used", zap.String("event", string(id)), zap.String("jti", place.Grant.JTI))
	}
	s.metrics.credits.WithLabelValues(result).Inc()
	return writeJSON(c, status, body)
}

func (s *Server) redeemCredit(c echo.Context, id waitroom.EventID, token string) (waitroom.Place, error) {
	req, err := s.joinRequest(c.Request(), id)
	if err != nil {
		return waitroom.Place{}, err
	}
	jti, err := s.deps.Line.ReadCredit(id, token)
	if err != nil {
		return waitroom.Place{}, err
	}
	ev, err := s.deps.View.Event(c.Request().Context(), id)
	if err != nil {
		return waitroom.Place{}, err
	}
	if !sells(ev.Settings) {
		return waitroom.Place{}, ticket.ErrWrongMode
	}
	bought, err := s.deps.Tickets.Bought(c.Request().Context(), string(id), jti)
	if err != nil {
		return waitroom.Place{}, err
	}
	if bought {
		return waitroom.Place{}, ticket.ErrTokenUsed
	}
	return s.deps.Line.MakeGood(c.Request().Context(), req, token)
}
