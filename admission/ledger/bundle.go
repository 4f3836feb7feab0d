package ledger

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Format names the form of a bundle.
const Format = "waitroom-admission-log/1"

// Bundle is a log with all that a check of it needs.
type Bundle struct {
	Format string `json:"format"`
	Event  string `json:"event"`
	Chain  string `json:"chain"`
	// First is how many leaves are gone from the front, and Start the hash behind
	// them; both are 0 for a log from its beginning, whose start follows from event
	// and chain.
	First int64 `json:"first"`
	Start Hash  `json:"start"`
	// Keys are the public keys of the installation, as its JWKS has them.
	Keys   []Key    `json:"keys"`
	Head   Head     `json:"head"`
	Leaves []string `json:"leaves"`
	// Kept are heads that somebody saw earlier, to be found in this log.
	Kept []Head `json:"kept,omitempty"`
}

// Key is a public key as a JWKS has it; what else stands there is passed over.
type Key struct {
	KID string `json:"kid"`
	KTY string `json:"kty"`
	CRV string `json:"crv"`
	X   string `json:"x"`
}

// mostBundle is the most bytes of a bundle that are read: ten times the most leaves
// that a store keeps, at their usual size.
const mostBundle = 1 << 30

// ReadBundle reads one bundle and nothing behind it; unknown fields are refused,
// since a check that passes over something checks nothing.
func ReadBundle(r io.Reader) (Bundle, error) {
	dec := json.NewDecoder(io.LimitReader(r, mostBundle))
	dec.DisallowUnknownFields()
	var raw struct {
		Bundle
		Keys []json.RawMessage `json:"keys"`
	}
	if err := dec.Decode(&raw); err != nil {
		return Bundle{}, fmt.Errorf("no bundle: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Bundle{}, errors.New("no bundle: something follows it")
	}
	b := raw.Bundle
	var err error
	if b.Keys, err = ReadKeys(raw.Keys); err != nil {
		return Bundle{}, err
	}
	switch {
	case b.Format != Format:
		return Bundle{}, fmt.Errorf("no bundle: format %q, want %q", b.Format, Format)
	case b.First < 0 || b.First >= maxNumber || b.Head.N < 0:
		return Bundle{}, errors.New("no bundle: a number is out of range")
	}
	return b, nil
}

// ReadKeys reads the keys of a JWKS.
func ReadKeys(raw []json.RawMessage) ([]Key, error) {
	keys := make([]Key, len(raw))
	for i, k := range raw {
		if err := json.Unmarshal(bytes.TrimSpace(k), &keys[i]); err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
	}
	return keys, nil
}

// publicKeys are the Ed25519 keys by kid.
func (b Bundle) publicKeys() (map[string]ed25519.PublicKey, error) {
	keys := make(map[string]ed25519.PublicKey)
	for _, k := range b.Keys {
		if k.KTY != "OKP" || k.CRV != "Ed25519" {
			continue
		}
		x, err := base64.RawURLEncoding.Strict().DecodeString(k.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("key %q is no Ed25519 key", k.KID)
		}
		keys[k.KID] = x
	}
	if len(keys) == 0 {
		return nil, errors.New("no Ed25519 key to check the head with")
	}
	return keys, nil
}
