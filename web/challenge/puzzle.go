package challenge

import (
	"bytes"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"math/big"
	"time"
)

// The puzzle's derivation. ALTCHA calls the rounds cost.
const (
	algorithm = "PBKDF2/SHA-256"
	rounds    = 200
	keyLength = 32
	// prefixLength is how much of the key the puzzle tells; the rest only a solver knows.
	prefixLength = keyLength / 2
	// easiest is the most tries of a puzzle when nobody hurries.
	easiest = 4000
	// longestSolution is the most bytes of a solution that are looked at.
	longestSolution = 4096
)

// parameters are ALTCHA's, in the alphabetical order in which they are signed.
type parameters struct {
	Algorithm    string  `json:"algorithm"`
	Cost         int     `json:"cost"`
	Data         binding `json:"data"`
	ExpiresAt    int64   `json:"expiresAt"` // Unix seconds
	KeyLength    int     `json:"keyLength"`
	KeyPrefix    string  `json:"keyPrefix"`
	KeySignature string  `json:"keySignature"`
	Nonce        string  `json:"nonce"`
	Salt         string  `json:"salt"`
}

// binding is where a puzzle counts. ALTCHA leaves its content to us.
type binding struct {
	Event string `json:"event"`
	Host  string `json:"host"`
}

// puzzle is what a client is given.
type puzzle struct {
	Parameters parameters `json:"parameters"`
	Signature  string     `json:"signature"`
}

// payload is what it brings back, as base64 of JSON.
type payload struct {
	Challenge puzzle `json:"challenge"`
	Solution  struct {
		Counter    uint32 `json:"counter"`
		DerivedKey string `json:"derivedKey"`
	} `json:"solution"`
}

// Why a solution does not count.
var (
	errShape     = errors.New("no solution that can be read")
	errSignature = errors.New("not a puzzle of ours")
	errExpired   = errors.New("too late")
	errElsewhere = errors.New("of another event or host")
	errWrong     = errors.New("the key is wrong")
)

// newPuzzle makes a puzzle of at most effort tries and at least half as many.
func newPuzzle(key []byte, where binding, effort int, ends time.Time) (puzzle, error) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	nonce, salt := random[:16], random[16:]
	least := effort / 2
	more, err := rand.Int(rand.Reader, big.NewInt(int64(effort-least)))
	if err != nil {
		return puzzle{}, fmt.Errorf("draw a counter: %w", err)
	}
	derived, err := derive(nonce, salt, uint32(least)+uint32(more.Int64())) //nolint:gosec // both are below the effort, an int of five digits
	if err != nil {
		return puzzle{}, err
	}
	p := puzzle{Parameters: parameters{
		Algorithm: algorithm, Cost: rounds, Data: where, ExpiresAt: ends.Unix(),
		KeyLength: keyLength, KeyPrefix: hex.EncodeToString(derived[:prefixLength]), KeySignature: mac(key, derived),
		Nonce: hex.EncodeToString(nonce), Salt: hex.EncodeToString(salt),
	}}
	p.Signature, err = p.Parameters.sign(key)
	return p, err
}

// check says whether a solution counts here and now, and names its puzzle.
func check(key []byte, solution string, where binding, now time.Time) (nonce string, ends time.Time, err error) {
	var p payload
	if len(solution) > longestSolution {
		return "", time.Time{}, errShape
	}
	raw, err := base64.StdEncoding.DecodeString(solution)
	if err != nil || json.Unmarshal(raw, &p) != nil {
		return "", time.Time{}, errShape
	}
	is := p.Challenge.Parameters
	want, err := is.sign(key)
	if err != nil || !hmac.Equal([]byte(want), []byte(p.Challenge.Signature)) {
		return "", time.Time{}, errSignature
	}
	ends = time.Unix(is.ExpiresAt, 0)
	switch derived, err := hex.DecodeString(p.Solution.DerivedKey); {
	case !now.Before(ends):
		return "", ends, errExpired
	case is.Data != where:
		return "", ends, errElsewhere
	case err != nil || len(derived) != keyLength || !hmac.Equal([]byte(mac(key, derived)), []byte(is.KeySignature)):
		return "", ends, errWrong
	}
	return is.Nonce, ends, nil
}

// derive is one try.
func derive(nonce, salt []byte, counter uint32) ([]byte, error) {
	password := binary.BigEndian.AppendUint32(bytes.Clone(nonce), counter)
	key, err := pbkdf2.Key(func() hash.Hash { return sha256.New() }, string(password), salt, rounds, keyLength)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	return key, nil
}

// sign is the signature of the parameters as ALTCHA writes them.
func (p parameters) sign(key []byte) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // as JavaScript writes it
	if err := enc.Encode(p); err != nil {
		return "", fmt.Errorf("encode puzzle: %w", err)
	}
	return mac(key, bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

func mac(key, text []byte) string {
	m := hmac.New(sha256.New, key)
	_, _ = m.Write(text) // a hash never fails
	return hex.EncodeToString(m.Sum(nil))
}
