package relay

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/waitroom-dev/waitroom/ticket"
)

// OutcomeOf reads the outcome that a message tells; is says whether its topic tells
// one at all. The error is that of a payload that is none.
func OutcomeOf(m Message) (o ticket.Outcome, is bool, err error) {
	switch m.Topic {
	case ticket.TopicPaymentWaits, ticket.TopicPaid, ticket.TopicCancelled, ticket.TopicExpired, ticket.TopicPaymentFailed, ticket.TopicRefunded:
	default:
		return o, false, nil
	}
	if err := json.Unmarshal(m.Payload, &o); err != nil {
		return o, true, fmt.Errorf("outcome of %s: %w", m.DedupID, err)
	}
	if o.ReservationID == "" {
		return o, true, errors.New("an outcome of no reservation")
	}
	return o, true, nil
}
