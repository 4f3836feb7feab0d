package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

// dial opens a socket without saying who it is.
func dial(t *testing.T, s *instance, event string, header http.Header) *live {
	t.Helper()
	conn, res, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(s.url, "http")+"/v1/events/"+event+"/live", header)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	t.Cleanup(func() { _ = conn.Close() })
	return &live{t: t, conn: conn}
}

// say sends one text message.
func (l *live) say(message string) {
	l.t.Helper()
	require.NoError(l.t, l.conn.WriteMessage(websocket.TextMessage, []byte(message)))
}

// closed reads until the server closes, and returns its code.
func (l *live) closed(limit time.Duration) int {
	l.t.Helper()
	require.NoError(l.t, l.conn.SetReadDeadline(time.Now().Add(limit)))
	for {
		if _, _, err := l.conn.ReadMessage(); err != nil {
			closing, ok := errors.AsType[*websocket.CloseError](err)
			require.True(l.t, ok, "want a close frame, got %v", err)
			return closing.Code
		}
	}
}

// Who a socket is, and how one that breaks the rules is closed.
func TestContractSocketRules(t *testing.T) {
	t.Parallel()
	s := startInstance(t, "--origins", "https://shop.example")
	s.create("still", facts{"state": "paused"})
	p := join(t, s, "still")
	hello := `{"type":"hello","place_token":"` + p.token + `"}`

	t.Run("hello", func(t *testing.T) {
		t.Parallel()
		l := dial(t, s, "still", nil)
		began := time.Now()
		l.say(hello)
		message := l.next(5*time.Second, "position")
		require.Less(t, time.Since(began), time.Second, "the first position, also while paused")
		require.EqualValues(t, 1, message["position"])
		require.EqualValues(t, 0, message["ahead"])
		require.EqualValues(t, 1, message["waiting"])
		require.Contains(t, message, "rate_per_s")
		require.NotContains(t, message, "eta_s")
		for range 2 {
			l.next(5*time.Second, "position") // every second for whoever is near; 5 s at most
		}
	})

	t.Run("cookie and Authorization", func(t *testing.T) {
		t.Parallel()
		for _, header := range []http.Header{
			{"Cookie": {"waitroom_place_still=" + p.token}},
			{"Authorization": {"Bearer " + p.token}},
			{"Cookie": {"waitroom_place_still=" + p.token}, "Origin": {"https://shop.example"}},
			{"Cookie": {"waitroom_place_still=" + p.token}, "Origin": {s.url}},
		} {
			dial(t, s, "still", header).next(5*time.Second, "position")
		}
	})

	t.Run("foreign origins", func(t *testing.T) {
		t.Parallel()
		for _, origin := range []string{"https://evil.example", "https://shop.example.evil.example", "http://shop.example", "https://shop.example:444", s.url + "0", "null"} {
			_, res, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(s.url, "http")+"/v1/events/still/live",
				http.Header{"Origin": {origin}, "Cookie": {"waitroom_place_still=" + p.token}})
			require.ErrorIs(t, err, websocket.ErrBadHandshake, origin)
			require.NoError(t, res.Body.Close())
			require.Equal(t, http.StatusForbidden, res.StatusCode, origin)
		}
	})

	t.Run("no hello", func(t *testing.T) {
		t.Parallel()
		began := time.Now()
		silent, wordy := dial(t, s, "still", nil), dial(t, s, "still", nil)
		wordy.say(`{"type":"something"}`)
		require.Equal(t, websocket.ClosePolicyViolation, silent.closed(20*time.Second))
		require.InDelta(t, 10, time.Since(began).Seconds(), 3)
		require.Equal(t, websocket.ClosePolicyViolation, wordy.closed(20*time.Second), "only a hello is a hello")
	})

	t.Run("bad tokens", func(t *testing.T) {
		t.Parallel()
		s.create("another", facts{"state": "paused"})
		for _, token := range []string{"x", "", join(t, s, "another").token} {
			l := dial(t, s, "still", nil)
			l.say(`{"type":"hello","place_token":"` + token + `"}`)
			require.Equal(t, websocket.ClosePolicyViolation, l.closed(15*time.Second), token)
		}
	})

	t.Run("too big", func(t *testing.T) {
		t.Parallel()
		for _, greeted := range []bool{true, false} {
			l := dial(t, s, "still", nil)
			if greeted {
				l.say(hello)
				l.next(5*time.Second, "position")
			}
			l.say(`{"type":"` + strings.Repeat("x", 4<<10) + `"}`)
			require.Equal(t, websocket.CloseMessageTooBig, l.closed(5*time.Second))
		}
	})

	t.Run("unknown types and fields", func(t *testing.T) {
		t.Parallel()
		l := dial(t, s, "still", nil)
		l.say(`{"type":"of a later version","place_token":"` + p.token + `"}`)
		l.say(`{"type":"hello","colour":"red","place_token":"` + p.token + `"}`)
		l.next(5*time.Second, "position")
		l.say(`{"type":"dance","steps":[1,2,3]}`)
		l.say(`{}`)
		l.next(5*time.Second, "position")
		l.next(5*time.Second, "position")
	})
}

