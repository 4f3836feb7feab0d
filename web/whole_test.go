package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/waitroom-dev/waitroom/admission"
	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// deaf listens to the view's news and does nothing with them.
type deaf struct{}

func (deaf) Admitted(waitroom.EventID, []waitroom.Grant)     {}
func (deaf) Departed(waitroom.EventID, []waitroom.Departure) {}
func (deaf) Changed(waitroom.Event)                          {}
func (deaf) Forgotten(waitroom.EventID)                      {}

// whole is the HTTP side on the real line, tokens and tickets, embedded.
type whole struct {
	*rig
	rdb  *redis.Client
	stop func()
}

func newWhole(t *testing.T) *whole {
	t.Helper()
	rdb, log, reg := redistest.Mini(t), zap.NewNop(), prometheus.NewRegistry()
	keys := admission.NewKeys()
	passes, err := admission.NewPasses(keys, testPublicURL)
	require.NoError(t, err)
	line, err := waitroom.New(waitroom.Config{ReceiptKeys: keys.ReceiptKeys(), SubjectKey: keys.SubjectKey()}, rdb, log)
	require.NoError(t, err)
	view, err := waitroom.NewView(line, deaf{})
	require.NoError(t, err)
	db, err := ticket.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "tickets.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, ticket.Migrate(t.Context(), db))
	store, err := ticket.New(ticket.Config{}, db, log, reg)
	require.NoError(t, err)
	reports := admission.NewReports(rdb, "wr")

	ctx, cancel := context.WithCancel(t.Context())
	var group errgroup.Group
	group.Go(func() error { return view.Run(ctx) })
	group.Go(func() error { return store.Run(ctx) })
	w := &whole{rdb: rdb, stop: func() { cancel(); require.NoError(t, group.Wait()) }}
	t.Cleanup(w.stop)
	w.rig = newRig(t, func(_ *Config, d *Deps) {
		d.Line, d.Operations, d.View, d.Passes, d.Tickets, d.Load = line, line, view, passes, store, reports
		d.Ready = []Check{{"store", line.Ping}, {"database", store.Ping}}
	})
	return w
}

func (w *whole) want(t *testing.T, status int, c call) map[string]any {
	t.Helper()
	got := w.do(t, c)
	require.Equal(t, status, got.Code, "%s %s: %s", c.method, c.path, got.Body)
	if got.Body.Len() == 0 || status >= 400 {
		return nil
	}
	return fieldsOf(t, got)
}

func (w *whole) refused(t *testing.T, status int, code string, c call) problem {
	t.Helper()
	got := w.do(t, c)
	require.Equal(t, status, got.Code, "%s %s: %s", c.method, c.path, got.Body)
	p := problemIn(t, got)
	require.Equal(t, code, p.Code)
	return p
}

// until asks again until the answer is as wanted; what is awaited is at most a
// few ticks away.
func (w *whole) until(t *testing.T, c call, done func(map[string]any) bool) map[string]any {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		got := w.want(t, http.StatusOK, c)
		if done(got) {
			return got
		}
		require.True(t, time.Now().Before(deadline), "still %v", got)
		time.Sleep(10 * time.Millisecond)
	}
}

func at(position float64) func(map[string]any) bool {
	return func(got map[string]any) bool { return got["position"] == position }
}

func opsCall(method, path, body string) call {
	return call{method: method, path: "/v1/ops/events" + path, body: body}.with("Authorization", "Bearer "+testOperator)
}

// newcomer joins and returns a call that asks for the place.
func (w *whole) newcomer(t *testing.T, event string) call {
	t.Helper()
	got := w.want(t, http.StatusCreated, call{method: "POST", path: "/v1/events/" + event + "/entries"})
	token, ok := got["place_token"].(string)
	require.True(t, ok)
	require.Contains(t, got, "position", "the number is known at once")
	return call{method: "GET", path: "/v1/events/" + event + "/entries/me"}.with("Authorization", "Bearer "+token)
}

func (w *whole) admit(t *testing.T, event string, me call) string {
	t.Helper()
	w.want(t, http.StatusOK, opsCall("POST", "/"+event+"/admit", `{"count":1}`))
	got := w.want(t, http.StatusOK, me)
	require.Equal(t, "admitted", got["state"])
	token, ok := got["entry_token"].(string)
	require.True(t, ok)
	return token
}

