package hub

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/gorilla/websocket"
	"go.uber.org/zap"
)

const (
	// allowance is how many messages, pings included, a peer may send in
	// allowanceTime. A page sends one or two in all.
	allowance     = 100
	allowanceTime = 10 * time.Second
	// leaveTries is how often a place is given up before its holder must ask again.
	leaveTries = 3
)

// arrival is a socket that a handler hands to Run.
type arrival struct {
	client *client
	ws     *websocket.Conn // nil for server-sent events
	id     identity
}

// serve is a socket's one goroutine: it reads until the end, and never writes.
func (h *Hub) serve(ctx context.Context, a arrival) {
	c := a.client
	defer func() {
		h.rooms.leave(c.room)
		h.release()
	}()
	c.home.posts <- post{kind: postOpened, client: c, hello: a.id}
	if a.ws == nil {
		h.drainPeer(c.conn)
	} else {
		h.listen(ctx, a)
	}
	c.home.posts <- post{kind: postGone, client: c}
}

// drainPeer reads and forgets until the connection ends.
func (h *Hub) drainPeer(conn net.Conn) {
	var b [64]byte
	for {
		if _, err := conn.Read(b[:]); err != nil {
			return
		}
	}
}

// listen reads a WebSocket until it ends or breaks the rules. In the second case
// it goes on reading, so that the peer is not reset before it sees the close frame.
func (h *Hub) listen(ctx context.Context, a arrival) {
	c, ws := a.client, a.ws
	l := &listener{h: h, c: c, id: a.id, ws: ws}
	ws.SetReadLimit(maxMessage)
	ws.SetPongHandler(l.pong)
	for {
		kind, r, err := ws.NextReader()
		if err != nil {
			if closed, ok := errors.AsType[*websocket.CloseError](err); ok {
				h.log.Debug("socket closed", zap.Int("code", closed.Code))
				return
			}
			if _, ok := errors.AsType[net.Error](err); !ok && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				h.drainPeer(c.conn) // the library has sent the close frame for a broken rule
			}
			return
		}
		if code, ok := l.message(ctx, kind, r); !ok {
			c.home.posts <- post{kind: postRefuse, client: c, code: code}
			h.drainPeer(c.conn)
			return
		}
	}
}

// listener is what a reader remembers of its peer.
type listener struct {
	h     *Hub
	c     *client
	ws    *websocket.Conn
	id    identity
	count int   // messages since began
	began int64 // tick
}

// pong notes the sign of life.
func (l *listener) pong(string) error {
	l.c.heard.Store(l.h.now())
	return nil
}

// within is whether the peer keeps to its allowance.
func (l *listener) within() bool {
	now := l.h.now()
	l.c.heard.Store(now)
	if now-l.began > l.h.ticks(allowanceTime) {
		l.began, l.count = now, 0
	}
	l.count++
	return l.count <= allowance
}

// message reads and obeys one message; if it returns false, the socket is to be
// closed with the code.
func (l *listener) message(ctx context.Context, kind int, r io.Reader) (Code, bool) {
	if !l.within() {
		return CodeFlood, false
	}
	if kind != websocket.TextMessage {
		return CodeBinary, false
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return CodeTooBig, false // the library has said so already, or the peer is gone
	}
	m, err := parseInbound(data)
	if err != nil {
		return CodeBadData, false
	}
	switch m.kind {
	case inboundHello:
		return l.hello(m.token)
	case inboundLeave:
		l.leave(ctx)
	case inboundUnknown: // of a later version
	}
	return Code{}, true
}

// hello checks who speaks. Without a token the cookie counts, if it was good.
func (l *listener) hello(token string) (Code, bool) {
	if token != "" {
		id, err := l.h.identify(l.c.room.id, token)
		if err != nil {
			return CodeBadToken, false
		}
		l.id = id
	}
	if l.id.entry == "" {
		return CodeBadToken, false
	}
	l.c.home.posts <- post{kind: postHello, client: l.c, hello: l.id}
	return Code{}, true
}

// leave gives the place up. While the store does not answer the place stays, and
// the page asks again.
func (l *listener) leave(ctx context.Context) {
	if l.id.entry == "" {
		return
	}
	for try := range leaveTries {
		call, cancel := context.WithTimeout(ctx, l.h.cfg.StoreTimeout)
		err := l.h.deps.Line.Leave(call, l.c.room.id, l.id.entry)
		cancel()
		if err == nil {
			l.c.home.posts <- post{kind: postLeft, client: l.c}
			return
		}
		l.h.log.Warn("leave", zap.String("event", string(l.c.room.id)), zap.Int("attempt", try+1), zap.Error(err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(try+1) * askAgain / 4):
		}
	}
}

// wire is the connection as the WebSocket library sees it. Once the socket is
// open, what the library would write (pongs, close frames) goes to the shard, so
// that a socket has one writer.
type wire struct {
	net.Conn
	client *client
	open   bool
}

// Write implements net.Conn.
func (w *wire) Write(p []byte) (int, error) {
	if !w.open {
		return w.Conn.Write(p)
	}
	w.client.home.posts <- post{kind: postFrame, client: w.client, frame: append([]byte(nil), p...)}
	return len(p), nil
}

// SetWriteDeadline implements net.Conn.
func (w *wire) SetWriteDeadline(t time.Time) error {
	if w.open {
		return nil
	}
	return w.Conn.SetWriteDeadline(t)
}
