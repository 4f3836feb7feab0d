// Package identity reads the site's own JWT: who somebody is on every device and
// tab, where an event's identity is jwt.
//
// The site signs with a shared secret (HS256) or with keys that it publishes (RS256,
// PS256, ES256, ES384, EdDSA; where a published key names its alg, only by that). A
// token is good if it has a signature of exactly that kind, an exp, a sub of 1 to 255 printable bytes, and the issuer
// and audience that are configured. Times get a leeway for clocks that differ.
// Everything else is refused: another algorithm, a public key used as a secret, an
// issue time in the future, a second spelling of the same token.
package identity

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web/jwks"
)

const (
	// ShortestSecret is the fewest bytes of a secret, the size of the HMAC's hash
	// (RFC 7518, 3.2).
	ShortestSecret = 32
	defaultLeeway  = 5 * time.Second
	longestToken   = 8192
	longestSubject = 255
	// remembered is how many read tokens are kept, about 500 bytes each.
	remembered = 16384
)

// Config is how the site signs. One of Secret and JWKS must be set.
type Config struct {
	// Secret is shared with the site, at least 32 bytes.
	Secret string
	// JWKS is the address of the site's published keys.
	JWKS string
	// Issuer and Audience are what a token must name; empty: not looked at.
	Issuer, Audience string
	// Leeway is how far the site's clock may be from ours; default 5 s, at most 5 min.
	Leeway time.Duration
	// Client fetches the keys; default: one that waits 2 s.
	Client *http.Client
}

// Validate names every wrong field by the setting it comes from.
func (c Config) Validate() error {
	const longestLeeway = 5 * time.Minute
	var faults []error
	if len(c.Secret) > 0 && c.JWKS != "" {
		faults = append(faults, errors.New("identity-jwks: give either this or identity-secret"))
	}
	if n := len(c.Secret); n > 0 && n < ShortestSecret {
		faults = append(faults, fmt.Errorf("identity-secret: shorter than %d bytes", ShortestSecret))
	}
	if c.JWKS != "" {
		if u, err := url.Parse(c.JWKS); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			faults = append(faults, fmt.Errorf("identity-jwks: %q is no http or https address", c.JWKS))
		}
	}
	if c.Leeway < 0 || c.Leeway > longestLeeway {
		faults = append(faults, fmt.Errorf("identity-leeway: %s is not from 0s to %s", c.Leeway, longestLeeway))
	}
	return errors.Join(faults...)
}

// Known tells whether there is anything to verify a token with.
func (c Config) Known() bool { return len(c.Secret) > 0 || c.JWKS != "" }

// Person is who a token speaks of.
type Person struct {
	// Subject is the site's name for the person.
	Subject string
	// Claims are all that the site says, as JSON decodes it; not to be changed.
	Claims map[string]any

	expires time.Time
}

// Verifier reads tokens. Any number of goroutines may use it.
type Verifier struct {
	cfg    Config
	parser *jwt.Parser
	keys   *jwks.Keys
	read   *lru.Cache[[sha256.Size]byte, Person]
}

// New checks the configuration; it fetches nothing yet.
func New(cfg Config) (*Verifier, error) {
	const patience = 2 * time.Second
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{Timeout: patience}
	}
	methods := []string{"HS256"}
	if cfg.JWKS != "" {
		methods = []string{"RS256", "PS256", "ES256", "ES384", "EdDSA"}
	}
	options := []jwt.ParserOption{
		jwt.WithValidMethods(methods), jwt.WithExpirationRequired(), jwt.WithIssuedAt(),
		jwt.WithLeeway(cmp.Or(cfg.Leeway, defaultLeeway)), jwt.WithStrictDecoding(),
	}
	if cfg.Issuer != "" {
		options = append(options, jwt.WithIssuer(cfg.Issuer))
	}
	if cfg.Audience != "" {
		options = append(options, jwt.WithAudience(cfg.Audience))
	}
	v := &Verifier{cfg: cfg, parser: jwt.NewParser(options...)}
	v.read, _ = lru.New[[sha256.Size]byte, Person](remembered) // fails for a size below one only
	if cfg.JWKS != "" {
		v.keys = jwks.New(cfg.JWKS, cfg.Client, patience)
	}
	return v, nil
}

// Read says whose token it is. Errors: waitroom.ErrTokenInvalid, ErrTokenExpired,
// and ErrUnavailable while the site's keys cannot be had.
func (v *Verifier) Read(ctx context.Context, token string) (Person, error) {
	if !v.cfg.Known() || len(token) > longestToken {
		return Person{}, waitroom.ErrTokenInvalid
	}
	id := sha256.Sum256([]byte(token))
	if p, ok := v.read.Get(id); ok {
		if time.Now().After(p.expires) {
			return Person{}, waitroom.ErrTokenExpired
		}
		return p, nil
	}
	key := func(*jwt.Token) (any, error) { return []byte(v.cfg.Secret), nil }
	if v.keys != nil {
		var err error
		if key, err = v.keys.Known(ctx); err != nil {
			return Person{}, fmt.Errorf("identity: %w: %w", waitroom.ErrUnavailable, err)
		}
	}
	claims := jwt.MapClaims{}
	_, err := v.parser.ParseWithClaims(token, claims, key)
	switch {
	case errors.Is(err, jwt.ErrTokenExpired) && !errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return Person{}, fmt.Errorf("identity: %w", waitroom.ErrTokenExpired)
	case err != nil:
		return Person{}, fmt.Errorf("identity: %w: %w", waitroom.ErrTokenInvalid, err)
	}
	subject, _ := claims["sub"].(string)
	if subject == "" || len(subject) > longestSubject || !plain(subject) {
		return Person{}, fmt.Errorf("identity: %w: sub must be 1 to %d printable bytes", waitroom.ErrTokenInvalid, longestSubject)
	}
	expires, err := claims.GetExpirationTime()
	if err != nil {
		return Person{}, fmt.Errorf("identity: %w: %w", waitroom.ErrTokenInvalid, err)
	}
	p := Person{Subject: subject, Claims: claims, expires: expires.Add(cmp.Or(v.cfg.Leeway, defaultLeeway))}
	v.read.Add(id, p)
	return p, nil
}

// plain tells whether s is text of one line.
func plain(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return utf8.ValidString(s)
}
