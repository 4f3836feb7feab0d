package hub

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

func TestHelloTimeout(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.HelloTimeout = 100 * time.Millisecond
	n := startNode(t, cfg, newStage().deps())
	f := dial(t, n, nil)
	f.say(`{"type":"later","x":[1]}`)
	require.Equal(t, websocket.ClosePolicyViolation, f.closed())
	until(t, "the socket to be gone", func() bool { return n.Sockets() == 0 })
}

func TestBrokenRules(t *testing.T) {
	t.Parallel()
	n := startNode(t, quick(), newStage().deps())
	for _, c := range []struct {
		name string
		kind int
		data string
		code int
	}{
		{"no JSON", websocket.TextMessage, "{", 1007},
		{"not an object", websocket.TextMessage, "[]", 1007},
		{"null", websocket.TextMessage, "null", 1007},
		{"wrong type", websocket.TextMessage, `{"type":7}`, 1007},
		{"broken UTF-8", websocket.TextMessage, "{\"type\":\"\xff\"}", 1007},
		{"binary", websocket.BinaryMessage, `{"type":"hello"}`, 1003},
		{"no token at all", websocket.TextMessage, `{"type":"hello"}`, 1008},
		{"foreign token", websocket.TextMessage, `{"type":"hello","place_token":"x"}`, 1008},
		{"too big", websocket.TextMessage, `{"type":"` + strings.Repeat("x", 4096) + `"}`, 1009},
		{"much too big", websocket.TextMessage, strings.Repeat("x", 1<<20), 1009},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := dial(t, n, nil)
			_ = f.ws.WriteMessage(c.kind, []byte(c.data)) // may be cut off in the middle
			require.Equal(t, c.code, f.closed())
		})
	}
}

func TestFourKilobytesAreFine(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(7, 3)
	n := startNode(t, quick(), st.deps())
	f := dial(t, n, nil)
	msg := `{"type":"hello","place_token":"` + receiptOf("ann", 7) + `","pad":"`
	f.say(msg + strings.Repeat("x", maxMessage-len(msg)-2) + `"}`)
	require.Equal(t, "position", f.next().Type)
}

func TestFlood(t *testing.T) {
	t.Parallel()
	n := startNode(t, quick(), newStage().deps())
	f := dial(t, n, nil)
	for range n.allowance + 1 {
		if f.ws.WriteMessage(websocket.TextMessage, []byte(`{"type":"x"}`)) != nil {
			break
		}
	}
	_, err := f.read()
	closed, ok := errors.AsType[*websocket.CloseError](err)
	require.True(t, ok, "got %v", err)
	require.Equal(t, websocket.CloseError{Code: websocket.ClosePolicyViolation, Text: CodeFlood.Reason}, *closed, "not for want of a hello")
}

// Promise 11.
func TestPromise11Origins(t *testing.T) {
	t.Parallel()
	n := startNode(t, quick(), newStage().deps())
	for _, c := range []struct {
		origin []string
		status int
	}{
		{nil, http.StatusSwitchingProtocols},
		{[]string{"https://tickets.example"}, http.StatusSwitchingProtocols},
		{[]string{"http://tickets.example"}, http.StatusForbidden},
		{[]string{"https://tickets.example:443"}, http.StatusForbidden},
		{[]string{"https://tickets.example.evil.example"}, http.StatusForbidden},
		{[]string{"https://evil.example/https://tickets.example"}, http.StatusForbidden},
		{[]string{"https://TICKETS.example"}, http.StatusForbidden},
		{[]string{"null"}, http.StatusForbidden},
		{[]string{""}, http.StatusForbidden},
		{[]string{"https://tickets.example", "https://evil.example"}, http.StatusForbidden},
	} {
		header := http.Header{}
		if c.origin != nil {
			header["Origin"] = c.origin
		}
		for _, path := range []string{"/concert", "/concert/ops"} {
			ws, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(n.url, "http")+path, header)
			require.NotNil(t, resp, "%v: %v", c.origin, err)
			require.Equal(t, c.status, resp.StatusCode, "origin %q on %s", c.origin, path)
			if ws != nil {
				require.NoError(t, ws.Close())
			}
		}
	}
}
