package web

import (
	"cmp"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// longestTurn is how long after the claim time a turn may last, where the event's own
// session_ttl is not known.
const longestTurn = 10 * time.Minute

// creditError is a fault of ours with what makes it good.
type creditError struct {
	error
	credit string
}

func (e *creditError) Unwrap() error { return e.error }

// makeGood adds a credit to the answer when it was the service that failed somebody
// with a good entry token: it needs no store, so it is given while all are away. A
// token whose claim time is over is good as long as a session that began in time may
// last; whether one did, the store says when the credit is used. In mode buffered there
// are no turns: whoever asks again with the same key has the same number.
func (s *Server) makeGood(c echo.Context, pass waitroom.Pass, err error) error {
	if err == nil || pass.JTI == "" || problemOf(err).Status < http.StatusInternalServerError {
		return err
	}
	longest := longestTurn
	if ev, unseen := s.deps.View.Event(c.Request().Context(), pass.Event); unseen == nil {
		if !sells(ev.Settings) || ev.Mode == waitroom.ModeBuffered || ev.Mode == waitroom.ModeInstant && ev.Quota.Returns == "never" {
			return err // nothing that is sold here failed, or a turn cannot be given again
		}
		longest = cmp.Or(time.Duration(ev.SessionTTL), longest)
	}
	if pass.Expired && time.Since(pass.ClaimBy) > longest {
		return err // the turn was over, whenever it had begun
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
	if req.Subject == "" && req.Receipt == "" { // whom to let in, nobody says
		return waitroom.Place{}, waitroom.ErrTokenRequired
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
