package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hall sells two rows of a few seats.
func hall(more facts) facts {
	tickets := facts{"kind": "seats", "sections": []facts{{"id": "A", "rows": 2, "seats_per_row": 5}}}
	maps.Copy(tickets, more)
	return facts{"tickets": tickets}
}

// seatsOf is the map: each seat's status and version by its id.
func (s *instance) seatsOf(event string) map[string]string {
	s.t.Helper()
	status, _, body := call(s.t, http.MethodGet, s.url+"/v1/events/"+event+"/seats", nil, nil)
	require.Equal(s.t, http.StatusOK, status, body)
	out := map[string]string{}
	for _, section := range body["sections"].([]any) {
		for _, seat := range section.(map[string]any)["seats"].([]any) {
			seat := seat.(map[string]any)
			require.Contains(s.t, seat, "row")
			require.Contains(s.t, seat, "number")
			out[seat["id"].(string)] = fmt.Sprintf("%s %v", seat["status"], seat["version"])
		}
	}
	return out
}

// held reserves and wants it to succeed.
func (b *buyer) held(s *instance, body map[string]any) string {
	b.t.Helper()
	status, _, answer := b.reserve(s, "first", body)
	require.Equal(b.t, http.StatusCreated, status, answer)
	return answer["reservation_id"].(string)
}

// reservation asks how it stands, by any proof.
func (b *buyer) reservation(s *instance, id string, proof map[string]string) (int, map[string]any) {
	b.t.Helper()
	status, _, body := call(b.t, http.MethodGet, s.url+"/v1/events/"+b.event+"/reservations/"+id, nil, proof)
	return status, body
}

// becomes waits for a reservation's status and returns the whole.
func (b *buyer) becomes(s *instance, id, want string) (body map[string]any) {
	b.t.Helper()
	until(b.t, 30*time.Second, id+" is "+want, func() bool {
		_, body = b.reservation(s, id, b.header(""))
		return body["status"] == want
	})
	return body
}

// cancel gives a reservation back.
func (b *buyer) cancel(s *instance, id string) (int, map[string]any) {
	b.t.Helper()
	status, _, body := call(b.t, http.MethodDelete, s.url+"/v1/events/"+b.event+"/reservations/"+id, nil, b.header(""))
	return status, body
}

// The seat map has an ETag that changes with the seats, and stock is told as items.
func TestContractSeatMap(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	s.create("hall", hall(nil))
	s.create("stock", facts{"tickets": facts{"kind": "stock", "stock": 3}})
	require.Len(t, s.seatsOf("hall"), 10)
	status, header, _ := request{method: "GET", path: "/v1/events/hall/seats"}.send(t, s)
	require.Equal(t, http.StatusOK, status)
	tagged := request{method: "GET", path: "/v1/events/hall/seats", header: map[string]string{"If-None-Match": header.Get("ETag")}}
	status, _, _ = tagged.send(t, s)
	require.Equal(t, http.StatusNotModified, status)

	b := newBuyer(t, s, "hall")
	require.Equal(t, "free 1", s.seatsOf("hall")["A-1-1"])
	watcher := join(t, s, "hall").open(s)
	watching := func(version string) map[string]any {
		require.NoError(t, watcher.conn.WriteJSON(map[string]string{"type": "seats", "version": version}))
		return watcher.next(10*time.Second, "seats")
	}
	require.True(t, watching("")["reload"].(bool), "whoever has no map reads it")
	first := watching(header.Get("ETag"))
	require.NotContains(t, first, "seats", "nothing has changed")
	require.Equal(t, header.Get("ETag"), `W/"`+first["version"].(string)+`"`)
	id := b.held(s, map[string]any{"seats": []string{"A-1-1"}})
	until(t, 5*time.Second, "the map shows it", func() bool { return s.seatsOf("hall")["A-1-1"] == "held 2" })
	told := watcher.next(10*time.Second, "seats")
	for told["seats"] == nil { // what the map that it read might have lacked
		told = watcher.next(10*time.Second, "seats")
	}
	require.Equal(t, []any{map[string]any{"id": "A-1-1", "status": "held", "version": 2.0}}, told["seats"])
	require.EqualValues(t, 9, told["seats_left"])
	status, header, _ = tagged.send(t, s)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, header.Get("ETag"), `W/"`+told["version"].(string)+`"`, "and with it the map of that version")
	until(t, 5*time.Second, "seats_left follows", func() bool { return s.public("hall")["seats_left"] == 9.0 })
	b.pay(s, id, "pay", "approve")
	b.becomes(s, id, "paid")
	until(t, 5*time.Second, "sold", func() bool { return s.seatsOf("hall")["A-1-1"][:5] == "sold " })

	_, _, body := call(t, http.MethodGet, s.url+"/v1/events/stock/seats", nil, nil)
	items := body["items"].([]any)
	require.Len(t, items, 1)
	require.EqualValues(t, 3, items[0].(map[string]any)["total"])
	require.EqualValues(t, 3, items[0].(map[string]any)["free"])
}

