package load

import (
	"context"
	"errors"
	"net"
	"os"
	"time"
)

// deafBuffer is what the kernel takes in for somebody who does not read.
const deafBuffer = 2 << 10

// deafRead is how long the rest of a socket that was cut may take to arrive.
const deafRead = 2 * time.Second

// sitDeaf opens a socket and never reads from it. The service must cut it within
// Patience; that it harms nobody else is what the others see. If all others are done
// before, ctx ends, and nothing is known.
func (u *user) sitDeaf(ctx context.Context) string {
	u.live.deaf.Add(1)
	var s *socket
	var err error
	u.live.calls.Add(1)
	if doErr := u.crew.do(ctx, func() { s, err = u.greet(ctx) }); doErr != nil {
		return endGone
	}
	if err != nil {
		u.bookRefusedSocket(ctx, err)
		return endGone
	}
	defer s.close()
	if tcp, ok := s.conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(deafBuffer) // else it takes longer until nothing fits
	}
	patience := time.NewTimer(u.spec.Config.Checks.Patience)
	defer patience.Stop()
	select {
	case <-ctx.Done():
		u.note(noteDeaf)
		return endGone
	case <-patience.C:
	}
	switch open := !hungUp(s.conn); {
	case ctx.Err() != nil:
		u.note(noteDeaf)
	case open && !u.late.busy():
		u.serverFault(kindUncut, "user %d: a socket that was not read for %v is still open", u.fact.User, u.spec.Config.Checks.Patience)
	}
	return endGone
}

// noteDeaf is said where the run was over before a deaf socket had to be cut.
const noteDeaf = "some sockets that nobody read were not judged: the run was over before --patience"

// kindUncut is the fault of a service that holds sockets which nobody reads.
const kindUncut = "never_cut"

// hungUp reads what is left and says whether the peer has closed.
func hungUp(conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(deafRead))
	for b := make([]byte, 4<<10); ; {
		if _, err := conn.Read(b); err != nil {
			return !errors.Is(err, os.ErrDeadlineExceeded)
		}
	}
}
