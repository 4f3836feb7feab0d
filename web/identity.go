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
	subject, _, err := s.known(r, event)
	return subject, err
}

// known is subject with the groups of the event that take the caller.
func (s *Server) known(r *http.Request, event waitroom.EventID) (subject string, groups []string, err error) {
	ev, err := s.deps.View.Event(r.Context(), event)
	if err != nil {
		return "", nil, err
	}
	return s.knownIn(r, &ev)
}

// knownIn is known for whoever has the event.
func (s *Server) knownIn(r *http.Request, ev *waitroom.Event) (subject string, groups []string, err error) {
	if ev.Identity != identityJWT {
		return "", ev.GroupsOf(nil), nil
	}
	token := bearer(r)
	if token == "" {
		return "", nil, waitroom.ErrTokenRequired
	}
	person, err := s.identity.Read(r.Context(), token)
	return person.Subject, ev.GroupsOf(person.Claims), err
}
