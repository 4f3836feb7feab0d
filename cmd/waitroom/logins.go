package main

import (
	"crypto/rand"
	"fmt"
	"maps"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// login is a JWT as a site would give one out, to try an event that knows its people.
type login struct{ event, group, token string }

const loginTTL = 24 * time.Hour

// trialLogins makes a secret of its own where a planned event knows its people by the
// site's JWT and nothing says how the site signs: for trying, on the embedded default
// alone. Anywhere else that is a wrong configuration.
func trialLogins(cfg *serveConfig, p plan) ([]login, error) {
	var wants []waitroom.Settings
	for _, e := range p.events {
		if e.settings.Identity == "jwt" {
			wants = append(wants, e.settings)
		}
	}
	if len(wants) == 0 || cfg.Identity.Known() {
		return nil, nil
	}
	if cfg.Redis != "" {
		return nil, fmt.Errorf("identity-secret: event %s has identity jwt; give this or identity-jwks", wants[0].ID)
	}
	cfg.Identity.Secret = rand.Text() + rand.Text()
	var logins []login
	for _, s := range wants {
		groups := s.Groups
		if len(groups) == 0 {
			groups = []waitroom.GroupSettings{{Name: "anybody"}}
		}
		for _, g := range groups {
			claims := jwt.MapClaims{"sub": "trial-" + g.Name, "exp": time.Now().Add(loginTTL).Unix()}
			if cfg.Identity.Issuer != "" {
				claims["iss"] = cfg.Identity.Issuer
			}
			if cfg.Identity.Audience != "" {
				claims["aud"] = cfg.Identity.Audience
			}
			maps.Copy(claims, g.Claim)
			token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(cfg.Identity.Secret))
			if err != nil {
				return nil, fmt.Errorf("login of %s: %w", g.Name, err)
			}
			logins = append(logins, login{string(s.ID), g.Name, token})
		}
	}
	return logins, nil
}
