package hub

import (
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// maxMessage is the largest message a fan may send.
const maxMessage = 4 << 10

// inboundKind is what a fan says.
type inboundKind int

const (
	inboundUnknown inboundKind = iota // of a later version; ignored
	inboundHello
	inboundLeave
	inboundSeats
	inboundNoSeats
)

// inbound is one message of a fan.
type inbound struct {
	kind    inboundKind
	token   string // of hello; empty if the cookie is meant
	version string // of seats; empty if it has no map
}

var errBroken = errors.New("broken message")

// parseInbound reads one text message. Unknown types and fields are ignored;
// anything that is not a JSON object in UTF-8, or gives a known field another
// type, is errBroken.
func parseInbound(data []byte) (inbound, error) {
	if !utf8.Valid(data) {
		return inbound{}, errBroken
	}
	var m *struct {
		Type       string `json:"type"`
		PlaceToken string `json:"place_token"`
		Version    string `json:"version"`
		Stop       bool   `json:"stop"`
	}
	if json.Unmarshal(data, &m) != nil || m == nil {
		return inbound{}, errBroken
	}
	switch m.Type {
	case "hello":
		return inbound{kind: inboundHello, token: m.PlaceToken}, nil
	case "leave":
		return inbound{kind: inboundLeave}, nil
	case "seats":
		if m.Stop {
			return inbound{kind: inboundNoSeats}, nil
		}
		return inbound{kind: inboundSeats, version: m.Version}, nil
	default:
		return inbound{}, nil
	}
}
