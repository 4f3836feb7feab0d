package load

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

// serveSocket answers every request with f on an upgraded connection.
func serveSocket(t *testing.T, f func(*websocket.Conn)) string {
	t.Helper()
	up := websocket.Upgrader{WriteBufferSize: 256}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		f(c)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func opened(ctx context.Context, t *testing.T, url string) *socket {
	t.Helper()
	s, err := openSocket(ctx, &dialer{}, url+"/live", nil)
	require.NoError(t, err)
	t.Cleanup(s.close)
	return s
}

func TestSocketReadsWhatIsSent(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 20_000)
	ponged := make(chan string, 1)
	url := serveSocket(t, func(c *websocket.Conn) {
		c.SetPongHandler(func(s string) error { ponged <- s; return nil })
		_, hello, err := c.ReadMessage()
		if err != nil {
			return
		}
		_ = c.WriteMessage(websocket.TextMessage, hello)
		_ = c.WriteControl(websocket.PingMessage, []byte("p"), time.Now().Add(time.Second))
		for range 100 { // many small ones in few reads
			_ = c.WriteMessage(websocket.TextMessage, []byte(`{"type":"position","position":1}`))
		}
		_ = c.WriteMessage(websocket.TextMessage, []byte(long)) // in several frames: the write buffer is small
		_ = c.WriteMessage(websocket.TextMessage, []byte("x"))
		_, _, _ = c.ReadMessage()
		_ = c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1012, "again"), time.Now().Add(time.Second))
		for {
			if _, _, err := c.ReadMessage(); err != nil {
				return
			}
		}
	})
	s := opened(t.Context(), t, url)
	soon := time.Now().Add(10 * time.Second)
	hello := strings.Repeat("h", 300) // longer than one-byte lengths reach
	require.NoError(t, s.write(opText, []byte(hello)))
	want := []string{hello}
	for range 100 {
		want = append(want, `{"type":"position","position":1}`)
	}
	for _, w := range append(want, long, "x") {
		b, err := s.next(soon)
		require.NoError(t, err)
		require.Equal(t, w, string(b))
	}
	require.NoError(t, s.write(opText, []byte("go on")))
	require.Equal(t, "p", <-ponged)
	_, err := s.next(soon)
	var closed *closeError
	require.ErrorAs(t, err, &closed)
	require.Equal(t, closeError{code: 1012, reason: "again"}, *closed)
	require.LessOrEqual(t, len(s.buf), 2*smallBuffer, "the room for a long message is given back")
}

func TestSocketTimeoutLosesNothing(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	url := serveSocket(t, func(c *websocket.Conn) {
		raw := c.NetConn()
		_, _ = raw.Write([]byte{0x81, 3, 'a'}) // the first bytes of a frame
		<-more
		_, _ = raw.Write([]byte("bc"))
		_, _, _ = c.ReadMessage()
	})
	s := opened(t.Context(), t, url)
	_, err := s.next(time.Now().Add(50 * time.Millisecond))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	close(more)
	b, err := s.next(time.Now().Add(10 * time.Second))
	require.NoError(t, err)
	require.Equal(t, "abc", string(b))
}

func TestSocketEndsWithContext(t *testing.T) {
	t.Parallel()
	url := serveSocket(t, func(c *websocket.Conn) { _, _, _ = c.ReadMessage() })
	ctx, cancel := context.WithCancel(t.Context())
	s := opened(ctx, t, url)
	time.AfterFunc(50*time.Millisecond, cancel)
	began := time.Now()
	_, err := s.next(began.Add(time.Minute))
	require.Error(t, err)
	require.Less(t, time.Since(began), 30*time.Second)
}

func TestRefusedSocketSaysWhenToComeBack(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(503)
	}))
	t.Cleanup(srv.Close)
	_, err := openSocket(t.Context(), &dialer{}, srv.URL+"/live", nil)
	var refused *refusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 3*time.Second, refused.answer.retryAfter())
}

func TestForeignBytesAreErrors(t *testing.T) {
	t.Parallel()
	for name, frame := range map[string][]byte{
		"masked": {0x81, 0x80, 0, 0, 0, 0}, "huge": {0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0},
		"unknown opcode": {0x83, 0}, "cut": {0x81, 5, 'a'},
	} {
		url := serveSocket(t, func(c *websocket.Conn) { _, _ = c.NetConn().Write(frame) })
		s := opened(t.Context(), t, url)
		_, err := s.next(time.Now().Add(10 * time.Second))
		require.Error(t, err, name)
	}
}
