package web

import (
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

func TestSeatMapHasAnETag(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.tickets.seats = &ticket.Map{Event: "demo", Kind: "seats", PerUser: 2, Left: 1, Sections: []ticket.Section{{
		ID: "A", Name: "Stalls", PriceCents: 5000, Currency: "EUR",
		Seats: []ticket.Seat{{ID: "A-1", Row: "1", Number: 1, Status: ticket.SeatFree, Version: 3}},
	}}}
	get := call{method: "GET", path: "/v1/events/demo/seats"}
	w := r.do(t, get)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, `W/"v1"`, w.Header().Get("ETag"))
	require.JSONEq(t, `{"event":"demo","kind":"seats","per_user":2,"seats_left":1,"sections":[{"id":"A","name":"Stalls","price_cents":5000,"currency":"EUR",
		"seats":[{"id":"A-1","row":"1","number":1,"status":"free","version":3}]}]}`, w.Body.String())
	require.Equal(t, http.StatusNotModified, r.do(t, get.with("If-None-Match", `"v1"`)).Code)

	r.tickets.seats = &ticket.Map{Event: "demo", Kind: "courses", PerUser: 3, Items: []ticket.Item{{ID: "math", Total: 10, Meetings: []string{"mon 10:00-11:00"}, Version: 1}}}
	require.JSONEq(t, `{"event":"demo","kind":"courses","per_user":3,"seats_left":0,
		"items":[{"id":"math","total":10,"free":0,"price_cents":0,"currency":"","meetings":["mon 10:00-11:00"],"version":1}]}`,
		r.do(t, get).Body.String(), "a new map is not answered from the old one's bytes")
}

func TestBigBodiesAreCompressedForWhoTakesThem(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	seats := make([]ticket.Seat, 500)
	for i := range seats {
		seats[i] = ticket.Seat{ID: fmt.Sprintf("A-%d", i), Row: "1", Number: i, Status: ticket.SeatFree}
	}
	r.tickets.seats = &ticket.Map{Event: "demo", Sections: []ticket.Section{{ID: "A", Seats: seats}}}
	get := call{method: "GET", path: "/v1/events/demo/seats"}
	plain := r.do(t, get)
	require.Empty(t, plain.Header().Get("Content-Encoding"))
	require.Contains(t, plain.Header().Values("Vary"), "Accept-Encoding")
	small := r.do(t, get.with("Accept-Encoding", "br, gzip;q=0.5"))
	require.Equal(t, "gzip", small.Header().Get("Content-Encoding"))
	require.Less(t, small.Body.Len(), plain.Body.Len()/4)
	zr, err := gzip.NewReader(small.Body)
	require.NoError(t, err)
	unpacked, err := io.ReadAll(zr)
	require.NoError(t, err)
	require.Equal(t, plain.Body.Bytes(), unpacked)
	for _, no := range []string{"", "br", "gzip;q=0", "gzip; q=0.0", "xgzip"} {
		require.False(t, takesGzip(no), "%q", no)
	}
}

func TestReserveEntersAndAsksForWhatWasWanted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var (
		entered []string
		got     ticket.ReserveRequest
	)
	r.line.enter = func(p waitroom.Pass) (waitroom.Grant, error) {
		entered = append(entered, p.JTI)
		return annsGrant("demo"), nil
	}
	r.tickets.reserve = func(req ticket.ReserveRequest) (ticket.Answer, error) {
		got = req
		status, body := req.Encode(annsReservation, nil)
		return ticket.Answer{Status: status, Body: body}, nil
	}
	w := r.do(t, reserving.saying(" {\"seats\" : [\"A-1\",\"A-2\"]}\n"))
	require.Equal(t, http.StatusCreated, w.Code)
	require.JSONEq(t, `{"reservation_id":"res-1","status":"held","seats":["A-1"],"amount_cents":5000,"currency":"EUR","expires_at":"2026-05-01T12:03:00.250Z"}`, w.Body.String())
	require.Empty(t, w.Header().Get("Idempotency-Replayed"))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Equal(t, []string{"jti-1"}, entered)

	got.Encode = nil
	require.Equal(t, ticket.ReserveRequest{
		Event: "demo", JTI: "jti-1", Person: ann, Seats: []string{"A-1", "A-2"},
		Key: ticket.Key{Caller: ann, Route: "reservations/demo", Value: "k1", BodyHash: sha256.Sum256([]byte(`{"seats":["A-1","A-2"]}`))},
	}, got, "spelling does not matter, what is wanted does")

	r.do(t, reserving.saying(`{"quantity":2}`))
	require.Equal(t, 2, got.Quantity)
	require.Nil(t, got.Seats)
}

