package guard

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

const (
	// longestToken is the service's own bound.
	longestToken = 4096
	// again is how often the keys are fetched at most.
	again = 10 * time.Second
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
	good   *lru.Cache[sum, claims]        // signed, and of this issuer and event
	bad    *lru.Cache[sum, *RefusedError] // will not become good

	mu  sync.Mutex // guards set
	set keyfunc.Keyfunc
}

func newKeys(cfg Config) *keys {
	k := &keys{cfg: cfg, parser: jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithStrictDecoding(),
		// A session may outlive the token's exp: the time is the verdict's to judge.
		jwt.WithoutClaimsValidation(),
	)}
	k.good, _ = lru.New[sum, claims](remembered) // fails for a size below one only
	k.bad, _ = lru.New[sum, *RefusedError](remembered)
	return k
}

// read gives what a token says if the service signed it for this event.
func (k *keys) read(ctx context.Context, token string) (claims, error) {
	if token == "" || len(token) > longestToken || strings.ContainsAny(token, "\r\n") {
		return claims{}, refusals["token_invalid"]
	}
	id := sha256.Sum256([]byte(token))
	if c, ok := k.good.Get(id); ok {
		return c, k.timely(c)
	}
	if r, ok := k.bad.Get(id); ok {
		return claims{}, r
	}
	set, err := k.fetched()
	if err != nil {
		return claims{}, err
	}
	var c claims
	unknown := false
	_, err = k.parser.ParseWithClaims(token, &c, func(t *jwt.Token) (any, error) {
		key, err := set.KeyfuncCtx(ctx)(t)
		unknown = err != nil
		return key, err
	})
	switch {
	case err != nil && unknown: // perhaps a key that is not published yet
		return claims{}, refusals["token_invalid"]
	case err != nil, c.Issuer != k.cfg.Service, c.Subject == "", c.ID == "",
		c.IssuedAt == nil, c.NotBefore == nil, c.ExpiresAt == nil, len(c.Audience) != 1:
		k.bad.Add(id, refusals["token_invalid"])
		return claims{}, refusals["token_invalid"]
	case c.Audience[0] != k.cfg.Event:
		k.bad.Add(id, refusals["token_wrong_event"])
		return claims{}, refusals["token_wrong_event"]
	}
	k.good.Add(id, c)
	return c, k.timely(c)
}

func (k *keys) timely(c claims) error {
	if time.Until(c.NotBefore.Time) > ahead || time.Until(c.IssuedAt.Time) > ahead {
		return refusals["token_invalid"]
	}
	return nil
}

// fetched is the set of keys, asked for when the first token comes. It fetches
// them again by itself for a kid that it does not know.
func (k *keys) fetched() (keyfunc.Keyfunc, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.set != nil {
		return k.set, nil
	}
	address := k.cfg.Asked + "/.well-known/jwks.json"
	storage, err := jwkset.NewStorageFromHTTP(address, jwkset.HTTPClientStorageOptions{
		Client: k.cfg.Client, HTTPExpectedStatus: http.StatusOK, HTTPTimeout: k.cfg.Timeout,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: keys: %w", refusals["unavailable"], err)
	}
	client, err := jwkset.NewHTTPClient(jwkset.HTTPClientOptions{
		HTTPURLs:          map[string]jwkset.Storage{address: storage},
		RateLimitWaitMax:  k.cfg.Timeout, // the fetch included: who would wait longer is refused at once
		RefreshUnknownKID: rate.NewLimiter(rate.Every(again), 1),
	})
	if err != nil {
		return nil, fmt.Errorf("%w: keys: %w", refusals["unavailable"], err)
	}
	k.set, err = keyfunc.New(keyfunc.Options{Storage: client})
	if err != nil {
		return nil, fmt.Errorf("%w: keys: %w", refusals["unavailable"], err)
	}
	return k.set, nil
}
