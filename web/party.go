package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// Parties are friends who share one place of a draw.
type Parties interface {
	MakeParty(ctx context.Context, req waitroom.PartyRequest) (waitroom.Party, error)
	JoinParty(ctx context.Context, req waitroom.PartyRequest) (waitroom.Party, error)
	Party(ctx context.Context, req waitroom.PartyRequest) (waitroom.Party, error)
	LeaveParty(ctx context.Context, req waitroom.PartyRequest) error
	BuyForParty(ctx context.Context, req waitroom.PartyRequest) (waitroom.Party, error)
}

// partyBody is what a member is told of their party.
type partyBody struct {
	Members int  `json:"members"`
	Size    int  `json:"size"`
	YouBuy  bool `json:"you_buy"`
	// Code and PlaceToken are in the answers to calls of the party, not in a place's.
	Code       string `json:"code,omitempty"`
	PlaceToken string `json:"place_token,omitempty"`
}

func partyBodyOf(m *waitroom.Membership, ev *waitroom.Event) *partyBody {
	if m == nil {
		return nil
	}
	return &partyBody{Members: m.Members, Size: ev.Party.Size, YouBuy: m.Buys}
}

// partySize is the public event's word of its parties; absent where there are none.
type partySize struct {
	Size int `json:"size"`
}

func partySizeOf(s waitroom.Settings) *partySize {
	if s.Party.Size == 0 {
		return nil
	}
	return &partySize{s.Party.Size}
}

// partyCall is what a call of the party does: one method, and what it answers.
type partyCall func(ctx context.Context, req waitroom.PartyRequest) (waitroom.Party, error)

// party has one person do something with their party, and tells them how it is now.
func (s *Server) party(do partyCall) echo.HandlerFunc {
	return func(c echo.Context) error {
		id, err := eventID(c)
		if err != nil {
			return err
		}
		who, err := s.member(c.Request(), id)
		if err == nil && c.Request().Method != http.MethodGet && c.Request().Method != http.MethodHead {
			err = optional(c)
		}
		if err != nil {
			return err
		}
		party, err := do(c.Request().Context(), waitroom.PartyRequest{JoinRequest: who})
		if err != nil {
			return s.whenOpen(c, id, err)
		}
		return s.tellParty(c, party)
	}
}

// member is who calls about a party: unlike who joins the line, somebody known already.
func (s *Server) member(r *http.Request, id waitroom.EventID) (waitroom.JoinRequest, error) {
	who, err := s.joinRequest(r, id)
	if err != nil && !errors.Is(err, waitroom.ErrNoEvent) || who.Subject != "" {
		return who, err
	}
	token := cmp.Or(who.Receipt, placeToken(r, id))
	if token == "" {
		return who, waitroom.ErrTokenRequired
	}
	if _, _, bad := s.deps.Line.ReadReceipt(id, token); bad != nil {
		return who, foreign(bad)
	}
	return who, err
}

func (s *Server) tellParty(c echo.Context, p waitroom.Party) error {
	ev, err := s.deps.View.Event(c.Request().Context(), p.Place.Event)
	if err != nil && !errors.Is(err, waitroom.ErrUnavailable) {
		return err
	}
	s.setCookie(c, placeCookie+string(p.Place.Event), p.Place.Receipt, placeCookieAge)
	body := partyBodyOf(p.Place.Party, &ev)
	if body == nil {
		return waitroom.ErrNoParty
	}
	body.Code, body.PlaceToken = p.Code, p.Place.Receipt
	status := http.StatusOK
	if p.Place.Created {
		status = http.StatusCreated
	}
	return writeJSON(c, status, body)
}

// joinParty takes a person into the party whose code they say. Wrong codes are counted as
// any other.
func (s *Server) joinParty(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	who, err := s.member(c.Request(), id)
	if err != nil {
		return err
	}
	said, err := joinBodyOf(c)
	switch {
	case err != nil:
		return err
	case said.code == "":
		return wrongField("code", "must be the code of a party")
	case said.lane != "":
		return wrongField("lane", "is none of a party's")
	}
	if err := s.mayGuess(c, id, said.code); err != nil {
		return err
	}
	party, err := s.deps.Line.JoinParty(c.Request().Context(), waitroom.PartyRequest{JoinRequest: who, PartyCode: said.code})
	if err != nil {
		ev, viewErr := s.deps.View.Event(c.Request().Context(), id)
		if viewErr != nil {
			return err
		}
		return s.guessed(c, ev, s.whenOpen(c, id, err))
	}
	return s.tellParty(c, party)
}

// leaveParty ends a person's part in their party, if they are in one. The cookie stays: it
// says who may join anew.
func (s *Server) leaveParty(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	who, err := s.member(c.Request(), id)
	if err != nil {
		return err
	}
	if err := s.deps.Line.LeaveParty(c.Request().Context(), waitroom.PartyRequest{JoinRequest: who}); err != nil {
		return err
	}
	return noContent(c)
}
