package admission

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

const issuer = "https://wait.example"

func newPasses(t testing.TB, k *Keys) *Passes {
	t.Helper()
	p, err := NewPasses(k, issuer)
	require.NoError(t, err)
	return p
}

// grant is one that was made a moment ago.
func grant() waitroom.Grant {
	now := time.Now()
	return waitroom.Grant{
		Event: "demo", Entry: "e1", Seq: 7, Subject: "e1", JTI: "j1", State: waitroom.EntryAdmitted,
		AdmittedAt: now.Truncate(time.Second), ClaimBy: now.Add(5 * time.Minute),
	}
}

// raw signs any header and claims.
func raw(t testing.TB, method jwt.SigningMethod, key any, header, body map[string]any) string {
	t.Helper()
	h, err := json.Marshal(header)
	require.NoError(t, err)
	c, err := json.Marshal(body)
	require.NoError(t, err)
	text := encode(h) + "." + encode(c)
	sig, err := method.Sign(text, key)
	require.NoError(t, err)
	return text + "." + encode(sig)
}

// with is a copy of m with one value set, or removed when it is nil.
func with(m map[string]any, key string, value any) map[string]any {
	c := make(map[string]any, len(m)+1)
	for k, v := range m {
		c[k] = v
	}
	c[key] = value
	if value == nil {
		delete(c, key)
	}
	return c
}

// Promise 1: the same bytes whenever and wherever a grant's token is asked for.
func TestMintIsDeterministic(t *testing.T) {
	t.Parallel()
	k := NewKeys()
	reloaded, err := DecodeKeys(k.Encode())
	require.NoError(t, err)
	g := grant()
	here, there := newPasses(t, k), newPasses(t, reloaded)
	want, err := here.Mint(g)
	require.NoError(t, err)
	entered := g
	entered.State, entered.SessionEnds, entered.Entrance = waitroom.EntryEntered, time.Now().Add(time.Hour), true
	for range 3 {
		for _, p := range []*Passes{here, there} {
			for _, g := range []waitroom.Grant{g, entered} {
				got, err := p.Mint(g)
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
		}
	}
	other := g
	other.JTI = "j2"
	got, err := here.Mint(other)
	require.NoError(t, err)
	require.NotEqual(t, want, got)
}

func TestMintWritesTheContractsClaims(t *testing.T) {
	t.Parallel()
	k := NewKeys()
	g := grant()
	g.Subject = "user-1@site <&> é"
	token, err := newPasses(t, k).Mint(g)
	require.NoError(t, err)
	parts := strings.Split(token, ".")
	require.Len(t, parts, 3)
	part := func(i int) map[string]any {
		b, err := base64.RawURLEncoding.DecodeString(parts[i])
		require.NoError(t, err)
		var m map[string]any
		require.NoError(t, json.Unmarshal(b, &m))
		return m
	}
	require.Equal(t, map[string]any{"alg": "EdDSA", "typ": "JWT", "kid": k.KIDs()[0]}, part(0))
	require.Equal(t, map[string]any{
		"iss": issuer, "aud": "demo", "sub": "user-1@site <&> é", "jti": "j1",
		"iat": float64(g.AdmittedAt.Unix()), "nbf": float64(g.AdmittedAt.Unix()), "exp": float64(g.ClaimBy.Unix()),
	}, part(1))
}

func TestMintRefusesHalfAGrant(t *testing.T) {
	t.Parallel()
	p := newPasses(t, NewKeys())
	for name, spoil := range map[string]func(*waitroom.Grant){
		"event":    func(g *waitroom.Grant) { g.Event = "" },
		"subject":  func(g *waitroom.Grant) { g.Subject = "" },
		"jti":      func(g *waitroom.Grant) { g.JTI = "" },
		"admitted": func(g *waitroom.Grant) { g.AdmittedAt = time.Time{} },
		"claim by": func(g *waitroom.Grant) { g.ClaimBy = time.Time{} },
		"utf-8":    func(g *waitroom.Grant) { g.Subject = "\xff" },
		"length":   func(g *waitroom.Grant) { g.Subject = strings.Repeat("a", maxToken) },
	} {
		g := grant()
		spoil(&g)
		_, err := p.Mint(g)
		require.Error(t, err, name)
	}
}

// Promise 2: what was minted here or with a key of before verifies, until it
// expires, and then still says whose it is.
func TestVerifyGivesThePass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before := NewKeys()
		now := newPasses(t, before.Rotated())
		g := grant()
		g.ClaimBy = g.ClaimBy.Add(345 * time.Millisecond)
		for _, p := range []*Passes{now, newPasses(t, before)} {
			token, err := p.Mint(g)
			require.NoError(t, err)
			pass, err := now.Verify(token, "demo")
			require.NoError(t, err)
			require.Equal(t, waitroom.Pass{
				Event: "demo", Subject: "e1", JTI: "j1",
				AdmittedAt: g.AdmittedAt.UTC(), ClaimBy: g.ClaimBy.Truncate(time.Second).UTC(),
			}, pass)
		}
		token, err := now.Mint(g)
		require.NoError(t, err)
		time.Sleep(5*time.Minute - time.Millisecond)
		pass, err := now.Verify(token, "demo")
		require.NoError(t, err)
		require.False(t, pass.Expired, "a millisecond before its end")
		time.Sleep(time.Millisecond)
		pass, err = now.Verify(token, "demo")
		require.NoError(t, err)
		require.True(t, pass.Expired, "at its end")
		require.Equal(t, "j1", pass.JTI)
	})
}

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
		"iat in the future":          ed(header, with(with(body, "iat", now+30), "nbf", now+30)),
		"iat alone in the future":    ed(header, with(body, "iat", now+30)),
		"iat text":                   ed(header, with(body, "iat", "now")),
		"nbf missing":                ed(header, with(body, "nbf", nil)),
		"nbf in the future":          ed(header, with(body, "nbf", now+30)),
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

