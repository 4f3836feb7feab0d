package hub

import (
	"encoding/binary"
	"strconv"
	"time"
)

// The frames a server sends (RFC 6455, section 5.2): final, not masked.
const (
	frameText  = 0x81
	frameClose = 0x88
	framePing  = 0x89
	framePong  = 0x8a
)

// ssePrelude comes before every server-sent message, and sseEnd after it.
const (
	ssePrelude = "data: "
	sseEnd     = "\n\n"
	ssePing    = ":\n\n" // a comment, which keeps proxies from hanging up
)

// appendFrame wraps one JSON message for its way.
func appendFrame(b []byte, sse bool, msg []byte) []byte {
	if sse {
		b = append(b, ssePrelude...)
		b = append(b, msg...)
		return append(b, sseEnd...)
	}
	b = appendHeader(b, frameText, len(msg))
	return append(b, msg...)
}

func appendHeader(b []byte, first byte, n int) []byte {
	switch {
	case n < 126:
		return append(b, first, byte(n)) //nolint:gosec // n < 126
	case n < 1<<16:
		b = append(b, first, 126)
		return binary.BigEndian.AppendUint16(b, uint16(n))
	default:
		b = append(b, first, 127)
		return binary.BigEndian.AppendUint64(b, uint64(n))
	}
}

func appendPing(b []byte, sse bool) []byte {
	if sse {
		return append(b, ssePing...)
	}
	return append(b, framePing, 0)
}

// appendRetry tells a browser's EventSource when to come back by itself. It goes
// before the message with the same time in it.
func appendRetry(b []byte, after time.Duration) []byte {
	b = append(b, "retry: "...)
	b = strconv.AppendInt(b, after.Milliseconds(), 10)
	return append(b, '\n')
}

// appendClose writes a close frame. Server-sent events have none; there the
// message before it has said everything.
func appendClose(b []byte, sse bool, c Code) []byte {
	if sse {
		return b
	}
	b = appendHeader(b, frameClose, 2+len(c.Reason))
	b = binary.BigEndian.AppendUint16(b, c.Code)
	return append(b, c.Reason...)
}
