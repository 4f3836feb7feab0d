package hub

import (
	"encoding/binary"
	"net"
	"syscall"
	"time"
)

const (
	// allowance is how many messages, pings included, a peer may send in
	// allowanceTime, beside its answers to our pings. A page sends one or two in all.
	allowance     = 100
	allowanceTime = 10 * time.Second
	// readBuffer is what a reader reads at once; it is shared by all its sockets.
	readBuffer = 4 << 10
)

// hearing is what is known of a client by whoever reads from it.
type hearing struct {
	in    *inlet // nil while nothing is there in part
	count int    // messages since began
	began int64  // tick
	deaf  bool   // a rule was broken: the rest is read and forgotten
}

// hear takes in what a client sent. It is called by one goroutine at a time.
func (h *Hub) hear(c *client, b []byte) {
	now := h.now()
	c.heard.Store(now)
	r := &c.hearing
	if r.deaf || c.sse {
		return
	}
	in := r.in
	if in == nil {
		in = &inlet{}
	}
	bad := in.feed(b, func(m heard) *Code {
		if now-r.began > h.ticks(allowanceTime) {
			r.began, r.count = now, 0
		}
		if r.count++; r.count > h.allowance {
			return &CodeFlood
		}
		return h.obey(c, m)
	})
	r.in = nil
	switch {
	case bad != nil:
		// The peer may still be sending: it must not be reset before it sees the
		// close frame, so that what comes is read and forgotten.
		r.deaf = true
		c.home.posts <- post{kind: postRefuse, client: c, code: *bad}
	case !in.empty():
		r.in = in
	}
}

// obey does what one message wants; if the socket is to be closed for it, it
// returns the code.
func (h *Hub) obey(c *client, m heard) *Code {
	switch m.op {
	case opPong:
		return nil
	case opPing:
		pong := appendHeader(nil, framePong, len(m.data))
		c.home.posts <- post{kind: postFrame, client: c, frame: append(pong, m.data...)}
		return nil
	case opClose:
		answer := Code{Code: codeNormal}
		if len(m.data) >= 2 {
			answer.Code = binary.BigEndian.Uint16(m.data)
		}
		c.home.posts <- post{kind: postClosed, client: c, code: answer}
		return nil
	case opBinary:
		return &CodeBinary
	}
	msg, err := parseInbound(m.data)
	if err != nil {
		return &CodeBadData
	}
	switch msg.kind {
	case inboundHello:
		return h.greet(c, msg.token)
	case inboundLeave:
		c.home.posts <- post{kind: postLeave, client: c}
	case inboundSeats:
		c.home.posts <- post{kind: postSeats, client: c, version: msg.version}
	case inboundNoSeats:
		c.home.posts <- post{kind: postNoSeats, client: c}
	case inboundUnknown: // of a later version
	}
	return nil
}

// greet checks who says hello. Without a token the cookie counts, if it was good.
func (h *Hub) greet(c *client, token string) *Code {
	var id identity
	if token != "" {
		var err error
		if id, err = h.identify(c.room.id, token); err != nil {
			return &CodeBadToken
		}
	}
	c.home.posts <- post{kind: postHello, client: c, hello: id}
	return nil
}

// readAlone reads one connection until it ends, in a goroutine of its own: the way
// where the system tells us nothing of many sockets at once.
func (h *Hub) readAlone(c *client) {
	b := make([]byte, 256)
	for {
		n, err := c.conn.Read(b)
		if n > 0 {
			h.hear(c, b[:n])
		}
		if err != nil {
			c.home.posts <- post{kind: postGone, client: c}
			return
		}
	}
}

// fileOf is the connection's own file, or nil where it has none (TLS, pipes).
func fileOf(conn net.Conn) syscall.RawConn {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}
