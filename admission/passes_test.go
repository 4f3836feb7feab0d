package admission

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

const issuer = "https://wait.example"

func newPasses(tb testing.TB, k *Keys) *Passes {
	tb.Helper()
	p, err := NewPasses(k, issuer)
	require.NoError(tb, err)
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
func raw(tb testing.TB, method jwt.SigningMethod, key any, header, body map[string]any) string {
	tb.Helper()
	h, err := json.Marshal(header)
	require.NoError(tb, err)
	c, err := json.Marshal(body)
	require.NoError(tb, err)
	text := encode(h) + "." + encode(c)
	sig, err := method.Sign(text, key)
	require.NoError(tb, err)
	return text + "." + encode(sig)
}

// with is a copy of m with one value set, or removed when it is nil.
func with(m map[string]any, key string, value any) map[string]any {
	c := make(map[string]any, len(m)+1)
	maps.Copy(c, m)
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
	reloaded, err := decodeKeys(k.Encode())
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

// Mint writes its header once; the bytes are those of the library.
func TestMintMakesTheLibrarysToken(t *testing.T) {
	t.Parallel()
	p, g := newPasses(t, NewKeys()), grant()
	g.Subject = `päivi <"&> \u2028` + "\u2028"
	got, err := p.Mint(g)
	require.NoError(t, err)
	want, err := sign(p.signer, claims{
		Issuer: issuer, Audience: string(g.Event), Subject: g.Subject, JTI: g.JTI,
		IssuedAt: g.AdmittedAt.Unix(), NotBefore: g.AdmittedAt.Unix(), ExpiresAt: g.ClaimBy.Unix(),
	})
	require.NoError(t, err)
	require.Equal(t, want, got)
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

// len is the number of entries held, those in both generations twice.
func (g *generations[K, V]) len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.young) + len(g.old)
}