// Each tab is told of everything at once: changes of state, turns, the end.
func TestContractSocketNews(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	s.create("news", facts{"state": "paused", "message": "soon"})
	first, second := join(t, s, "news"), join(t, s, "news")
	tabs := []*live{first.open(s), first.open(s), second.open(s)}
	for _, l := range tabs {
		l.next(5*time.Second, "position")
	}

	tabs[0].say(`{"type":"leave"}`)
	for _, l := range tabs[:2] {
		require.Equal(t, "left", l.next(5*time.Second, "ended")["state"])
	}
	require.Equal(t, "left", first.me(s)["state"])
	until(t, 5*time.Second, "the next moves up", func() bool { return tabs[2].next(5*time.Second, "position")["position"] == 1.0 })

	s.patch("news", facts{"message": "very soon"})
	until(t, 5*time.Second, "the message is pushed", func() bool { return tabs[2].next(5*time.Second, "event")["message"] == "very soon" })
	s.patch("news", facts{"state": "open", "redirect_url": "https://shop.example/"})
	admitted := tabs[2].next(5*time.Second, "admitted")
	require.Equal(t, "https://shop.example/", admitted["redirect_url"])
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, admitted["expires_at"])
	require.Equal(t, second.me(s)["entry_token"], admitted["entry_token"])
	again := second.open(s).next(2*time.Second, "admitted")
	require.Equal(t, admitted["entry_token"], again["entry_token"], "who comes back finds the token")

	for _, state := range []string{"paused", "draining", "closed"} {
		s.patch("news", facts{"state": state})
		until(t, 5*time.Second, state, func() bool { return tabs[2].next(5*time.Second, "event")["state"] == state })
	}
}

// Server-sent events carry the same messages.
func TestContractServerSentEvents(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	s.create("stream", facts{"state": "paused"})
	p := join(t, s, "stream")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/events/stream/live", nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Cookie", "waitroom_place_stream="+p.token)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	lines := make(chan string, 64) // the test reads them as they come
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(res.Body); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	next := func(kind string) map[string]any {
		deadline := time.After(10 * time.Second)
		for {
			select {
			case line, open := <-lines:
				require.True(t, open, "the stream ended before %s", kind)
				data, ok := strings.CutPrefix(line, "data:")
				if !ok {
					continue
				}
				var message map[string]any
				require.NoError(t, json.Unmarshal([]byte(data), &message), line)
				if message["type"] == kind {
					return message
				}
			case <-deadline:
				require.FailNow(t, "no message in time", kind)
			}
		}
	}
	require.EqualValues(t, 1, next("position")["position"])
	s.patch("stream", facts{"state": "open"})
	require.Equal(t, p.inside(s).pass, next("admitted")["entry_token"])
	request{method: "GET", path: "/v1/events/stream/live", header: map[string]string{"Accept": "text/event-stream"}}.refused(t, s, 401, "token_required")
	request{method: "GET", path: "/v1/events/stream/live", header: map[string]string{"Accept": "text/event-stream", "Authorization": "Bearer x"}}.refused(t, s, 401, "token_invalid")
	s.signal(syscall.SIGTERM)
	require.Positive(t, next("bye")["retry_after_ms"])
}

// Who was away when admitted, on another instance or without any, finds the token
// at once on return; one answer to a join before another's call means one turn
// before the other's.
func TestContractAdmittedWhileAway(t *testing.T) {
	t.Parallel()
	flags := realServers.flags(t)
	a, b := startInstance(t, flags...), startInstance(t, flags...)
	a.create("away", facts{"state": "paused", "rate_per_s": 20})
	people := make([]*person, 20)
	for i := range people {
		people[i] = join(t, []*instance{a, b}[i%2], "away")
	}
	l := people[0].open(a)
	l.next(5*time.Second, "position")
	require.NoError(t, l.conn.Close())
	a.patch("away", facts{"state": "open"})
	var last float64
	for i, p := range people {
		in := p.inside(a)
		require.Equal(t, in.pass, p.open(b).next(5*time.Second, "admitted")["entry_token"], "the same token on the other instance")
		_, _, me := call(t, http.MethodGet, b.url+"/v1/events/away/entries/me", nil, bearerOf(p.token))
		at, err := time.Parse(time.RFC3339, me["admitted_at"].(string))
		require.NoError(t, err)
		require.GreaterOrEqual(t, float64(at.UnixMilli()), last, "person %d is not before the one before", i)
		last = float64(at.UnixMilli())
	}
}
