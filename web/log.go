package web

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"
)

const (
	mostLeaves  = 1000
	usualLeaves = 500
)

// admissionLog is a page of who was let in, and why, for anybody to check. A full page is
// history and changes no more, unless a store that was lost begins another log.
func (s *Server) admissionLog(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	from, limit := int64(0), usualLeaves
	if raw := c.QueryParam("from"); raw != "" {
		if from, err = strconv.ParseInt(raw, 10, 64); err != nil || from < 0 {
			return wrongField("from", "must be a whole number from 0 on")
		}
	}
	if raw := c.QueryParam("limit"); raw != "" {
		if limit, err = strconv.Atoi(raw); err != nil || limit < 1 || limit > mostLeaves {
			return wrongField("limit", "must be a whole number from 1 to 1000")
		}
	}
	page, full, err := s.deps.AdmissionLog.Page(c.Request().Context(), id, from, limit)
	if err != nil {
		return err
	}
	cache := "public, max-age=1"
	if full {
		cache = "public, max-age=60"
	}
	c.Response().Header().Set("Cache-Control", cache)
	return c.Blob(http.StatusOK, mimeJSON, page)
}
