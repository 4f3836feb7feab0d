package ledger

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Hash is where a chain stands.
type Hash [sha256.Size]byte

// The first lines of what is hashed and signed, so that nothing made for one of
// these uses can stand for another, and no token of the same key for either.
const (
	domainStart = "waitroom admission log 1: start\n"
	domainLeaf  = "waitroom admission log 1: leaf\n"
	domainHead  = "waitroom admission log 1: head\n"
)

// Start is the hash before the first leaf of an event's chain.
func Start(event, chain string) Hash {
	return sha256.Sum256([]byte(domainStart + event + "\n" + chain + "\n"))
}

// Next is the hash behind one more leaf.
func (h Hash) Next(leaf string) Hash {
	b := make([]byte, 0, len(domainLeaf)+len(h)+len(leaf))
	b = append(b, domainLeaf...)
	b = append(b, h[:]...)
	return sha256.Sum256(append(b, leaf...))
}

// String is the hash in base64url without padding.
func (h Hash) String() string { return base64.RawURLEncoding.EncodeToString(h[:]) }

// MarshalText writes the hash as String does.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads what String wrote.
func (h *Hash) UnmarshalText(text []byte) error {
	b, err := base64.RawURLEncoding.Strict().DecodeString(string(text))
	if err != nil || len(b) != len(h) {
		return errors.New("no hash of 32 bytes in base64url")
	}
	copy(h[:], b)
	return nil
}

// Head is the signed end of a chain.
type Head struct {
	Event string `json:"event"`
	Chain string `json:"chain"`
	// N is how many leaves it covers.
	N int64 `json:"n"`
	// At is the moment of the last of them, unix ms by the event's clock.
	At   int64  `json:"at_ms"`
	Hash Hash   `json:"hash"`
	KID  string `json:"kid"`
	Sig  string `json:"sig"`
}

// Signer signs heads: the installation's keys.
type Signer interface {
	// KID names the key that signs.
	KID() string
	// Sign is the Ed25519 signature of the text.
	Sign(text []byte) []byte
}

// Sign makes the signed head of a chain that stands at hash behind n leaves.
func Sign(h Head, by Signer) Head {
	h.KID = by.KID()
	h.Sig = base64.RawURLEncoding.EncodeToString(by.Sign(h.text()))
	return h
}

// text is what is signed.
func (h Head) text() []byte {
	return fmt.Appendf(nil, "%s%s\n%s\n%d\n%d\n%s\n", domainHead, h.Event, h.Chain, h.N, h.At, h.Hash)
}

// Good reports whether one of the keys, by kid, signed this head.
func (h Head) Good(keys map[string]ed25519.PublicKey) bool {
	key, ok := keys[h.KID]
	sig, err := base64.RawURLEncoding.Strict().DecodeString(h.Sig)
	return ok && err == nil && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, h.text(), sig)
}

// Time is At.
func (h Head) Time() time.Time { return time.UnixMilli(h.At).UTC() }

// Encode is the head as the store keeps it beside the leaves.
func (h Head) Encode() string {
	return fmt.Sprintf("%d %d %s %s %s", h.N, h.At, h.Hash, h.KID, h.Sig)
}

// DecodeHead reads what Encode wrote, of this event's chain.
func DecodeHead(event, chain, text string) (Head, error) {
	h := Head{Event: event, Chain: chain}
	p := strings.Split(text, " ")
	if len(p) != 5 {
		return Head{}, fmt.Errorf("head of %d parts, want 5", len(p))
	}
	var errs [3]error
	h.N, errs[0] = strconv.ParseInt(p[0], 10, 64)
	h.At, errs[1] = strconv.ParseInt(p[1], 10, 64)
	errs[2] = h.Hash.UnmarshalText([]byte(p[2]))
	h.KID, h.Sig = p[3], p[4]
	if err := errors.Join(errs[:]...); err != nil {
		return Head{}, fmt.Errorf("head: %w", err)
	}
	return h, nil
}
