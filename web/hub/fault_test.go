package hub

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
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

// rawDial opens a WebSocket by hand and then leaves the connection to the test,
// which may read nothing, or answer nothing.
func rawDial(t *testing.T, n *node, receipt string, receiveBuffer int) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	if receiveBuffer > 0 {
		require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(receiveBuffer))
	}
	_, err = fmt.Fprintf(conn, "GET /concert HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nCookie: place=%s\r\n\r\n", receipt)
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	_ = resp.Body.Close()
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	return conn, r
}

// Promise 2.
func TestPromise2SlowClientIsCutAndNobodyElseWaits(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"write timeout", "queue"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			st := newStage()
			st.seat(1, 1)
			st.seat(2, 2)
			cfg := quick()
			cfg.Shards = 1 // the slow and the quick one share a writer
			cfg.SendBuffer, cfg.QueueLen = 4<<10, 1000
			cfg.WriteTimeout = 300 * time.Millisecond
			if how == "queue" {
				cfg.QueueLen, cfg.WriteTimeout = 4, time.Minute
			}
			n := startNode(t, cfg, st.deps())
			rawDial(t, n, receiptOf("slow", 1), 4<<10) // never reads
			f := dial(t, n, cookie(receiptOf("quick", 2)))
			f.wait("position")
			worst := time.Duration(0)
			big := strings.Repeat("x", 2000)
			for i := 0; n.Sockets() == 2; i++ {
				require.Less(t, i, 10_000, "the slow client is still there")
				n.Outcome(ticket.Outcome{Event: "concert", Person: "slow", ReservationID: big, Status: ticket.Paid})
				sent := time.Now()
				n.Outcome(ticket.Outcome{Event: "concert", Person: "quick", ReservationID: strconv.Itoa(i), Status: ticket.Paid})
				require.Equal(t, strconv.Itoa(i), f.wait("reservation").ReservationID)
				worst = max(worst, time.Since(sent))
			}
			require.Equal(t, "position", f.wait("position").Type)
			// A shard that waited for the slow one would take at least its write timeout.
			require.Less(t, worst, 300*time.Millisecond)
		})
	}
}

// A client that stalls and then reads again gets whole frames and the newest
// position, not all those between.
func TestLatestPositionWins(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(1, 1_000_000)
	cfg := quick()
	cfg.Shards, cfg.SendBuffer, cfg.QueueLen = 1, 4<<10, 1000
	cfg.WriteTimeout = 30 * time.Second
	n := startNode(t, cfg, st.deps())
	_, r := rawDial(t, n, receiptOf("ann", 1), 4<<10)
	require.Equal(t, int64(1_000_000), readFrame(t, r).Position)
	// Fill the socket until nothing more goes into it.
	big := strings.Repeat("x", 2000)
	stuck := func() bool {
		found := false
		ask(n.Hub, func(s *shard) {
			for c := range s.clients {
				found = found || c.stuck != 0
			}
		})
		return found
	}
	sent := 0
	until(t, "the socket to be full", func() bool {
		n.Outcome(ticket.Outcome{Event: "concert", Person: "ann", ReservationID: big, Status: ticket.Paid})
		sent++
		return stuck()
	})
	visits := 0
	until(t, "many positions that could not be sent", func() bool {
		st.seat(1, int64(1000-visits))
		visits++
		return visits > 200
	})
	st.seat(1, 5)
	reservations, positions, last := 0, 0, int64(0)
	for reservations < sent || last != 5 {
		m := readFrame(t, r)
		switch m.Type {
		case "reservation":
			reservations++
		case "position":
			positions++
			last = m.Position
		}
	}
	require.Less(t, positions, visits/2)
}

// ask runs f in every shard's goroutine.
func ask(h *Hub, f func(*shard)) {
	for _, s := range h.shards {
		done := make(chan struct{})
		s.posts <- post{kind: postCall, call: func() { f(s); close(done) }}
		<-done
	}
}

