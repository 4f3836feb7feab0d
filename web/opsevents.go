package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// opsEventBody is the whole of an event, with times as the contract writes them.
type opsEventBody struct {
	waitroom.Event
	LobbyOpensAt *stamp `json:"lobby_opens_at,omitempty"`
	OpensAt      *stamp `json:"opens_at,omitempty"`
	ClosesAt     *stamp `json:"closes_at,omitempty"`
	Since        *stamp `json:"since,omitempty"`
	Now          stamp  `json:"now"`
}

func opsEventOf(e waitroom.Event) opsEventBody {
	var since *time.Time
	if !e.Since.IsZero() {
		since = &e.Since
	}
	return opsEventBody{
		Event: e, Since: stampOf(since), LobbyOpensAt: stampOf(e.LobbyOpensAt), OpensAt: stampOf(e.OpensAt),
		ClosesAt: stampOf(e.ClosesAt), Now: stamp(e.Now),
	}
}

// opsEvents lists all events.
func (s *Server) opsEvents(c echo.Context) error {
	events, err := s.deps.Operations.Events(c.Request().Context())
	if err != nil {
		return err
	}
	bodies := make([]opsEventBody, len(events))
	for i, e := range events {
		bodies[i] = opsEventOf(e)
	}
	return writeJSON(c, http.StatusOK, struct {
		Events []opsEventBody `json:"events"`
	}{bodies})
}

// opsCreate makes an event, and what it sells.
func (s *Server) opsCreate(c echo.Context) error {
	doc, err := document(c)
	if err != nil {
		return err
	}
	settings, state, err := waitroom.DecodeSettingsOver(*s.cfg.Defaults, doc)
	if err != nil {
		return err
	}
	if err := errors.Join(s.canIdentify(settings.Identity), s.canChallenge(settings.Challenge.Kind)); err != nil {
		return err
	}
	if _, _, err := Catalogue(settings); err != nil {
		return err
	}
	ctx := c.Request().Context()
	event, err := s.deps.Operations.Create(ctx, settings, state, by(c))
	if err != nil {
		return err
	}
	if err := s.stock(ctx, event.Settings); err != nil {
		s.undoCreate(ctx, event.ID, by(c))
		return err
	}
	return writeJSON(c, http.StatusCreated, opsEventOf(event))
}

// stock puts what an event sells into the tickets' store; what is there stays.
func (s *Server) stock(ctx context.Context, settings waitroom.Settings) error {
	catalogue, sells, err := Catalogue(settings)
	if err != nil || !sells || s.deps.Tickets == nil {
		return err
	}
	if err := s.deps.Tickets.Put(ctx, string(settings.ID), catalogue); err != nil {
		return fmt.Errorf("stock %s: %w", settings.ID, err)
	}
	return nil
}

// undoCreate takes back an event that has nothing to sell, so that the operator
// may try again.
func (s *Server) undoCreate(ctx context.Context, id waitroom.EventID, who string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.CallTimeout)
	defer cancel()
	if err := s.deps.Operations.Delete(ctx, id, who); err != nil {
		s.log.Error("event without stock remains", zap.String("event", string(id)), zap.Error(err))
	}
}

// canIdentify refuses an event whose people this installation could not know.
func (s *Server) canIdentify(by string) error {
	if by == identityJWT && !s.cfg.Identity.Known() {
		return wrongField("identity", "jwt needs identity-secret or identity-jwks in the service's configuration")
	}
	return nil
}

// opsEvent tells the whole of an event.
func (s *Server) opsEvent(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	e, err := s.deps.Operations.Event(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, opsEventOf(e))
}

