package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The entry token is what the contract says it is, and anyone can verify it.
func TestContractEntryToken(t *testing.T) {
	t.Parallel()
	s := startInstance(t, "--public-url", "https://wait.example")
	before := time.Now()
	b := newBuyer(t, s, "demo")
	me := b.me(s)
	require.Equal(t, b.pass, me["entry_token"], "the same bytes however often it is asked for")
	require.Equal(t, "/e/demo/shop", me["redirect_url"])

	parts := strings.Split(b.pass, ".")
	var head struct{ Alg, Kid string }
	raw, err := base64.RawURLEncoding.DecodeString(parts[0])
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &head))
	require.Equal(t, "EdDSA", head.Alg)
	_, _, keys := call(t, http.MethodGet, s.url+"/.well-known/jwks.json", nil, nil)
	verified := false
	for _, key := range keys["keys"].([]any) {
		if key := key.(map[string]any); key["kid"] == head.Kid {
			require.Equal(t, "OKP", key["kty"])
			require.Equal(t, "Ed25519", key["crv"])
			public, err := base64.RawURLEncoding.DecodeString(key["x"].(string))
			require.NoError(t, err)
			signature, err := base64.RawURLEncoding.DecodeString(parts[2])
			require.NoError(t, err)
			verified = ed25519.Verify(public, []byte(parts[0]+"."+parts[1]), signature)
		}
	}
	require.True(t, verified)

	claims := claimsOf(t, b.pass)
	require.Equal(t, "https://wait.example", claims["iss"])
	require.Equal(t, "demo", claims["aud"], "a string, and no list")
	require.Equal(t, b.entry, claims["sub"])
	require.NotEmpty(t, claims["jti"])
	require.Equal(t, claims["iat"], claims["nbf"])
	require.GreaterOrEqual(t, claims["iat"], float64(before.Unix()))
	require.LessOrEqual(t, claims["iat"], float64(time.Now().Unix()))
	expires, err := time.Parse(time.RFC3339, me["expires_at"].(string))
	require.NoError(t, err)
	require.EqualValues(t, expires.Unix(), claims["exp"])
}

// The gate takes the token by header, Bearer or cookie, with any method, at any
// path below it.
func TestContractGate(t *testing.T) {
	t.Parallel()
	s := startInstance(t, "--origins", "https://shop.example")
	b := newBuyer(t, s, "demo")
	cookie := map[string]string{"Cookie": "waitroom_entry_demo=" + b.pass}
	for name, header := range map[string]map[string]string{
		"header": {"X-Entry-Token": b.pass}, "bearer": bearerOf(b.pass), "cookie": cookie,
		"header wins":          {"X-Entry-Token": b.pass, "Authorization": "Bearer x", "Cookie": "waitroom_entry_demo=x"},
		"another's bearer":     {"Authorization": "Bearer of-the-site", "Cookie": cookie["Cookie"]},
		"another page's write": {"X-Entry-Token": b.pass, "Origin": "https://shop.example"},
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"} {
			for _, path := range []string{"/v1/gate/demo", "/v1/gate/demo/some/page?x=1"} {
				status, answer, _ := request{method: method, path: path, header: header}.send(t, s)
				require.Equal(t, http.StatusNoContent, status, "%s: %s %s", name, method, path)
				require.Equal(t, b.entry, answer.Get("X-Waitroom-User"))
				require.Equal(t, b.entry, answer.Get("X-Waitroom-Entry"))
			}
		}
	}
	for _, method := range []string{"GET", "POST", "DELETE", "PROPFIND"} {
		status, _, _ := request{method: method, path: "/v1/gate/demo/below", header: map[string]string{"X-Entry-Token": "x", "Authorization": "Bearer " + b.pass}}.send(t, s)
		require.Equal(t, http.StatusUnauthorized, status, "the header wins, also when it is wrong")
	}
	big := request{method: "POST", path: "/v1/gate/demo", body: strings.Repeat("x", 100_000), header: cookie}
	status, _, _ := big.send(t, s)
	require.Equal(t, http.StatusNoContent, status, "the body is the site's")

	waiting := s.url + "/e/demo"
	for name, row := range map[string]struct {
		header map[string]string
		back   string
	}{
		"no address":      {nil, ""},
		"allowed":         {map[string]string{"X-Forwarded-Proto": "https", "X-Forwarded-Host": "shop.example", "X-Forwarded-Uri": "/buy?a=1&b=2"}, "https://shop.example/buy?a=1&b=2"},
		"allowed, nginx":  {map[string]string{"X-Original-URL": "https://shop.example/buy"}, "https://shop.example/buy"},
		"foreign":         {map[string]string{"X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example", "X-Forwarded-Uri": "/"}, ""},
		"foreign, nginx":  {map[string]string{"X-Original-URL": "https://evil.example/"}, ""},
		"looks allowed":   {map[string]string{"X-Original-URL": "https://shop.example.evil.example/"}, ""},
		"user info":       {map[string]string{"X-Original-URL": "https://shop.example@evil.example/"}, ""},
		"other scheme":    {map[string]string{"X-Original-URL": "javascript:alert(1)"}, ""},
		"host with a dot": {map[string]string{"X-Forwarded-Host": "shop.example\\.evil.example", "X-Forwarded-Uri": "/"}, ""},
	} {
		status, header, _ := request{method: "GET", path: "/v1/gate/demo?redirect=1", header: row.header}.send(t, s)
		require.Equal(t, http.StatusFound, status, name)
		want := waiting
		if row.back != "" {
			want += "?return_to=" + url.QueryEscape(row.back)
		}
		require.Equal(t, want, header.Get("Location"), name)
	}
	// The waiting page comes back to the original address.
	p := join(t, s, "demo").inside(s)
	_, _, me := call(t, http.MethodGet, s.url+"/v1/events/demo/entries/me?return_to="+url.QueryEscape("https://shop.example/buy"), nil, bearerOf(p.token))
	require.Equal(t, "https://shop.example/buy", me["redirect_url"])
	_, _, me = call(t, http.MethodGet, s.url+"/v1/events/demo/entries/me?return_to="+url.QueryEscape("https://evil.example/"), nil, bearerOf(p.token))
	require.Equal(t, "/e/demo/shop", me["redirect_url"])
}

