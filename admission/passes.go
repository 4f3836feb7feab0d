package admission

import (
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"github.com/waitroom-dev/waitroom/waitroom"
)

const (
	// maxToken is the longest entry token that is looked at. A real one has about
	// 400 bytes; a site's own subjects may make it longer.
	maxToken = 4096
	// leeway is how far in the future iat and nbf may lie: they are whole seconds
	// of the store's clock, and the clock here is another one.
	leeway = time.Second
	// The caches hold two generations of as many entries each, 40 to 400 bytes apiece.
	mintedSize   = 16384
	verdictsSize = 32768
	refusedSize  = 8192
)

// Passes mints and verifies entry tokens. Any number of goroutines may use it.
type Passes struct {
	issuer  string
	signer  signingKey
	header  string                       // of its tokens
	headers map[string]ed25519.PublicKey // encoded header → the key that it names
	parser  *jwt.Parser
	jwks    []byte

	minted   *generations[mintKey, string]
	verdicts *generations[[sha256.Size]byte, claims]   // good signatures and what they sign
	refused  *generations[[sha256.Size]byte, struct{}] // not ours, whatever the time
}

// claims are what an entry token says. The audience is one plain string, the
// times are whole seconds. Claims that a later version adds are passed over.
type claims struct {
	Issuer    string `json:"iss"`
	Audience  string `json:"aud"`
	Subject   string `json:"sub"`
	JTI       string `json:"jti"`
	IssuedAt  int64  `json:"iat"`
	NotBefore int64  `json:"nbf"`
	ExpiresAt int64  `json:"exp"`
}

// mintKey is everything of a grant that its token depends on.
type mintKey struct {
	event        waitroom.EventID
	subject, jti string
	iat, exp     int64
}

// NewPasses signs and verifies for one issuer: the service's public URL, which
// every node must be given alike.
func NewPasses(k *Keys, issuer string) (*Passes, error) {
	if k == nil || len(k.signing) == 0 {
		return nil, errors.New("passes: a signing key is needed")
	}
	if issuer == "" {
		return nil, errors.New("passes: an issuer is needed")
	}
	p := &Passes{
		issuer:  issuer,
		signer:  k.signing[0],
		headers: make(map[string]ed25519.PublicKey, len(k.signing)),
		// The time rules are ours: the library's defaults let a token without
		// expiry pass, and an expired one must still say whose it is.
		parser: jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}),
			jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation()),
		minted:   newGenerations[mintKey, string](mintedSize),
		verdicts: newGenerations[[sha256.Size]byte, claims](verdictsSize),
		refused:  newGenerations[[sha256.Size]byte, struct{}](refusedSize),
	}
	for _, s := range k.signing {
		signed, err := sign(s, claims{})
		if err != nil {
			return nil, fmt.Errorf("passes: %w", err)
		}
		header, _, _ := strings.Cut(signed, ".")
		p.headers[header] = s.public
		p.header = cmp.Or(p.header, header)
	}
	var err error
	if p.jwks, err = jwks(k.signing); err != nil {
		return nil, fmt.Errorf("passes: %w", err)
	}
	return p, nil
}

// Mint computes a grant's entry token: the same bytes for the same grant, on
// every node with the same keys, however often it is asked for. Its exp is the
// second in which the claim time ends.
func (p *Passes) Mint(g waitroom.Grant) (string, error) {
	key := mintKey{event: g.Event, subject: g.Subject, jti: g.JTI, iat: g.AdmittedAt.Unix(), exp: g.ClaimBy.Unix()}
	if token, ok := p.minted.get(key); ok {
		return token, nil
	}
	if g.Event == "" || g.Subject == "" || g.JTI == "" || g.AdmittedAt.IsZero() || g.ClaimBy.IsZero() {
		return "", fmt.Errorf("mint: grant %q of %q is incomplete", g.JTI, g.Event)
	}
	if !utf8.ValidString(g.Subject) { // JSON would make two such subjects one
		return "", fmt.Errorf("mint: grant %q of %q: subject is not UTF-8", g.JTI, g.Event)
	}
	token, err := p.sign(claims{
		Issuer: p.issuer, Audience: string(key.event), Subject: key.subject, JTI: key.jti,
		IssuedAt: key.iat, NotBefore: key.iat, ExpiresAt: key.exp,
	})
	if err != nil {
		return "", fmt.Errorf("mint: %w", err)
	}
	if len(token) > maxToken {
		return "", fmt.Errorf("mint: token of %d bytes is over %d: the subject is too long", len(token), maxToken)
	}
	p.minted.put(key, token)
	return token, nil
}

