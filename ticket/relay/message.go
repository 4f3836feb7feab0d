package relay

import (
	"context"
	"errors"

	"github.com/waitroom-dev/waitroom/ticket"
)

// Message is an outbox row as a broker carries it.
type Message struct {
	// DedupID is the same however often the message is published.
	DedupID string
	Event   string
	Topic   string
	// Key is the reservation's id: messages of one key keep their order.
	Key     string
	Payload []byte
}

// What a publisher wraps to say whose fault a failure is. Of any other error the
// relay decides itself: it is the broker's if all messages of a call share it.
var (
	// ErrRefused: the broker will never take this message, as it is too large.
	ErrRefused = errors.New("message refused by the broker")
	// ErrAway: the broker did not answer, or takes no messages at all now.
	ErrAway = errors.New("broker away")
)

// Publisher hands messages to a broker. Publish returns as many errors as there
// are messages (nil where the message is safely stored), or nil for a complete
// success; it keeps their order, and returns when ctx ends.
type Publisher interface {
	Publish(ctx context.Context, ms []Message) []error
}

// Handler handles a message that a consumer got from a broker. Nil means done;
// an error means that the message is to come again. A Handler must expect to see
// a message twice.
type Handler func(ctx context.Context, m Message) error

func messageOf(r ticket.OutboxRow) Message {
	return Message{DedupID: r.DedupID, Event: r.Event, Topic: r.Topic, Key: r.Key, Payload: r.Payload}
}
