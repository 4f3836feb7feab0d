package web

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// webhook takes what a payment provider tells by itself. What is signed and says
// nothing to us is answered like the rest, or it would be sent for days.
func (s *Server) webhook(c echo.Context) error {
	take, known := s.deps.Webhooks[c.Param("provider")]
	if !known {
		return errNotFound
	}
	const headerSignature = "Stripe-Signature" // the sandbox signs in the same way
	if err := take(c.Request().Context(), c.Request().Header.Get(headerSignature), bodyOf(c)); err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, struct {
		Received bool `json:"received"`
	}{true})
}
