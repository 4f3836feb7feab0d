package hub

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// masked is a frame as a client sends it.
func masked(first byte, payload string) []byte {
	b := appendHeader(nil, first, len(payload))
	b[1] |= bitMask
	key := [4]byte{0x37, 0xfa, 0x21, 0x3d}
	b = append(b, key[:]...)
	for i := range len(payload) {
		b = append(b, payload[i]^key[i&3])
	}
	return b
}

// listenTo feeds a stream in pieces and returns what was heard.
func listenTo(stream []byte, piece int) (got []string, code *Code) {
	var in inlet
	for len(stream) > 0 && code == nil {
		n := min(piece, len(stream))
		code = in.feed(bytes.Clone(stream[:n]), func(m heard) *Code {
			got = append(got, string('0'+rune(m.op))+string(m.data))
			return nil
		})
		stream = stream[n:]
	}
	return got, code
}

func TestFramesOfFans(t *testing.T) {
	t.Parallel()
	cat := func(frames ...[]byte) []byte { return bytes.Join(frames, nil) }
	long := strings.Repeat("x", maxMessage)
	for _, c := range []struct {
		name   string
		stream []byte
		want   []string
		code   *Code
	}{
		{"text", masked(0x81, "hi"), []string{"1hi"}, nil},
		{"empty text", masked(0x81, ""), []string{"1"}, nil},
		{"two", cat(masked(0x81, "a"), masked(0x82, "b")), []string{"1a", "2b"}, nil},
		{"longest", masked(0x81, long), []string{"1" + long}, nil},
		{"one byte more", masked(0x81, long+"x"), nil, &CodeTooBig},
		{"huge", masked(0x81, strings.Repeat("x", 1<<16)), nil, &CodeTooBig},
		{"absurd length", []byte{0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, nil, &CodeTooBig},
		{"fragments with a ping between", cat(masked(0x01, "a"), masked(0x89, "p"), masked(0x00, "b"), masked(0x80, "c")), []string{"9p", "1abc"}, nil},
		{"binary fragments", cat(masked(0x02, "a"), masked(0x80, "b")), []string{"2ab"}, nil},
		{"fragments too long together", cat(masked(0x01, long), masked(0x80, "x")), nil, &CodeTooBig},
		{"continuation of nothing", masked(0x80, "a"), nil, &CodeProtocol},
		{"text within fragments", cat(masked(0x01, "a"), masked(0x81, "b")), nil, &CodeProtocol},
		{"not masked", []byte{0x81, 0x00}, nil, &CodeProtocol},
		{"extension bit", masked(0xc1, "a"), nil, &CodeProtocol},
		{"unknown opcode", masked(0x83, "a"), nil, &CodeProtocol},
		{"unknown control", masked(0x8b, "a"), nil, &CodeProtocol},
		{"long ping", masked(0x89, strings.Repeat("x", 126)), nil, &CodeProtocol},
		{"ping in fragments", masked(0x09, "a"), nil, &CodeProtocol},
		{"close", masked(0x88, "\x03\xe8bye"), []string{"8\x03\xe8bye"}, nil},
		{"close without code", masked(0x88, ""), []string{"8"}, nil},
		{"close with half a code", masked(0x88, "\x03"), nil, &CodeProtocol},
		{"close with a code that is not sent", masked(0x88, "\x03\xed"), nil, &CodeProtocol},
		{"close with broken text", masked(0x88, "\x03\xe8\xff"), nil, &CodeProtocol},
		{"pong", masked(0x8a, ""), []string{":"}, nil},
	} {
		for _, piece := range []int{1, 3, 1 << 20} {
			got, code := listenTo(c.stream, piece)
			require.Equal(t, c.want, got, "%s in pieces of %d", c.name, piece)
			require.Equal(t, c.code, code, "%s in pieces of %d", c.name, piece)
		}
	}
}

// stream is a connection that has sent all it will ever send.
type stream struct {
	net.Conn
	io.Reader
}

func (s stream) Read(p []byte) (int, error)     { return s.Reader.Read(p) }
func (stream) Write(p []byte) (int, error)      { return len(p), nil }
func (stream) Close() error                     { return nil }
func (stream) SetDeadline(time.Time) error      { return nil }
func (stream) SetReadDeadline(time.Time) error  { return nil }
func (stream) SetWriteDeadline(time.Time) error { return nil }
func (s stream) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return s, bufio.NewReadWriter(bufio.NewReader(strings.NewReader("")), bufio.NewWriter(io.Discard)), nil
}

// hijackable is a response writer whose connection is a stream.
type hijackable struct {
	*httptest.ResponseRecorder
	stream
}

