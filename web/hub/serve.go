package hub

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// ServeLive answers the request with a WebSocket, or with server-sent events if it
// accepts those, and returns as soon as the connection is the hub's. receipt is
// the place token from the cookie or the Authorization header, or empty; a
// WebSocket without a good one says hello.
//
// Refusals: 503 unavailable with Retry-After (full, draining, or the store does
// not know the event in time), 403 forbidden (a foreign origin), 404 not_found (no
// such event), 401 token_required or token_invalid, or 403 token_wrong_event
// (server-sent events without a good receipt), 400 invalid (no WebSocket handshake).
func (h *Hub) ServeLive(w http.ResponseWriter, r *http.Request, event waitroom.EventID, receipt string) {
	if !h.claim() {
		h.metrics.refused.Inc()
		h.deps.Refuse(w, r, http.StatusServiceUnavailable, "unavailable", h.comeBack(event, receipt))
		return
	}
	kept := false
	defer func() {
		if !kept {
			h.release()
		}
	}()
	if !h.originAllowed(r) {
		h.deps.Refuse(w, r, http.StatusForbidden, "forbidden", 0)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.cfg.StoreTimeout)
	defer cancel()
	ev, err := h.deps.View.Event(ctx, event)
	switch {
	case errors.Is(err, waitroom.ErrNoEvent):
		h.deps.Refuse(w, r, http.StatusNotFound, "not_found", 0)
		return
	case err != nil:
		h.deps.Refuse(w, r, http.StatusServiceUnavailable, "unavailable", h.comeBack(event, receipt))
		return
	}
	var id identity
	if receipt != "" {
		id, err = h.identify(event, receipt)
	}
	c := &client{mobile: strings.Contains(r.UserAgent(), "Mobi")}
	if wantsEvents(r) {
		switch {
		case receipt == "":
			h.deps.Refuse(w, r, http.StatusUnauthorized, "token_required", 0)
			return
		case errors.Is(err, waitroom.ErrWrongEvent):
			h.deps.Refuse(w, r, http.StatusForbidden, "token_wrong_event", 0)
			return
		case err != nil:
			h.deps.Refuse(w, r, http.StatusUnauthorized, "token_invalid", 0)
			return
		}
		c.sse = true
		kept = h.openEvents(w, r, c, ev, id)
		return
	}
	kept = h.openSocket(w, r, c, ev, id)
}

// wantsEvents is whether the request asks for server-sent events and not for a WebSocket.
func wantsEvents(r *http.Request) bool {
	return !websocket.IsWebSocketUpgrade(r) && strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

func (h *Hub) identify(event waitroom.EventID, receipt string) (identity, error) {
	entry, seq, err := h.deps.Line.ReadReceipt(event, receipt)
	if err != nil {
		return identity{}, err
	}
	// The receipt may be part of a larger string, such as a whole header.
	return identity{entry, h.deps.Line.PartyOf(event, receipt), seq, strings.Clone(receipt)}, nil
}

// originAllowed compares exactly: no prefix, no pattern, no difference of port.
func (h *Hub) originAllowed(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	switch len(origins) {
	case 0:
		return true
	case 1:
		return slices.Contains(h.cfg.Origins, origins[0])
	default:
		return false
	}
}

// openSocket makes the WebSocket. The library's part ends with the handshake: what
// it would keep for each socket is more than all that the hub keeps.
func (h *Hub) openSocket(w http.ResponseWriter, r *http.Request, c *client, ev waitroom.Event, id identity) bool {
	up := h.upgrader
	up.Error = func(w http.ResponseWriter, r *http.Request, _ int, reason error) {
		h.log.Debug("no handshake", zap.Error(reason))
		h.deps.Refuse(w, r, http.StatusBadRequest, "invalid", 0)
	}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return false // answered, or the peer is gone
	}
	return h.adopt(c, ws.NetConn(), ev, id)
}

// openEvents takes the connection for server-sent events: from then on it is like
// any other socket. The response has no length and ends with the connection.
func (h *Hub) openEvents(w http.ResponseWriter, r *http.Request, c *client, ev waitroom.Event, id identity) bool {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		h.deps.Refuse(w, r, http.StatusInternalServerError, "internal", 0)
		return false
	}
	header := w.Header().Clone()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // nginx would hold messages back
	header.Set("Connection", "close")
	var b strings.Builder
	b.WriteString("HTTP/1.1 200 OK\r\n")
	_ = header.Write(&b) // a Builder does not fail
	b.WriteString("\r\n")
	_ = conn.SetDeadline(time.Now().Add(h.cfg.WriteTimeout)) // a connection that fails shows it at the write
	if _, err := conn.Write([]byte(b.String())); err != nil {
		closeConn(conn)
		return false
	}
	_ = conn.SetDeadline(time.Time{})
	return h.adopt(c, conn, ev, id)
}

// adopt takes the connection into the hub. It is false if the hub takes no more.
func (h *Hub) adopt(c *client, conn net.Conn, ev waitroom.Event, id identity) bool {
	c.conn, c.raw = conn, fileOf(conn)
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(h.cfg.SendBuffer) // else the kernel's own, larger bound holds
	}
	if c.sse && c.raw != nil {
		limitSilence(c.raw, h.cfg.PongWait)
	}
	c.heard.Store(h.now())
	c.home = h.shards[h.turn.Add(1)%uint64(len(h.shards))]
	if id.entry != "" {
		c.home = h.shardOf(id.place())
	}
	c.owner.Store(c.home)

	h.gate.RLock()
	defer h.gate.RUnlock()
	if !h.running {
		closeConn(conn)
		return false
	}
	c.room = h.rooms.enter(ev)
	if said := c.room.said.Load(); !said.pressing() {
		c.notice = said.number
	}
	c.home.posts <- post{kind: postOpened, client: c, hello: id}
	if !h.poller.add(c) {
		h.loners <- c
	}
	return true
}

// comeBack is when somebody who is refused for now may try again: nearest to the
// front first where the place is known, and no second with more than a tenth. It asks
// nobody, since refusing must cost next to nothing.
func (h *Hub) comeBack(event waitroom.EventID, receipt string) time.Duration {
	const soonest = 2 * time.Second
	known := h.rooms.get(event)
	if known == nil || receipt == "" {
		return soonest + rand.N(shortestWindow)
	}
	_, seq, err := h.deps.Line.ReadReceipt(event, receipt)
	pos, placed := h.deps.View.Position(event, seq)
	if err != nil || !placed {
		return soonest + rand.N(shortestWindow)
	}
	waiting := max(known.event.Load().WaitingWith(seq), pos, 1)
	return soonest + time.Duration(float64(shortestWindow)*float64(pos-1)/float64(waiting)) + rand.N(time.Second)
}

// refuse is the plain answer to a request that gets no socket.
func refuse(w http.ResponseWriter, _ *http.Request, status int, code string, retry time.Duration) {
	b := append([]byte(nil), `{"type":"about:blank","title":`...)
	b = appendString(b, http.StatusText(status))
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, `,"code":`...)
	b = appendString(b, code)
	if retry > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(wholeSeconds(retry), 10))
		b = append(b, `,"retry_after_ms":`...)
		b = strconv.AppendInt(b, retry.Milliseconds(), 10)
	}
	b = append(b, '}')
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b) //nolint:gosec // numbers and a code of ours; and the peer is refused either way
}
