package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/waitroom-dev/waitroom/waitroom"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var secret = []byte(strings.Repeat("k", ShortestSecret))

// claims are those of a good token, changed.
func claims(change jwt.MapClaims) jwt.MapClaims {
	c := jwt.MapClaims{
		"sub": "u1", "iss": "https://shop.example", "aud": "waitroom", "year": 4,
		"exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
	}
	for name, value := range change {
		c[name] = value
		if value == nil {
			delete(c, name)
		}
	}
	return c
}

func sign(t *testing.T, method jwt.SigningMethod, key any, kid string, c jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	if kid != "" {
		token.Header["kid"] = kid
	}
	signed, err := token.SignedString(key)
	require.NoError(t, err)
	return signed
}

func verifier(t *testing.T, change func(*Config)) *Verifier {
	t.Helper()
	cfg := Config{Secret: string(secret), Issuer: "https://shop.example", Audience: "waitroom"}
	if change != nil {
		change(&cfg)
	}
	v, err := New(cfg)
	require.NoError(t, err)
	return v
}

func TestSecret(t *testing.T) {
	t.Parallel()
	v := verifier(t, nil)
	hs := func(change jwt.MapClaims) string {
		return sign(t, jwt.SigningMethodHS256, secret, "", claims(change))
	}
	now := time.Now()
	for range 2 { // the second time from memory
		p, err := v.Read(t.Context(), hs(jwt.MapClaims{"exp": now.Add(time.Hour).Unix(), "iat": now.Unix()}))
		require.NoError(t, err)
		require.Equal(t, "u1", p.Subject)
		require.EqualValues(t, 4, p.Claims["year"])
	}
	for name, token := range map[string]string{
		"no token":            "",
		"no expiry":           hs(jwt.MapClaims{"exp": nil}),
		"expiry as text":      hs(jwt.MapClaims{"exp": "never"}),
		"of the future":       hs(jwt.MapClaims{"iat": now.Add(time.Hour).Unix()}),
		"not before later":    hs(jwt.MapClaims{"nbf": now.Add(time.Hour).Unix()}),
		"another issuer":      hs(jwt.MapClaims{"iss": "https://evil.example"}),
		"no issuer":           hs(jwt.MapClaims{"iss": nil}),
		"another audience":    hs(jwt.MapClaims{"aud": []string{"other"}}),
		"no audience":         hs(jwt.MapClaims{"aud": nil}),
		"no subject":          hs(jwt.MapClaims{"sub": nil}),
		"a number as subject": hs(jwt.MapClaims{"sub": 7}),
		"lines in subject":    hs(jwt.MapClaims{"sub": "a\nb"}),
		"long subject":        hs(jwt.MapClaims{"sub": strings.Repeat("s", longestSubject+1)}),
		"another algorithm":   sign(t, jwt.SigningMethodHS512, secret, "", claims(nil)),
		"another secret":      sign(t, jwt.SigningMethodHS256, []byte("x"), "", claims(nil)),
		"unsigned":            sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "", claims(nil)),
		"huge":                hs(jwt.MapClaims{"x": strings.Repeat("x", longestToken)}),
		"two dots":            "..",
		"spelled otherwise":   hs(nil) + "=",
	} {
		_, err := v.Read(t.Context(), token)
		require.ErrorIs(t, err, waitroom.ErrTokenInvalid, name)
	}
	_, err := v.Read(t.Context(), hs(jwt.MapClaims{"exp": now.Add(-time.Minute).Unix()}))
	require.ErrorIs(t, err, waitroom.ErrTokenExpired)
	_, err = v.Read(t.Context(), sign(t, jwt.SigningMethodHS256, []byte("x"), "", claims(jwt.MapClaims{"exp": 1})))
	require.ErrorIs(t, err, waitroom.ErrTokenInvalid, "forged and expired is forged")
	_, err = verifier(t, func(c *Config) { c.Leeway = 2 * time.Minute }).Read(t.Context(), hs(jwt.MapClaims{"exp": now.Add(-time.Minute).Unix()}))
	require.NoError(t, err, "within the leeway")

	nobody, err := New(Config{})
	require.NoError(t, err)
	_, err = nobody.Read(t.Context(), hs(nil))
	require.ErrorIs(t, err, waitroom.ErrTokenInvalid, "without a secret nobody is known")
}

// publisher is a site that publishes its keys.
type publisher struct {
	*httptest.Server

	mu      sync.Mutex // guards what follows
	keys    []map[string]string
	away    bool
	fetched int
}