func TestVerifySaysWrongEventOnlyOfAGoodToken(t *testing.T) {
	t.Parallel()
	k := NewKeys()
	p := newPasses(t, k)
	token, err := p.Mint(grant())
	require.NoError(t, err)
	for _, event := range []waitroom.EventID{"other", "Demo", "demo ", "dem", ""} {
		_, err = p.Verify(token, event)
		require.ErrorIs(t, err, waitroom.ErrWrongEvent)
		require.NotErrorIs(t, err, waitroom.ErrTokenInvalid)
	}
	forged := token[:len(token)-20] + strings.Repeat("A", 20)
	_, err = p.Verify(forged, "other")
	require.ErrorIs(t, err, waitroom.ErrTokenInvalid)
	require.NotErrorIs(t, err, waitroom.ErrWrongEvent, "a forged token learns nothing of events")
	foreign, err := newPasses(t, NewKeys()).Mint(grant())
	require.NoError(t, err)
	_, err = p.Verify(foreign, "other")
	require.NotErrorIs(t, err, waitroom.ErrWrongEvent)
}

func TestVerifyAllowsASecondOfSkewAndNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPasses(t, NewKeys())
		g := grant()
		g.AdmittedAt = time.Now().Add(time.Second)
		token, err := p.Mint(g)
		require.NoError(t, err)
		_, err = p.Verify(token, "demo")
		require.NoError(t, err, "the store's clock may be a second ahead")
		g.AdmittedAt, g.JTI = time.Now().Add(2*time.Second), "j2"
		token, err = p.Mint(g)
		require.NoError(t, err)
		_, err = p.Verify(token, "demo")
		require.ErrorIs(t, err, waitroom.ErrTokenInvalid)
		time.Sleep(time.Second)
		_, err = p.Verify(token, "demo")
		require.NoError(t, err, "the future is no verdict that is remembered")
	})
}

