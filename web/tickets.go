package web

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/singleflight"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

const headerIdempotencyKey = "Idempotency-Key"

// seatCache keeps each event's map as JSON. A map is never changed after it was
// published, so its pointer says whether the JSON is still right. There are at
// most as many as events that sell something.
type seatCache struct {
	flight singleflight.Group // a new map is rendered once, however many ask for it

	mu   sync.Mutex // guards what follows
	maps map[waitroom.EventID]renderedMap
}

type renderedMap struct {
	of   *ticket.Map
	body packed
}

func (sc *seatCache) render(event waitroom.EventID, m *ticket.Map, etag string) (packed, error) {
	sc.mu.Lock()
	have := sc.maps[event]
	sc.mu.Unlock()
	if have.of == m {
		return have.body, nil
	}
	made, err, _ := sc.flight.Do(string(event)+" "+etag, func() (any, error) {
		b, err := json.Marshal(m)
		if err != nil {
			return nil, fmt.Errorf("encode seat map: %w", err)
		}
		rendered := renderedMap{m, pack(b)}
		sc.mu.Lock()
		defer sc.mu.Unlock()
		if sc.maps == nil {
			sc.maps = make(map[waitroom.EventID]renderedMap)
		}
		sc.maps[event] = rendered
		return rendered, nil
	})
	if err != nil {
		return packed{}, err
	}
	rendered, _ := made.(renderedMap)
	return rendered.body, nil
}

// seatMap answers what is for sale, from memory.
func (s *Server) seatMap(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	ev, err := s.deps.View.Event(c.Request().Context(), id)
	if err != nil {
		return err
	}
	if !sells(ev.Settings) { // whatever it sold before
		return ticket.ErrWrongMode
	}
	m, etag, err := s.deps.Tickets.Map(c.Request().Context(), string(id))
	if err != nil {
		return err
	}
	etag = `W/"` + strings.Trim(strings.TrimPrefix(etag, "W/"), `"`) + `"` // weak: it is sent compressed, too
	if notModified(c, etag, "public, max-age=1") {
		return nil
	}
	body, err := s.seats.render(id, m, etag)
	if err != nil {
		return err
	}
	return body.send(c, mimeJSON)
}

// wanted is the canonical body of a reservation, whatever the client's spelling.
type wanted struct {
	Seats      []string `json:"seats,omitempty"`
	Quantity   int      `json:"quantity,omitempty"`
	Section    string   `json:"section,omitempty"`
	Wheelchair bool     `json:"wheelchair,omitempty"`
}

// reserve sets seats aside for a holder of an entry token. The answer is made in
// the same transaction as the deed, so that a repetition gets the same bytes.
func (s *Server) reserve(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	pass, _, err := s.inside(c, id, s.deps.Line)
	if err != nil {
		return s.makeGood(c, pass, err)
	}
	if ev, err := s.deps.View.Event(c.Request().Context(), id); err == nil && !sells(ev.Settings) {
		return ticket.ErrWrongMode // whatever it sold before
	}
	want, err := decodeWanted(c)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(c, pass.Subject, "reservations/"+string(id), want)
	if err != nil {
		return err
	}
	answer, err := s.deps.Tickets.Reserve(c.Request().Context(), ticket.ReserveRequest{
		Event: string(id), JTI: pass.JTI, Person: pass.Subject,
		Seats: want.Seats, Quantity: want.Quantity, Section: want.Section, Wheelchair: want.Wheelchair,
		Key: key, Encode: encodeReservation(http.StatusCreated),
	})
	if err != nil {
		return s.makeGood(c, pass, err)
	}
	return writeAnswer(c, answer)
}

const (
	mostSeats   = 100
	mostSeatID  = 64
	seatsWanted = "a list of seat ids"
	countWanted = "a whole number from 1 to 100"
)

func decodeWanted(c echo.Context) (wanted, error) {
	var (
		seats      []string
		quantity   *int
		section    string
		wheelchair bool
	)
	if err := required(c, field{"seats", &seats, seatsWanted}, field{"quantity", &quantity, countWanted},
		field{"section", &section, "a section's id"}, field{"wheelchair", &wheelchair, "true or false"}); err != nil {
		return wanted{}, err
	}
	switch {
	case seats != nil && quantity != nil:
		return wanted{}, &waitroom.InvalidError{Fields: []waitroom.FieldError{
			{Field: "seats", Detail: "name seats or a quantity, not both"},
			{Field: "quantity", Detail: "name seats or a quantity, not both"},
		}}
	case quantity != nil:
		if *quantity < 1 || *quantity > mostSeats {
			return wanted{}, wrongField("quantity", "must be "+countWanted)
		}
		if section != "" && !ticket.IsID(section) {
			return wanted{}, wrongField("section", "must be a section's id")
		}
		return wanted{Quantity: *quantity, Section: section, Wheelchair: wheelchair}, nil
	case len(seats) == 0:
		return wanted{}, wrongField("seats", "name seats, or a quantity")
	case section != "":
		return wanted{}, wrongField("section", "goes with a quantity")
	case wheelchair:
		return wanted{}, wrongField("wheelchair", "goes with a quantity")
	}
	return wanted{Seats: seats}, checkSeats(seats)
}

