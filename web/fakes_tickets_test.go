package web

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// fakeTickets keeps one reservation, of ann.
type fakeTickets struct {
	owner   string // of the one reservation; ann
	reserve func(ticket.ReserveRequest) (ticket.Answer, error)
	pay     func(ticket.PayRequest) (ticket.Answer, error)
	cancel  error
	seats   *ticket.Map
	put     func(ticket.Catalogue) error
	cold    bool
	maps    atomic.Int64
	removed []string
	sheets  []ticket.Sheet
	blocked [][]string
}

var annsReservation = ticket.Reservation{
	ID: "res-1", Event: "demo", Person: ann, Status: ticket.Held, Seats: []string{"A-1"},
	AmountCents: 5000, Currency: "EUR", ExpiresAt: testNow.Add(3 * time.Minute),
}

func (t *fakeTickets) Put(_ context.Context, _ string, c ticket.Catalogue) error {
	if t.put != nil {
		return t.put(c)
	}
	return nil
}

func (t *fakeTickets) Remove(_ context.Context, event string) error {
	t.removed = append(t.removed, event)
	return nil
}

func (t *fakeTickets) Import(_ context.Context, _ string, sheet ticket.Sheet) (ticket.Imported, error) {
	t.sheets = append(t.sheets, sheet)
	return ticket.Imported{Added: len(sheet.Items), Before: 4, Places: 7}, nil
}

func (t *fakeTickets) Block(_ context.Context, _ string, block, release []string) ([]ticket.PlaceChange, error) {
	t.blocked = [][]string{block, release}
	if len(block) == 0 {
		return nil, nil
	}
	return []ticket.PlaceChange{{ID: block[0], Before: "free", After: "blocked"}}, nil
}

func (t *fakeTickets) Export(context.Context, string) (ticket.Sheet, error) {
	if len(t.sheets) == 0 {
		return ticket.Sheet{}, ticket.ErrWrongMode
	}
	return t.sheets[len(t.sheets)-1], nil
}

func (t *fakeTickets) Map(context.Context, string) (*ticket.Map, string, error) {
	t.maps.Add(1)
	if t.seats == nil {
		return nil, "", ticket.ErrWrongMode
	}
	return t.seats, `"v1"`, nil
}

// SeatsLeft knows nothing of a cold map before somebody has asked for it.
func (t *fakeTickets) SeatsLeft(string) (int64, bool) { return 7, !t.cold || t.maps.Load() > 0 }

func (t *fakeTickets) Reserve(_ context.Context, r ticket.ReserveRequest) (ticket.Answer, error) {
	if t.reserve != nil {
		return t.reserve(r)
	}
	status, body := r.Encode(annsReservation, nil)
	return ticket.Answer{Status: status, Body: body}, nil
}

func (t *fakeTickets) Pay(_ context.Context, r ticket.PayRequest) (ticket.Answer, error) {
	if t.pay != nil {
		return t.pay(r)
	}
	if r.ReservationID != annsReservation.ID || r.Person != ann {
		return refusedAnswer(r.Encode, ticket.ErrNoReservation), nil
	}
	paying := annsReservation
	paying.Status = ticket.PaymentPending
	status, body := r.Encode(paying, nil)
	return ticket.Answer{Status: status, Body: body}, nil
}

func refusedAnswer(encode ticket.Encode, err error) ticket.Answer {
	status, body := encode(ticket.Reservation{}, err)
	return ticket.Answer{Status: status, Body: body}
}

func (t *fakeTickets) Cancel(_ context.Context, _, id, person string) error {
	if id != annsReservation.ID || person != ann {
		return ticket.ErrNoReservation
	}
	return t.cancel
}

func (t *fakeTickets) Bought(_ context.Context, _, jti string) (bool, error) {
	return jti == "jti-2", nil
}

func (t *fakeTickets) Reservation(_ context.Context, _, id, person string) (ticket.Reservation, error) {
	if id != annsReservation.ID || person != cmp.Or(t.owner, ann) {
		return ticket.Reservation{}, ticket.ErrNoReservation
	}
	return annsReservation, nil
}

// fakeBooks has an event whose books do not balance.
type fakeBooks struct{}

func (fakeBooks) Books(_ context.Context, event waitroom.EventID) (ticket.Books, error) {
	return ticket.Books{
		Event: string(event), At: testNow, Sums: []ticket.Sum{{Name: "money", Expected: 2, Found: 1, Note: "1 differ"}},
		Counts: map[string]int64{"seats sold": 2},
	}, nil
}

func (fakeBooks) Replay(context.Context, waitroom.EventID) (int, error) { return 3, nil }

// fakeWebhooks take what is signed "good".
var fakeWebhooks = map[string]func(context.Context, string, []byte) error{
	"stripe": func(_ context.Context, signature string, body []byte) error {
		if signature != "good" || string(body) != `{"type":"x"}` {
			return fmt.Errorf("webhook: %w", waitroom.ErrTokenInvalid)
		}
		return nil
	},
}