// readFrame reads one text frame as the server writes it.
func readFrame(t *testing.T, r *bufio.Reader) said {
	t.Helper()
	for {
		var head [2]byte
		_, err := io.ReadFull(r, head[:])
		require.NoError(t, err)
		length := int(head[1])
		require.Less(t, length, 127, "a masked frame, or a huge one: the stream is broken")
		if length == 126 {
			var two [2]byte
			_, err = io.ReadFull(r, two[:])
			require.NoError(t, err)
			length = int(two[0])<<8 | int(two[1])
		}
		data := make([]byte, length)
		_, err = io.ReadFull(r, data)
		require.NoError(t, err)
		switch head[0] {
		case frameText:
			var m said
			require.NoError(t, json.Unmarshal(data, &m))
			return m
		case framePing:
		default:
			require.Failf(t, "broken stream", "frame starts with %#x", head[0])
		}
	}
}

// Promise 7.
func TestPromise7LostPeerIsCut(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(1, 1)
	st.seat(2, 2)
	cfg := quick()
	cfg.PingEvery, cfg.PongWait = 50*time.Millisecond, 400*time.Millisecond
	n := startNode(t, cfg, st.deps())
	_, r := rawDial(t, n, receiptOf("lost", 1), 0) // reads, but never answers a ping
	var drain sync.WaitGroup
	drain.Go(func() { _, _ = io.Copy(io.Discard, r) })
	f := dial(t, n, cookie(receiptOf("ann", 2)))
	opened := time.Now()
	until(t, "the silent peer to be cut", func() bool {
		f.wait("position") // reading answers the pings
		return n.Sockets() == 1
	})
	require.GreaterOrEqual(t, time.Since(opened), 300*time.Millisecond)
	for range 8 {
		f.wait("position")
	}
	drain.Wait()
	until(t, "the line to hear of it", func() bool {
		st.mu.Lock()
		defer st.mu.Unlock()
		return st.told["lost"] == "away" && st.told["ann"] == "here"
	})
}

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

func TestPresenceIsGatheredAndTold(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(1, 1)
	st.seat(2, 2)
	n := startNode(t, quick(), st.deps())
	told := func(entry, what string) {
		until(t, entry+" "+what, func() bool {
			st.mu.Lock()
			defer st.mu.Unlock()
			return st.told[waitroom.EntryID(entry)] == what
		})
	}
	phone := cookie(receiptOf("ann", 1))
	phone.Set("User-Agent", "Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0")
	a, b := dial(t, n, phone), dial(t, n, phone)
	c := dial(t, n, cookie(receiptOf("bob", 2)))
	told("ann", "here")
	told("bob", "here")
	require.NoError(t, a.ws.Close())
	b.wait("position")
	until(t, "the first tab to be gone", func() bool { return n.Sockets() == 2 })
	st.do(func() { require.Equal(t, "here", st.told["ann"], "the other tab is still there") })
	// While the store is away the news waits.
	st.do(func() { st.down = true })
	require.NoError(t, b.ws.Close())
	require.NoError(t, c.ws.Close())
	until(t, "all to be gone", func() bool { return n.Sockets() == 0 })
	st.do(func() { st.down = false })
	told("ann", "mobile")
	told("bob", "away")
	// The store lost everything.
	d := dial(t, n, cookie(receiptOf("bob", 2)))
	d.wait("position")
	told("bob", "here")
	st.do(func() { clear(st.told) })
	n.Forgotten(concert)
	told("bob", "here")
}

func TestPresenceIsBounded(t *testing.T) {
	t.Parallel()
	p := presence{pending: make(map[waitroom.EventID]map[waitroom.EntryID]whereabouts), limit: 3}
	for i := range 10 {
		p.note(concert, waitroom.EntryID(strconv.Itoa(i)), here)
		p.note(concert, "0", awayMobile)
	}
	require.Equal(t, map[waitroom.EventID]map[waitroom.EntryID]whereabouts{
		concert: {"0": awayMobile, "1": here, "2": here},
	}, p.takeAll())
}

// A shard that is far behind drops what visits will find out anyway.
func TestNewsIsBounded(t *testing.T) {
	t.Parallel()
	h, err := New(quick(), newStage().deps())
	require.NoError(t, err)
	s := h.shards[0]
	for range newsQueue {
		require.True(t, s.notify(news{kind: newsOutcome}))
	}
	require.False(t, s.notify(news{kind: newsAdmitted}))
	require.True(t, s.notify(news{kind: newsDrain}), "what the hub itself wants is never dropped")
}

