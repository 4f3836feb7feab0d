package web

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
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
	if _, err := s.deps.View.Event(ctx, id); err != nil {
		return err
	}
	done, err := s.deps.Tickets.Import(ctx, string(id), sheet)
	if err != nil {
		return err
	}
	s.log.Info("catalogue imported", zap.String("event", string(id)), zap.String("kind", sheet.Kind),
		zap.Int("added", done.Added), zap.Int("changed", done.Changed), zap.Int("removed", done.Removed))
	return writeJSON(c, http.StatusOK, done)
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

// opsSeats holds seats back from the sale, or puts them on sale again.
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
	if err := s.deps.Tickets.Block(ctx, string(id), block, release); err != nil {
		return err
	}
	s.log.Info("seats blocked or released", zap.String("event", string(id)), zap.Int("blocked", len(block)), zap.Int("released", len(release)))
	return noContent(c)
}