func checkSeats(seats []string) error {
	if len(seats) > mostSeats {
		return wrongField("seats", fmt.Sprintf("at most %d at once", mostSeats))
	}
	seen := make(map[string]bool, len(seats))
	for _, seat := range seats {
		switch {
		case seat == "" || len(seat) > mostSeatID || !printable(seat):
			return wrongField("seats", "a seat id is 1 to 64 printable characters")
		case seen[seat]:
			return wrongField("seats", "a seat is named twice")
		}
		seen[seat] = true
	}
	return nil
}

// pay asks for the payment of a reservation; the outcome comes later.
func (s *Server) pay(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	person, err := s.buyer(c.Request(), id)
	if err != nil {
		return err
	}
	var body struct {
		Method string `json:"method"`
	}
	if err := optional(c, field{"method", &body.Method, "a string"}); err != nil {
		return err
	}
	if body.Method != "" && !isName(body.Method) {
		return wrongField("method", "must be a short name")
	}
	reservation := c.Param("id")
	key, err := idempotencyKey(c, person, "payment/"+string(id)+"/"+reservation, body)
	if err != nil {
		return err
	}
	if !isName(reservation) {
		return ticket.ErrNoReservation
	}
	answer, err := s.deps.Tickets.Pay(c.Request().Context(), ticket.PayRequest{
		Event: string(id), ReservationID: reservation, Person: person, Method: body.Method,
		Key: key, Encode: encodeReservation(http.StatusAccepted),
	})
	if err != nil {
		pass, _ := s.entryPass(c.Request(), id) // without one there is no turn to make good for
		return s.makeGood(c, pass, err)
	}
	return writeAnswer(c, answer)
}

// reservation tells its own person how it stands.
func (s *Server) reservation(c echo.Context) error {
	id, person, reservation, err := s.ownReservation(c)
	if err != nil {
		return err
	}
	r, err := s.deps.Tickets.Reservation(c.Request().Context(), string(id), reservation, person)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, reservationOf(r))
}

// cancel gives the seats back.
func (s *Server) cancel(c echo.Context) error {
	id, person, reservation, err := s.ownReservation(c)
	if err != nil {
		return err
	}
	if err := s.deps.Tickets.Cancel(c.Request().Context(), string(id), reservation, person); err != nil {
		return err
	}
	return noContent(c)
}

func (s *Server) ownReservation(c echo.Context) (id waitroom.EventID, person, reservation string, err error) {
	if id, err = eventID(c); err != nil {
		return "", "", "", err
	}
	if person, err = s.buyer(c.Request(), id); err != nil {
		return "", "", "", err
	}
	if reservation = c.Param("id"); !isName(reservation) {
		return "", "", "", ticket.ErrNoReservation
	}
	return id, person, reservation, nil
}

// The rule of every idempotency key.
const (
	longestKey = 255
	keyRule    = "must be 1 to 255 printable characters"
)

// idempotencyKey reads the key that makes one caller's one deed happen once.
func idempotencyKey(c echo.Context, caller, route string, body any) (ticket.Key, error) {
	values := c.Request().Header.Values(headerIdempotencyKey)
	if len(values) != 1 || values[0] == "" {
		return ticket.Key{}, wrongField(headerIdempotencyKey, "send exactly one")
	}
	if len(values[0]) > longestKey || !printable(values[0]) {
		return ticket.Key{}, wrongField(headerIdempotencyKey, keyRule)
	}
	canonical, err := json.Marshal(body)
	if err != nil {
		return ticket.Key{}, fmt.Errorf("encode body: %w", err)
	}
	return ticket.Key{Caller: caller, Route: route, Value: values[0], BodyHash: sha256.Sum256(canonical)}, nil
}

// reservationBody is a reservation as its person sees it.
type reservationBody struct {
	ID          string        `json:"reservation_id"`
	Status      ticket.Status `json:"status"`
	Reason      string        `json:"reason,omitempty"`
	Seats       []string      `json:"seats"`
	AmountCents int64         `json:"amount_cents"`
	Currency    string        `json:"currency"`
	ExpiresAt   *stamp        `json:"expires_at,omitempty"`
}

func reservationOf(r ticket.Reservation) reservationBody {
	b := reservationBody{
		ID: r.ID, Status: r.Status, Reason: r.Reason, Seats: r.Seats,
		AmountCents: r.AmountCents, Currency: r.Currency,
	}
	if b.Seats == nil {
		b.Seats = []string{}
	}
	if !r.ExpiresAt.IsZero() {
		b.ExpiresAt = new(stamp(r.ExpiresAt))
	}
	return b
}

// encodeReservation makes the answer that is stored with the deed: the
// reservation with this status, or the refusal as the one map says.
func encodeReservation(status int) ticket.Encode {
	return func(r ticket.Reservation, refused error) (int, []byte) {
		if refused != nil {
			p := problemOf(refused)
			return p.Status, p.body()
		}
		body, err := json.Marshal(reservationOf(r))
		if err != nil { // strings and numbers always marshal
			p := problemOf(errors.Join(errInternal, err))
			return p.Status, p.body()
		}
		return status, body
	}
}

// writeAnswer sends a stored or a new answer.
func writeAnswer(c echo.Context, a ticket.Answer) error {
	if a.Replayed {
		c.Response().Header().Set("Idempotency-Replayed", "true")
	}
	kind := mimeJSON
	if a.Status >= http.StatusBadRequest {
		kind = mimeProblem
	}
	return c.Blob(a.Status, kind, a.Body)
}