// The grant was dropped on its way: the visit finds it.
func TestMissedAdmissionIsFound(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(7, 1)
	n := startNode(t, quick(), st.deps())
	f := dial(t, n, cookie(receiptOf("ann", 7)))
	f.wait("position")
	st.leaveLine(7)
	st.do(func() {
		st.places["ann"] = waitroom.Place{Event: concert, Entry: "ann", Seq: 7, State: waitroom.EntryAdmitted, Grant: grantFor("ann", 7)}
	})
	require.Equal(t, "token-jti-ann", f.wait("admitted").EntryToken)
}

func TestHelloMovesASocketToAnotherEntry(t *testing.T) {
	t.Parallel()
	st := newStage()
	n := startNode(t, quick(), st.deps())
	for i := range 20 {
		st.seat(i+1, int64(i+1))
	}
	f := dial(t, n, cookie(receiptOf("e0", 1)))
	for i := range 20 {
		f.hello(receiptOf(fmt.Sprint("e", i), i+1))
		until(t, "the other's position", func() bool { return f.wait("position").Position == int64(i+1) })
	}
	until(t, "all but the last to be away", func() bool {
		st.mu.Lock()
		defer st.mu.Unlock()
		return st.told["e19"] == "here" && st.told["e18"] == "away" && st.told["e0"] == "away"
	})
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
	var stop sync.WaitGroup
	stop.Go(func() { _ = n.stop() })
	_, _, err = ws.ReadMessage()
	require.True(t, websocket.IsCloseError(err, websocket.CloseServiceRestart), "%v", err)
	stop.Wait()
}

// Promise 1. Everything that writes happens at once to the same sockets; a frame
// inside another would break the stream, and the race detector watches the rest.
func TestPromise1OneWriter(t *testing.T) {
	t.Parallel()
	st := newStage()
	cfg := quick()
	cfg.NearEvery, cfg.PingEvery, cfg.PongWait = cfg.Tick, cfg.Tick, 5*time.Second
	cfg.QueueLen = 10_000
	n := startNode(t, cfg, st.deps())
	const clients = 30
	stopWriting := make(chan struct{})
	var writers, readers sync.WaitGroup
	for i := range clients {
		st.seat(i+1, int64(i+1))
		f := dial(t, n, cookie(receiptOf(fmt.Sprint("e", i%10), i%10+1)))
		readers.Go(func() {
			got := 0
			for {
				m, err := f.read()
				if err != nil {
					_, network := errors.AsType[net.Error](err) // a busy machine may lose the farewell
					if !network && !websocket.IsCloseError(err, websocket.CloseServiceRestart) {
						t.Errorf("client %d: stream broken after %d messages: %v", i, got, err)
					}
					return
				}
				if m.Type == "" {
					t.Errorf("client %d: message without type", i)
				}
				got++
			}
		})
		writers.Go(func() { // pings make the library want to write; hellos make clients move
			for k := 0; ; k++ {
				select {
				case <-stopWriting:
					return
				case <-time.After(150 * time.Millisecond):
				}
				_ = f.ws.WriteControl(websocket.PingMessage, []byte("p"), time.Now().Add(time.Second))
				if k%2 == 0 {
					_ = f.ws.WriteControl(websocket.PongMessage, nil, time.Now().Add(time.Second))
				}
			}
		})
	}
	for k := range 3 {
		writers.Go(func() {
			ev := waitroom.Event{State: waitroom.Open}
			ev.ID, ev.RatePerS = concert, 10
			for i := 0; ; i++ {
				select {
				case <-stopWriting:
					return
				case <-time.After(5 * time.Millisecond):
				}
				n.Outcome(ticket.Outcome{Event: "concert", Person: fmt.Sprint("e", i%10), ReservationID: strconv.Itoa(k), Status: ticket.Paid})
				ev.Version, ev.Message = int64(i*3+k), strconv.Itoa(i)
				n.Changed(ev)
				n.Admitted(concert, []waitroom.Grant{grantFor(fmt.Sprint("e", i%10), i%10+1)})
			}
		})
	}
	timer := time.NewTimer(time.Second)
	<-timer.C
	require.NoError(t, n.stop()) // the farewell joins in
	close(stopWriting)
	writers.Wait()
	readers.Wait()
}
