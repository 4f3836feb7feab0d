package web

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// The forms in which the whole trail is to be had.
const (
	formatJSON  = "json"
	formatJSONL = "jsonl"
	formatCSV   = "csv"
)

// exportAudit writes the whole audit trail, oldest first, as one file.
func (s *Server) exportAudit(c echo.Context, id waitroom.EventID, format string) error {
	records, err := s.wholeTrail(c, id)
	if err != nil {
		return err
	}
	kind, write := "application/x-ndjson", writeJSONL
	if format == formatCSV {
		kind, write = "text/csv; charset=utf-8", writeCSV
	}
	body, err := write(records)
	if err != nil {
		return fmt.Errorf("export the audit trail: %w", err)
	}
	c.Response().Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", string(id)+"-audit."+format))
	return c.Blob(http.StatusOK, kind, body)
}

// wholeTrail reads page by page; the trail itself is bounded.
func (s *Server) wholeTrail(c echo.Context, id waitroom.EventID) ([]waitroom.AuditRecord, error) {
	const most = 1000 // pages; a trail that outgrows a million records while it is read ends there
	var all []waitroom.AuditRecord
	after := ""
	for range most {
		page, err := s.deps.Operations.Audit(c.Request().Context(), id, after, mostAudit)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < mostAudit {
			break
		}
		after = page[len(page)-1].ID
	}
	if len(all) == 0 {
		return nil, s.neverWas(c, id)
	}
	return all, nil
}

// neverWas refuses an event without any record, as even one that was deleted has some,
// unless it is there.
func (s *Server) neverWas(c echo.Context, id waitroom.EventID) error {
	_, err := s.deps.Operations.Event(c.Request().Context(), id)
	return err
}

func writeJSONL(records []waitroom.AuditRecord) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, r := range records {
		if err := enc.Encode(auditBody{AuditRecord: r, At: stamp(r.At)}); err != nil {
			return nil, fmt.Errorf("encode record: %w", err)
		}
	}
	return b.Bytes(), nil
}

// writeCSV writes RFC 4180. A cell that a spreadsheet would take for a formula gets an
// apostrophe before it.
func writeCSV(records []waitroom.AuditRecord) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	rows := [][]string{{"id", "at", "by", "what", "before", "after"}}
	for _, r := range records {
		row := []string{r.ID, r.At.UTC().Format(stampFormat), r.By, r.What, r.Before, r.After}
		for i, cell := range row {
			if cell != "" && slices.Contains([]byte("=+-@\t\r"), cell[0]) {
				row[i] = "'" + cell
			}
		}
		rows = append(rows, row)
	}
	if err := w.WriteAll(rows); err != nil {
		return nil, fmt.Errorf("write csv: %w", err)
	}
	return b.Bytes(), nil
}
