package web

import (
	"errors"
	"net/http"
	"time"

	"github.com/golang-jwt/jwt/v5"

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
	return readIdentity(token, s.cfg.IdentitySecret)
}

// readIdentity takes an HS256 token with a sub and an exp, and nothing else: no
// other algorithm, no issue time in the future, no secret that is not configured.
func readIdentity(token string, secret []byte) (string, error) {
	const mostSubject, leeway = 255, 5 * time.Second
	if len(secret) == 0 {
		return "", waitroom.ErrTokenInvalid
	}
	var claims jwt.RegisteredClaims
	_, err := jwt.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return secret, nil },
		jwt.WithValidMethods([]string{"HS256"}), jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(), jwt.WithLeeway(leeway), jwt.WithStrictDecoding())
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return "", waitroom.ErrTokenExpired
	case err != nil:
		return "", waitroom.ErrTokenInvalid
	case claims.Subject == "" || len(claims.Subject) > mostSubject || !printable(claims.Subject):
		return "", waitroom.ErrTokenInvalid
	}
	return claims.Subject, nil
}