// opsPatch changes any part of the settings, and the state.
func (s *Server) opsPatch(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	doc, err := document(c)
	if err != nil {
		return err
	}
	var part struct {
		Identity  string          `json:"identity"`
		Tickets   json.RawMessage `json:"tickets"`
		Challenge struct {
			Kind string `json:"kind"`
		} `json:"challenge"`
	}
	if json.Unmarshal(doc, &part) == nil { // the line's own decoder says what is wrong otherwise
		if err := errors.Join(s.canIdentify(part.Identity), s.canChallenge(part.Challenge.Kind)); err != nil {
			return err
		}
	}
	ctx := c.Request().Context()
	if part.Tickets != nil {
		// What cannot be sold must not become the settings.
		if err := s.restock(ctx, id, doc); err != nil {
			return err
		}
	}
	event, err := s.deps.Operations.Patch(ctx, id, doc, by(c))
	if err != nil {
		return err
	}
	if part.Tickets != nil { // once more, as somebody else may have patched meanwhile
		if err := s.stock(ctx, event.Settings); err != nil {
			return err
		}
	}
	return writeJSON(c, http.StatusOK, opsEventOf(event))
}

// restock puts what an event will sell with a patch.
func (s *Server) restock(ctx context.Context, id waitroom.EventID, patch []byte) error {
	event, err := s.deps.Operations.Event(ctx, id)
	if err != nil {
		return err
	}
	settings, err := event.Patched(patch)
	if err != nil {
		return err
	}
	return s.stock(ctx, settings)
}

// opsDelete ends an event for good. Holds are given back, and what was paid stays
// in the books.
func (s *Server) opsDelete(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if _, err := s.deps.Operations.Event(ctx, id); err != nil {
		return err
	}
	// First what can be repeated: an event that is gone cannot be deleted again.
	if s.deps.Tickets != nil {
		if err := s.deps.Tickets.Remove(ctx, string(id)); err != nil {
			return fmt.Errorf("remove what %s sells: %w", id, err)
		}
	}
	if err := s.deps.Operations.Delete(ctx, id, by(c)); err != nil {
		return err
	}
	return noContent(c)
}

// auditBody is one deed, with its time as the contract writes it.
type auditBody struct {
	waitroom.AuditRecord
	At stamp `json:"at"`
}

const (
	mostAudit  = 1000
	usualAudit = 100
)

// opsAudit is a page of who did what, oldest first, behind the record "after".
func (s *Server) opsAudit(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	switch format := c.QueryParam("format"); format {
	case "", formatJSON:
	case formatJSONL, formatCSV:
		return s.exportAudit(c, id, format)
	default:
		return wrongField("format", "must be json, jsonl or csv")
	}
	limit, err := auditLimit(c)
	if err != nil {
		return err
	}
	records, err := s.deps.Operations.Audit(c.Request().Context(), id, c.QueryParam("after"), limit)
	if err != nil {
		return err
	}
	if len(records) == 0 && c.QueryParam("after") == "" {
		if err := s.neverWas(c, id); err != nil {
			return err
		}
	}
	return writeAudit(c, records)
}

// auditLimit is how many records of a trail are asked for.
func auditLimit(c echo.Context) (int, error) {
	raw := c.QueryParam("limit")
	if raw == "" {
		return usualAudit, nil
	}
	limit, err := strconv.Atoi(raw)
	if err != nil || limit < 1 || limit > mostAudit {
		return 0, wrongField("limit", "must be a whole number from 1 to 1000")
	}
	return limit, nil
}

func writeAudit(c echo.Context, records []waitroom.AuditRecord) error {
	bodies := make([]auditBody, len(records))
	for i, r := range records {
		bodies[i] = auditBody{AuditRecord: r, At: stamp(r.At)}
	}
	return writeJSON(c, http.StatusOK, struct {
		Records []auditBody `json:"records"`
	}{bodies})
}

// document is a body that a decoder of another package reads: JSON in UTF-8.
func document(c echo.Context) ([]byte, error) {
	if !isJSON(c.Request().Header.Get("Content-Type")) {
		return nil, errUnsupportedType
	}
	body := bodyOf(c)
	if !utf8.Valid(body) || !json.Valid(body) {
		return nil, errBadJSON
	}
	return body, nil
}
