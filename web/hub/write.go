package hub

import (
	"errors"
	"net"
	"os"
	"time"
)

// briefly is how long a shard waits for a connection that has no file of its own,
// such as one with TLS: there is no way to write to it without waiting.
const briefly = 20 * time.Millisecond

// writeBriefly writes to such a connection. A time-out is reported as a short
// write, like that of a full socket.
func writeBriefly(conn net.Conn, p []byte) (int, error) {
	if err := conn.SetWriteDeadline(time.Now().Add(briefly)); err != nil {
		return 0, err
	}
	n, err := conn.Write(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, nil
	}
	return n, err
}
