package ticket

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Fault is one thing that is wrong in a catalogue.
type Fault struct {
	// Line is the line of a file, from 1; 0 where there is none.
	Line int
	// Field is the field's name or path, such as per_user or items[2].capacity.
	Field string
	// Detail says what must be.
	Detail string
	// of is the id of the seat or item that is meant, for who knows its line.
	of string
}

// InvalidError names every wrong field of a catalogue.
type InvalidError struct{ Faults []Fault }

// Error lists the faults.
func (e *InvalidError) Error() string {
	texts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		texts[i] = f.Field + ": " + f.Detail
		if f.Line > 0 {
			texts[i] = "line " + strconv.Itoa(f.Line) + ", " + texts[i]
		}
	}
	return strings.Join(texts, "; ")
}

const (
	mostSeats    = 500_000
	mostItems    = 5000
	mostPrice    = 1_000_000_000_000
	mostCapacity = 1_000_000_000
	mostID       = 64
	mostName     = 200
	// mostFaults are told; a file with more is wrong in one way anyhow.
	mostFaults = 100
)

// checks collects faults.
type checks struct{ faults []Fault }

func (c *checks) fault(of, field, format string, args ...any) {
	if len(c.faults) < mostFaults {
		c.faults = append(c.faults, Fault{Field: field, Detail: fmt.Sprintf(format, args...), of: of})
	}
}

func (c *checks) within(of, field string, value, least, most int64) {
	if value < least || value > most {
		c.fault(of, field, "must be %d to %d", least, most)
	}
}

func (c *checks) id(field, id string) {
	if !IsID(id) {
		c.fault(id, field, "must be 1 to %d letters, digits, '-', '_', '.' or ':'", mostID)
	}
}

func (c *checks) name(of, field, name string) {
	if len(name) > mostName {
		c.fault(of, field, "must have at most %d bytes", mostName)
	}
}

func (c *checks) price(of, field string, price *int64) {
	if price != nil {
		c.within(of, field, *price, 0, mostPrice)
	}
}

func (c *checks) err() error {
	if len(c.faults) == 0 {
		return nil
	}
	return &InvalidError{c.faults}
}

// IsID says whether a text can be the id of a seat, a section or an item.
func IsID(id string) bool {
	if id == "" || len(id) > mostID {
		return false
	}
	for i := range len(id) {
		b := id[i]
		if (b < 'a' || b > 'z') && (b < 'A' || b > 'Z') && (b < '0' || b > '9') && !strings.ContainsRune("-_.:", rune(b)) {
			return false
		}
	}
	return true
}

// Validate is nil, or an *InvalidError that names every wrong field.
func (c Catalogue) Validate() error {
	c = c.orDefaults()
	var faults checks
	faults.within("", "per_user", int64(c.PerUser), 1, 1000)
	if c.HoldTTL < time.Millisecond || c.HoldTTL > 24*time.Hour {
		faults.fault("", "hold_ttl", "must be 1ms to 24h")
	}
	faults.within("", "price_cents", c.PriceCents, 0, mostPrice)
	if c.Locking != Optimistic && c.Locking != Pessimistic {
		faults.fault("", "locking", "must be optimistic or pessimistic")
	}
	if c.OnBreakerOpen != "wait" && c.OnBreakerOpen != "cancel" {
		faults.fault("", "on_breaker_open", "must be wait or cancel")
	}
	switch c.Kind {
	case KindStock:
		faults.within("", "stock", c.Stock, 0, mostCapacity)
	case KindSeats:
		faults.sections(c.Sections)
	case KindSlots, KindCourses:
		faults.items(c.Kind, c.Items)
	default:
		faults.fault("", "kind", "must be seats, stock, slots or courses")
	}
	return faults.err()
}

func (c *checks) sections(sections []SectionSpec) {
	names := map[string]bool{}
	kinds := map[string]SeatKind{}
	seats := 0
	for i, s := range sections {
		at := fmt.Sprintf("sections[%d]", i)
		c.id(at+".id", s.ID)
		if names[s.ID] {
			c.fault("", at+".id", "%s is there twice", s.ID)
		}
		names[s.ID] = true
		c.name("", at+".name", s.Name)
		c.price("", at+".price_cents", s.PriceCents)
		if len(s.Seats) == 0 {
			c.within("", at+".rows", int64(s.Rows), 1, 10_000)
			c.within("", at+".seats_per_row", int64(s.SeatsPerRow), 1, 10_000)
			seats += max(0, min(s.Rows, 10_000)) * max(0, min(s.SeatsPerRow, 10_000))
		} else if s.Rows != 0 || s.SeatsPerRow != 0 {
			c.fault("", at+".seats", "either lists of seats or rows and seats_per_row")
		}
		seats += len(s.Seats)
		for j, seat := range s.Seats {
			at := fmt.Sprintf("%s.seats[%d]", at, j)
			c.id(at+".id", seat.ID)
			if _, twice := kinds[seat.ID]; twice {
				c.fault(seat.ID, at+".id", "%s is there twice", seat.ID)
			}
			kinds[seat.ID] = seat.Kind
			c.name(seat.ID, at+".row", seat.Row)
			c.within(seat.ID, at+".number", int64(seat.Number), 1, 1_000_000)
		}
	}
	if seats > mostSeats {
		c.fault("", "sections", "must have at most %d seats in all", mostSeats)
	}
	for i, s := range sections {
		for j, seat := range s.Seats {
			at := fmt.Sprintf("sections[%d].seats[%d]", i, j)
			switch {
			case seat.Kind == SeatCompanion && kinds[seat.CompanionOf] != SeatWheelchair:
				c.fault(seat.ID, at+".companion_of", "must be the id of a wheelchair place")
			case seat.Kind != SeatCompanion && seat.CompanionOf != "":
				c.fault(seat.ID, at+".companion_of", "is for kind companion")
			case seat.Kind != SeatUsual && seat.Kind != SeatWheelchair && seat.Kind != SeatCompanion:
				c.fault(seat.ID, at+".kind", "must be empty, wheelchair or companion")
			}
		}
	}
}

func (c *checks) items(kind string, items []ItemSpec) {
	if len(items) > mostItems {
		c.fault("", "items", "must be at most %d", mostItems)
	}
	names := map[string]bool{}
	for i, it := range items {
		at := fmt.Sprintf("items[%d]", i)
		c.id(at+".id", it.ID)
		if names[it.ID] {
			c.fault(it.ID, at+".id", "%s is there twice", it.ID)
		}
		names[it.ID] = true
		c.name(it.ID, at+".name", it.Name)
		c.within(it.ID, at+".capacity", it.Capacity, 0, mostCapacity)
		c.price(it.ID, at+".price_cents", it.PriceCents)
		switch kind {
		case KindSlots:
			if len(it.Meetings) > 0 {
				c.fault(it.ID, at+".meetings", "are for kind courses")
			}
			if it.StartsAt.IsZero() {
				c.fault(it.ID, at+".starts_at", "must be a time like 2026-05-01T18:00:00Z")
			}
			if !it.EndsAt.After(it.StartsAt) {
				c.fault(it.ID, at+".ends_at", "must be a time after starts_at")
			}
		case KindCourses:
			if !it.StartsAt.IsZero() || !it.EndsAt.IsZero() {
				c.fault(it.ID, at+".starts_at", "is for kind slots")
			}
			for j, m := range it.Meetings {
				for k, other := range it.Meetings[:j] {
					if m.overlaps(other) {
						c.fault(it.ID, fmt.Sprintf("%s.meetings[%d]", at, j), "%s meets at the time of meetings[%d], %s", m, k, other)
					}
				}
			}
		}
	}
}