func newPublisher(t *testing.T, keys ...map[string]string) *publisher {
	t.Helper()
	p := &publisher{keys: keys}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.fetched++
		if p.away {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": p.keys})
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *publisher) set(away bool, keys ...map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away, p.keys = away, append(p.keys, keys...)
}

func encode(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.Bytes()) }

func TestPublishedKeys(t *testing.T) {
	t.Parallel()
	const bits = 2048
	rsaKey, err := rsa.GenerateKey(rand.Reader, bits)
	require.NoError(t, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	edPublic, _ := edKey.Public().(ed25519.PublicKey)
	point, err := ecKey.PublicKey.Bytes()
	require.NoError(t, err)
	rsaJWK := map[string]string{"kty": "RSA", "kid": "r", "alg": "RS256", "use": "sig", "n": encode(rsaKey.N), "e": "AQAB"}
	ecJWK := map[string]string{
		"kty": "EC", "kid": "e", "crv": "P-256",
		"x": base64.RawURLEncoding.EncodeToString(point[1:33]), "y": base64.RawURLEncoding.EncodeToString(point[33:]),
	}
	p := newPublisher(t, rsaJWK, ecJWK)
	v := verifier(t, func(c *Config) { c.Secret, c.JWKS, c.Client = "", p.URL, p.Client() })

	read := func(method jwt.SigningMethod, key any, kid string) error {
		_, err := v.Read(t.Context(), sign(t, method, key, kid, claims(jwt.MapClaims{"n": rand.Text()})))
		return err
	}
	require.NoError(t, read(jwt.SigningMethodRS256, rsaKey, "r"))
	require.NoError(t, read(jwt.SigningMethodES256, ecKey, "e"))
	public, err := x509.MarshalPKIXPublicKey(&rsaKey.PublicKey)
	require.NoError(t, err)
	for name, err := range map[string]error{
		"another algorithm of the family": read(jwt.SigningMethodRS512, rsaKey, "r"),
		"another padding":                 read(jwt.SigningMethodPS256, rsaKey, "r"),
		"another key":                     read(jwt.SigningMethodES256, ecKey, "r"),
		"the public key as a secret":      read(jwt.SigningMethodHS256, public, "r"),
		"unsigned":                        read(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "r"),
	} {
		require.ErrorIs(t, err, waitroom.ErrTokenInvalid, name)
	}

	// A rotation needs nobody here, and invented key ids cost one fetch.
	p.set(false, map[string]string{"kty": "OKP", "kid": "d", "crv": "Ed25519", "x": base64.RawURLEncoding.EncodeToString(edPublic)})
	require.NoError(t, read(jwt.SigningMethodEdDSA, edKey, "d"))
	for range 50 {
		require.Error(t, read(jwt.SigningMethodEdDSA, edKey, rand.Text()))
	}
	p.mu.Lock()
	require.LessOrEqual(t, p.fetched, 2)
	p.mu.Unlock()
	p.set(true)
	require.NoError(t, read(jwt.SigningMethodRS256, rsaKey, "r"), "known keys stay good while the site is away")

	away := newPublisher(t, rsaJWK)
	away.set(true)
	v = verifier(t, func(c *Config) { c.Secret, c.JWKS, c.Client = "", away.URL, away.Client() })
	require.ErrorIs(t, read(jwt.SigningMethodRS256, rsaKey, "r"), waitroom.ErrUnavailable)
	away.set(false)
	deadline := time.Now().Add(10 * time.Second)
	for read(jwt.SigningMethodRS256, rsaKey, "r") != nil {
		require.True(t, time.Now().Before(deadline), "it does not come back by itself")
	}
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"identity-secret: shorter than 32 bytes": {Secret: "short"},
		"identity-jwks: \"x\" is no http":        {JWKS: "x"},
		"identity-jwks: give either":             {JWKS: "https://x", Secret: string(secret)},
		"identity-leeway: 1h0m0s is not from":    {Secret: string(secret), Leeway: time.Hour},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, want)
	}
}

func FuzzRead(f *testing.F) {
	v, err := New(Config{Secret: string(secret)})
	require.NoError(f, err)
	good, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims(nil)).SignedString(secret)
	require.NoError(f, err)
	f.Add(good)
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := v.Read(t.Context(), token); err == nil {
			require.Equal(t, good, token)
		}
	})
}
