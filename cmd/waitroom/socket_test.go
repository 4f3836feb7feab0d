package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

// person is a fan who has joined an event of one instance, and may talk to others.
type person struct {
	t     *testing.T
	event string
	token string // place token
	entry string
}

// join brings a new person to an instance.
func join(t *testing.T, s *instance, event string) *person {
	t.Helper()
	status, _, body := call(t, http.MethodPost, s.url+"/v1/events/"+event+"/entries", nil, nil)
	require.Equal(t, http.StatusCreated, status, body)
	return &person{t: t, event: event, token: body["place_token"].(string), entry: body["entry_id"].(string)}
}

// me asks an instance where the person stands.
func (p *person) me(s *instance) map[string]any {
	p.t.Helper()
	status, _, body := call(p.t, http.MethodGet, s.url+"/v1/events/"+p.event+"/entries/me", nil, map[string]string{"Authorization": "Bearer " + p.token})
	require.Equal(p.t, http.StatusOK, status, body)
	return body
}

// live is an open socket of one person.
type live struct {
	t    *testing.T
	conn *websocket.Conn
}

// open opens a socket on an instance and says hello.
func (p *person) open(s *instance) *live {
	p.t.Helper()
	url := "ws" + strings.TrimPrefix(s.url, "http") + "/v1/events/" + p.event + "/live"
	conn, res, err := websocket.DefaultDialer.DialContext(p.t.Context(), url, nil)
	require.NoError(p.t, err)
	require.NoError(p.t, res.Body.Close())
	p.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(p.t, conn.WriteJSON(map[string]string{"type": "hello", "place_token": p.token}))
	return &live{t: p.t, conn: conn}
}

// next waits for the next message of one of the types and returns it.
func (l *live) next(limit time.Duration, types ...string) map[string]any {
	l.t.Helper()
	require.NoError(l.t, l.conn.SetReadDeadline(time.Now().Add(limit)))
	for {
		_, raw, err := l.conn.ReadMessage()
		require.NoError(l.t, err, "while waiting for %v", types)
		var message map[string]any
		require.NoError(l.t, json.Unmarshal(raw, &message))
		for _, kind := range types {
			if message["type"] == kind {
				return message
			}
		}
	}
}

// buyer is somebody inside, with an entry token.
type buyer struct {
	*person
	pass string
}

// header carries the entry token, and an idempotency key if one is given.
func (b *buyer) header(key string) map[string]string {
	h := map[string]string{"X-Entry-Token": b.pass}
	if key != "" {
		h["Idempotency-Key"] = key
	}
	return h
}

// reserve asks for seats or a quantity.
func (b *buyer) reserve(s *instance, key string, body map[string]any) (int, http.Header, map[string]any) {
	b.t.Helper()
	return call(b.t, http.MethodPost, s.url+"/v1/events/"+b.event+"/reservations", body, b.header(key))
}

// pay pays a reservation by the sandbox's method.
func (b *buyer) pay(s *instance, reservation, key, method string) (int, http.Header, map[string]any) {
	b.t.Helper()
	return call(b.t, http.MethodPost, s.url+"/v1/events/"+b.event+"/reservations/"+reservation+"/payment", map[string]any{"method": method}, b.header(key))
}

// admitted waits on a socket until the person is let in.
func (p *person) admitted(l *live, limit time.Duration) *buyer {
	p.t.Helper()
	message := l.next(limit, "admitted")
	return &buyer{person: p, pass: message["entry_token"].(string)}
}
