package hub

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// Promise 8.
func TestPromise8Drain(t *testing.T) {
	t.Parallel()
	st := newStage()
	n := startNode(t, quick(), st.deps())
	const clients = 40
	fans := make([]*fan, clients)
	for i := range fans {
		st.seat(i+1, int64(i+1))
		fans[i] = dial(t, n, cookie(receiptOf(fmt.Sprint("e", i), i+1)))
		fans[i].wait("position")
	}
	begun := time.Now()
	result := make(chan error, 1)
	go func() { result <- n.stop() }()
	perSecond := make(map[int64]int)
	last := int64(-1)
	inOrder := 0
	for _, f := range fans {
		bye := f.wait("bye")
		require.Equal(t, websocket.CloseServiceRestart, f.closed())
		perSecond[bye.RetryAfterMS/1000]++
		if bye.RetryAfterMS > last {
			inOrder++
		}
		last = bye.RetryAfterMS
	}
	require.NoError(t, <-result)
	require.Less(t, time.Since(begun), 5*time.Second)
	// Shards take turns, so that neighbours may be swapped; the whole is in order.
	require.Greater(t, inOrder, clients/2)
	for second, count := range perSecond {
		require.LessOrEqual(t, count, clients/10+3, "second %d", second)
	}
	require.Zero(t, n.Sockets())
	resp, err := http.Get(n.url + "/concert")
	require.NoError(t, err)
	_ = resp.Body.Close()
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	st.do(func() {
		for i := range fans {
			require.Equal(t, "away", st.told[waitroom.EntryID(fmt.Sprint("e", i))], "the line hears of those who were sent away")
		}
	})
}

// A peer that neither reads nor closes does not hold up the end.
func TestDrainDoesNotWaitForever(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(1, 1)
	cfg := quick()
	cfg.DrainGrace = 300 * time.Millisecond
	n := startNode(t, cfg, st.deps())
	rawDial(t, n, receiptOf("ann", 1), 0)
	until(t, "the socket", func() bool { return n.Sockets() == 1 })
	begun := time.Now()
	require.NoError(t, n.stop())
	require.Less(t, time.Since(begun), 3*time.Second)
}

// Promise 9.
func TestPromise9Full(t *testing.T) {
	t.Parallel()
	st := newStage()
	cfg := quick()
	cfg.MaxSockets = 2
	n := startNode(t, cfg, st.deps())
	first := dial(t, n, nil)
	dial(t, n, nil)
	refused := func() (*http.Response, map[string]any) {
		_, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(n.url, "http")+"/concert", nil)
		require.ErrorIs(t, err, websocket.ErrBadHandshake)
		var body map[string]any
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&body))
		return resp, body
	}
	resp, body := refused()
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
	require.Equal(t, "unavailable", body["code"])
	after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	require.NoError(t, err)
	require.InDelta(t, body["retry_after_ms"].(float64)/1000, after, 1)
	require.NoError(t, first.ws.Close())
	until(t, "room", func() bool { return n.Sockets() == 1 })
	dial(t, n, nil)
	refused()
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	st := newStage()
	n := startNode(t, quick(), st.deps())
	get := func(path, accept, receipt string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+path, nil)
		require.NoError(t, err)
		req.Header.Set("Accept", accept)
		if receipt != "" {
			req.Header.Set("Cookie", "place="+receipt)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		require.NoError(t, err)
		_ = resp.Body.Close()
		return resp
	}
	require.Equal(t, http.StatusBadRequest, get("/concert", "*/*", "").StatusCode, "no handshake")
	require.Equal(t, http.StatusNotFound, get("/nothing", "text/event-stream", "").StatusCode)
	require.Equal(t, http.StatusUnauthorized, get("/concert", "text/event-stream", "").StatusCode)
	require.Equal(t, http.StatusUnauthorized, get("/concert", "text/event-stream", "bad").StatusCode)
	require.Zero(t, n.Sockets(), "a refused request holds no socket")
}