// TestTheWholeWay goes from a new event to a paid-for seat over HTTP, on the real
// packages and the embedded stores.
func TestTheWholeWay(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	w.want(t, http.StatusCreated, opsCall("POST", "", `{"id":"gala","rate_per_s":5,"tickets":{"kind":"seats","sections":[{"id":"A","rows":1,"seats_per_row":3}]}}`))
	w.want(t, http.StatusCreated, opsCall("POST", "", `{"id":"other"}`))
	w.refused(t, http.StatusConflict, "exists", opsCall("POST", "", `{"id":"gala"}`))

	ann, bob := w.newcomer(t, "gala"), w.newcomer(t, "gala")
	w.until(t, ann, at(1))
	w.until(t, bob, at(2))
	again := w.want(t, http.StatusOK, ann.by("POST").at("/v1/events/gala/entries"))
	require.InDelta(t, 1, again["position"], 0)
	w.refused(t, http.StatusUnauthorized, "token_invalid", ann.at("/v1/events/other/entries/me"))

	token := w.admit(t, "gala", ann)
	w.until(t, bob, at(1))
	gate := call{method: "GET", path: "/v1/gate/gala"}
	w.refused(t, http.StatusUnauthorized, "token_invalid", gate.with("X-Entry-Token", ann.headers["Authorization"][len("Bearer "):]))
	w.refused(t, http.StatusForbidden, "token_wrong_event", gate.at("/v1/gate/other").with("X-Entry-Token", token))

	reserve := call{method: "POST", path: "/v1/events/gala/reservations", body: `{"seats":["A-1","A-2"]}`}.with("X-Entry-Token", token, "Idempotency-Key", "one")
	w.refused(t, http.StatusNotFound, "not_found", reserve.saying(`{"seats":["A-99"]}`).with("Idempotency-Key", "zero"))
	first := w.do(t, reserve)
	require.Equal(t, http.StatusCreated, first.Code, "%s", first.Body)
	replay := w.do(t, reserve)
	require.Equal(t, first.Body.Bytes(), replay.Body.Bytes(), "promise 9")
	require.Equal(t, "true", replay.Header().Get("Idempotency-Replayed"))
	w.refused(t, http.StatusUnprocessableEntity, "idempotency_mismatch", reserve.saying(`{"seats":["A-3"]}`))
	w.refused(t, http.StatusConflict, "token_used", reserve.with("Idempotency-Key", "two"))
	require.Equal(t, http.StatusNoContent, w.do(t, gate.with("Cookie", "waitroom_entry_gala="+token)).Code, "it says 204 also after a purchase")
	require.Equal(t, "entered", w.want(t, http.StatusOK, ann)["state"])

	held := fieldsOf(t, first)
	own := ann.at("/v1/events/gala/reservations/" + held["reservation_id"].(string))
	require.Equal(t, "held", w.want(t, http.StatusOK, own)["status"])
	w.refused(t, http.StatusNotFound, "not_found", own.with("Authorization", bob.headers["Authorization"]))
	w.until(t, call{method: "GET", path: "/v1/events/gala"}, func(got map[string]any) bool { return got["seats_left"] == 1.0 })

	bobs := w.admit(t, "gala", bob)
	taken := reserve.with("X-Entry-Token", bobs, "Idempotency-Key", "bob")
	w.refused(t, http.StatusConflict, "seat_taken", taken)
	stored := w.do(t, taken)
	require.Equal(t, http.StatusConflict, stored.Code)
	require.Equal(t, "true", stored.Header().Get("Idempotency-Replayed"), "a definite refusal is an answer too")

	pay := own.by("POST").at(own.path+"/payment").with("Idempotency-Key", "pay")
	require.Equal(t, "payment_pending", w.want(t, http.StatusAccepted, pay)["status"])
	w.refused(t, http.StatusConflict, "not_cancellable", own.by("DELETE"))

	jti := w.jti(t, bobs, "gala")
	w.want(t, http.StatusNoContent, opsCall("POST", "/gala/revoke", fmt.Sprintf(`{"jti":%q}`, jti)))
	w.refused(t, http.StatusForbidden, "token_revoked", gate.with("X-Entry-Token", bobs))
	complete := call{method: "POST", path: "/v1/events/gala/sessions/" + w.jti(t, token, "gala") + "/complete"}.with("Authorization", "Bearer "+testSite)
	w.want(t, http.StatusNoContent, complete)
	w.refused(t, http.StatusUnauthorized, "token_expired", gate.with("X-Entry-Token", token))
	require.Equal(t, "payment_pending", w.want(t, http.StatusOK, own.with("Authorization", "Bearer "+token))["status"])

	w.want(t, http.StatusOK, opsCall("PATCH", "/gala", `{"state":"closed"}`))
	w.refused(t, http.StatusForbidden, "closed", call{method: "POST", path: "/v1/events/gala/entries"})
	records, ok := w.want(t, http.StatusOK, opsCall("GET", "/gala/audit", ""))["records"].([]any)
	require.True(t, ok)
	require.GreaterOrEqual(t, len(records), 5)
	w.want(t, http.StatusNoContent, opsCall("DELETE", "/gala", ""))
	w.refused(t, http.StatusNotFound, "not_found", opsCall("GET", "/gala", ""))
}

