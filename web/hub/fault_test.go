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
