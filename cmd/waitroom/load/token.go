package load

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// claims are what an entry token says.
type claims struct {
	Iss string `json:"iss"`
	Aud string `json:"aud"` // the contract: a string, so a list is a fault
	Sub string `json:"sub"`
	JTI string `json:"jti"`
	IAT int64  `json:"iat"`
	NBF int64  `json:"nbf"`
	Exp int64  `json:"exp"`
}

// parts of a token: what is signed, the key's id, the claims, the signature.
type parts struct {
	signed string
	kid    string
	claims claims
	sig    []byte
}

// parseToken takes an entry token apart without trusting it. It is written out here
// rather than left to the library that made the token, so that both must be right.
func parseToken(token string) (parts, error) {
	f := strings.Split(token, ".")
	if len(f) != 3 {
		return parts{}, errors.New("not a JWT of three parts")
	}
	var head struct{ Alg, Kid string }
	p := parts{signed: f[0] + "." + f[1]}
	if err := decodePart(f[0], &head); err != nil {
		return parts{}, fmt.Errorf("header: %w", err)
	}
	if head.Alg != "EdDSA" || head.Kid == "" {
		return parts{}, fmt.Errorf("header: alg %q, kid %q: want EdDSA and a kid", head.Alg, head.Kid)
	}
	p.kid = head.Kid
	if err := decodePart(f[1], &p.claims); err != nil {
		return parts{}, fmt.Errorf("claims: %w", err)
	}
	sig, err := base64.RawURLEncoding.DecodeString(f[2])
	if err != nil {
		return parts{}, fmt.Errorf("signature: %w", err)
	}
	p.sig = sig
	return p, nil
}

func decodePart(s string, into any) error {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

// faults says what is wrong with the claims of a token for event, or nothing.
func (c claims) faults(event string) error {
	switch {
	case c.Aud != event:
		return fmt.Errorf("aud %q, want %q", c.Aud, event)
	case c.Sub == "" || c.JTI == "" || c.Iss == "":
		return errors.New("iss, sub or jti missing")
	case c.IAT <= 0 || c.NBF != c.IAT:
		return fmt.Errorf("iat %d, nbf %d: want the second of the admission in both", c.IAT, c.NBF)
	case c.Exp <= c.IAT:
		return fmt.Errorf("exp %d is not after iat %d", c.Exp, c.IAT)
	}
	return nil
}

// keySet are the public keys by id.
type keySet map[string]ed25519.PublicKey

// parseKeys reads a JWKS; keys of other kinds are skipped.
func parseKeys(jwks []byte) (keySet, error) {
	var doc struct {
		Keys []struct{ Kty, Crv, Kid, X string }
	}
	if err := json.Unmarshal(jwks, &doc); err != nil {
		return nil, fmt.Errorf("jwks: %w", err)
	}
	set := keySet{}
	for _, k := range doc.Keys {
		if k.Kty != "OKP" || k.Crv != "Ed25519" {
			continue
		}
		x, err := base64.RawURLEncoding.DecodeString(k.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("jwks: key %q: bad x", k.Kid)
		}
		set[k.Kid] = x
	}
	return set, nil
}

// verify checks a token's signature.
func (s keySet) verify(p parts) error {
	key, ok := s[p.kid]
	if !ok {
		return fmt.Errorf("kid %q is not in the JWKS", p.kid)
	}
	if !ed25519.Verify(key, []byte(p.signed), p.sig) {
		return errors.New("bad signature")
	}
	return nil
}
