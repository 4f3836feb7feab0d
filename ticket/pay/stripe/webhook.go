package stripe

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/waitroom-dev/waitroom/ticket/pay"
)

var _ pay.Read = ReadWebhook

// ReadWebhook reads an event about a PaymentIntent of ours. One that failed is a
// refusal only when Stripe says so of the intent itself.
func ReadWebhook(body []byte) (pay.Charge, bool, error) {
	var event struct {
		Type string `json:"type"`
		Data struct {
			Object json.RawMessage `json:"object"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return pay.Charge{}, false, fmt.Errorf("webhook: %w", err)
	}
	if !strings.HasPrefix(event.Type, "payment_intent.") {
		return pay.Charge{}, false, nil
	}
	var i intent
	if err := json.Unmarshal(event.Data.Object, &i); err != nil {
		return pay.Charge{}, false, fmt.Errorf("webhook: %w", err)
	}
	switch event.Type {
	case "payment_intent.succeeded", "payment_intent.payment_failed", "payment_intent.canceled":
		c := i.charge()
		return c, c.Key != "", nil
	default: // one that was only made has no outcome yet
		return pay.Charge{}, false, nil
	}
}
