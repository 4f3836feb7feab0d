package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// mostSheet is the most bytes of a file of places: half a million seats with short
// names. Only an operator's body may be as large.
const mostSheet = 16 << 20

const (
	mimeCSV    = "text/csv"
	mimeCSVOut = mimeCSV + "; charset=utf-8; header=present"
)

// sheetFormat is the format of a file by its content type; "" is none that we read.
func sheetFormat(contentType string) string {
	if isJSON(contentType) {
		return ticket.JSON
	}
	kind, params, err := mime.ParseMediaType(contentType)
	if charset, said := params["charset"]; err != nil || kind != mimeCSV || said && !strings.EqualFold(charset, "utf-8") {
		return ""
	}
	return ticket.CSV
}

// opsImport makes the places of an event those of a file, as a whole or not at all.
func (s *Server) opsImport(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	format := sheetFormat(c.Request().Header.Get("Content-Type"))
	if format == "" {
		return errUnsupportedType
	}
	sheet, err := ticket.ReadSheet(format, bodyOf(c))
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	ev, err := s.deps.View.Event(ctx, id)
	if err != nil {
		return err
	}
	done, err := s.deps.Tickets.Import(ctx, string(id), sheet)
	if err != nil {
		return err
	}
	if err := s.noteImport(c, ev, done); err != nil {
		return err
	}
	s.log.Info("catalogue imported", zap.String("event", string(id)), zap.String("kind", sheet.Kind),
		zap.Int("added", done.Added), zap.Int("changed", done.Changed), zap.Int("removed", done.Removed))
	return writeJSON(c, http.StatusOK, done)
}

// noteImport writes an import into the trail, and makes the quota of an event with mode
// instant out of the places that there are now. Where that fails, the same import
// again, which then changes nothing, makes up for it.
func (s *Server) noteImport(c echo.Context, ev waitroom.Event, done ticket.Imported) error {
	if done.Added+done.Changed+done.Removed > 0 {
		if err := s.noteDeed(c, ev.ID, "import", map[string]int64{"places": done.Before}, done); err != nil {
			return err
		}
	}
	if ev.Mode != waitroom.ModeInstant || done.Places < 1 || int64(ev.Tickets.Stock) == done.Places {
		return nil
	}
	patch := fmt.Appendf(nil, `{"tickets":{"stock":%d}}`, done.Places)
	_, err := s.deps.Operations.Patch(c.Request().Context(), ev.ID, patch, by(c))
	return err
}

// noteDeed writes into the trail what an operator did to what is sold.
func (s *Server) noteDeed(c echo.Context, event waitroom.EventID, what string, before, after any) error {
	deed := waitroom.AuditRecord{By: by(c), What: what}
	for _, side := range []struct {
		into *string
		from any
	}{{&deed.Before, before}, {&deed.After, after}} {
		text, err := json.Marshal(side.from)
		if err != nil {
			return fmt.Errorf("note %s: %w", what, err)
		}
		*side.into = string(text)
	}
	return s.deps.Operations.Note(c.Request().Context(), event, deed)
}

// opsExport gives the places of an event as a file.
func (s *Server) opsExport(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	format := c.QueryParam("format")
	if format == "" {
		format = ticket.JSON
		if strings.HasPrefix(c.Request().Header.Get("Accept"), mimeCSV) {
			format = ticket.CSV
		}
	}
	if format != ticket.JSON && format != ticket.CSV {
		return wrongField("format", "must be csv or json")
	}
	ctx := c.Request().Context()
	if _, err := s.deps.View.Event(ctx, id); err != nil {
		return err
	}
	sheet, err := s.deps.Tickets.Export(ctx, string(id))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := sheet.Write(&b, format); err != nil {
		return err
	}
	kind := mimeJSON
	if format == ticket.CSV {
		kind = mimeCSVOut
	}
	c.Response().Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", string(id)+"."+format))
	return c.Blob(http.StatusOK, kind, b.Bytes())
}

// mostBlocked is the most seats that one call holds back or puts on sale.
const mostBlocked = 1000

// opsSeats holds seats back from the sale, or puts them on sale again; it closes and
// opens slots and courses.
func (s *Server) opsSeats(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	var block, release []string
	if err := required(c, field{"block", &block, seatsWanted}, field{"release", &release, seatsWanted}); err != nil {
		return err
	}
	if n := len(block) + len(release); n == 0 || n > mostBlocked {
		return wrongField("block", fmt.Sprintf("name 1 to %d seats to block or release", mostBlocked))
	}
	for _, seat := range slices.Concat(block, release) {
		if !ticket.IsID(seat) {
			return wrongField("block", "must be ids of seats")
		}
	}
	ctx := c.Request().Context()
	if _, err := s.deps.View.Event(ctx, id); err != nil {
		return err
	}
	changed, err := s.deps.Tickets.Block(ctx, string(id), block, release)
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		before, after := make(map[string]string, len(changed)), make(map[string]string, len(changed))
		for _, c := range changed {
			before[c.ID], after[c.ID] = c.Before, c.After
		}
		if err := s.noteDeed(c, id, "seats", before, after); err != nil {
			return err
		}
	}
	s.log.Info("seats blocked or released", zap.String("event", string(id)), zap.Int("blocked", len(block)), zap.Int("released", len(release)))
	return noContent(c)
}
