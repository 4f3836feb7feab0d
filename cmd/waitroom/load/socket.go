package load

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // RFC 6455 asks for it in the handshake; it guards nothing
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// The frames' opcodes (RFC 6455, section 5.2).
const (
	opContinue = 0x0
	opText     = 0x1
	opBinary   = 0x2
	opClose    = 0x8
	opPing     = 0x9
	opPong     = 0xA
)

const (
	smallBuffer  = 320      // holds one position message
	maxFrame     = 64 << 10 // nothing of ours is larger
	handshakeKey = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
	writeTimeout = 10 * time.Second
)

// closeError is the server's close frame.
type closeError struct {
	code   int
	reason string
}

func (e *closeError) Error() string { return fmt.Sprintf("closed with %d %s", e.code, e.reason) }

// refusedError is an HTTP answer in place of a socket.
type refusedError struct{ answer answer }

func (e *refusedError) Error() string { return fmt.Sprintf("no socket: http %d", e.answer.status) }

// socket is a WebSocket client's end that costs little: the connection, one small
// buffer, no goroutine. One user reads it and writes to it, nobody else.
type socket struct {
	conn net.Conn
	buf  []byte // read and not yet handed out: buf[r:w]
	r, w int
	part []byte      // of a message in several frames
	stop func() bool // undoes the tie to the run's context
}

// handshakeReaders serve one handshake each.
var handshakeReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 2<<10) }}

// openSocket dials and shakes hands, with more header fields if there are any. It
// needs a deep stack: call it from the crew. When ctx ends, every read and write on
// the socket ends.
func openSocket(ctx context.Context, d *dialer, address string, header http.Header) (*socket, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("socket address: %w", err)
	}
	conn, err := dialTarget(ctx, d, u)
	if err != nil {
		return nil, err
	}
	s := &socket{conn: conn}
	s.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	if err := s.shakeHands(ctx, u, header); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func dialTarget(ctx context.Context, d *dialer, u *url.URL) (net.Conn, error) {
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	conn, err := d.dial(ctx, "tcp", host)
	if err != nil || u.Scheme != "https" {
		return conn, err
	}
	secure := tls.Client(conn, &tls.Config{ServerName: u.Hostname(), NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12})
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

func (s *socket) shakeHands(ctx context.Context, u *url.URL, header http.Header) error {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails
	key := base64.StdEncoding.EncodeToString(nonce[:])
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	req.Header = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
		"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {key},
	}
	maps.Copy(req.Header, header)
	_ = s.conn.SetDeadline(time.Now().Add(callTimeout))
	if err := req.Write(s.conn); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	br := handshakeReaders.Get().(*bufio.Reader)
	br.Reset(s.conn)
	defer func() { br.Reset(nil); handshakeReaders.Put(br) }()
	res, err := http.ReadResponse(br, req)
	if err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusSwitchingProtocols {
		b, _ := io.ReadAll(io.LimitReader(res.Body, maxFrame)) // the status says enough
		return &refusedError{answer{status: res.StatusCode, header: res.Header, body: b}}
	}
	if res.Header.Get("Sec-WebSocket-Accept") != acceptOf(key) {
		return errors.New("handshake: wrong Sec-WebSocket-Accept")
	}
	early, _ := br.Peek(br.Buffered())
	s.buf = make([]byte, max(smallBuffer, len(early)))
	s.w = copy(s.buf, early)
	return s.conn.SetDeadline(time.Time{})
}

func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + handshakeKey)) //nolint:gosec // see the import
	return base64.StdEncoding.EncodeToString(sum[:])
}

// next gives the next whole text message; the bytes are good until the next call.
// Pings are answered on the way. A timeout is os.ErrDeadlineExceeded; a close frame
// is a *closeError.
func (s *socket) next(deadline time.Time) ([]byte, error) {
	if err := s.conn.SetReadDeadline(deadline); err != nil {
		return nil, err
	}
	for {
		fin, op, payload, err := s.frame()
		if err != nil {
			return nil, err
		}
		switch op {
		case opText, opBinary, opContinue:
			if fin && s.part == nil {
				return payload, nil
			}
			if s.part = append(s.part, payload...); len(s.part) > maxFrame {
				return nil, errors.New("message too large")
			}
			if whole := s.part; fin {
				s.part = nil
				return whole, nil
			}
		case opPing:
			if err := s.write(opPong, payload); err != nil {
				return nil, err
			}
		case opPong:
		case opClose:
			ce := &closeError{code: 1005}
			if len(payload) >= 2 {
				ce.code, ce.reason = int(binary.BigEndian.Uint16(payload)), string(payload[2:])
			}
			_ = s.write(opClose, payload[:min(2, len(payload))]) // the peer is going anyway
			return nil, ce
		default:
			return nil, fmt.Errorf("unknown opcode %d", op)
		}
	}
}

// frame takes one frame off the connection.
func (s *socket) frame() (fin bool, op byte, payload []byte, err error) {
	head, err := s.need(2)
	if err != nil {
		return false, 0, nil, err
	}
	if head[1]&0x80 != 0 {
		return false, 0, nil, errors.New("masked frame from the server")
	}
	fin, op = head[0]&0x80 != 0, head[0]&0x0f
	size, start := int(head[1]&0x7f), 2
	switch size {
	case 126:
		if head, err = s.need(4); err != nil {
			return false, 0, nil, err
		}
		size, start = int(binary.BigEndian.Uint16(head[2:])), 4
	case 127:
		return false, 0, nil, errors.New("frame too large")
	}
	if size > maxFrame {
		return false, 0, nil, errors.New("frame too large")
	}
	if head, err = s.need(start + size); err != nil {
		return false, 0, nil, err
	}
	s.r += start + size
	return fin, op, head[start : start+size], nil
}

// need returns the next n bytes without taking them; what was handed out before is
// overwritten.
func (s *socket) need(n int) ([]byte, error) {
	if s.r == s.w && cap(s.buf) > 2*smallBuffer && n <= smallBuffer {
		s.buf = make([]byte, smallBuffer) // a large message is over
		s.r, s.w = 0, 0
	}
	for s.w-s.r < n {
		if s.r > 0 {
			s.w = copy(s.buf, s.buf[s.r:s.w])
			s.r = 0
		}
		if n > len(s.buf) {
			s.buf = slices.Grow(s.buf, n-len(s.buf))
			s.buf = s.buf[:cap(s.buf)]
		}
		got, err := s.conn.Read(s.buf[s.w:])
		s.w += got
		if err != nil && s.w-s.r < n {
			return nil, err
		}
	}
	return s.buf[s.r : s.r+n], nil
}

// write sends one masked frame of less than 64 KiB.
func (s *socket) write(op byte, payload []byte) error {
	f := make([]byte, 0, 8+len(payload))
	f = append(f, 0x80|op)
	if len(payload) < 126 {
		f = append(f, 0x80|byte(len(payload))) //nolint:gosec // below 126
	} else {
		f = append(f, 0x80|126, byte(len(payload)>>8), byte(len(payload))) //nolint:gosec // tokens are far below 64 KiB
	}
	var mask [4]byte
	_, _ = rand.Read(mask[:]) // never fails
	f = append(f, mask[:]...)
	for i, b := range payload {
		f = append(f, b^mask[i%4])
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := s.conn.Write(f)
	return err
}

// close ends the socket without a word, as a lost network does.
func (s *socket) close() {
	s.stop()
	_ = s.conn.Close()
}

// farewell closes as a page does that is left.
func (s *socket) farewell() {
	_ = s.write(opClose, []byte{0x03, 0xe9}) // 1001, going away; if it fails the close below tells
	s.close()
}