// The form of the waiting page sets the cookie on the site's own host.
func TestContractEnter(t *testing.T) {
	t.Parallel()
	s := startInstance(t, "--origins", "https://shop.example")
	b := newBuyer(t, s, "demo")
	form := func(values url.Values, origin string) request {
		header := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
		if origin != "" {
			header["Origin"] = origin
		}
		return request{"POST", "/v1/gate/demo/enter", values.Encode(), header}
	}
	for to, want := range map[string]string{
		"": "/", "/buy?x=1": "/buy?x=1", "https://shop.example/buy": "https://shop.example/buy",
		"https://evil.example/": "/", "//evil.example": "/", `/\evil.example`: "/", "javascript:alert(1)": "/",
	} {
		status, header, raw := form(url.Values{"entry_token": {b.pass}, "return_to": {to}}, s.url).send(t, s)
		require.Equal(t, http.StatusSeeOther, status, string(raw))
		require.Equal(t, want, header.Get("Location"), to)
		cookie := header.Get("Set-Cookie")
		require.True(t, strings.HasPrefix(cookie, "waitroom_entry_demo="+b.pass+";"), cookie)
		for _, attribute := range []string{"HttpOnly", "SameSite=Lax", "Path=/"} {
			require.Contains(t, cookie, attribute)
		}
		require.NotContains(t, header.Get("Location"), b.pass, "no token ever stands in a URL")
	}
	require.Equal(t, "entered", b.me(s)["state"])
	form(url.Values{}, "").refused(t, s, 401, "token_required")
	form(url.Values{"entry_token": {"x"}}, "").refused(t, s, 401, "token_invalid")
	form(url.Values{"entry_token": {b.token}}, "").refused(t, s, 401, "token_invalid")
	form(url.Values{"entry_token": {b.pass}}, "https://evil.example").refused(t, s, 403, "forbidden")
	s.create("other", nil)
	form(url.Values{"entry_token": {newBuyer(t, s, "other").pass}}, "").refused(t, s, 403, "token_wrong_event")
}

// A token that was changed in any way opens nothing, and none stands in the log.
func TestContractForgedTokens(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	b := newBuyer(t, s, "demo")
	parts := strings.Split(b.pass, ".")
	claims := claimsOf(t, b.pass)
	b64 := func(v any) string {
		raw, err := json.Marshal(v)
		require.NoError(t, err)
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	_, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	sign := func(unsigned string) string {
		return unsigned + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, []byte(unsigned)))
	}
	claims["exp"] = claims["exp"].(float64) + 3600
	longer := b64(claims)
	for name, token := range map[string]string{
		"none":            b64(map[string]string{"alg": "none", "typ": "JWT"}) + "." + parts[1] + ".",
		"none, signed":    b64(map[string]string{"alg": "none"}) + "." + parts[1] + "." + parts[2],
		"longer":          parts[0] + "." + longer + "." + parts[2],
		"another key":     sign(parts[0] + "." + longer),
		"key in the head": sign(b64(map[string]any{"alg": "EdDSA", "jwk": map[string]string{"kty": "OKP", "crv": "Ed25519", "x": base64.RawURLEncoding.EncodeToString(private.Public().(ed25519.PublicKey))}}) + "." + longer),
		"cut":             b.pass[:len(b.pass)-4],
		"and more":        b.pass + "A",
		"four parts":      b.pass + "." + parts[2],
		"empty parts":     "..",
	} {
		status, _, raw := request{method: "GET", path: "/v1/gate/demo", header: bearerOf(token)}.send(t, s)
		require.Equal(t, http.StatusUnauthorized, status, "%s: %s", name, raw)
		require.True(t, bytes.Contains(raw, []byte("token_invalid")), name)
	}
	require.Equal(t, http.StatusNoContent, b.passes(s))
	require.NotContains(t, s.logs(), b.pass)
	require.NotContains(t, s.logs(), b.token)
}
