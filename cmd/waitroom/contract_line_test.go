package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A place is told in full, by cookie or Bearer; who leaves comes back at the end.
func TestContractJoin(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	s.create("line", facts{"state": "paused"})
	const entries = "/v1/events/line/entries"
	status, header, first := call(t, http.MethodPost, s.url+entries, nil, nil)
	require.Equal(t, http.StatusCreated, status)
	require.Equal(t, "no-store", header.Get("Cache-Control"))
	require.Equal(t, "waiting", first["state"])
	require.EqualValues(t, 1, first["position"])
	require.EqualValues(t, 0, first["ahead"])
	require.EqualValues(t, 1, first["waiting"])
	require.NotContains(t, first, "eta_s", "nothing moves: there is no estimate")
	require.NotContains(t, first, "entry_token")
	cookie := header.Get("Set-Cookie")
	require.True(t, strings.HasPrefix(cookie, "waitroom_place_line="+first["place_token"].(string)+";"), cookie)
	for _, attribute := range []string{"HttpOnly", "SameSite=Lax", "Path=/"} {
		require.Contains(t, cookie, attribute)
	}
	require.NotContains(t, cookie, "Secure", "a browser would drop it over plain http")
	_, header, _ = call(t, http.MethodPost, s.url+entries, nil, map[string]string{"X-Forwarded-Proto": "https"})
	require.Contains(t, header.Get("Set-Cookie"), "Secure")

	shown := map[string]string{"Cookie": strings.Split(cookie, ";")[0]}
	behind := join(t, s, "line")
	status, _, again := call(t, http.MethodPost, s.url+entries, map[string]any{}, shown)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, first["entry_id"], again["entry_id"])
	require.EqualValues(t, 1, again["position"])
	status, header, me := call(t, http.MethodGet, s.url+entries+"/me", nil, shown)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "no-store", header.Get("Cache-Control"))
	require.Regexp(t, `^\d+$`, header.Get("Retry-After"))
	require.EqualValues(t, 1, me["position"])
	until(t, 5*time.Second, "all three are counted", func() bool { return behind.me(s)["waiting"] == 3.0 })

	for range 2 { // the second time there is nothing to leave
		status, _, _ = call(t, http.MethodDelete, s.url+entries+"/me", nil, shown)
		require.Equal(t, http.StatusNoContent, status)
	}
	_, header, me = call(t, http.MethodGet, s.url+entries+"/me", nil, shown)
	require.Equal(t, "left", me["state"])
	require.NotContains(t, me, "position")
	require.Empty(t, header.Get("Retry-After"))
	until(t, 5*time.Second, "the next moves up", func() bool { return behind.me(s)["position"] == 2.0 })
	status, _, again = call(t, http.MethodPost, s.url+entries, nil, shown)
	require.Equal(t, http.StatusCreated, status, "a new place")
	require.Equal(t, first["entry_id"], again["entry_id"])
	require.EqualValues(t, 3, again["position"], "at the end")

	// A token that is damaged or of another event is as good as none.
	status, _, other := call(t, http.MethodPost, s.url+entries, nil, bearerOf("damaged"))
	require.Equal(t, http.StatusCreated, status)
	require.NotEqual(t, first["entry_id"], other["entry_id"])
}

