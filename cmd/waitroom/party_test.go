package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Four friends share one place over two instances and real servers: one entry in the
// draw, which anybody can check, one who buys for four, and nobody else of them.
func TestFriendsShareAPlaceAndOneBuysForFour(t *testing.T) {
	t.Parallel()
	flags := realServers.flags(t)
	nodes := [2]*instance{startInstance(t, flags...), startInstance(t, flags...)}
	s := nodes[0]
	s.create("gala", facts{
		"order": "draw", "state": "lobby", "party": facts{"size": 4},
		"tickets": facts{"kind": "stock", "stock": 100, "per_user": 4},
	})
	require.Equal(t, map[string]any{"size": 4.0}, s.public("gala")["party"])
	party := func(p *person, at *instance, method, path string, body any) (int, map[string]any) {
		t.Helper()
		status, _, answer := call(t, method, at.url+"/v1/events/gala/party"+path, body, bearerOf(p.token))
		if token, ok := answer["place_token"].(string); ok {
			p.token = token
		}
		return status, answer
	}
	var friends [4]*person
	for i := range friends {
		friends[i] = join(t, nodes[i%2], "gala")
	}
	join(t, s, "gala") // somebody alone
	socket := friends[0].open(nodes[1])
	status, made := party(friends[0], s, http.MethodPost, "", nil)
	require.Equal(t, http.StatusCreated, status, made)
	for i, f := range friends[1:] {
		status, answer := party(f, nodes[i%2], http.MethodPost, "/members", facts{"code": made["code"]})
		require.Equal(t, http.StatusOK, status, answer)
		require.EqualValues(t, i+2, answer["members"])
	}
	for socket.next(10*time.Second, "party")["members"] != 4.0 {
		continue
	}
	fifth := join(t, s, "gala")
	status, answer := party(fifth, s, http.MethodPost, "/members", facts{"code": made["code"]})
	require.Equal(t, http.StatusConflict, status, answer)
	require.Equal(t, "full", answer["code"])

	s.patch("gala", facts{"state": "open"})
	var pass string
	until(t, 30*time.Second, "their turn", func() bool {
		pass, _ = friends[0].me(nodes[1])["entry_token"].(string)
		return pass != ""
	})
	code, out, errs := runCommand(t, nil, "verify", "--draw", "--target", s.url, "--event", "gala")
	require.Equal(t, exitOK, code, errs)
	require.Contains(t, out, "3 entrants")
	for i, f := range friends[1:] {
		me := f.me(nodes[i%2])
		require.Equal(t, "admitted", me["state"])
		require.NotContains(t, me, "entry_token", "the token is the buyer's")
		require.Contains(t, me, "expires_at")
	}

	// Another takes over, and what the first was handed is worth nothing.
	buyer := friends[3]
	status, answer = party(buyer, nodes[1], http.MethodPut, "/buyer", nil)
	require.Equal(t, http.StatusOK, status, answer)
	reserve := func(pass, key string) (int, map[string]any) {
		t.Helper()
		status, _, answer := call(t, http.MethodPost, s.url+"/v1/events/gala/reservations", facts{"quantity": 4},
			map[string]string{"X-Entry-Token": pass, "Idempotency-Key": key})
		return status, answer
	}
	status, answer = reserve(pass, "first")
	require.Equal(t, http.StatusForbidden, status, answer)
	require.Equal(t, "token_revoked", answer["code"])
	pass, _ = buyer.me(s)["entry_token"].(string)
	status, answer = reserve(pass, "second")
	require.Equal(t, http.StatusCreated, status, answer)
	reservation, _ := answer["reservation_id"].(string)
	status, _, answer = call(t, http.MethodGet, s.url+"/v1/events/gala/reservations/"+reservation, nil, bearerOf(buyer.token))
	require.Equal(t, http.StatusOK, status, "the buyer's by the place token too: %v", answer)
	status, answer = reserve(pass, "third")
	require.Equal(t, http.StatusConflict, status, answer)
	require.Equal(t, "token_used", answer["code"])
	for i, f := range friends[:3] {
		status, answer := party(f, nodes[i%2], http.MethodPut, "/buyer", nil)
		require.Equal(t, http.StatusConflict, status, answer)
		require.Equal(t, "token_used", answer["code"])
		request{http.MethodGet, "/v1/events/gala/reservations/" + reservation, "", bearerOf(f.token)}.refused(t, s, http.StatusNotFound, "not_found")
		status, _ = party(f, nodes[i%2], http.MethodDelete, "/members/me", nil)
		require.Equal(t, http.StatusNoContent, status)
		request{http.MethodPost, "/v1/events/gala/entries", "", bearerOf(f.token)}.refused(t, s, http.StatusForbidden, "not_eligible")
	}
}
