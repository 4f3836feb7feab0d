package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

// A person whom the site knows has one place, on every device and in every tab, and
// says so with the site's own token alone.
func TestContractIdentity(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("secret of the site ", 3)
	s := startInstance(t, "--identity-secret", secret, "--identity-issuer", "https://shop.example")
	s.create("members", facts{"identity": "jwt", "rate_per_s": 0})
	as := func(subject string, change func(jwt.MapClaims)) map[string]string {
		claims := jwt.MapClaims{"iss": "https://shop.example", "sub": subject, "exp": time.Now().Add(time.Hour).Unix()}
		if change != nil {
			change(claims)
		}
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
		require.NoError(t, err)
		return bearerOf(token)
	}
	entries := s.url + "/v1/events/members/entries"
	status, _, first := call(t, http.MethodPost, entries, nil, as("ann", nil))
	require.Equal(t, http.StatusCreated, status, first)
	status, _, bob := call(t, http.MethodPost, entries, nil, as("bob", nil))
	require.Equal(t, http.StatusCreated, status, bob)
	for range 3 { // another device: no cookie, a token of another second
		status, _, again := call(t, http.MethodPost, entries, nil, as("ann", func(c jwt.MapClaims) { c["iat"] = time.Now().Unix() - 1 }))
		require.Equal(t, http.StatusOK, status, again)
		require.Equal(t, first["entry_id"], again["entry_id"])
		require.Equal(t, first["position"], again["position"])
	}
	require.NotContains(t, first["entry_id"], "ann", "the site's name for a person stays between the two")

	// Let in, the entry token is for the site's own subject.
	s.patch("members", facts{"rate_per_s": 100})
	var pass string
	until(t, 20*time.Second, "let in", func() bool {
		_, _, me := call(t, http.MethodGet, entries+"/me", nil, as("ann", nil))
		pass, _ = me["entry_token"].(string)
		return pass != ""
	})
	require.Equal(t, "ann", claimsOf(t, pass)["sub"])

	for name, header := range map[string]map[string]string{
		"token_required": nil,
		"token_invalid":  as("ann", func(c jwt.MapClaims) { c["iss"] = "https://evil.example" }),
		"token_expired":  as("ann", func(c jwt.MapClaims) { c["exp"] = time.Now().Add(-time.Minute).Unix() }),
	} {
		status, _, refused := call(t, http.MethodPost, entries, nil, header)
		require.Equal(t, http.StatusUnauthorized, status)
		require.Equal(t, name, refused["code"])
	}
}
