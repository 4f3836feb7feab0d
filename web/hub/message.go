package hub

import (
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// position is what a waiting person is told each time.
type position struct {
	pos      int64
	waiting  int64
	eta, p90 time.Duration // both zero: no estimate, and both fields are absent
	tail     []byte        // see appendTail
}

func (m position) append(b []byte) []byte {
	b = append(b, `{"type":"position","position":`...)
	b = strconv.AppendInt(b, m.pos, 10)
	b = append(b, `,"ahead":`...)
	b = strconv.AppendInt(b, m.pos-1, 10)
	b = append(b, `,"waiting":`...)
	b = strconv.AppendInt(b, max(m.waiting, m.pos), 10)
	if m.eta > 0 {
		b = append(b, `,"eta_s":`...)
		b = strconv.AppendInt(b, wholeSeconds(m.eta), 10)
		b = append(b, `,"eta_p90_s":`...)
		b = strconv.AppendInt(b, wholeSeconds(max(m.eta, m.p90)), 10)
	}
	return append(b, m.tail...)
}

// appendTail is the end of a position message, the same for all of a lane, or of an event
// without lanes (an empty name, and the field is absent). Below zero seats mean that the
// event sells nothing, and the field is absent too.
func appendTail(b []byte, lane string, rate float64, seats int64) []byte {
	if lane != "" {
		b = append(b, `,"lane":`...)
		b = appendString(b, lane)
	}
	b = append(b, `,"rate_per_s":`...)
	b = appendFloat(b, rate)
	if seats >= 0 {
		b = append(b, `,"seats_left":`...)
		b = strconv.AppendInt(b, seats, 10)
	}
	return append(b, '}')
}

// wholeSeconds rounds up, so that somebody who waits is never told zero.
func wholeSeconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}

// stampFormat is how times are written outside: UTC, with milliseconds.
const stampFormat = "2006-01-02T15:04:05.000Z"

// appendAdmitted tells somebody that they are in, since when and until when.
func appendAdmitted(b []byte, token string, admitted, expires time.Time, redirect string) []byte {
	b = append(b, `{"type":"admitted","entry_token":`...)
	b = appendString(b, token)
	b = append(b, `,"admitted_at":"`...)
	b = admitted.UTC().AppendFormat(b, stampFormat)
	b = append(b, `","expires_at":"`...)
	b = expires.UTC().AppendFormat(b, stampFormat)
	b = append(b, `","redirect_url":`...)
	b = appendString(b, redirect)
	return append(b, '}')
}

// appendEvent tells of an event's state, why it is in it, and since when (zero: not
// known).
func appendEvent(b []byte, state waitroom.State, reason string, since time.Time, message string) []byte {
	b = append(b, `{"type":"event","state":`...)
	b = appendString(b, string(state))
	if reason != "" {
		b = append(b, `,"reason":`...)
		b = appendString(b, reason)
	}
	if !since.IsZero() {
		b = append(b, `,"since":"`...)
		b = append(since.UTC().AppendFormat(b, stampFormat), '"')
	}
	if message != "" {
		b = append(b, `,"message":`...)
		b = appendString(b, message)
	}
	return append(b, '}')
}

func appendReservation(b []byte, o ticket.Outcome) []byte {
	b = append(b, `{"type":"reservation","reservation_id":`...)
	b = appendString(b, o.ReservationID)
	b = append(b, `,"status":`...)
	b = appendString(b, string(o.Status))
	if o.Reason != "" {
		b = append(b, `,"reason":`...)
		b = appendString(b, o.Reason)
	}
	return append(b, '}')
}

func appendResult(b []byte, n waitroom.Result) []byte {
	b = append(b, `{"type":"result","seq":`...)
	b = strconv.AppendInt(b, n.Seq, 10)
	b = append(b, `,"winner":`...)
	b = strconv.AppendBool(b, n.Winner)
	return append(b, '}')
}

// appendEnded says that a place or a turn is over: left, expired, blocked or
// completed. On a WebSocket the close code says the same; server-sent events have
// no close code, so this message is how they learn it.
func appendEnded(b []byte, state waitroom.EntryState) []byte {
	b = append(b, `{"type":"ended","state":`...)
	b = appendString(b, string(state))
	return append(b, '}')
}

func appendBye(b []byte, after time.Duration) []byte {
	b = append(b, `{"type":"bye","retry_after_ms":`...)
	b = strconv.AppendInt(b, after.Milliseconds(), 10)
	return append(b, '}')
}

// appendFloat writes f as encoding/json does; what JSON cannot hold becomes 0.
func appendFloat(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, '0')
	}
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		b = strconv.AppendFloat(b, f, 'e', -1, 64)
		if n := len(b); n >= 4 && b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' {
			b[n-2] = b[n-1] // e-09 is written e-9
			b = b[:n-1]
		}
		return b
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64)
}

const hex = "0123456789abcdef"

// appendString writes s in quotes as encoding/json does: also <, > and & are
// escaped, and bytes that are no UTF-8 become the replacement character.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			b = appendEscape(b, c)
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b = append(b, s[start:i]...)
			b = append(b, `\ufffd`...)
			i += n
			start = i
		case r == '\u2028' || r == '\u2029': // line ends in old JavaScript
			b = append(b, s[start:i]...)
			b = append(b, `\u202`...)
			b = append(b, hex[r&0xf])
			i += n
			start = i
		default:
			i += n
		}
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, '\\', 'b')
	case '\f':
		return append(b, '\\', 'f')
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	default:
		return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
	}
}
