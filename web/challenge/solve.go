package challenge

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// mostTries bounds what a server can make a client work.
const mostTries = 1 << 20

var errUnsolved = errors.New("no solution within a million tries")

// Solve is a client's side: it works out the solution of a puzzle, given as Offer
// writes it, on the calling goroutine. It fails for any other kind of challenge, when
// ctx ends, and after a million tries.
func Solve(ctx context.Context, offer []byte) (string, error) {
	var p payload
	if err := json.Unmarshal(offer, &p.Challenge); err != nil {
		return "", fmt.Errorf("read puzzle: %w", err)
	}
	is := p.Challenge.Parameters
	if is.Algorithm != algorithm || is.Cost != rounds || is.KeyLength != keyLength {
		return "", fmt.Errorf("challenge of kind %q, not this package's puzzle", is.Algorithm)
	}
	nonce, err1 := hex.DecodeString(is.Nonce)
	salt, err2 := hex.DecodeString(is.Salt)
	prefix, err3 := hex.DecodeString(is.KeyPrefix)
	if err := errors.Join(err1, err2, err3); err != nil {
		return "", fmt.Errorf("read puzzle: %w", err)
	}
	for counter := range uint32(mostTries) {
		if err := ctx.Err(); err != nil {
			return "", fmt.Errorf("solve: %w", err)
		}
		key, err := derive(nonce, salt, counter)
		if err != nil {
			return "", err
		}
		if bytes.HasPrefix(key, prefix) {
			p.Solution.Counter, p.Solution.DerivedKey = counter, hex.EncodeToString(key)
			raw, err := json.Marshal(p)
			if err != nil {
				return "", fmt.Errorf("encode solution: %w", err)
			}
			return base64.StdEncoding.EncodeToString(raw), nil
		}
	}
	return "", errUnsolved
}