// TestReplayIsByteForByte holds promise 9, for a success and for a refusal.
func TestReplayIsByteForByte(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]error{"held": nil, "seat taken": ticket.ErrSeatTaken} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			stored := map[ticket.Key]ticket.Answer{}
			r.tickets.reserve = func(req ticket.ReserveRequest) (ticket.Answer, error) {
				if a, ok := stored[req.Key]; ok {
					a.Replayed = true
					return a, nil
				}
				var a ticket.Answer
				if refused != nil {
					a = refusedAnswer(req.Encode, refused)
				} else {
					a.Status, a.Body = req.Encode(annsReservation, nil)
				}
				stored[req.Key] = a
				return a, nil
			}
			first, second := r.do(t, reserving), r.do(t, reserving)
			require.Equal(t, first.Code, second.Code)
			require.Equal(t, first.Body.Bytes(), second.Body.Bytes())
			require.Equal(t, first.Header().Get("Content-Type"), second.Header().Get("Content-Type"))
			require.Equal(t, "true", second.Header().Get("Idempotency-Replayed"))
			require.Empty(t, first.Header().Get("Idempotency-Replayed"))
			require.Len(t, stored, 1)
		})
	}
}

func TestOwnReservationByEveryProof(t *testing.T) {
	t.Parallel()
	get := call{method: "GET", path: "/v1/events/demo/reservations/res-1"}
	for name, tc := range map[string]struct {
		call call
		code string
	}{
		"entry token":             {get.with("X-Entry-Token", goodToken), ""},
		"expired entry token":     {get.with("Authorization", "Bearer "+expiredToken), ""},
		"entry cookie":            {get.with("Cookie", "waitroom_entry_demo="+goodToken), ""},
		"place token":             {get.with("Authorization", "Bearer "+goodReceipt), ""},
		"place cookie":            {get.with("Cookie", "waitroom_place_demo="+goodReceipt), ""},
		"header wins over cookie": {get.with("X-Entry-Token", otherToken, "Cookie", "waitroom_place_demo="+goodReceipt), "not_found"},
		"bad header":              {get.with("X-Entry-Token", "x", "Cookie", "waitroom_place_demo="+goodReceipt), "token_invalid"},
		"none":                    {get, "token_required"},
		"foreign place token":     {get.with("Authorization", "Bearer "+foreignPlace), "token_invalid"},
		"foreign entry token":     {get.with("Authorization", "Bearer "+foreignToken), "token_wrong_event"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			w := r.do(t, tc.call)
			if tc.code != "" {
				require.Equal(t, tc.code, problemIn(t, w).Code)
				return
			}
			require.Equal(t, http.StatusOK, w.Code)
			require.Equal(t, "held", fieldsOf(t, w)["status"])
			require.Equal(t, http.StatusNoContent, r.do(t, tc.call.by("DELETE")).Code)
			w = r.do(t, tc.call.by("POST").at("/v1/events/demo/reservations/res-1/payment").with("Idempotency-Key", "p"))
			require.Equal(t, http.StatusAccepted, w.Code, "%s", w.Body)
			require.Equal(t, "payment_pending", fieldsOf(t, w)["status"])
		})
	}
}

func TestNodeWithoutTicketsHasNoTicketRoutes(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(_ *Config, d *Deps) { d.Tickets = nil })
	require.Equal(t, http.StatusNotFound, r.do(t, reserving).Code)
	require.Equal(t, http.StatusNotFound, r.do(t, asking.at("/v1/events/demo/seats")).Code)
	require.NotContains(t, fieldsOf(t, r.do(t, asking.at("/v1/events/demo"))), "seats_left")
}
