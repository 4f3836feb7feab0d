package ticket

import (
	"errors"
	"time"
)

// Status is where a reservation is on its way.
type Status string

// The states of a reservation.
const (
	Held           Status = "held"            // seats are set aside until ExpiresAt
	PaymentPending Status = "payment_pending" // a payment runs; the hold does not end meanwhile
	Paid           Status = "paid"            // sold
	Cancelled      Status = "cancelled"       // given back by the buyer or by the service
	Expired        Status = "expired"         // the hold ended unpaid
	PaymentFailed  Status = "payment_failed"  // the provider declined; seats went back
	Refunded       Status = "refunded"        // money came for seats that were gone, and went back
)

// SeatStatus is what the seat map says of one seat.
type SeatStatus string

// The states of a seat.
const (
	SeatFree    SeatStatus = "free"
	SeatHeld    SeatStatus = "held"
	SeatSold    SeatStatus = "sold"
	SeatBlocked SeatStatus = "blocked"
)

// Reservation is one person's seats, slots or courses, or a quantity of a stock.
type Reservation struct {
	ID     string
	Event  string
	Person string
	Status Status
	// Reason says why the status is what it is, where that is not plain:
	// by_buyer, hold_ended, declined, payment_unavailable, seat_gone, event_removed.
	Reason string
	// Seats are the ids of seats, slots or courses, in the map's order; for a stock
	// the item's id once per ticket.
	Seats []string
	// AmountCents is the price of all seats together; Currency an ISO 4217 code.
	AmountCents int64
	Currency    string
	// ExpiresAt is the end of the hold by the database's clock.
	ExpiresAt time.Time
}

// Map is what is for sale and what is left of it. It is shared by all readers
// and never changed after it was published.
type Map struct {
	Event    string    `json:"event"`
	Kind     string    `json:"kind"`
	Sections []Section `json:"sections,omitempty"`
	Items    []Item    `json:"items,omitempty"`
	// PerUser is the most that one person may hold or own.
	PerUser int `json:"per_user"`
	// Left is the number of free seats or of tickets left.
	Left int64 `json:"seats_left"`
}

// Section is a block of seats.
type Section struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	PriceCents int64  `json:"price_cents"`
	Currency   string `json:"currency"`
	Seats      []Seat `json:"seats"`
}

// Seat is one seat of a section.
type Seat struct {
	ID      string     `json:"id"`
	Row     string     `json:"row"`
	Number  int        `json:"number"`
	Status  SeatStatus `json:"status"`
	Version int64      `json:"version"`
	Kind    SeatKind   `json:"kind,omitempty"`
	// CompanionOf is the wheelchair place that the seat is sold with.
	CompanionOf string `json:"companion_of,omitempty"`
}

// Item is a stock that is sold by quantity, a slot, or a course.
type Item struct {
	ID    string `json:"id"`
	Name  string `json:"name,omitempty"`
	Total int64  `json:"total"`
	Free  int64  `json:"free"`
	// Closed by an operator: nothing of it is free, whatever is left.
	Closed     bool   `json:"closed,omitempty"`
	PriceCents int64  `json:"price_cents"`
	Currency   string `json:"currency"`
	// StartsAt and EndsAt are a slot's time as RFC 3339 with milliseconds, in UTC.
	StartsAt string `json:"starts_at,omitempty"`
	EndsAt   string `json:"ends_at,omitempty"`
	// Meetings are a course's timetable, each as Meeting writes it.
	Meetings []string `json:"meetings,omitempty"`
	Version  int64    `json:"version"`
}

// Outcome is a change of a reservation that its buyer is told at once. In payment it has
// a reason when the payment waits for a provider that is away.
type Outcome struct {
	Event         string `json:"event"`
	Person        string `json:"person"`
	ReservationID string `json:"reservation_id"`
	Status        Status `json:"status"`
	Reason        string `json:"reason,omitempty"`
}

// Key is an idempotency key with what makes it one caller's one deed.
type Key struct {
	// Caller and Route scope Value; the same value from another caller is another key.
	Caller, Route, Value string
	// BodyHash is the SHA-256 of the canonical request body.
	BodyHash [32]byte
}

// Answer is the response to a deed with a key: the first time it is made by the
// request's Encode and stored in the deed's transaction, later it is replayed.
type Answer struct {
	Status   int
	Body     []byte
	Replayed bool
}

// Encode turns a deed's result into the response to store and send. Exactly one
// of the reservation and the refusal is set. It must be pure.
type Encode func(Reservation, error) (status int, body []byte)

