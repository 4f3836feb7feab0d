//go:build !unix

package hub

import (
	"syscall"
	"time"
)

// pen writes to sockets, waiting at most a moment for one.
type pen struct{}

func newPen() pen { return pen{} }

func (pen) write(c *client, p []byte) (int, error) { return writeBriefly(c.conn, p) }

func limitSilence(syscall.RawConn, time.Duration) {}