// By time: scheduled, lobby, open, closed; pushed to who waits, and no one in early.
func TestContractLifecycle(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	now := time.Now()
	at := func(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339Nano) }
	lobby, opens, closes := 3*time.Second, 7*time.Second, 10*time.Second
	made := s.create("timed", facts{"lobby_opens_at": at(lobby), "opens_at": at(opens), "closes_at": at(closes)})
	require.Equal(t, "scheduled", made["state"])
	body := request{method: "POST", path: "/v1/events/timed/entries"}.refused(t, s, 403, "not_open")
	require.LessOrEqual(t, body["retry_after_ms"], 3100.0)
	state := func(want string) func() bool {
		return func() bool { return s.public("timed")["state"] == want }
	}
	until(t, 10*time.Second, "lobby", state("lobby"))
	require.GreaterOrEqual(t, time.Since(now), lobby)
	p := join(t, s, "timed")
	l := p.open(s)
	require.EqualValues(t, 1, l.next(2*time.Second, "position")["position"], "the number already in the lobby")
	b := &buyer{person: p}
	for opened := false; !opened || b.pass == ""; {
		message := l.next(10*time.Second, "event", "admitted")
		opened = opened || message["state"] == "open"
		if message["type"] == "admitted" {
			b.pass = message["entry_token"].(string)
		}
	}
	require.GreaterOrEqual(t, claimsOf(t, b.pass)["iat"], float64(now.Add(opens).Unix()), "nobody in before opening")
	until(t, 20*time.Second, "the end is pushed", func() bool { return l.next(20*time.Second, "event")["state"] == "closed" })
	until(t, 5*time.Second, "closed", state("closed"))
	request{method: "POST", path: "/v1/events/timed/entries"}.refused(t, s, 403, "closed")
	require.Equal(t, http.StatusNoContent, b.passes(s), "who is in stays in until the claim or the session ends")
}

// A turn that nobody takes goes to the next, and who is done frees the place.
func TestContractTurns(t *testing.T) {
	t.Parallel()
	s := startInstance(t)

	t.Run("claim time over", func(t *testing.T) {
		t.Parallel()
		s.create("claims", facts{"max_active": 1, "claim_ttl": "1s", "session_ttl": "1m"})
		idle := newBuyer(t, s, "claims")
		next := newBuyer(t, s, "claims")
		require.Equal(t, "expired", idle.me(s)["state"])
		request{method: "GET", path: "/v1/gate/claims", header: idle.header("")}.refused(t, s, 401, "token_expired")
		require.Equal(t, http.StatusNoContent, next.passes(s))
		third := join(t, s, "claims")
		status, _, body := call(t, http.MethodPost, s.url+"/v1/events/claims/entries", nil, bearerOf(idle.token))
		require.Equal(t, http.StatusCreated, status, "a new place")
		require.EqualValues(t, 2, body["position"], "at the end")
		require.Equal(t, "entered", next.me(s)["state"], "who came in time stays beyond the claim time")
		require.EqualValues(t, 1, third.me(s)["position"])
	})

	t.Run("session over", func(t *testing.T) {
		t.Parallel()
		s.create("sessions", facts{"max_active": 1, "session_ttl": "1s"})
		b := newBuyer(t, s, "sessions")
		require.Equal(t, http.StatusNoContent, b.passes(s))
		next := newBuyer(t, s, "sessions")
		request{method: "GET", path: "/v1/gate/sessions", header: b.header("")}.refused(t, s, 401, "token_expired")
		require.Equal(t, "completed", b.me(s)["state"])
		require.Equal(t, http.StatusNoContent, next.passes(s))
	})

	t.Run("sliding session", func(t *testing.T) {
		t.Parallel()
		s.create("slides", facts{"session_ttl": "3s", "session": "sliding"})
		b := newBuyer(t, s, "slides")
		require.Equal(t, http.StatusNoContent, b.passes(s))
		end := b.me(s)["expires_at"].(string)
		until(t, 10*time.Second, "renewed", func() bool {
			require.Equal(t, http.StatusNoContent, b.passes(s))
			return b.me(s)["expires_at"].(string) > end
		})
	})

	t.Run("completed, left and blocked", func(t *testing.T) {
		t.Parallel()
		s.create("done", facts{"max_active": 1})
		b := newBuyer(t, s, "done")
		require.Equal(t, http.StatusNoContent, b.passes(s))
		waiting := join(t, s, "done")
		require.Equal(t, "waiting", waiting.me(s)["state"])
		jti := claimsOf(t, b.pass)["jti"].(string)
		for range 2 {
			status, _, _ := call(t, http.MethodPost, s.url+"/v1/events/done/sessions/"+jti+"/complete", nil, bearerOf(siteKey))
			require.Equal(t, http.StatusNoContent, status)
		}
		second := waiting.inside(s)
		require.Equal(t, "completed", b.me(s)["state"])
		request{method: "GET", path: "/v1/gate/done", header: b.header("")}.refused(t, s, 401, "token_expired")

		third := join(t, s, "done")
		status, _, _ := call(t, http.MethodDelete, s.url+"/v1/events/done/entries/me", nil, bearerOf(second.token))
		require.Equal(t, http.StatusNoContent, status)
		in := third.inside(s)
		request{method: "GET", path: "/v1/gate/done", header: second.header("")}.refused(t, s, 401, "token_expired")

		fourth := join(t, s, "done")
		status, _ = s.ops(http.MethodPost, "/done/block", map[string]any{"entry_id": in.entry})
		require.Equal(t, http.StatusNoContent, status)
		fourth.inside(s)
		request{method: "GET", path: "/v1/events/done/entries/me", header: bearerOf(in.token)}.refused(t, s, 403, "blocked")
		request{method: "GET", path: "/v1/gate/done", header: in.header("")}.refused(t, s, 403, "token_revoked")
		request{method: "POST", path: "/v1/events/done/entries", header: bearerOf(in.token)}.refused(t, s, 403, "blocked")
	})

	t.Run("a revoked person may come again", func(t *testing.T) {
		t.Parallel()
		s.create("revokes", nil)
		b := newBuyer(t, s, "revokes")
		status, _ := s.ops(http.MethodPost, "/revokes/revoke", map[string]any{"jti": claimsOf(t, b.pass)["jti"]})
		require.Equal(t, http.StatusNoContent, status)
		request{method: "GET", path: "/v1/gate/revokes", header: b.header("")}.refused(t, s, 403, "token_revoked")
		status, _, _ = call(t, http.MethodPost, s.url+"/v1/events/revokes/entries", nil, bearerOf(b.token))
		require.Equal(t, http.StatusCreated, status)
		require.NotEqual(t, b.pass, b.inside(s).pass)
	})
}

