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
	// Kind is seats, stock, slots or courses.
	Kind string
	// Sections are the seat map of kind seats.
	Sections []SectionSpec
	// Items are the slots or courses of those kinds.
	Items []ItemSpec
	// Stock is the number of tickets of kind stock.
	Stock int64
	// PriceCents is the price of one ticket; 0 is for nothing, and such a
	// reservation is paid by asking to pay it. Currency is an ISO 4217 code, default EUR.
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
	// KindSeats sells each seat of a map once.
	KindSeats = "seats"
	// KindStock sells a number of tickets that are all the same.
	KindStock = "stock"
	// KindSlots sells the places of times, to each person one place of a slot.
	KindSlots = "slots"
	// KindCourses is like KindSlots, with a timetable: nobody holds or owns two
	// courses that meet at the same time.
	KindCourses = "courses"
)

// booked says whether a kind's items are chosen by name, each once by a person.
func booked(kind string) bool { return kind == KindSlots || kind == KindCourses }

// The ways to guard a seat against a second buyer.
const (
	Optimistic  = "optimistic"
	Pessimistic = "pessimistic"
)

// SectionSpec is a block of seats: Seats as they are listed, or else rows times
// seats in a row. Seat ids of the latter are "{section}-{row}-{number}", or
// "{section}-{number}" with one row.
type SectionSpec struct {
	ID, Name          string
	Rows, SeatsPerRow int
	Seats             []SeatSpec
	// PriceCents overrides the catalogue's price; nil keeps it.
	PriceCents *int64
}

// SeatSpec is one seat of a section.
type SeatSpec struct {
	ID, Row string
	Number  int
	// Kind is empty, wheelchair or companion.
	Kind SeatKind
	// CompanionOf is the wheelchair place that a companion's seat is sold with.
	CompanionOf string
	// Blocked seats are held back from the sale.
	Blocked bool
}

// SeatKind says who a seat is for.
type SeatKind string

// The kinds of seats. A companion's seat is sold only together with its
// wheelchair place, and the server's own choice takes neither unless asked to.
const (
	SeatUsual      SeatKind = ""
	SeatWheelchair SeatKind = "wheelchair"
	SeatCompanion  SeatKind = "companion"
)

// ItemSpec is a slot or a course.
type ItemSpec struct {
	ID, Name string
	// Capacity is the number of places.
	Capacity int64
	// PriceCents overrides the catalogue's price; nil keeps it.
	PriceCents *int64
	// StartsAt and EndsAt are the time of a slot.
	StartsAt, EndsAt time.Time
	// Meetings are the timetable of a course.
	Meetings []Meeting
}

// StockItem is the id of the one item of a catalogue of kind stock.
const StockItem = "general"
