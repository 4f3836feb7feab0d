package pay

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// HeadSignature is the header of a webhook's signature; the sandbox signs as
// Stripe does.
const HeadSignature = "Stripe-Signature"

// ErrSignature is for a webhook that nobody who knows the secret has signed, or too
// long ago.
var ErrSignature = errors.New("webhook signature not valid")

// webhookAge is how far the time of a signature may be from ours.
const webhookAge = 5 * time.Minute

// Sign makes the signature of a webhook's body: "t=SECONDS,v1=HMAC".
func Sign(secret string, body []byte, at time.Time) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac(secret, t, body))
}

func mac(secret, t string, body []byte) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(t + "."))
	h.Write(body)
	return h.Sum(nil)
}

// Verify checks a signature; ErrSignature when it is none of the last five minutes.
// Of several v1 (while a secret is being replaced) one must fit.
func Verify(secret, signature string, body []byte, now time.Time) error {
	var t string
	var sums [][]byte
	for part := range strings.SplitSeq(signature, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			t = value
		case "v1":
			if sum, err := hex.DecodeString(value); err == nil {
				sums = append(sums, sum)
			}
		}
	}
	seconds, err := strconv.ParseInt(t, 10, 64)
	if err != nil || secret == "" || now.Sub(time.Unix(seconds, 0)).Abs() > webhookAge {
		return ErrSignature
	}
	want := mac(secret, t, body)
	for _, sum := range sums {
		if hmac.Equal(sum, want) {
			return nil
		}
	}
	return ErrSignature
}

// Read reads a verified webhook's body; ok is false for kinds that say nothing of
// a charge of ours.
type Read func(body []byte) (c Charge, ok bool, err error)

// webhookBody is the sandbox's.
type webhookBody struct {
	Type   string `json:"type"`
	Charge Charge `json:"charge"`
}

// webhookCharge is the sandbox's one kind of webhook.
const webhookCharge = "charge.answered"

// Webhook is the sandbox's webhook about a charge.
func Webhook(c Charge) ([]byte, error) { return json.Marshal(webhookBody{webhookCharge, c}) }

// ReadWebhook is the sandbox's Read.
func ReadWebhook(body []byte) (Charge, bool, error) {
	var b webhookBody
	if err := json.Unmarshal(body, &b); err != nil {
		return Charge{}, false, fmt.Errorf("webhook: %w", err)
	}
	return b.Charge, b.Type == webhookCharge && b.Charge.Key != "", nil
}

// Webhooks takes what a provider tells by itself.
type Webhooks struct {
	// Secret signs them.
	Secret string
	Read   Read
	Worker *Worker
}

// Take verifies one and settles what it says; a repeated one, one out of order and
// one of another kind or of a payment of somebody else's change nothing. Errors:
// ErrSignature, or the store's.
func (w Webhooks) Take(ctx context.Context, signature string, body []byte) error {
	if err := Verify(w.Secret, signature, body, time.Now()); err != nil {
		return err
	}
	c, ok, err := w.Read(body)
	if err != nil || !ok {
		return nil //nolint:nilerr // signed, and not for us: sending it again would not help
	}
	return w.Worker.Answer(ctx, c)
}
