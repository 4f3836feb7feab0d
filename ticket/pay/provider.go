package pay

import (
	"context"
	"errors"
)

// Provider moves money. Each call must end soon after ctx does.
type Provider interface {
	// Charge takes money once per key: the same key gets the same answer. An error
	// other than ErrNotSent leaves open whether there was a charge.
	Charge(ctx context.Context, r ChargeRequest) (Charge, error)
	// Find answers what became of the charge with this key; ErrNotFound if there is none.
	Find(ctx context.Context, key string) (Charge, error)
	// Refund gives a charge back, once per key of the refund.
	Refund(ctx context.Context, r RefundRequest) (Refund, error)
}

// ChargeRequest asks for money.
type ChargeRequest struct {
	// Key makes the charge one deed; it is the payment's id.
	Key         string
	AmountCents int64
	Currency    string
	// Method is the buyer's, as the provider understands it.
	Method string
}

// ChargeStatus is what became of a charge.
type ChargeStatus string

// The states of a charge.
const (
	ChargeCaptured ChargeStatus = "captured" // the money is ours
	ChargeDeclined ChargeStatus = "declined" // it never will be
	ChargePending  ChargeStatus = "pending"  // the provider does not know yet
)

// Charge is a provider's record of a charge.
type Charge struct {
	ID            string       `json:"id"`
	Key           string       `json:"key"`
	Status        ChargeStatus `json:"status"`
	AmountCents   int64        `json:"amount_cents"`
	Currency      string       `json:"currency"`
	RefundedCents int64        `json:"refunded_cents"`
	// Reason is the provider's code for a decline.
	Reason string `json:"reason,omitempty"`
}

// RefundRequest asks to give a charge back in full.
type RefundRequest struct {
	// Key makes the refund one deed; ChargeKey is the charge's.
	Key         string
	ChargeKey   string
	AmountCents int64
	Currency    string
}

// Refund is a provider's record of a refund.
type Refund struct {
	ID          string `json:"id"`
	Key         string `json:"key"`
	ChargeKey   string `json:"charge_key"`
	AmountCents int64  `json:"amount_cents"`
	Currency    string `json:"currency"`
}

// What a provider's call may end with, beside faults of its own.
var (
	// ErrNotFound: no charge has this key.
	ErrNotFound = errors.New("no such charge")
	// ErrRefused: the provider understood and will not, now or later.
	ErrRefused = errors.New("refused by the provider")
	// ErrNotSent: the call certainly never reached the provider.
	ErrNotSent = errors.New("provider not reached")
	// ErrOpen: the breaker is open, so the call was not made.
	ErrOpen = errors.New("payment breaker open")
	// ErrDown: the provider answered that it is out of order.
	ErrDown = errors.New("provider down")
)
