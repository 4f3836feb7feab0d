package pages_test

import (
	"fmt"
	"maps"
	"net/http"
	"time"
)

func (s *service) getSeats(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	etag := fmt.Sprintf(`W/"%d"`, s.version)
	var seats []doc
	for row := range 2 {
		for n := range 3 {
			id := fmt.Sprintf("A-%d-%d", row+1, n+1)
			seats = append(seats, doc{"id": id, "row": fmt.Sprint(row + 1), "number": n + 1, "status": s.seats[id], "version": 1})
		}
	}
	s.mu.Unlock()
	w.Header().Set("ETag", etag)
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	s.answer(w, http.StatusOK, doc{"event": "demo", "seats_left": 6, "sections": []doc{
		{"id": "A", "name": "Stalls", "price_cents": 7500, "currency": "EUR", "seats": seats},
	}})
}

func (s *service) postReservation(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	s.sale = doc{
		"reservation_id": "order-1", "status": "held", "seats": []string{"A-1-1", "A-1-2"},
		"amount_cents": 15000, "currency": "EUR", "expires_at": s.stamp(3 * time.Minute),
	}
	body := maps.Clone(s.sale)
	s.mu.Unlock()
	s.answer(w, http.StatusCreated, body)
}

func (s *service) getReservation(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	body := maps.Clone(s.sale)
	s.mu.Unlock()
	s.answer(w, http.StatusOK, body)
}

func (s *service) postPayment(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	s.sale["status"] = "payment_pending"
	body := maps.Clone(s.sale)
	s.mu.Unlock()
	s.answer(w, http.StatusAccepted, body)
}