// Verify reads an entry token of one event. It gives ErrTokenInvalid for
// anything that these keys did not sign for this issuer in exactly the form of
// Mint, or that lies in the future; ErrWrongEvent for a good token of another
// event; and no error for one whose claim time is over, whose pass says Expired.
func (p *Passes) Verify(token string, event waitroom.EventID) (waitroom.Pass, error) {
	c, err := p.signed(token)
	if err != nil {
		return waitroom.Pass{}, fmt.Errorf("%w: %w", waitroom.ErrTokenInvalid, err)
	}
	now := time.Now()
	if latest := now.Add(leeway).Unix(); c.IssuedAt > latest || c.NotBefore > latest {
		return waitroom.Pass{}, fmt.Errorf("%w: of the future", waitroom.ErrTokenInvalid)
	}
	if c.Audience != string(event) {
		return waitroom.Pass{}, fmt.Errorf("%w: of %s, not of %s", waitroom.ErrWrongEvent, c.Audience, event)
	}
	claimBy := time.Unix(c.ExpiresAt, 0).UTC()
	return waitroom.Pass{
		Event:      event,
		Subject:    c.Subject,
		JTI:        c.JTI,
		AdmittedAt: time.Unix(c.IssuedAt, 0).UTC(),
		ClaimBy:    claimBy,
		Expired:    !now.Before(claimBy),
	}, nil
}

// JWKS is the document by which anybody can verify entry tokens: all keys, the
// signing one first. The caller must not change the bytes.
func (p *Passes) JWKS() []byte { return p.jwks }

// signed gives what a token says if it is ours in all that time does not change.
// A signature is computed once a token: the verdict is remembered by the token's
// hash, and refusals apart from it, so that a flood of bad tokens pushes out no
// good one.
func (p *Passes) signed(token string) (claims, error) {
	if len(token) > maxToken {
		return claims{}, fmt.Errorf("%d bytes long", len(token))
	}
	// The decoder below would pass over line breaks: many spellings of one token.
	if strings.ContainsAny(token, "\r\n") {
		return claims{}, errors.New("line break")
	}
	// The header is one of ours to the byte: no other algorithm, type, key or
	// extension ever reaches the parser. A place token has no such header either.
	header, _, _ := strings.Cut(token, ".")
	key, ok := p.headers[header]
	if !ok {
		return claims{}, errors.New("foreign header")
	}
	sum := sha256.Sum256([]byte(token))
	if c, ok := p.verdicts.get(sum); ok {
		return c, nil
	}
	if _, ok := p.refused.get(sum); ok {
		return claims{}, errors.New("refused before")
	}
	var c claims
	_, err := p.parser.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return key, nil })
	if err == nil {
		err = c.check(p.issuer)
	}
	if err != nil {
		p.refused.put(sum, struct{}{})
		return claims{}, err
	}
	p.verdicts.put(sum, c)
	return c, nil
}

// check holds for ever or never: no clock in it.
func (c *claims) check(issuer string) error {
	switch {
	case c.Issuer != issuer:
		return errors.New("another issuer")
	case c.Audience == "" || c.Subject == "" || c.JTI == "":
		return errors.New("aud, sub and jti are required")
	case c.IssuedAt <= 0 || c.NotBefore <= 0 || c.ExpiresAt <= 0:
		return errors.New("iat, nbf and exp are required")
	case c.IssuedAt != c.NotBefore:
		return errors.New("iat and nbf differ")
	case c.ExpiresAt < c.IssuedAt:
		return errors.New("exp before iat")
	}
	return nil
}

// sign gives what the library's sign does, with a header that was written once: a
// crowd's tokens are made in one moment.
func (p *Passes) sign(c claims) (string, error) {
	payload, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	text := p.header + "." + encode(payload)
	signature, err := jwt.SigningMethodEdDSA.Sign(text, p.signer.private)
	return text + "." + encode(signature), err
}

// sign is the library's way to make a token.
func sign(s signingKey, c claims) (string, error) {
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, &c)
	t.Header["kid"] = s.kid
	return t.SignedString(s.private)
}

func jwks(keys []signingKey) ([]byte, error) {
	type jwk struct {
		Kty string `json:"kty"`
		Crv string `json:"crv"`
		Kid string `json:"kid"`
		X   string `json:"x"`
		Alg string `json:"alg"`
		Use string `json:"use"`
	}
	set := struct {
		Keys []jwk `json:"keys"`
	}{}
	for _, k := range keys {
		set.Keys = append(set.Keys, jwk{Kty: "OKP", Crv: "Ed25519", Kid: k.kid, X: encode(k.public), Alg: "EdDSA", Use: "sig"})
	}
	return json.Marshal(set)
}

// GetExpirationTime is part of the library's interface of claims, as are the
// methods below it.
func (c *claims) GetExpirationTime() (*jwt.NumericDate, error) { return date(c.ExpiresAt), nil }

// GetIssuedAt gives iat.
func (c *claims) GetIssuedAt() (*jwt.NumericDate, error) { return date(c.IssuedAt), nil }

// GetNotBefore gives nbf.
func (c *claims) GetNotBefore() (*jwt.NumericDate, error) { return date(c.NotBefore), nil }

// GetIssuer gives iss.
func (c *claims) GetIssuer() (string, error) { return c.Issuer, nil }

// GetSubject gives sub.
func (c *claims) GetSubject() (string, error) { return c.Subject, nil }

// GetAudience gives aud.
func (c *claims) GetAudience() (jwt.ClaimStrings, error) { return jwt.ClaimStrings{c.Audience}, nil }

func date(s int64) *jwt.NumericDate { return jwt.NewNumericDate(time.Unix(s, 0)) }