// ReserveRequest asks for seats, slots or courses by name, or for a quantity,
// never both.
type ReserveRequest struct {
	Event string
	// JTI is the entry token's id; it is spent by a reservation that commits.
	JTI string
	// Person is the entry token's sub.
	Person   string
	Seats    []string
	Quantity int
	// Section, with a quantity, is where the server picks; empty is anywhere.
	Section string
	// Wheelchair, with a quantity, picks a wheelchair place, and its companion's
	// seats for the rest.
	Wheelchair bool
	Key        Key
	Encode     Encode
}

// PayRequest asks to pay a held reservation.
type PayRequest struct {
	Event, ReservationID string
	// Person must be the reservation's own; otherwise ErrNoReservation.
	Person string
	// Method is handed to the provider as it is; the sandbox reads its outcome from it.
	Method string
	Key    Key
	Encode Encode
}

// Refusals. Each is a definite answer; all but ErrContended and ErrInProgress
// are stored under the request's key and replayed.
var (
	ErrTokenUsed           = errors.New("token has bought already")
	ErrSeatTaken           = errors.New("seat taken")
	ErrSoldOut             = errors.New("sold out")
	ErrAlreadyReserved     = errors.New("share used up")
	ErrHoldExpired         = errors.New("hold expired")
	ErrTimetableClash      = errors.New("courses meet at the same time")
	ErrCompanion           = errors.New("companion's seat without its wheelchair place")
	ErrContended           = errors.New("lost every try though something is left")
	ErrNotCancellable      = errors.New("paid or paying")
	ErrNoSeat              = errors.New("no such seat")
	ErrNoReservation       = errors.New("no such reservation")
	ErrWrongMode           = errors.New("the event does not sell this way")
	ErrIdempotencyMismatch = errors.New("idempotency key used with another body")
	ErrInProgress          = errors.New("first call with this key still runs")
	// ErrUnavailable: the database did not answer in time; nothing was done.
	ErrUnavailable = errors.New("database unavailable")
)

// OutboxRow is a record of what was committed, on its way to the broker.
type OutboxRow struct {
	// ID orders rows; DedupID is the same however often the row is published.
	ID      int64
	DedupID string
	Event   string
	Topic   string
	// Key is the reservation's id: rows of one key are published in order.
	Key       string
	Payload   []byte
	Attempts  int
	CreatedAt time.Time
}

// The topics of outbox rows. Each carries a Message as JSON, which has the fields
// of an Outcome; TopicPaymentRequested also has payment_id. Those of catalogues and
// seats are about no reservation: only event, seats and time are set.
const (
	TopicCatalogue        = "catalogue.changed"
	TopicSeats            = "seats.changed"
	TopicHeld             = "reservation.held"
	TopicPaymentRequested = "payment.requested"
	TopicPaymentWaits     = "payment.waits" // the provider is away; once a payment
	TopicPaid             = "reservation.paid"
	TopicCancelled        = "reservation.cancelled"
	TopicExpired          = "reservation.expired"
	TopicPaymentFailed    = "reservation.payment_failed"
	TopicRefunded         = "reservation.refunded"
)

// PaymentState is where a payment is on its way.
type PaymentState string

// The states of a payment.
const (
	PaymentRequested PaymentState = "requested"  // not yet known to have been charged
	PaymentUnknown   PaymentState = "unknown"    // charged or not: the provider must be asked
	PaymentCaptured  PaymentState = "captured"   // the money is ours
	PaymentDeclined  PaymentState = "declined"   // the provider refused
	PaymentCancelled PaymentState = "cancelled"  // never charged, given up
	PaymentRefundDue PaymentState = "refund_due" // captured for seats that were gone
	PaymentRefunded  PaymentState = "refunded"   // given back
)

// Payment is what a buyer owes for a reservation; its id is the provider's key.
type Payment struct {
	ID            string
	Event         string
	ReservationID string
	Person        string
	AmountCents   int64
	Currency      string
	Method        string
	State         PaymentState
	// Attempts is how often a worker has claimed it, this time included. Above 1,
	// an earlier worker may have charged without being able to say so.
	Attempts int
	// Wanted is true while the reservation still waits for this payment. When it is
	// false a worker never charges: it finds out what happened, and settles.
	Wanted bool
	// WantedUntil is the end of the hold in payment by the database's clock.
	WantedUntil time.Time
	// Quiet is for how long no worker can have begun a charge, by the database's
	// clock; 0 while it is wanted.
	Quiet time.Duration
	// changed is when the state changed.
	changed int64
	// OnBreakerOpen is the event's wish while the provider is down: wait or cancel.
	OnBreakerOpen string
}

// PaymentResult is what a worker found out about a payment.
type PaymentResult string

// The results of a payment.
const (
	ResultCaptured    PaymentResult = "captured"
	ResultDeclined    PaymentResult = "declined"
	ResultUnknown     PaymentResult = "unknown"
	ResultUnavailable PaymentResult = "unavailable" // never charged: cancel the reservation
)