// What a reservation is refused for, and that a try that failed spends nothing.
func TestContractReservationRefusals(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, flags []string) {
		t.Helper()
		s := startInstance(t, flags...)
		s.create("hall", hall(nil))
		s.create("stock", facts{"tickets": facts{"kind": "stock", "stock": 3, "per_user": 3}})
		seats := func(ids ...string) map[string]any { return map[string]any{"seats": ids} }
		refused := func(b *buyer, key string, body map[string]any, status int, code string) {
			t.Helper()
			raw, err := json.Marshal(body)
			require.NoError(t, err)
			request{"POST", "/v1/events/" + b.event + "/reservations", string(raw), b.header(key)}.refused(t, s, status, code)
		}
		first, second := newBuyer(t, s, "hall"), newBuyer(t, s, "hall")
		refused(first, "k1", seats("A-1-1", "A-1-2", "A-1-3"), 409, "already_reserved") // more than per_user
		refused(first, "k2", seats("A-1-1", "Z-1"), 404, "not_found")
		id := first.held(s, seats("A-1-2", "A-1-1"))
		_, body := first.reservation(s, id, first.header(""))
		require.Equal(t, []any{"A-1-1", "A-1-2"}, body["seats"])
		require.Equal(t, "held", body["status"])
		require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, body["expires_at"])
		refused(first, "k3", seats("A-2-1"), 409, "token_used")
		refused(first, "k4", seats("A-1-1"), 409, "token_used") // checked before the seat
		refused(second, "k1", seats("A-1-1"), 409, "seat_taken")
		refused(second, "k2", seats("A-2-1", "A-1-1"), 409, "seat_taken")
		require.Equal(t, "free 1", s.seatsOf("hall")["A-2-1"], "all or none")

		// The answer to a key stays what it was, byte for byte, also a refusal.
		again := request{"POST", "/v1/events/hall/reservations", `{"seats":["A-1-1"]}`, second.header("k1")}
		_, _, was := again.send(t, s)
		status, _ := first.cancel(s, id)
		require.Equal(t, http.StatusNoContent, status)
		status, header, raw := again.send(t, s)
		require.Equal(t, http.StatusConflict, status)
		require.Equal(t, "true", header.Get("Idempotency-Replayed"))
		require.Equal(t, string(was), string(raw))
		refused(second, "k1", seats("A-1-2"), 422, "idempotency_mismatch")
		second.held(s, seats("A-1-1"))
		status, header, raw = request{"POST", "/v1/events/hall/reservations", ` { "seats" : ["A-1-1"] } `, second.header("first")}.send(t, s)
		require.Equal(t, http.StatusCreated, status)
		require.Equal(t, "true", header.Get("Idempotency-Replayed"), "spelled otherwise, the same body: "+string(raw))
		status, header, _ = newBuyer(t, s, "hall").reserve(s, "first", seats("A-2-2"))
		require.Equal(t, http.StatusCreated, status, "another caller's key is another key")
		require.Empty(t, header.Get("Idempotency-Replayed"))
		_, body = first.reservation(s, id, first.header(""))
		require.Equal(t, "cancelled", body["status"])
		status, _ = first.cancel(s, id)
		require.Equal(t, http.StatusNoContent, status, "harmless if repeated")

		// The server picks; what is left is told; nothing goes below zero.
		one, two, three := newBuyer(t, s, "stock"), newBuyer(t, s, "stock"), newBuyer(t, s, "stock")
		one.held(s, map[string]any{"quantity": 2})
		refused(two, "k", map[string]any{"quantity": 2}, 409, "sold_out")
		two.held(s, map[string]any{"quantity": 1})
		refused(three, "k", map[string]any{"quantity": 1}, 409, "sold_out")
	})
}

