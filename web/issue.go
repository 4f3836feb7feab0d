package web

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// issuedBody is the answer to whoever has a token.
type issuedBody struct {
	Result      string           `json:"result"`
	Rank        int64            `json:"rank"`
	EntryID     waitroom.EntryID `json:"entry_id"`
	PlaceToken  string           `json:"place_token"`
	EntryToken  string           `json:"entry_token"`
	AdmittedAt  stamp            `json:"admitted_at"`
	ExpiresAt   stamp            `json:"expires_at"`
	RedirectURL string           `json:"redirect_url,omitempty"`
}

// issue gives out a token of an event with mode instant, or says at once that there
// is none.
func (s *Server) issue(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	said, err := joinBodyOf(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	ev, err := s.deps.View.Event(ctx, id)
	if err != nil {
		return err
	}
	who, err := s.joinRequestIn(c.Request(), &ev)
	if err != nil {
		return err
	}
	if ev.Mode != waitroom.ModeInstant {
		return waitroom.ErrWrongMode
	}
	if _, err := ev.ChooseLane(said.lane, nil); err != nil {
		return err
	}
	if err := s.mayGuess(c, id, said.code); err != nil {
		return err
	}
	got, err := s.deps.Line.Issue(ctx, waitroom.IssueRequest{
		Event: id, Receipt: who.Receipt, Subject: who.Subject, Mobile: who.Mobile, Groups: who.Groups, Code: said.code, Durable: ev.Durable,
	})
	if got.Receipt != "" { // also without an answer: it makes the next try the same person's
		s.setCookie(c, placeCookie+string(id), got.Receipt, placeCookieAge)
	}
	if err != nil {
		return s.guessed(c, ev, askAgainLater(ev, err))
	}
	return s.writeIssued(c, ev, got)
}

func (s *Server) writeIssued(c echo.Context, ev waitroom.Event, got waitroom.Issued) error {
	token, err := s.deps.Passes.Mint(got.Grant)
	if err != nil {
		return fmt.Errorf("mint entry token: %w", err)
	}
	ends := got.Grant.ClaimBy
	if got.State == waitroom.EntryEntered {
		ends = got.Grant.SessionEnds
	}
	body := issuedBody{
		Result: "ALREADY_ISSUED", Rank: got.Rank, EntryID: got.Entry, PlaceToken: got.Receipt, EntryToken: token,
		AdmittedAt: stamp(got.Grant.AdmittedAt), ExpiresAt: stamp(ends), RedirectURL: s.redirectURL(c, ev.ID, &ev),
	}
	status := http.StatusOK
	if got.Created {
		status, body.Result = http.StatusCreated, "ISSUED"
	}
	return writeJSON(c, status, body)
}

// askAgainLater says when a refusal may turn out otherwise: when the first token
// can come back, or when the event opens. Those who wait for the same token are
// spread, so that they do not come in one moment.
func askAgainLater(ev waitroom.Event, err error) error {
	const longest, spread = 30 * time.Second, 5 * time.Second
	if none, ok := errors.AsType[*waitroom.ExhaustedError](err); ok {
		return After(err, min(max(none.Next, time.Second)+rand.N(spread), longest))
	}
	if errors.Is(err, waitroom.ErrNotOpen) && ev.OpensAt != nil && ev.State != waitroom.Paused {
		return After(err, min(max(ev.OpensAt.Sub(ev.Now), time.Second), time.Hour)) // schedules change
	}
	return err
}