func (w *whole) jti(t *testing.T, token, event string) string {
	t.Helper()
	pass, err := w.deps.Passes.Verify(token, waitroom.EventID(event))
	require.NoError(t, err)
	return pass.JTI
}

// TestStoreAwayClosesTheGate holds promises 8 and 10 on the real line.
func TestStoreAwayClosesTheGate(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	w.want(t, http.StatusCreated, opsCall("POST", "", `{"id":"gala","tickets":{"kind":"stock","stock":5}}`))
	me := w.newcomer(t, "gala")
	token := w.admit(t, "gala", me)
	w.want(t, http.StatusOK, call{method: "GET", path: "/readyz"})
	w.want(t, http.StatusOK, call{method: "GET", path: "/v1/events/gala"})

	w.want(t, http.StatusCreated, opsCall("POST", "", `{"id":"brave","fail":"open"}`))
	brave, later := w.admit(t, "brave", w.newcomer(t, "brave")), w.admit(t, "brave", w.newcomer(t, "brave"))
	open := call{method: "GET", path: "/v1/gate/brave"}.with("X-Entry-Token", brave)
	require.Equal(t, http.StatusNoContent, w.do(t, open).Code)

	require.NoError(t, w.rdb.Close())
	// Fail open: who was let in passes, marked and counted, and nobody else; nothing is sold.
	for _, pass := range []string{brave, later} {
		deadline := time.Now().Add(20 * time.Second) // memory is believed for a second
		for {
			got := w.do(t, open.with("X-Entry-Token", pass))
			require.Equal(t, http.StatusNoContent, got.Code, "%s", got.Body)
			if got.Header().Get("X-Waitroom-Unchecked") == "1" {
				break
			}
			require.True(t, time.Now().Before(deadline), "checked by whom?")
			time.Sleep(10 * time.Millisecond)
		}
	}
	metrics := w.do(t, call{method: "GET", path: "/metrics"}).Body.String()
	require.Regexp(t, `(?m)^waitroom_gate_unchecked_total ([2-9]|\d\d+)$`, metrics)
	w.refused(t, http.StatusUnauthorized, "token_required", open.with("X-Entry-Token", ""))
	w.refused(t, http.StatusForbidden, "token_wrong_event", open.with("X-Entry-Token", token))
	w.refused(t, http.StatusServiceUnavailable, "unavailable", call{method: "POST", path: "/v1/events/brave/entries"})
	gate := call{method: "GET", path: "/v1/gate/gala"}.with("X-Entry-Token", token)
	p := w.refused(t, http.StatusForbidden, "unavailable", gate)
	require.Positive(t, p.RetryAfterMS)
	w.refused(t, http.StatusServiceUnavailable, "unavailable", me)
	w.refused(t, http.StatusServiceUnavailable, "unavailable", call{method: "POST", path: "/v1/events/gala/entries"})
	w.refused(t, http.StatusServiceUnavailable, "unavailable", call{method: "POST", path: "/v1/events/gala/reservations", body: `{"quantity":1}`}.with("X-Entry-Token", token, "Idempotency-Key", "k"))
	w.refused(t, http.StatusServiceUnavailable, "unavailable", call{method: "GET", path: "/readyz"})
	w.want(t, http.StatusOK, call{method: "GET", path: "/healthz"})
	w.want(t, http.StatusOK, call{method: "GET", path: "/v1/events/gala"})
}

// TestFiftyJoinsAtOnceAreOnePlace joins with one cookie from fifty tabs.
func TestFiftyJoinsAtOnceAreOnePlace(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	w.want(t, http.StatusCreated, opsCall("POST", "", `{"id":"gala"}`))
	me := w.newcomer(t, "gala")
	entry := w.until(t, me, at(1))["entry_id"]
	var group errgroup.Group
	for range 50 {
		group.Go(func() error {
			got := w.do(t, me.by("POST").at("/v1/events/gala/entries"))
			if got.Code != http.StatusOK {
				return errors.New(got.Body.String())
			}
			if fieldsOf(t, got)["entry_id"] != entry {
				return errors.New("another entry")
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	counted := w.until(t, call{method: "GET", path: "/v1/events/gala"}, func(got map[string]any) bool { return got["waiting"] != 0.0 })
	require.InDelta(t, 1, counted["waiting"], 0)
}