// 30 in line, room for 10, 11 to 20 vanish: 21 to 30 come in, and the counts end at
// zero. Who asks, or holds a socket, is no ghost.
func TestContractGhosts(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	s.create("ghosts", facts{"max_active": 10, "grace": "10s", "claim_ttl": "1m", "state": "paused"})
	people := make([]*person, 30)
	for i := range people {
		people[i] = join(t, s, "ghosts")
	}
	polls := func(who []*person) {
		for _, p := range who {
			p.me(s)
		}
	}
	for _, p := range people[20:25] {
		p.open(s).next(5*time.Second, "position")
	}
	s.patch("ghosts", facts{"state": "open"})
	first := make([]*buyer, 10)
	for i, p := range people[:10] {
		first[i] = p.inside(s)
	}
	waiting := func() float64 {
		_, m := s.ops(http.MethodGet, "/ghosts", nil)
		return m["waiting"].(float64)
	}
	until(t, time.Minute, "the ten ghosts are gone", func() bool {
		polls(people[25:])
		return waiting() == 10
	})
	for _, b := range first {
		status, _, _ := call(t, http.MethodPost, s.url+"/v1/events/ghosts/sessions/"+claimsOf(t, b.pass)["jti"].(string)+"/complete", nil, bearerOf(siteKey))
		require.Equal(t, http.StatusNoContent, status)
	}
	last := make([]*buyer, 10)
	for i, p := range people[20:] {
		last[i] = p.inside(s)
	}
	for _, p := range people[10:20] {
		require.Equal(t, "expired", p.me(s)["state"])
	}
	for _, b := range last {
		status, _, _ := call(t, http.MethodDelete, s.url+"/v1/events/ghosts/entries/me", nil, bearerOf(b.token))
		require.Equal(t, http.StatusNoContent, status)
	}
	_, m := s.ops(http.MethodGet, "/ghosts", nil)
	require.EqualValues(t, 0, m["waiting"])
	require.EqualValues(t, 0, m["inside"])
}
