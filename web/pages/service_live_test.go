package pages_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/gorilla/websocket"
)

// push says something on every live connection.
func (s *service) push(message doc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.say(message)
}

// say is push for who holds mu.
func (s *service) say(message doc) {
	if message["type"] == "event" {
		for _, field := range []string{"state", "reason", "message"} {
			s.event[field] = message[field]
			if message[field] == nil {
				delete(s.event, field)
			}
		}
	}
	for wire := range s.wires {
		wire <- message
	}
}

// position is what the service says of the place, also to those who ask.
func (s *service) position(n int) {
	s.set(func(s *service) {
		s.place = doc{"entry_id": "ann", "state": "waiting", "position": n, "ahead": n - 1, "waiting": 120}
	})
	s.push(s.first())
}

// first is the message that a connection begins with; the caller holds mu.
func (s *service) first() doc {
	switch s.place["state"] {
	case "waiting":
	case "admitted":
		m := maps.Clone(s.place)
		m["type"] = "admitted"
		return m
	default:
		if s.place["seq"] != nil {
			return doc{"type": "result", "seq": s.place["seq"], "winner": s.place["winner"]}
		}
		return doc{"type": "event", "state": s.event["state"]}
	}
	m := doc{"type": "position", "position": s.place["position"], "ahead": s.place["ahead"], "waiting": 120, "rate_per_s": 2}
	if lane := s.place["lane"]; lane != nil {
		m["lane"], m["rate_per_s"] = lane, 30
	}
	return m
}

// hangUp cuts every live connection.
func (s *service) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for wire := range s.wires {
		close(wire)
		delete(s.wires, wire)
	}
}

func (s *service) live(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	noSocket, noStream := s.noSocket, s.noStream
	s.mu.Unlock()
	switch {
	case websocket.IsWebSocketUpgrade(r) && !noSocket:
		s.socket(w, r)
	case !websocket.IsWebSocketUpgrade(r) && !noStream:
		s.stream(w, r)
	default:
		s.answer(w, http.StatusBadRequest, doc{"status": 400, "code": "invalid"})
	}
}

func (s *service) wire() chan doc {
	wire := make(chan doc, 64)
	s.set(func(s *service) { s.wires[wire] = true })
	return wire
}

func (s *service) socket(w http.ResponseWriter, r *http.Request) {
	ws, err := new(websocket.Upgrader).Upgrade(w, r, nil)
	if err != nil {
		return // answered
	}
	defer func() { _ = ws.Close() }() // the tab may be gone
	wire := s.wire()
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for {
			var m struct {
				Type    string `json:"type"`
				Token   string `json:"place_token"`
				Version string `json:"version"`
				Stop    bool   `json:"stop"`
			}
			if ws.ReadJSON(&m) != nil {
				return
			}
			s.set(func(s *service) {
				s.hellos = append(s.hellos, strings.TrimSpace(m.Type+" "+m.Token+m.Version)+map[bool]string{true: " stop"}[m.Stop])
				if s.wires[wire] && m.Type == "hello" {
					wire <- s.first()
				}
			})
		}
	}()
	for open := true; open; {
		select {
		case m, ok := <-wire:
			open = ok && ws.WriteJSON(m) == nil
		case <-heard:
			open = false
		}
	}
	s.set(func(s *service) { delete(s.wires, wire) })
	_ = ws.Close() // ends the reader
	<-heard
}

func (s *service) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	wire := s.wire()
	s.set(func(s *service) { wire <- s.first() })
	for {
		select {
		case m, ok := <-wire:
			if !ok {
				return
			}
			b, err := json.Marshal(m)
			if err != nil {
				return
			}
			_, _ = fmt.Fprintf(w, "data: %s\n\n", b) // the tab may be gone
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			s.set(func(s *service) { delete(s.wires, wire) })
			return
		}
	}
}
