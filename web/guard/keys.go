package guard

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/waitroom-dev/waitroom/web/jwks"
)

const (
	// longestToken is the service's own bound.
	longestToken = 4096
	// ahead is how far another machine's clock may be.
	ahead = time.Second
	// remembered is how many tokens are kept, good and bad apart: about 300 bytes
	// each. The least recently used goes first, and is only computed anew.
	remembered = 32768
)

// claims are what an entry token says.
type claims struct {
	jwt.RegisteredClaims
}

// sum names a token without keeping it.
type sum = [sha256.Size]byte

// keys reads tokens by the service's published keys.
type keys struct {
	cfg    Config
	parser *jwt.Parser
	known  *jwks.Keys
	good   *lru.Cache[sum, *claims]       // signed, and of this issuer and event
	bad    *lru.Cache[sum, *RefusedError] // will not become good
}

func newKeys(cfg Config) *keys {
	known := jwks.New(cfg.Asked+"/.well-known/jwks.json", cfg.Client, cfg.Timeout)
	k := &keys{cfg: cfg, known: known, parser: jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithStrictDecoding(),
		// A session may outlive the token's exp: the time is the verdict's to judge.
		jwt.WithoutClaimsValidation(),
	)}
	k.good, _ = lru.New[sum, *claims](remembered) // fails for a size below one only
	k.bad, _ = lru.New[sum, *RefusedError](remembered)
	return k
}

// read gives what a token says, and its sum, if the service signed it for this event.
func (k *keys) read(ctx context.Context, token string) (sum, *claims, error) {
	if token == "" || len(token) > longestToken || strings.ContainsAny(token, "\r\n") {
		return sum{}, nil, refusals["token_invalid"]
	}
	id := sha256.Sum256([]byte(token))
	if c, ok := k.good.Get(id); ok {
		return id, c, k.timely(c)
	}
	if r, ok := k.bad.Get(id); ok {
		return sum{}, nil, r
	}
	key, err := k.known.Known(ctx)
	if err != nil {
		return sum{}, nil, fmt.Errorf("%w: %w", refusals["unavailable"], err)
	}
	c := &claims{}
	unknown := false
	_, err = k.parser.ParseWithClaims(token, c, func(t *jwt.Token) (any, error) {
		found, err := key(t)
		unknown = err != nil
		return found, err
	})
	switch {
	case err != nil && unknown: // perhaps a key that is not published yet
		return sum{}, nil, refusals["token_invalid"]
	case err != nil, c.Issuer != k.cfg.Service, c.Subject == "", c.ID == "",
		c.IssuedAt == nil, c.NotBefore == nil, c.ExpiresAt == nil, len(c.Audience) != 1:
		k.bad.Add(id, refusals["token_invalid"])
		return sum{}, nil, refusals["token_invalid"]
	case c.Audience[0] != k.cfg.Event:
		k.bad.Add(id, refusals["token_wrong_event"])
		return sum{}, nil, refusals["token_wrong_event"]
	}
	k.good.Add(id, c)
	return id, c, k.timely(c)
}

func (k *keys) timely(c *claims) error {
	if time.Until(c.NotBefore.Time) > ahead || time.Until(c.IssuedAt.Time) > ahead {
		return refusals["token_invalid"]
	}
	return nil
}
