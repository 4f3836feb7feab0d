package load

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

func seatName(i int) string { return fmt.Sprintf("A-%d", i) }

func (f *fake) seatMap(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	type seat struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	}
	seats := make([]seat, f.seats)
	for i := range seats {
		seats[i] = seat{seatName(i), "free"}
		if f.sold[seats[i].ID] != "" && f.breach != unsold {
			seats[i].Status = "sold"
		}
	}
	answerJSON(w, 200, map[string]any{"sections": []map[string]any{{"id": "A", "seats": seats}}})
}

func (f *fake) byToken(r *http.Request) *fakeEntry {
	for _, e := range f.entries {
		if e.token != "" && e.token == r.Header.Get("X-Entry-Token") {
			return e
		}
	}
	return nil
}

func (f *fake) reserve(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Seats    []string `json:"seats"`
		Quantity int      `json:"quantity"`
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		problem(w, 400, "bad_json")
		return
	}
	f.counter.RLock()
	f.counter.RUnlock() //nolint:staticcheck // only waits while no reservation is taken
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.byToken(r)
	key := r.Header.Get("Idempotency-Key")
	switch {
	case e == nil:
		problem(w, 401, "token_invalid")
		return
	case f.answers[key] != nil && f.breach != replayRuns:
		if f.breach != unmarked {
			w.Header().Set("Idempotency-Replayed", "true")
		}
		w.WriteHeader(201)
		_, _ = w.Write(f.answers[key])
		return
	case e.spent && f.breach != tokenTwice && f.breach != replayRuns:
		problem(w, 409, "token_used")
		return
	case max(len(body.Seats), body.Quantity) > f.perUser && f.breach != overShare:
		e.spent = f.breach == spends
		problem(w, 409, "already_reserved")
		return
	}
	seats, code := f.choose(body.Seats, body.Quantity)
	if code != "" {
		problem(w, 409, code)
		return
	}
	res := &fakeReservation{id: fmt.Sprintf("r%d", len(f.bought)), status: statusHeld, seats: seats, owner: e}
	f.bought[res.id] = res
	for _, s := range seats {
		f.sold[s] = res.id
	}
	e.spent = true
	f.answers[key] = answerJSON(w, 201, map[string]any{
		"reservation_id": res.id, "status": res.status, "seats": seats, "expires_at": time.Now().Add(3 * time.Minute).UTC(),
	})
}

// choose takes seats; the caller holds mu.
func (f *fake) choose(wanted []string, quantity int) ([]string, string) {
	if f.breach == doubleSeat {
		return []string{seatName(0)}, ""
	}
	for _, s := range wanted {
		if f.sold[s] != "" {
			return nil, "seat_taken"
		}
	}
	for i := 0; i < f.seats && len(wanted) < quantity; i++ {
		if f.sold[seatName(i)] == "" {
			wanted = append(wanted, seatName(i))
		}
	}
	if len(wanted) < quantity {
		return nil, "sold_out"
	}
	return wanted, ""
}

func (f *fake) pay(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	res := f.bought[r.PathValue("id")]
	if res == nil {
		problem(w, 404, "not_found")
		return
	}
	res.status = statusPaid
	res.owner.outcome <- res.id
	answerJSON(w, 202, map[string]any{"reservation_id": res.id, "status": statusPending})
}

func (f *fake) reservation(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	res := f.bought[r.PathValue("id")]
	if res == nil || f.breach == forgets {
		problem(w, 404, "not_found")
		return
	}
	answerJSON(w, 200, map[string]any{"reservation_id": res.id, "status": res.status, "seats": res.seats})
}

// live tells one socket what it is to know.
func (f *fake) live(w http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{}
	c, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	var hello struct {
		Type  string `json:"type"`
		Place string `json:"place_token"`
	}
	if c.ReadJSON(&hello) != nil || hello.Type != "hello" {
		return
	}
	f.mu.Lock()
	e := f.byPlace(hello.Place)
	f.mu.Unlock()
	if e == nil {
		_ = c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1008, ""), time.Now().Add(time.Second))
		return
	}
	f.mu.Lock()
	e.tabs++
	mine := e.tabs
	f.mu.Unlock()
	var heard atomic.Bool
	c.SetPongHandler(func(string) error { heard.Store(true); return nil })
	gone := make(chan struct{})
	go func() { // ends with the connection, which this handler closes
		defer close(gone)
		for {
			if _, _, err := c.ReadMessage(); err != nil {
				return
			}
		}
	}()
	defer func() { _ = c.Close(); <-gone }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	told := false
	for n := 0; ; n++ {
		switch {
		case n == 10:
			_ = c.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Second))
		case n == 40 && f.cuts && !heard.Load():
			return // nobody has read in 1.5 s
		}
		f.gate.RLock()
		f.mu.Lock()
		var m map[string]any
		switch {
		case e.state == stateWaiting && n%6 == 0:
			at := f.position(e)
			if mine > 1 && f.breach == tabBack {
				at += 300
			}
			m = map[string]any{"type": "position", "position": at, "waiting": len(f.line)}
		case mine > 1 && f.breach == oneTab:
		case e.state == stateAdmitted && !told:
			told = true
			m = map[string]any{"type": "admitted", "entry_token": e.token, "expires_at": f.expires(e), "admitted_at": stamp(e.admissionMS)}
		}
		f.mu.Unlock()
		f.gate.RUnlock()
		if m != nil && c.WriteJSON(m) != nil {
			return
		}
		select {
		case id := <-e.outcome:
			if c.WriteJSON(map[string]any{"type": "reservation", "reservation_id": id, "status": statusPaid}) != nil {
				return
			}
		case <-tick.C:
		case <-gone:
			return
		case <-f.ended:
			return
		}
	}
}
