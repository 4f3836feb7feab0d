package hub

import (
	"encoding/binary"
	"unicode/utf8"
)

// Opcodes of RFC 6455, section 5.2.
const (
	opContinue = 0x0
	opText     = 0x1
	opBinary   = 0x2
	opClose    = 0x8
	opPing     = 0x9
	opPong     = 0xa

	bitFinal  = 0x80
	bitsExtra = 0x70 // for extensions, of which we agree to none
	bitMask   = 0x80

	maxControl = 125
	maxHeader  = 14
)

// inframe is one frame of a fan.
type inframe struct {
	op      byte
	final   bool
	payload []byte // part of the bytes that were parsed, unmasked in place
}

// parseFrame reads the first frame of b and returns it with the bytes it takes up;
// 0 bytes mean that it is not whole yet. A frame that no client of ours may send
// gives the code to close with.
func parseFrame(b []byte) (f inframe, n int, bad *Code) {
	if len(b) < 2 {
		return f, 0, nil
	}
	f.op, f.final = b[0]&0x0f, b[0]&bitFinal != 0
	length, at := int64(b[1]&0x7f), 2
	switch {
	case b[0]&bitsExtra != 0, b[1]&bitMask == 0:
		return f, 0, &CodeProtocol
	case f.op > opBinary && f.op < opClose, f.op > opPong:
		return f, 0, &CodeProtocol
	case f.op >= opClose && (!f.final || length > maxControl):
		return f, 0, &CodeProtocol
	}
	switch length {
	case 126:
		if len(b) < at+2 {
			return f, 0, nil
		}
		length, at = int64(binary.BigEndian.Uint16(b[at:])), at+2
	case 127:
		if len(b) < at+8 {
			return f, 0, nil
		}
		long := binary.BigEndian.Uint64(b[at:])
		if long > maxMessage {
			return f, 0, &CodeTooBig
		}
		length, at = int64(long), at+8
	}
	if length > maxMessage {
		return f, 0, &CodeTooBig
	}
	if int64(len(b)) < int64(at)+4+length {
		return f, 0, nil
	}
	key := [4]byte(b[at:])
	f.payload = b[at+4:][:length:length]
	for i := range f.payload {
		f.payload[i] ^= key[i&3]
	}
	return f, at + 4 + int(length), nil
}

// inlet holds what a fan has said in part. Hardly anybody has one: messages are
// short and come whole.
type inlet struct {
	part   []byte // the beginning of a frame, at most maxHeader + maxMessage
	text   []byte // the message's frames so far, at most maxMessage
	open   bool   // text is waiting for more
	binary bool
}

// heard is what came out of some bytes of a peer.
type heard struct {
	op   byte // opText, opBinary, opClose, opPing or opPong
	data []byte
}

// feed takes bytes as they came and calls say for every whole message and control
// frame; it ends when say returns a code, or with the code for a broken rule. b is
// changed, and what say gets is good only during the call.
func (in *inlet) feed(b []byte, say func(heard) *Code) *Code {
	if len(in.part) > 0 {
		in.part = append(in.part, b...)
		b = in.part
	}
	for {
		f, n, bad := parseFrame(b)
		if bad != nil {
			return bad
		}
		if n == 0 {
			break
		}
		b = b[n:]
		if bad := in.take(f, say); bad != nil {
			return bad
		}
	}
	in.part = append([]byte(nil), b...)
	return nil
}

// take takes in one frame.
func (in *inlet) take(f inframe, say func(heard) *Code) *Code {
	switch {
	case f.op >= opClose:
		if f.op == opClose && !goodClose(f.payload) {
			return &CodeProtocol
		}
		return say(heard{f.op, f.payload})
	case (f.op == opContinue) != in.open:
		return &CodeProtocol
	case len(in.text)+len(f.payload) > maxMessage:
		return &CodeTooBig
	case f.op != opContinue:
		in.binary = f.op == opBinary
		if f.final {
			return say(heard{f.op, f.payload})
		}
	}
	in.text = append(in.text, f.payload...)
	in.open = !f.final
	if in.open {
		return nil
	}
	m := heard{opText, in.text}
	if in.binary {
		m.op = opBinary
	}
	in.text = nil
	return say(m)
}

// empty is whether nothing is there in part.
func (in *inlet) empty() bool { return len(in.part) == 0 && !in.open }

// goodClose is whether a close frame's payload is nothing, or a code that a peer
// may send and a text (RFC 6455, section 7.4).
func goodClose(p []byte) bool {
	if len(p) == 0 {
		return true
	}
	if len(p) < 2 {
		return false
	}
	code := binary.BigEndian.Uint16(p)
	known := code >= 1000 && code <= 1003 || code >= 1007 && code <= 1013 || code >= 3000 && code <= 4999
	return known && utf8.Valid(p[2:])
}
