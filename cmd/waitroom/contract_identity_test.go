package main

import (
	"database/sql"
	"net/http"
	"path/filepath"
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

// What is stored under an idempotency key holds nothing of the person: neither who
// it was, nor the tokens and the key that were sent.
func TestContractAnswersHoldNoPersonalData(t *testing.T) {
	t.Parallel()
	const ann = "ann@campus.example"
	secret, data := strings.Repeat("secret of the site ", 3), filepath.Join(t.TempDir(), "data")
	s := startInstance(t, "--identity-secret", secret, "--data", data)
	members := hall(facts{"price_cents": 2500})
	members["identity"] = "jwt"
	s.create("hall", members)
	own, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": ann, "exp": time.Now().Add(time.Hour).Unix()}).SignedString([]byte(secret))
	require.NoError(t, err)
	status, _, joined := call(t, http.MethodPost, s.url+"/v1/events/hall/entries", nil, bearerOf(own))
	require.Equal(t, http.StatusCreated, status, joined)
	b := (&person{t: t, event: "hall", token: own}).inside(s)
	require.Equal(t, ann, claimsOf(t, b.pass)["sub"])
	status, _, refused := b.reserve(s, "the key of a refusal", map[string]any{"quantity": 3})
	require.Equal(t, http.StatusConflict, status, refused)
	status, _, answer := b.reserve(s, "the key of a hold", map[string]any{"quantity": 2})
	require.Equal(t, http.StatusCreated, status, answer)
	status, _, answer = b.pay(s, answer["reservation_id"].(string), "the key of a payment", "approve")
	require.Equal(t, http.StatusAccepted, status, answer)

	db, err := sql.Open("sqlite", filepath.Join(data, "waitroom.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	rows, err := db.QueryContext(t.Context(), `SELECT * FROM answers`)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	columns, err := rows.Columns()
	require.NoError(t, err)
	stored := 0
	for ; rows.Next(); stored++ {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new([]byte)
		}
		require.NoError(t, rows.Scan(values...))
		for i, v := range values {
			for _, personal := range []string{
				"ann", "campus", own, b.pass, claimsOf(t, b.pass)["jti"].(string), joined["entry_id"].(string), "the key", "127.0.0.1",
			} {
				require.NotContains(t, string(*v.(*[]byte)), personal, columns[i])
			}
		}
	}
	require.NoError(t, rows.Err())
	require.Equal(t, 3, stored, "the refusal, the hold, the payment")
}