// Promise 4: a signature is computed once a token, and no flood pushes a good one out.
func TestVerifyRemembersWithinItsBounds(t *testing.T) {
	t.Parallel()
	p := newPasses(t, NewKeys())
	p.verdicts, p.refused, p.minted = newGenerations[[32]byte, claims](4), newGenerations[[32]byte, struct{}](4), newGenerations[mintKey, string](4)
	token, err := p.Mint(grant())
	require.NoError(t, err)
	_, err = p.Verify(token, "demo")
	require.NoError(t, err)
	for i := range 100 {
		bad := fmt.Sprintf("%s%04d", token[:len(token)-4], i)
		_, err = p.Verify(bad, "demo")
		require.ErrorIs(t, err, waitroom.ErrTokenInvalid)
	}
	require.Equal(t, 1, p.verdicts.len(), "bad tokens stand apart")
	require.LessOrEqual(t, p.refused.len(), 8)
	for h := range p.headers {
		p.headers[h] = NewKeys().signing[0].public // from now on a signature that is computed is bad
	}
	_, err = p.Verify(token, "demo")
	require.NoError(t, err, "the verdict was remembered")
	p.verdicts = newGenerations[[32]byte, claims](4)
	_, err = p.Verify(token, "demo")
	require.ErrorIs(t, err, waitroom.ErrTokenInvalid)
	for i := range 100 {
		g := grant()
		g.JTI = fmt.Sprint(i)
		_, err = p.Mint(g)
		require.NoError(t, err)
	}
	require.LessOrEqual(t, p.minted.len(), 8)
}

func TestJWKSVerifiesForAnybody(t *testing.T) {
	t.Parallel()
	before := NewKeys()
	p := newPasses(t, before.Rotated())
	var set struct {
		Keys []map[string]string `json:"keys"`
	}
	require.NoError(t, json.Unmarshal(p.JWKS(), &set))
	require.Len(t, set.Keys, 2)
	for i, minter := range []*Passes{p, newPasses(t, before)} {
		token, err := minter.Mint(grant())
		require.NoError(t, err)
		key := set.Keys[i]
		require.Equal(t, map[string]string{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": key["kid"], "x": key["x"]}, key,
			"nothing private stands in it")
		x, err := base64.RawURLEncoding.DecodeString(key["x"])
		require.NoError(t, err)
		parsed, err := jwt.Parse(token, func(parsed *jwt.Token) (any, error) {
			require.Equal(t, key["kid"], parsed.Header["kid"])
			return ed25519.PublicKey(x), nil
		}, jwt.WithIssuer(issuer), jwt.WithAudience("demo"), jwt.WithExpirationRequired(), jwt.WithIssuedAt())
		require.NoError(t, err)
		require.True(t, parsed.Valid)
	}
}

func TestNewPassesNeedsKeysAndIssuer(t *testing.T) {
	t.Parallel()
	_, err := NewPasses(nil, issuer)
	require.ErrorContains(t, err, "signing key")
	_, err = NewPasses(&Keys{}, issuer)
	require.ErrorContains(t, err, "signing key")
	_, err = NewPasses(NewKeys(), "")
	require.ErrorContains(t, err, "issuer")
}

// FuzzVerify: whatever comes, only what Mint wrote is let through.
func FuzzVerify(f *testing.F) {
	k := NewKeys()
	p := newPasses(f, k)
	g := grant()
	g.ClaimBy = g.ClaimBy.Add(24 * time.Hour)
	good, err := p.Mint(g)
	require.NoError(f, err)
	head, rest, _ := strings.Cut(good, ".")
	f.Add(good, "demo")
	f.Add(good, "other")
	f.Add(head+"."+rest[:20], "demo")
	f.Add(head+".e30.", "demo")
	f.Add("eyJhbGciOiJub25lIn0.e30.", "demo")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, token, event string) {
		pass, err := p.Verify(token, waitroom.EventID(event))
		switch {
		case err == nil:
			require.Equal(t, good, token)
			require.Equal(t, "demo", event)
			require.Equal(t, "j1", pass.JTI)
		case token == good:
			require.ErrorIs(t, err, waitroom.ErrWrongEvent)
		default:
			require.ErrorIs(t, err, waitroom.ErrTokenInvalid)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	p := newPasses(b, NewKeys())
	token, err := p.Mint(grant())
	require.NoError(b, err)
	b.Run("remembered", func(b *testing.B) {
		for b.Loop() {
			_, _ = p.Verify(token, "demo")
		}
	})
	b.Run("computed", func(b *testing.B) {
		for b.Loop() {
			p.verdicts = newGenerations[[32]byte, claims](1)
			_, _ = p.Verify(token, "demo")
		}
	})
}

func BenchmarkMint(b *testing.B) {
	p := newPasses(b, NewKeys())
	g := grant()
	for i := 0; b.Loop(); i++ {
		g.JTI = fmt.Sprint(i)
		_, _ = p.Mint(g)
	}
}