// A reservation is its own person's, by every proof of theirs, and nobody else's.
func TestContractOwnReservation(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	event := hall(nil)
	event["claim_ttl"], event["session_ttl"] = "1s", "2s"
	s.create("hall", event)
	b := newBuyer(t, s, "hall")
	id := b.held(s, map[string]any{"quantity": 2})
	path := "/v1/events/hall/reservations/" + id
	stranger := newBuyer(t, s, "hall")
	for _, proof := range []map[string]string{stranger.header(""), bearerOf(stranger.token)} {
		keyed := map[string]string{"Idempotency-Key": "k"}
		maps.Copy(keyed, proof)
		request{method: "GET", path: path, header: proof}.refused(t, s, 404, "not_found")
		request{method: "DELETE", path: path, header: proof}.refused(t, s, 404, "not_found")
		request{method: "POST", path: path + "/payment", header: keyed}.refused(t, s, 404, "not_found")
	}
	request{method: "GET", path: path}.refused(t, s, 401, "token_required")
	request{method: "POST", path: path + "/payment", header: map[string]string{"Idempotency-Key": "k"}}.refused(t, s, 401, "token_required")
	until(t, 10*time.Second, "the session is over", func() bool { return b.passes(s) == http.StatusUnauthorized })
	for name, proof := range map[string]map[string]string{
		"expired and spent entry token": b.header(""), "place token": bearerOf(b.token),
		"cookie": {"Cookie": "waitroom_place_hall=" + b.token}, "entry cookie": {"Cookie": "waitroom_entry_hall=" + b.pass},
	} {
		status, body := b.reservation(s, id, proof)
		require.Equal(t, http.StatusOK, status, name)
		require.Equal(t, "held", body["status"])
	}
	request{"POST", "/v1/events/hall/reservations", `{"quantity":1}`, b.header("late")}.refused(t, s, 401, "token_expired")
	status, _, body := b.pay(s, id, "pay", "approve")
	require.Equal(t, http.StatusAccepted, status, body)
	require.Equal(t, "payment_pending", body["status"])
	b.becomes(s, id, "paid")
}

// Payments: the outcome comes by GET, a paid one cannot be given back, a declined
// one gives the seats back, the same key acts once.
func TestContractPayments(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, flags []string) {
		t.Helper()
		s := startInstance(t, flags...)
		s.create("hall", hall(facts{"hold_ttl": "3s"}))

		b := newBuyer(t, s, "hall")
		l := b.open(s)
		id := b.held(s, map[string]any{"seats": []string{"A-1-1"}})
		request{method: "POST", path: "/v1/events/hall/reservations/" + id + "/payment", header: b.header("")}.refused(t, s, 422, "invalid")
		status, _, first := b.pay(s, id, "pay", "delay") // the provider takes two seconds
		require.Equal(t, http.StatusAccepted, status)
		status, header, again := b.pay(s, id, "pay", "delay")
		require.Equal(t, http.StatusAccepted, status)
		require.Equal(t, "true", header.Get("Idempotency-Replayed"))
		require.Equal(t, first, again)
		status, _, body := b.pay(s, id, "pay", "approve")
		require.Equal(t, http.StatusUnprocessableEntity, status)
		require.Equal(t, "idempotency_mismatch", body["code"])
		status, body = b.cancel(s, id)
		require.Equal(t, http.StatusConflict, status)
		require.Equal(t, "not_cancellable", body["code"], "paying")
		require.Equal(t, "paid", l.next(20*time.Second, "reservation")["status"])
		b.becomes(s, id, "paid")
		status, body = b.cancel(s, id)
		require.Equal(t, http.StatusConflict, status)
		require.Equal(t, "not_cancellable", body["code"], "paid")

		poor := newBuyer(t, s, "hall")
		poorer := poor.open(s)
		id = poor.held(s, map[string]any{"seats": []string{"A-1-2"}})
		status, _, _ = poor.pay(s, id, "pay", "decline")
		require.Equal(t, http.StatusAccepted, status)
		require.Equal(t, "payment_failed", poorer.next(20*time.Second, "reservation")["status"])
		require.Equal(t, "declined", poor.becomes(s, id, "payment_failed")["reason"])
		until(t, 5*time.Second, "the seat is back", func() bool { return s.seatsOf("hall")["A-1-2"][:5] == "free " })
		status, _, body = poor.reserve(s, "more", map[string]any{"seats": []string{"A-1-2"}})
		require.Equal(t, http.StatusCreated, status, "a try that failed spends nothing: %v", body)

		late := newBuyer(t, s, "hall")
		told := late.open(s)
		id = late.held(s, map[string]any{"seats": []string{"A-1-3"}})
		late.becomes(s, id, "expired")
		require.Equal(t, "expired", told.next(20*time.Second, "reservation")["status"])
		status, _, body = late.pay(s, id, "pay", "approve")
		require.Equal(t, http.StatusConflict, status)
		require.Equal(t, "hold_expired", body["code"])
		newBuyer(t, s, "hall").held(s, map[string]any{"seats": []string{"A-1-3"}})
		s.audited("hall", flags...)
	})
}

