package web

import (
	"net/http"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// identityJWT is the identity of events whose people the site knows already.
const identityJWT = "jwt"

// subject is the site's own name for the caller, of an event with identity jwt;
// "" for an event whose people are anonymous.
func (s *Server) subject(r *http.Request, event waitroom.EventID) (string, error) {
	ev, err := s.deps.View.Event(r.Context(), event)
	if err != nil || ev.Identity != identityJWT {
		return "", err
	}
	token := bearer(r)
	if token == "" {
		return "", waitroom.ErrTokenRequired
	}
	person, err := s.identity.Read(r.Context(), token)
	return person.Subject, err
}
