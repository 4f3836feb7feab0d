package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// message is anything the service tells a fan, on the socket or in entries/me.
type message struct {
	Type          string    `json:"type"`
	State         string    `json:"state"`
	Position      int64     `json:"position"`
	Waiting       int64     `json:"waiting"`
	EntryToken    string    `json:"entry_token"`
	ExpiresAt     time.Time `json:"expires_at"`
	AdmittedAt    time.Time `json:"admitted_at"`
	ReservationID string    `json:"reservation_id"`
	Status        string    `json:"status"`
	Reason        string    `json:"reason"`
	RetryAfterMS  int64     `json:"retry_after_ms"`
}

// The types of messages that matter here.
const (
	typePosition    = "position"
	typeAdmitted    = "admitted"
	typeEvent       = "event"
	typeReservation = "reservation"
	typeBye         = "bye"
)

// positionHead is how a position usually begins: then two numbers are all we need.
var positionHead = []byte(`{"type":"position","position":`)

// parseMessage reads one message; positions, nearly all of them, without reflection.
func parseMessage(b []byte) (message, error) {
	if rest, ok := bytes.CutPrefix(b, positionHead); ok {
		n, digits := number(rest)
		if digits > 0 && digits < len(rest) && (rest[digits] == ',' || rest[digits] == '}') && rest[len(rest)-1] == '}' {
			m := message{Type: typePosition, Position: n}
			if _, after, ok := bytes.Cut(rest, waitingField); ok {
				m.Waiting, _ = number(after)
			}
			return m, nil
		}
	}
	var m message
	if err := json.Unmarshal(b, &m); err != nil {
		return message{}, fmt.Errorf("message: %w", err)
	}
	return m, nil
}

// waitingField comes before the number of those who wait.
var waitingField = []byte(`,"waiting":`)

// number reads the digits that b begins with, at most 16, and says how many they are.
func number(b []byte) (n int64, digits int) {
	for _, c := range b {
		if c < '0' || c > '9' || digits > 15 {
			break
		}
		n, digits = n*10+int64(c-'0'), digits+1
	}
	return n, digits
}

// place is the answer to a join and to entries/me.
type place struct {
	EntryID    string    `json:"entry_id"`
	State      string    `json:"state"`
	Lane       string    `json:"lane"`
	Position   *int64    `json:"position"`
	PlaceToken string    `json:"place_token"`
	EntryToken string    `json:"entry_token"`
	ExpiresAt  time.Time `json:"expires_at"`
	AdmittedAt time.Time `json:"admitted_at"`
}

// turn is an entry token and what comes with it. The contract does not fix at, the
// promotion by the store's clock with its milliseconds: a service may tell it.
type turn struct {
	token       string
	expires, at time.Time
}

func (p place) turn() turn   { return turn{p.EntryToken, p.ExpiresAt, p.AdmittedAt} }
func (m message) turn() turn { return turn{m.EntryToken, m.ExpiresAt, m.AdmittedAt} }

// The states of an entry that matter here.
const (
	stateLobby    = "lobby"
	stateWaiting  = "waiting"
	stateAdmitted = "admitted"
	stateEntered  = "entered"
)

// waits says whether the place is still in line.
func (p place) waits() bool { return p.State == stateWaiting || p.State == stateLobby }

// inside says whether the place was admitted and has not ended.
func (p place) inside() bool { return p.State == stateAdmitted || p.State == stateEntered }