// One person's share holds over several turns, and each token buys once, however
// often and wherever it is sent; one key acts once.
func TestContractOnce(t *testing.T) {
	t.Parallel()
	flags := realServers.flags(t)
	instances := []*instance{startInstance(t, flags...), startInstance(t, flags...)}
	s := instances[0]
	s.create("once", facts{"tickets": facts{"kind": "stock", "stock": 1000, "per_user": 2}})
	const tokens, times = 60, 10
	buyers := make([]*buyer, tokens)
	for i := range buyers {
		buyers[i] = &buyer{person: join(t, instances[i%2], "once")}
	}
	for i, b := range buyers {
		buyers[i] = b.inside(s)
	}
	var wg sync.WaitGroup
	codes := make([][]string, tokens)
	for i, b := range buyers {
		codes[i] = make([]string, times)
		for j := range times {
			wg.Go(func() {
				key := fmt.Sprint("key-", j)
				if i%2 == 0 {
					key = "the same"
				}
				status, header, body := b.reserve(instances[j%2], key, map[string]any{"quantity": 1})
				codes[i][j] = fmt.Sprint(status, header.Get("Idempotency-Replayed"), body["code"])
			})
		}
	}
	wg.Wait()
	for i, answers := range codes {
		counts := map[string]int{}
		for _, answer := range answers {
			counts[answer]++
		}
		require.Equal(t, 1, counts["201<nil>"], "token %d: one success: %v", i, counts)
		if i%2 == 1 {
			require.Equal(t, times-1, counts["409token_used"], "token %d: %v", i, counts)
		} else {
			require.Equal(t, times-1, counts["201true<nil>"]+counts["409idempotency_in_progress"], "token %d: %v", i, counts)
		}
	}
	until(t, 10*time.Second, "the books add up", func() bool { return s.public("once")["seats_left"] == 940.0 })

	b := buyers[0]
	for turn, want := range []int{http.StatusCreated, http.StatusConflict} {
		status, _, _ := call(t, http.MethodPost, s.url+"/v1/events/once/sessions/"+claimsOf(t, b.pass)["jti"].(string)+"/complete", nil, bearerOf(siteKey))
		require.Equal(t, http.StatusNoContent, status)
		status, _, _ = call(t, http.MethodPost, s.url+"/v1/events/once/entries", nil, bearerOf(b.token))
		require.Equal(t, http.StatusCreated, status)
		b = b.inside(s)
		status, _, body := b.reserve(s, fmt.Sprint("turn ", turn), map[string]any{"quantity": 1})
		require.Equal(t, want, status, body)
		if want == http.StatusConflict {
			require.Equal(t, "already_reserved", body["code"])
		}
	}
	require.EqualValues(t, 61, s.audited("once", flags...).Counts["reservations held"])
}