func TestServerSentEvents(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(7, 1)
	cfg := quick()
	cfg.PingEvery = 50 * time.Millisecond
	n := startNode(t, cfg, st.deps())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+"/concert", nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Cookie", "place="+receiptOf("ann", 7))
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	lines := bufio.NewScanner(resp.Body)
	pings, retry := 0, ""
	wait := func(kind string) said {
		for lines.Scan() {
			line := lines.Text()
			if line == ":" {
				pings++
			}
			if after, ok := strings.CutPrefix(line, "retry: "); ok {
				retry = after
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				var m said
				require.NoError(t, json.Unmarshal([]byte(data), &m))
				if m.Type == kind {
					return m
				}
			}
		}
		require.Failf(t, "stream ended", "before a message of type %s: %v", kind, lines.Err())
		return said{}
	}
	require.Equal(t, int64(1), wait("position").Position)
	for pings == 0 {
		wait("position")
	}
	// The same messages as on a WebSocket.
	f := dial(t, n, cookie(receiptOf("ann", 7)))
	f.wait("position")
	st.leaveLine(7)
	st.do(func() {
		st.places["ann"] = waitroom.Place{Event: concert, Entry: "ann", Seq: 7, State: waitroom.EntryAdmitted, Grant: grantFor("ann", 7)}
	})
	n.Admitted(concert, []waitroom.Grant{grantFor("ann", 7)})
	require.Equal(t, f.wait("admitted"), wait("admitted"))
	ev, err := st.Event(t.Context(), concert)
	require.NoError(t, err)
	ev.Version, ev.State, ev.Message = 2, waitroom.Draining, "soon over"
	st.do(func() { st.events[concert] = ev })
	n.Changed(ev)
	require.Equal(t, f.wait("event"), wait("event"))
	n.Outcome(ticket.Outcome{Event: "concert", Person: "ann", ReservationID: "r1", Status: ticket.Paid})
	require.Equal(t, f.wait("reservation"), wait("reservation"))
	var stop sync.WaitGroup
	stop.Go(func() { _ = n.stop() })
	require.Equal(t, strconv.FormatInt(wait("bye").RetryAfterMS, 10), retry, "the browser's own timer keeps the appointment too")
	require.False(t, lines.Scan() && lines.Text() != "", "nothing comes after bye")
	f.closed()
	stop.Wait()
}

func TestOps(t *testing.T) {
	t.Parallel()
	st := newStage()
	cfg := quick()
	cfg.MaxOps = 1
	n := startNode(t, cfg, st.deps())
	url := "ws" + strings.TrimPrefix(n.url, "http") + "/concert/ops"
	ws, _, err := websocket.DefaultDialer.Dial(url, nil)
	require.NoError(t, err)
	defer func() { _ = ws.Close() }()
	for range 2 {
		_, data, err := ws.ReadMessage()
		require.NoError(t, err)
		require.JSONEq(t, `{"event":"concert"}`, string(data))
	}
	_, resp, err := websocket.DefaultDialer.Dial(url, nil)
	require.Error(t, err)
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	n.fired.Store(true) // a socket does not outlive the right to it
	for err = nil; err == nil; {
		_, _, err = ws.ReadMessage()
	}
	require.True(t, websocket.IsCloseError(err, websocket.ClosePolicyViolation), "%v", err)
	n.fired.Store(false)
	until(t, "room for another", func() bool {
		ws, _, err = websocket.DefaultDialer.Dial(url, nil)
		return err == nil
	})
	defer func() { _ = ws.Close() }()
	var stop sync.WaitGroup
	stop.Go(func() { _ = n.stop() })
	for err = nil; err == nil; {
		_, _, err = ws.ReadMessage()
	}
	require.True(t, websocket.IsCloseError(err, websocket.CloseServiceRestart), "%v", err)
	stop.Wait()
}
