package hub

import "github.com/waitroom-dev/waitroom/waitroom"

// Code is why the server closes a socket, and whether to come back.
type Code struct {
	// Code is the WebSocket close code.
	Code uint16
	// Reason is the text of the close frame.
	Reason string
	// Reconnect is whether a client should open another socket: after its own
	// time (bye) or its backoff, never at once.
	Reconnect bool
}

// codeNormal answers a close frame without a code.
const codeNormal = 1000

// Every close code that a fan's socket can end with.
var (
	CodeProtocol = Code{1002, "protocol error", false}
	CodeBadData  = Code{1007, "broken message", false}
	CodeBinary   = Code{1003, "text messages only", false}
	CodeNoHello  = Code{1008, "no hello in time", true}
	CodeBadToken = Code{1008, "place token invalid", false}
	CodeFlood    = Code{1008, "too many messages", false}
	CodeTooBig   = Code{1009, "message too big", false}
	CodeRestart  = Code{1012, "come back later", true}
	CodeSlow     = Code{4001, "too slow", true}
	CodeBlocked  = Code{4403, "blocked", false}
	CodeNoEvent  = Code{4404, "no such event", false}
	CodeExpired  = Code{4408, "expired", false}
	CodeLeft     = Code{4410, "left", false}
)

// CodeNoOperator ends an operator's socket whose token or session counts no more.
var CodeNoOperator = Code{1008, "sign in again", false}

// endCode is the close code for the end of a place, and whether the socket is
// closed at all. Whoever had a turn keeps the socket: the outcome of a payment may
// still be on its way.
func endCode(state waitroom.EntryState, hadTurn bool) (Code, bool) {
	switch state {
	case waitroom.EntryBlocked:
		return CodeBlocked, true
	case waitroom.EntryLeft:
		return CodeLeft, true
	case waitroom.EntryExpired:
		return CodeExpired, !hadTurn
	case waitroom.EntryCompleted, waitroom.EntryLobby, waitroom.EntryWaiting,
		waitroom.EntryAdmitted, waitroom.EntryEntered:
		return Code{}, false
	}
	return CodeExpired, !hadTurn
}
