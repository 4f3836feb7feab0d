package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// opsAdmit lets people in by hand.
func (s *Server) opsAdmit(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	var (
		count *int
		entry *string
		lane  string
	)
	if err := required(
		c, field{"count", &count, admitCount}, field{"entry_id", &entry, "an entry's id"}, field{"lane", &lane, "the name of a lane"},
	); err != nil {
		return err
	}
	req := waitroom.AdmitRequest{By: by(c), Lane: lane}
	switch {
	case lane != "" && entry != nil:
		return wrongField("lane", "is for a count")
	case (count == nil) == (entry == nil):
		return wrongField("count", "give a count or an entry_id, one of them")
	case count != nil && (*count < 1 || *count > mostAdmitted):
		return wrongField("count", "must be "+admitCount)
	case count != nil:
		req.Count = *count
	case !isName(*entry):
		return wrongField("entry_id", "must be an entry's id")
	default:
		req.Entry = waitroom.EntryID(*entry)
	}
	if req.RequestID = c.Request().Header.Get(headerIdempotencyKey); req.RequestID != "" && !isName(req.RequestID) {
		return wrongField(headerIdempotencyKey, "must be letters, digits, '-', '_' and '.'")
	}
	grants, err := s.deps.Operations.Admit(c.Request().Context(), id, req)
	if err != nil {
		return err
	}
	entries := make([]waitroom.EntryID, len(grants))
	for i, g := range grants {
		entries[i] = g.Entry
	}
	return writeJSON(c, http.StatusOK, struct {
		Admitted int                `json:"admitted"`
		Entries  []waitroom.EntryID `json:"entries"`
	}{len(entries), entries})
}

const (
	mostAdmitted = 1000
	admitCount   = "a whole number from 1 to 1000"
)

// opsBlock puts somebody out for good.
func (s *Server) opsBlock(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	var entry, subject string
	if err := required(c, field{"entry_id", &entry, "an id"}, field{"subject", &subject, "the site's own id of a person"}); err != nil {
		return err
	}
	ctx := c.Request().Context()
	switch {
	case (entry == "") == (subject == ""):
		return wrongField("entry_id", "or subject is needed, and not both")
	case entry != "" && !isName(entry):
		return wrongField("entry_id", "must be an id")
	case entry != "":
		err = s.deps.Operations.Block(ctx, id, waitroom.EntryID(entry), by(c))
	default:
		err = s.blockSubject(ctx, id, subject, by(c))
	}
	if err != nil {
		return err
	}
	return noContent(c)
}

// blockSubject keeps a person out whom the site knows, also before they come. Nobody
// comes under such a name to an event where people are anonymous.
func (s *Server) blockSubject(ctx context.Context, id waitroom.EventID, subject, by string) error {
	ev, err := s.deps.Operations.Event(ctx, id)
	if err != nil {
		return err
	}
	if ev.Identity != identityJWT {
		return wrongField("subject", "is for events with identity jwt")
	}
	return s.deps.Operations.BlockSubject(ctx, id, subject, by)
}

// opsRevoke makes an entry token open nothing any more.
func (s *Server) opsRevoke(c echo.Context) error {
	id, jti, err := namedIn(c, "jti")
	if err != nil {
		return err
	}
	if err := s.deps.Operations.Revoke(c.Request().Context(), id, jti, by(c)); err != nil {
		return err
	}
	return noContent(c)
}

// namedIn reads a body that names one thing.
func namedIn(c echo.Context, name string) (id waitroom.EventID, value string, err error) {
	if id, err = eventID(c); err != nil {
		return "", "", err
	}
	if err := required(c, field{name, &value, "an id"}); err != nil {
		return "", "", err
	}
	if !isName(value) {
		return "", "", wrongField(name, "must be an id")
	}
	return id, value, nil
}

// booksTimeout bounds a recount: whole tables are read, and the broker's log. It is
// less than the server's writeTimeout.
const booksTimeout = 25 * time.Second

// opsBooks recounts seats, money, messages and tokens.
func (s *Server) opsBooks(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if _, err := s.deps.View.Event(ctx, id); err != nil {
		return err
	}
	books, err := s.deps.Books.Books(ctx, id)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, struct {
		ticket.Books
		At stamp `json:"at"`
	}{books, stamp(books.At)})
}

// opsReplay has messages that the relay gave up tried again.
func (s *Server) opsReplay(c echo.Context) error {
	id, err := eventID(c)
	if err == nil {
		err = optional(c)
	}
	if err != nil {
		return err
	}
	if _, err := s.deps.View.Event(c.Request().Context(), id); err != nil {
		return err
	}
	n, err := s.deps.Books.Replay(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, struct {
		Replayed int `json:"replayed"`
	}{n})
}

// opsMetrics is one sample of how the event does.
func (s *Server) opsMetrics(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	if _, err := s.deps.View.Event(c.Request().Context(), id); err != nil {
		return err
	}
	sample, err := s.deps.Sample(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, mimeJSON, sample)
}

// opsLive hands the connection to the hub, as long as the operator is one.
func (s *Server) opsLive(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	if _, err := s.deps.View.Event(c.Request().Context(), id); errors.Is(err, waitroom.ErrNoEvent) {
		return err // with the store away the socket stays, and says so
	}
	s.deps.Hub.ServeOps(c.Response().Writer, c.Request(), id, func(ctx context.Context) bool { return s.noOperator(ctx, c) })
	return nil
}
