//go:build unix

package hub

import (
	"errors"
	"syscall"
	"time"
)

// pen writes to sockets without ever waiting for one. A shard has one and uses it
// for all its clients.
type pen struct{ *scratch }

// scratch is what one write needs; its function is made once.
type scratch struct {
	p   []byte
	n   int
	err error
	fn  func(fd uintptr) bool
}

func newPen() pen {
	w := &scratch{}
	w.fn = w.try
	return pen{w}
}

// write sends as much of p as the socket takes at once and returns how much that
// was. An error is final.
func (w pen) write(c *client, p []byte) (int, error) {
	if c.raw == nil {
		return writeBriefly(c.conn, p)
	}
	w.p, w.n, w.err = p, 0, nil
	err := c.raw.Write(w.fn)
	w.p = nil
	return w.n, errors.Join(err, w.err)
}

// try is called with the socket's file and always says that it is done, so that
// the runtime does not wait for room in the socket.
func (w *scratch) try(fd uintptr) bool {
	for w.n < len(w.p) {
		n, err := syscall.Write(int(fd), w.p[w.n:])
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return true
		case err != nil:
			w.err = err
			return true
		}
		w.n += n
	}
	return true
}

// tcpUserTimeout is Linux's TCP_USER_TIMEOUT, which package syscall does not name.
const tcpUserTimeout = 0x12

// limitSilence has the kernel give a connection up whose peer acknowledges nothing
// for that long. Server-sent events need it, since their peers answer no ping.
func limitSilence(raw syscall.RawConn, d time.Duration) {
	_ = raw.Control(func(fd uintptr) {
		// Elsewhere than on Linux the kernel's own, longer limit stays.
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(d.Milliseconds()))
	})
}
