package main

import (
	"net/http"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Promise 7: what was answered with 2xx survives a crash of any one process.
func TestContractCrash(t *testing.T) {
	t.Parallel()

	t.Run("an instance among others", func(t *testing.T) {
		t.Parallel()
		sandbox := startProcess(t, nil, "sandbox", "--addr", "127.0.0.1:0", "--log-format", "json")
		flags := append(realServers.flags(t), "--payments", sandbox.url)
		a, b := startInstance(t, flags...), startInstance(t, flags...)
		a.create("crash", facts{"rate_per_s": 50, "tickets": facts{"kind": "stock", "stock": 100}})
		waiting := join(t, a, "crash").inside(a)
		buyers := map[string]*buyer{}
		for _, method := range []string{"approve", "delay", "delay", "vanish"} {
			in := newBuyer(t, a, "crash")
			id := in.held(a, map[string]any{"quantity": 1})
			status, _, body := in.pay(a, id, "pay", method)
			require.Equal(t, http.StatusAccepted, status, body)
			buyers[id] = in
		}
		held := newBuyer(t, a, "crash")
		kept := held.held(a, map[string]any{"quantity": 2})
		a.patch("crash", facts{"state": "paused", "rate_per_s": 7})
		late := join(t, a, "crash")
		a.signal(syscall.SIGKILL)
		<-a.done

		for id, in := range buyers {
			until(t, 90*time.Second, "paid all the same", func() bool {
				_, body := in.reservation(b, id, in.header(""))
				return body["status"] == "paid"
			})
		}
		_, body := held.reservation(b, kept, bearerOf(held.token))
		require.Equal(t, "held", body["status"])
		require.Equal(t, waiting.pass, waiting.me(b)["entry_token"])
		require.EqualValues(t, 1, late.me(b)["position"])
		require.EqualValues(t, 7, b.public("crash")["rate_per_s"])
		until(t, 10*time.Second, "the books add up", func() bool { return b.public("crash")["seats_left"] == 94.0 })
	})

	t.Run("the embedded default", func(t *testing.T) {
		t.Parallel()
		data := filepath.Join(t.TempDir(), "data")
		s := startInstance(t, "--data", data)
		paid, held := newBuyer(t, s, "demo"), newBuyer(t, s, "demo")
		id := paid.held(s, map[string]any{"seats": s.someSeats(0, 2)})
		status, _, body := paid.pay(s, id, "pay", "")
		require.Equal(t, http.StatusAccepted, status, body)
		paid.becomes(s, id, "paid")
		kept := held.held(s, map[string]any{"seats": s.someSeats(2, 4)})
		s.signal(syscall.SIGKILL)
		<-s.done

		s = startInstance(t, "--data", data)
		_, body = paid.reservation(s, id, bearerOf(paid.token))
		require.Equal(t, "paid", body["status"])
		_, body = held.reservation(s, kept, bearerOf(held.token))
		require.Equal(t, "held", body["status"])
		require.InDelta(t, 1996, s.public("demo")["seats_left"], 0)
		again := held.inside(s) // the store has lost the turn: the place comes back by its receipt
		status, header, _ := again.reserve(s, "first", map[string]any{"seats": s.someSeats(2, 4)})
		require.Equal(t, http.StatusCreated, status, "the same key answers with the first response")
		require.Equal(t, "true", header.Get("Idempotency-Replayed"))
		status, _, body = again.reserve(s, "more", map[string]any{"quantity": 1})
		require.Equal(t, http.StatusConflict, status)
		require.Equal(t, "already_reserved", body["code"], "and has their share still")
	})
}

// someSeats are the ids of a few seats of the demo.
func (s *instance) someSeats(from, to int) []string {
	s.t.Helper()
	_, _, body := call(s.t, http.MethodGet, s.url+"/v1/events/demo/seats", nil, nil)
	seats := body["sections"].([]any)[0].(map[string]any)["seats"].([]any)
	var ids []string
	for _, seat := range seats[from:to] {
		ids = append(ids, seat.(map[string]any)["id"].(string))
	}
	return ids
}
