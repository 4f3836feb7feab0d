package admission

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// Promise 3: nothing else verifies.
func TestVerifyRefusesEveryOtherToken(t *testing.T) {
	t.Parallel()
	k := NewKeys()
	p := newPasses(t, k)
	own := k.signing[0].private
	stranger := NewKeys()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	now := time.Now().Unix()
	header := map[string]any{"alg": "EdDSA", "typ": "JWT", "kid": k.KIDs()[0]}
	body := map[string]any{"iss": issuer, "aud": "demo", "sub": "e1", "jti": "j1", "iat": now, "nbf": now, "exp": now + 300}
	ed := func(h, b map[string]any) string { return raw(t, jwt.SigningMethodEdDSA, own, h, b) }
	good := ed(header, body)
	_, err = p.Verify(good, "demo")
	require.NoError(t, err, "the token that all rows differ from is good")
	head, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	hs := func(alg jwt.SigningMethod, key []byte) string {
		return raw(t, alg, key, with(header, "alg", alg.Alg()), body)
	}
	minted := func(k *Keys, issuer string) string {
		p, err := NewPasses(k, issuer)
		require.NoError(t, err)
		token, err := p.Mint(grant())
		require.NoError(t, err)
		return token
	}
	rows := map[string]string{
		"nothing":                    "",
		"a dot":                      ".",
		"two dots":                   "..",
		"four dots":                  good + "..",
		"a word":                     "token",
		"a place token":              "wr1.demo.c2VxdWVuY2U.bWFj",
		"broken utf-8":               "\xff\xfe." + payload + "." + signature,
		"no signature":               head + "." + payload + ".",
		"no claims":                  head + ".." + signature,
		"short signature":            head + "." + payload + "." + signature[:40],
		"signature of other bytes":   head + "." + payload + "." + strings.Repeat("A", len(signature)),
		"trailing newline":           good + "\n",
		"leading space":              " " + good,
		"bearer before it":           "Bearer " + good,
		"padding":                    good + "=",
		"loose last bits":            good[:len(good)-1] + string(rune(good[len(good)-1]+1)),
		"huge":                       good + strings.Repeat("A", maxToken),
		"alg none":                   raw(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, with(header, "alg", "none"), body),
		"alg None":                   raw(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, with(header, "alg", "None"), body),
		"alg none, header of ours":   raw(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, header, body),
		"alg missing":                ed(with(header, "alg", nil), body),
		"alg eddsa":                  ed(with(header, "alg", "eddsa"), body),
		"alg Ed25519":                ed(with(header, "alg", "Ed25519"), body),
		"alg a list":                 ed(with(header, "alg", []string{"EdDSA"}), body),
		"HS256, public key":          hs(jwt.SigningMethodHS256, k.signing[0].public),
		"HS512, public key":          hs(jwt.SigningMethodHS512, k.signing[0].public),
		"HS256, receipt key":         hs(jwt.SigningMethodHS256, k.receipts[0]),
		"HS256 under our header":     raw(t, jwt.SigningMethodHS256, []byte(k.signing[0].public), header, body),
		"RS256":                      raw(t, jwt.SigningMethodRS256, rsaKey, with(header, "alg", "RS256"), body),
		"PS256":                      raw(t, jwt.SigningMethodPS256, rsaKey, with(header, "alg", "PS256"), body),
		"ES256":                      raw(t, jwt.SigningMethodES256, ecKey, with(header, "alg", "ES256"), body),
		"ES256 under our header":     raw(t, jwt.SigningMethodES256, ecKey, header, body),
		"kid missing":                ed(with(header, "kid", nil), body),
		"kid empty":                  ed(with(header, "kid", ""), body),
		"kid unknown":                ed(with(header, "kid", stranger.KIDs()[0]), body),
		"kid a path":                 ed(with(header, "kid", "../../dev/null"), body),
		"kid a number":               ed(with(header, "kid", 1), body),
		"another key, our kid":       raw(t, jwt.SigningMethodEdDSA, stranger.signing[0].private, header, body),
		"another installation":       minted(stranger, issuer),
		"key in the header":          ed(with(header, "jwk", map[string]any{"kty": "OKP", "crv": "Ed25519", "x": encode(stranger.signing[0].public)}), body),
		"jku in the header":          ed(with(header, "jku", "https://evil.example/jwks.json"), body),
		"crit in the header":         ed(with(header, "crit", []string{"exp"}), body),
		"b64 false":                  ed(with(header, "b64", false), body),
		"typ another":                ed(with(header, "typ", "at+jwt"), body),
		"typ missing":                ed(with(header, "typ", nil), body),
		"iss missing":                ed(header, with(body, "iss", nil)),
		"iss another":                minted(k, "https://evil.example"),
		"iss with a slash":           minted(k, issuer+"/"),
		"iss in capitals":            minted(k, strings.ToUpper(issuer)),
		"iss a list":                 ed(header, with(body, "iss", []string{issuer})),
		"aud missing":                ed(header, with(body, "aud", nil)),
		"aud empty":                  ed(header, with(body, "aud", "")),
		"aud a list":                 ed(header, with(body, "aud", []string{"demo"})),
		"aud a list of two":          ed(header, with(body, "aud", []string{"demo", "other"})),
		"aud a number":               ed(header, with(body, "aud", 1)),
		"sub missing":                ed(header, with(body, "sub", nil)),
		"sub empty":                  ed(header, with(body, "sub", "")),
		"sub a number":               ed(header, with(body, "sub", 7)),
		"jti missing":                ed(header, with(body, "jti", nil)),
		"jti empty":                  ed(header, with(body, "jti", "")),
		"exp missing":                ed(header, with(body, "exp", nil)),
		"exp zero":                   ed(header, with(body, "exp", 0)),
		"exp negative":               ed(header, with(body, "exp", -1)),
		"exp text":                   ed(header, with(body, "exp", fmt.Sprint(now+300))),
		"exp a fraction":             ed(header, with(body, "exp", float64(now)+300.5)),
		"exp beyond int64":           ed(header, with(body, "exp", 1e300)),
		"exp before iat":             ed(header, with(body, "exp", now-1)),
		"iat missing":                ed(header, with(body, "iat", nil)),
		"iat in the future":          ed(header, with(with(body, "iat", now+3600), "nbf", now+3600)),
		"iat alone in the future":    ed(header, with(body, "iat", now+3600)),
		"iat text":                   ed(header, with(body, "iat", "now")),
		"nbf missing":                ed(header, with(body, "nbf", nil)),
		"nbf in the future":          ed(header, with(body, "nbf", now+3600)),
		"claims a list":              signedText(t, own, header, `[]`),
		"claims null":                signedText(t, own, header, `null`),
		"claims text":                signedText(t, own, header, `"demo"`),
		"claims twice":               signedText(t, own, header, `{"iss":"`+issuer+`"}{}`),
		"claims no json":             signedText(t, own, header, `iss`),
		"claims empty":               signedText(t, own, header, ``),
		"claims of a site's own jwt": ed(header, map[string]any{"sub": "user", "exp": now + 300}),
	}
	for name, token := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 { // the remembered verdict is the same
				pass, err := p.Verify(token, "demo")
				require.ErrorIs(t, err, waitroom.ErrTokenInvalid)
				require.NotErrorIs(t, err, waitroom.ErrWrongEvent)
				require.Zero(t, pass)
			}
		})
	}
}

func signedText(t *testing.T, key any, header map[string]any, claims string) string {
	t.Helper()
	h, err := json.Marshal(header)
	require.NoError(t, err)
	text := encode(h) + "." + encode([]byte(claims))
	sig, err := jwt.SigningMethodEdDSA.Sign(text, key)
	require.NoError(t, err)
	return text + "." + encode(sig)
}
