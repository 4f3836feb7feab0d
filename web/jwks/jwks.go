// Package jwks keeps somebody's published signing keys at hand (RFC 7517): fetched
// when the first token asks for one, and again for a key id that is not known yet,
// at most once in ten seconds. So a rotation needs nobody, and a flood of invented
// key ids costs one fetch.
package jwks

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/time/rate"
)

// again is how often the keys are fetched at most.
const again = 10 * time.Second

// Keys are the keys at one address. Any number of goroutines may use them.
type Keys struct {
	address string
	client  *http.Client
	timeout time.Duration

	mu   sync.Mutex // guards what follows
	set  keyfunc.Keyfunc
	next time.Time // when the first fetch, having failed, is tried again
	last error
}

// New fetches nothing yet. The timeout ends one fetch.
func New(address string, client *http.Client, timeout time.Duration) *Keys {
	return &Keys{address: address, client: client, timeout: timeout}
}

// Known gives the keys that a parser asks for. The error says that there are none:
// the address has not answered so far. It is asked again after a second.
func (k *Keys) Known(ctx context.Context) (jwt.Keyfunc, error) {
	const pause = time.Second
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.set != nil {
		return k.set.KeyfuncCtx(ctx), nil
	}
	if time.Now().Before(k.next) {
		return nil, k.last
	}
	k.set, k.last = k.fetch()
	k.next = time.Now().Add(pause)
	if k.last != nil {
		return nil, k.last
	}
	return k.set.KeyfuncCtx(ctx), nil
}

func (k *Keys) fetch() (keyfunc.Keyfunc, error) {
	storage, err := jwkset.NewStorageFromHTTP(k.address, jwkset.HTTPClientStorageOptions{
		Client: k.client, HTTPExpectedStatus: http.StatusOK, HTTPTimeout: k.timeout,
	})
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	client, err := jwkset.NewHTTPClient(jwkset.HTTPClientOptions{
		HTTPURLs:          map[string]jwkset.Storage{k.address: storage},
		RateLimitWaitMax:  k.timeout, // the fetch included: who would wait longer is refused at once
		RefreshUnknownKID: rate.NewLimiter(rate.Every(again), 1),
	})
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return keyfunc.New(keyfunc.Options{Storage: client})
}
