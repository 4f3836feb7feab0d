package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/web/challenge"
)

// A whole journey, of a fan whom the site knows and of two operators, leaves no token,
// key or word about a person in the log, the metrics, an address or a Referer.
func TestContractAJourneyLeavesNoSecret(t *testing.T) {
	t.Parallel()
	const subject, address = "ann@campus.example", "198.51.100.77"
	siteSecret := strings.Repeat("secret of the site ", 3)
	s := startInstance(t, "--identity-secret", siteSecret, "--proxies", "127.0.0.0/8", "--challenge-secrets", "turnstile=the-secret-at-turnstile")
	service, err := url.Parse(s.url)
	require.NoError(t, err)

	// Everything goes through a recorder, which also says where the fan comes from.
	var mu sync.Mutex
	var seen strings.Builder // guarded by mu: addresses and Referers
	policies := map[string]bool{}
	recorder := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(service)
			r.Out.Host = r.In.Host
			r.Out.Header.Set("X-Forwarded-For", address)
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintln(&seen, r.In.URL.String(), r.In.Referer())
		},
		ModifyResponse: func(r *http.Response) error {
			mu.Lock()
			defer mu.Unlock()
			policies[r.Header.Get("Referrer-Policy")] = true
			fmt.Fprintln(&seen, r.Header.Get("Location"), r.Header.Get("Link"))
			return nil
		},
	})
	t.Cleanup(recorder.Close)
	s.url = recorder.URL

	// The operators.
	secrets := map[string]string{
		"operator token": operatorToken, "site key": siteKey, "site's secret": siteSecret, "provider's secret": "the-secret-at-turnstile",
		"subject": subject, "name": "campus.example", "address": address,
	}
	asOperator := func(token string) map[string]string { return map[string]string{"Authorization": "Bearer " + token} }
	status, _, made := call(t, http.MethodPost, s.url+"/v1/ops/operators", facts{"name": "bob", "role": "owner"}, asOperator(operatorToken))
	require.Equal(t, http.StatusCreated, status, made)
	secrets["named token"] = made["token"].(string)
	status, header, _ := call(t, http.MethodPost, s.url+"/v1/ops/session", nil, asOperator(secrets["named token"]))
	require.Equal(t, http.StatusOK, status)
	session, _, _ := strings.Cut(strings.TrimPrefix(header.Get("Set-Cookie"), "waitroom_operator="), ";")
	require.NotEmpty(t, session)
	secrets["session"] = session
	status, _, _ = call(t, http.MethodGet, s.url+"/v1/ops/events", nil, map[string]string{"Cookie": "waitroom_operator=" + session})
	require.Equal(t, http.StatusOK, status)
	status, _, _ = call(t, http.MethodPost, s.url+"/v1/ops/session", nil, asOperator("a-wrong-token-of-mallory"))
	require.Equal(t, http.StatusUnauthorized, status)
	secrets["wrong token"] = "a-wrong-token-of-mallory"

	// The fan: a challenge, a place, the shop, the till.
	members := hall(facts{"price_cents": 2500})
	members["identity"], members["challenge"] = "jwt", facts{"kind": "altcha"}
	members["limits"] = facts{"person": "off", "person_burst": "off"} // the test asks more often than a page
	s.create("hall", members)
	own, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": subject, "exp": time.Now().Add(time.Hour).Unix()}).SignedString([]byte(siteSecret))
	require.NoError(t, err)
	secrets["site's token"] = own
	entries := s.url + "/v1/events/hall/entries"
	status, _, refused := call(t, http.MethodPost, entries, nil, bearerOf(own))
	require.Equal(t, http.StatusForbidden, status)
	require.Equal(t, "challenge_required", refused["code"])
	resp, err := http.Get(s.url + refused["challenge"].(string))
	require.NoError(t, err)
	offer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	solution, err := challenge.Solve(t.Context(), offer)
	require.NoError(t, err)
	secrets["solution"] = solution
	status, _, joined := call(t, http.MethodPost, entries, facts{"challenge": solution}, bearerOf(own))
	require.Equal(t, http.StatusCreated, status, joined)
	status, _, refused = call(t, http.MethodPost, entries, facts{"challenge": solution}, bearerOf(own))
	require.Equal(t, "challenge_failed", refused["code"], status)
	secrets["place token"] = joined["place_token"].(string)
	b := (&person{t: t, event: "hall", token: own}).inside(s)
	secrets["entry token"] = b.pass
	for key, quantity := range map[string]int{"the-key-of-a-refusal": 3, "the-key-of-a-hold": 2} {
		secrets[key] = key
		status, _, answer := b.reserve(s, key, map[string]any{"quantity": quantity})
		require.Less(t, status, 500, answer)
		if status == http.StatusCreated {
			secrets["the-key-of-a-payment"] = "the-key-of-a-payment"
			status, _, answer = b.pay(s, answer["reservation_id"].(string), "the-key-of-a-payment", "approve")
			require.Equal(t, http.StatusAccepted, status, answer)
		}
	}
	gate, _, _ := call(t, http.MethodGet, s.url+"/v1/gate/hall", nil, map[string]string{"X-Entry-Token": b.pass})
	require.Equal(t, http.StatusNoContent, gate)
	status, _, _ = call(t, http.MethodPost, s.url+"/v1/events/hall/sessions/"+claimsOf(t, b.pass)["jti"].(string)+"/complete", nil, bearerOf(siteKey))
	require.Equal(t, http.StatusNoContent, status)

	_, _, raw := request{method: http.MethodGet, path: "/metrics", header: bearerOf(operatorToken)}.send(t, s)
	metrics := string(raw)
	require.Contains(t, metrics, "waitroom_challenge_checked_total")
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, seen.String(), "/v1/events/hall/entries")
	require.Equal(t, map[string]bool{"strict-origin": true}, policies, "no Referer of ours has a path")
	for where, text := range map[string]string{"the log": s.logs() + s.printed(), "the metrics": metrics, "an address or Referer": seen.String()} {
		require.NotEmpty(t, text)
		for what, secret := range secrets {
			require.NotEmpty(t, secret, what)
			require.NotContains(t, text, secret, "%s stands in %s", what, where)
		}
	}
}