func (h hijackable) Write(p []byte) (int, error) { return h.ResponseRecorder.Write(p) }

// reference reads the stream with the library that everybody uses.
func reference(t *testing.T, data []byte) (got []string, broken bool) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for k, v := range map[string]string{
		"Connection": "upgrade", "Upgrade": "websocket", "Sec-Websocket-Version": "13", "Sec-Websocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
	} {
		r.Header.Set(k, v)
	}
	up := websocket.Upgrader{ReadBufferSize: 256}
	ws, err := up.Upgrade(hijackable{httptest.NewRecorder(), stream{Reader: bytes.NewReader(data)}}, r, nil)
	require.NoError(t, err)
	ws.SetReadLimit(maxMessage)
	note := func(op rune) func(string) error {
		return func(s string) error { got = append(got, string(op)+s); return nil }
	}
	ws.SetPingHandler(note('9'))
	ws.SetPongHandler(note(':'))
	for {
		kind, b, err := ws.ReadMessage()
		if err != nil {
			closed, ok := errors.AsType[*websocket.CloseError](err)
			if ok && closed.Code != websocket.CloseAbnormalClosure {
				text := closed.Text
				if closed.Code != websocket.CloseNoStatusReceived {
					text = string(binary.BigEndian.AppendUint16(nil, uint16(closed.Code))) + text
				}
				return append(got, "8"+text), false
			}
			return got, !ok
		}
		got = append(got, string('0'+rune(kind))+string(b))
	}
}

// Whatever a peer sends, in whatever pieces: what is heard is what the library
// would hear, up to the first fault or close frame.
func FuzzFramesAgainstLibrary(f *testing.F) {
	for _, s := range [][]byte{
		masked(0x81, "hi"), append(masked(0x01, "a"), masked(0x80, "b")...), masked(0x88, "\x03\xe8bye"), masked(0x89, "p"),
		append(masked(0x01, "a"), masked(0x89, "b")...),
		{0x81, 0xff},
		masked(0x82, strings.Repeat("x", 200)),
		{0x81, 0x00},
		append(masked(0x81, "a"), masked(0x88, "")...), masked(0x01, strings.Repeat("y", 4000)),
	} {
		f.Add(s, uint8(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, piece uint8) {
		// A frame that is not whole is judged when it is: the zeros make it so, and
		// are a fault themselves.
		data = append(bytes.Clone(data), make([]byte, maxHeader+maxMessage)...)
		want, broken := reference(t, data)
		got, code := listenTo(data, int(piece)+1)
		for i, m := range got {
			if m[0] == '8' {
				got, code = got[:i+1], nil // nothing counts after it
				break
			}
		}
		if n := len(want); n > len(got) && want[n-1] == "8" && code == &CodeProtocol {
			want = want[:n-1] // the library takes half a close code for none
		}
		if len(want) == 0 {
			want = nil
		}
		require.Equal(t, want, got)
		if broken {
			require.NotNil(t, code, "the library refuses %x", data)
		}
	})
}

func TestControlFramesAreAnswered(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(7, 3)
	n := startNode(t, quick(), st.deps())
	f := dial(t, n, nil)
	pong := make(chan string, 1)
	f.ws.SetPongHandler(func(s string) error { pong <- s; return nil })
	require.NoError(t, f.ws.WriteControl(websocket.PingMessage, []byte("are you there"), time.Now().Add(time.Second)))
	f.hello(receiptOf("ann", 7))
	until(t, "the pong", func() bool {
		f.wait("position")
		return len(pong) == 1
	})
	require.Equal(t, "are you there", <-pong)
	require.NoError(t, f.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(4000, "enough"), time.Now().Add(time.Second)))
	require.Equal(t, 4000, f.closed())
	until(t, "the socket to be gone", func() bool { return n.Sockets() == 0 })
}

// A connection with TLS has no file of its own: it is read by a goroutine and
// written with a deadline.
func TestOverTLS(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.seat(7, 3)
	n := startNodeOn(t, quick(), st.deps(), httptest.NewTLSServer)
	f := dial(t, n, nil)
	f.hello(receiptOf("ann", 7))
	require.Equal(t, int64(3), f.wait("position").Position)
	st.leaveLine(7)
	n.Admitted(concert, []waitroom.Grant{grantFor("ann", 7)})
	require.Equal(t, "token-jti-ann", f.wait("admitted").EntryToken)
	g := dial(t, n, nil)
	g.say("{")
	require.Equal(t, 1007, g.closed())
	var stop sync.WaitGroup
	stop.Go(func() { _ = n.stop() })
	f.wait("bye")
	require.Equal(t, websocket.CloseServiceRestart, f.closed())
	stop.Wait()
}
