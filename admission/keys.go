package admission

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
)

// secretSize is the size in bytes of every secret: an Ed25519 seed, a receipt
// key, the subject key.
const secretSize = 32

// minDistinct is the least number of different byte values in a secret. Of
// 32 random bytes fewer than 16 differ about once in 10^13 draws; a word, a
// repeated pattern or a file of zeros shows fewer.
const minDistinct = 16

// Keys are the secrets of an installation: what signs entry tokens, what signs
// receipts, and what hides a site's subject behind an entry id. They never change
// once made, so that any number of goroutines may use them.
type Keys struct {
	signing  []signingKey // the first signs, all verify
	receipts [][]byte     // the first signs, all verify
	subject  []byte
	prepared bool // the last of signing and of receipts are the next to sign
}

// signingKey is one Ed25519 key with the name by which tokens refer to it.
type signingKey struct {
	kid     string
	private ed25519.PrivateKey
	public  ed25519.PublicKey
}

// NewKeys makes fresh keys from the system's randomness: one to sign with, one
// receipt key and the subject key.
func NewKeys() *Keys {
	return &Keys{
		signing:  []signingKey{newSigningKey(newSecret())},
		receipts: [][]byte{newSecret()},
		subject:  newSecret(),
	}
}

// Prepared are these keys and the next ones behind them, which verify already, so
// that instances which are restarted one after the other know each other's tokens and
// receipts. The error says that there are next ones already.
func (k *Keys) Prepared() (*Keys, error) {
	if k.prepared {
		return nil, errors.New("the next keys are there already")
	}
	return &Keys{
		signing:  append(slices.Clone(k.signing), newSigningKey(newSecret())),
		receipts: append(slices.Clone(k.receipts), newSecret()),
		subject:  k.subject, prepared: true,
	}, nil
}

// Rotated are keys of which the prepared ones, or fresh ones, sign, and the ones that
// signed so far still verify; anything older is gone. The subject key stays, since
// another one would make every known person somebody else.
func (k *Keys) Rotated() *Keys {
	signing, receipt := newSigningKey(newSecret()), newSecret()
	if k.prepared {
		signing, receipt = k.signing[len(k.signing)-1], k.receipts[len(k.receipts)-1]
	}
	return &Keys{
		signing:  []signingKey{signing, k.signing[0]},
		receipts: [][]byte{receipt, k.receipts[0]},
		subject:  k.subject,
	}
}

// Retired are the keys that sign, alone. Tokens and receipts of the others are good
// for nothing any more; whoever has asked for their place since the rotation holds a
// receipt of the new key. The error says that a rotation is on its way.
func (k *Keys) Retired() (*Keys, error) {
	if k.prepared {
		return nil, errors.New("the next keys are prepared; rotate first")
	}
	return &Keys{signing: k.signing[:1:1], receipts: k.receipts[:1:1], subject: k.subject}, nil
}

// IsPrepared tells whether the last of the keys are the next to sign.
func (k *Keys) IsPrepared() bool { return k.prepared }

// ReceiptKeys are the HMAC keys of receipts: the first signs, all verify.
func (k *Keys) ReceiptKeys() [][]byte {
	keys := make([][]byte, len(k.receipts))
	for i, r := range k.receipts {
		keys[i] = slices.Clone(r)
	}
	return keys
}

// SubjectKey is the HMAC key that turns a site's own subject into an entry id. It
// outlives every rotation.
func (k *Keys) SubjectKey() []byte { return slices.Clone(k.subject) }

// KIDs are the names of the keys that verify entry tokens, the signing one first.
func (k *Keys) KIDs() []string {
	kids := make([]string, len(k.signing))
	for i, s := range k.signing {
		kids[i] = s.kid
	}
	return kids
}

// KID is the name of the key that signs.
func (k *Keys) KID() string { return k.signing[0].kid }

// Sign is the signature of the signing key. The text must begin with something that
// no other use of the key begins with: a token's always begins with "eyJ".
func (k *Keys) Sign(text []byte) []byte { return ed25519.Sign(k.signing[0].private, text) }

// equal reports whether both hold the same secrets in the same order.
func (k *Keys) equal(o *Keys) bool {
	return slices.EqualFunc(k.signing, o.signing, func(a, b signingKey) bool { return a.private.Equal(b.private) }) &&
		slices.EqualFunc(k.receipts, o.receipts, slices.Equal) &&
		slices.Equal(k.subject, o.subject)
}

// newSecret draws a secret. The system's randomness does not fail: crypto/rand
// ends the program rather than return an error.
func newSecret() []byte {
	b := make([]byte, secretSize)
	_, _ = rand.Read(b)
	return b
}

// newSigningKey derives the key and its name from the seed. The name is the
// key's own thumbprint, so that one name never means two keys.
func newSigningKey(seed []byte) signingKey {
	private := ed25519.NewKeyFromSeed(seed)
	public := private.Public().(ed25519.PublicKey)
	return signingKey{kid: thumbprint(public), private: private, public: public}
}

// thumbprint is the JWK thumbprint of a public key (RFC 7638, RFC 8037).
func thumbprint(public ed25519.PublicKey) string {
	sum := sha256.Sum256(fmt.Appendf(nil, `{"crv":"Ed25519","kty":"OKP","x":"%s"}`, encode(public)))
	return encode(sum[:])
}

// checkSecret says what is wrong with a secret.
func checkSecret(b []byte) error {
	if len(b) != secretSize {
		return fmt.Errorf("has %d bytes, must have %d", len(b), secretSize)
	}
	var seen [256]bool
	distinct := 0
	for _, c := range b {
		if !seen[c] {
			seen[c] = true
			distinct++
		}
	}
	if distinct < minDistinct {
		return errors.New("is not random; make keys with `waitroom keys`")
	}
	return nil
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
