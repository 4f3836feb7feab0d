package ticket

import "time"

// Message is the payload of every outbox row, as JSON.
type Message struct {
	Topic         string    `json:"topic"`
	Event         string    `json:"event"`
	ReservationID string    `json:"reservation_id"`
	Person        string    `json:"person"`
	Status        Status    `json:"status"`
	Reason        string    `json:"reason,omitempty"`
	Seats         []string  `json:"seats"`
	AmountCents   int64     `json:"amount_cents"`
	Currency      string    `json:"currency"`
	PaymentID     string    `json:"payment_id,omitempty"`
	At            time.Time `json:"at"`
}

// Usage is how busy the connections to the database are.
type Usage struct {
	// InUse of Max connections are taken, and Waiting callers wait for one.
	InUse, Max, Waiting int
}

// Listener is told of every change of a reservation, on every node, at least
// once. It is called from the store's goroutines and must not block.
type Listener interface {
	Outcome(Outcome)
}

// Catalogue is what an event sells.
type Catalogue struct {
	// Kind is seats or stock.
	Kind string
	// Sections are the seat map of kind seats.
	Sections []SectionSpec
	// Stock is the number of tickets of kind stock.
	Stock int64
	// PriceCents is the price of one ticket. Currency is an ISO 4217 code, default EUR.
	PriceCents int64
	Currency   string
	// PerUser is the most seats one person may hold or own. Default 2.
	PerUser int
	// HoldTTL is how long a reservation waits to be paid. Default 3m.
	HoldTTL time.Duration
	// Locking is optimistic (default) or pessimistic.
	Locking string
	// OnBreakerOpen is wait (default) or cancel.
	OnBreakerOpen string
}

// The kinds of a catalogue.
const (
	KindSeats = "seats"
	KindStock = "stock"
)

// The ways to guard a seat against a second buyer.
const (
	Optimistic  = "optimistic"
	Pessimistic = "pessimistic"
)

// SectionSpec is a block of seats: rows times seats in a row. Seat ids are
// "{section}-{row}-{number}", or "{section}-{number}" with one row.
type SectionSpec struct {
	ID, Name          string
	Rows, SeatsPerRow int
	// PriceCents overrides the catalogue's price; 0 keeps it.
	PriceCents int64
}

// StockItem is the id of the one item of a catalogue of kind stock.
const StockItem = "general"
