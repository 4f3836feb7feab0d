package web

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web/identity"
	"github.com/waitroom-dev/waitroom/web/operators"
)

func TestOpsCreateStocksTheEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var put ticket.Catalogue
	r.tickets.put = func(c ticket.Catalogue) error { put = c; return nil }
	create := ops.by("POST").saying(`{"id":"gala","state":"lobby","rate_per_s":5,"tickets":{"kind":"seats","hold_ttl":"90s",
		"sections":[{"id":"A","rows":2,"seats_per_row":3,"price_cents":700}]}}`)
	w := r.do(t, create)
	require.Equal(t, http.StatusCreated, w.Code, "%s", w.Body)
	got := fieldsOf(t, w)
	require.Equal(t, "gala", got["id"])
	require.Equal(t, "lobby", got["state"])
	require.Equal(t, "2026-05-01T12:00:00.250Z", got["now"])
	require.Equal(t, "5m", got["claim_ttl"])
	require.Equal(t, ticket.Catalogue{
		Kind: "seats", PriceCents: 5000, Currency: "EUR", PerUser: 2, HoldTTL: 90 * time.Second,
		Locking: "optimistic", OnBreakerOpen: "wait",
		Sections: []ticket.SectionSpec{{ID: "A", Rows: 2, SeatsPerRow: 3, PriceCents: new(int64(700))}},
	}, put)

	r.tickets.put = func(ticket.Catalogue) error { return ticket.ErrUnavailable }
	require.Equal(t, http.StatusServiceUnavailable, r.do(t, create).Code)
	require.Equal(t, []waitroom.EventID{"gala"}, r.ops.deleted, "an event without its seats is taken back")
}

func TestOpsCreateRefusesPeopleItCannotKnow(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config, _ *Deps) { c.Identity = identity.Config{} })
	for _, c := range []call{
		ops.by("POST").saying(`{"id":"gala","identity":"jwt"}`),
		ops.by("PATCH").at("/v1/ops/events/demo").saying(`{"identity":"jwt"}`),
	} {
		p := problemIn(t, r.do(t, c))
		require.Equal(t, "identity", p.Errors[0].Field)
	}
	require.Empty(t, r.ops.created)
	require.Empty(t, r.ops.patched)
}

func TestOpsEventCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.do(t, ops)
	events, ok := fieldsOf(t, w)["events"].([]any)
	require.True(t, ok)
	require.Len(t, events, 1)

	w = r.do(t, ops.at("/v1/ops/events/demo"))
	require.Equal(t, "2026-05-01T11:00:00.250Z", fieldsOf(t, w)["opens_at"])

	w = r.do(t, ops.by("PATCH").at("/v1/ops/events/demo").saying(`{"rate_per_s":200}`))
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, []string{`{"rate_per_s":200}`}, r.ops.patched)
	require.InDelta(t, 2, fieldsOf(t, w)["version"], 0)

	require.Equal(t, http.StatusNoContent, r.do(t, ops.by("DELETE").at("/v1/ops/events/demo")).Code)
	require.Equal(t, []waitroom.EventID{"demo"}, r.ops.deleted)
	require.Equal(t, http.StatusNoContent, r.do(t, ops.by("POST").at("/v1/ops/events/demo/block").saying(`{"entry_id":"e"}`)).Code)
	require.Equal(t, http.StatusNoContent, r.do(t, ops.by("POST").at("/v1/ops/events/demo/revoke").saying(`{"jti":"j"}`)).Code)
	require.JSONEq(t, `{"waiting":5}`, r.do(t, ops.at("/v1/ops/events/demo/metrics")).Body.String())
	require.JSONEq(t, `{"records":[{"id":"1-0","at":"2026-05-01T12:00:00.250Z","by":"operator","what":"patch","before":"5-0","after":"7"}]}`,
		r.do(t, ops.at("/v1/ops/events/demo/audit?after=5-0&limit=7")).Body.String())
	require.Equal(t, "ops demo", r.do(t, ops.at("/v1/ops/events/demo/live")).Body.String())
	require.Equal(t, http.StatusUnauthorized, r.do(t, ops.at("/v1/ops/events/demo/live").with("Authorization", "")).Code)
	r.refusedFor(t, ops.at("/v1/ops/events/nosuch/live"), "not_found")
}

func TestOpsAdmit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var got []waitroom.AdmitRequest
	r.ops.admit = func(req waitroom.AdmitRequest) ([]waitroom.Grant, error) {
		got = append(got, req)
		return []waitroom.Grant{annsGrant("demo")}, nil
	}
	admit := ops.by("POST").at("/v1/ops/events/demo/admit")
	w := r.do(t, admit.saying(`{"count":10}`).with("Idempotency-Key", "req-1"))
	require.JSONEq(t, `{"admitted":1,"entries":["ann-entry"]}`, w.Body.String())
	r.do(t, admit.saying(`{"entry_id":"ann-entry"}`))
	require.Equal(t, []waitroom.AdmitRequest{
		{RequestID: "req-1", Count: 10, By: "operator"}, {Entry: ann, By: "operator"},
	}, got)
}

func TestSiteCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var done string
	r.line.complete = func(jti string) error { done = jti; return nil }
	require.Equal(t, http.StatusNoContent, r.do(t, loading.saying("").by("POST").at("/v1/events/demo/sessions/jti-1/complete")).Code)
	require.Equal(t, "jti-1", done)

	var ids []string
	r.line.use = func(jti, id string) error { ids = append(ids, jti+" "+id); return nil }
	using := loading.saying("").by("POST").at("/v1/events/demo/sessions/jti-2/use")
	require.Equal(t, http.StatusNoContent, r.do(t, using.with("Idempotency-Key", "visit-1")).Code)
	require.Equal(t, http.StatusNoContent, r.do(t, using).Code)
	require.Equal(t, "jti-2 visit-1", ids[0])
	require.Greater(t, len(ids[1]), len("jti-2 0123456789"), "an id of its own")
	require.Equal(t, http.StatusNoContent, r.do(t, loading).Code)
	require.InDelta(t, 0.5, r.load.usage, 0)

	nobody := newRig(t, func(c *Config, _ *Deps) { c.SiteKey = "" })
	require.Equal(t, "token_invalid", problemIn(t, nobody.do(t, loading)).Code, "an empty key is nobody's")
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	away := errors.New("connection refused at secret-host")
	r := newRig(t, func(_ *Config, d *Deps) {
		d.Ready = []Check{{"store", d.Line.(*fakeLine).ping}, {"database", d.Line.(*fakeLine).ping}}
	})
	require.Equal(t, http.StatusOK, r.do(t, asking.at("/readyz")).Code)
	r.line.down = away
	w := r.do(t, asking.at("/readyz"))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.NotContains(t, w.Body.String(), "secret-host")
	require.Equal(t, http.StatusOK, r.do(t, asking.at("/healthz")).Code, "promise 10")
	require.Equal(t, http.StatusOK, r.do(t, asking.at("/healthz").by("HEAD")).Code)
	r.line.down = nil
	r.draining.Store(true)
	require.Equal(t, http.StatusServiceUnavailable, r.do(t, asking.at("/readyz")).Code)
}

func TestMetricsAskForAToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do(t, asking.at("/v1/events/nope"))
	w := r.do(t, asking.at("/metrics"))
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `waitroom_http_refusals_total{code="not_found",route="/v1/events/:event"} 1`)
	scrape := func(r *rig, token string) int {
		return r.do(t, asking.at("/metrics").with("Authorization", token)).Code
	}
	r = newRig(t, func(c *Config, _ *Deps) { c.MetricsToken, c.OpenMetrics = "metrics-token", false })
	require.Equal(t, http.StatusUnauthorized, scrape(r, ""))
	require.Equal(t, http.StatusOK, scrape(r, "Bearer metrics-token"))
	require.Equal(t, http.StatusOK, scrape(r, "Bearer "+testOperator))
	require.Equal(t, http.StatusUnauthorized, r.do(t, ops.with("Authorization", "Bearer metrics-token")).Code, "it opens nothing else")

	r = staffed(t)
	r.cfg.OpenMetrics = false
	viewer := r.hire(t, "prometheus", operators.Viewer)
	require.Equal(t, http.StatusOK, scrape(r, "Bearer "+viewer), "who may see may scrape")
	require.Equal(t, http.StatusUnauthorized, scrape(r, "Bearer "+viewer[1:]))
	require.NoError(t, r.deps.Operators.Revoke(t.Context(), "prometheus", "ann"))
	require.Equal(t, http.StatusUnauthorized, scrape(r, "Bearer "+viewer))
}

func TestOpsBooks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.do(t, ops.by("GET").at("/v1/ops/events/demo/books"))
	require.Equal(t, http.StatusOK, w.Code)
	require.JSONEq(t, `{"event":"demo","at":"2026-05-01T12:00:00.250Z","pass":false,
		"sums":[{"name":"money","expected":2,"found":1,"pass":false,"note":"1 differ"}],"counts":{"seats sold":2}}`, w.Body.String())
	require.Equal(t, http.StatusUnauthorized, r.do(t, call{method: "GET", path: "/v1/ops/events/demo/books"}).Code)
	w = r.do(t, ops.by("POST").at("/v1/ops/events/demo/replay"))
	require.Equal(t, http.StatusOK, w.Code)
	require.JSONEq(t, `{"replayed":3}`, w.Body.String())
	w = r.do(t, ops.by("POST").at("/v1/ops/events/demo/replay").saying(`{"from":3}`))
	require.Equal(t, http.StatusUnprocessableEntity, w.Code, "an unknown field is refused, and nothing replayed")
	bare := newRig(t, func(_ *Config, d *Deps) { d.Books = nil })
	require.Equal(t, http.StatusNotFound, bare.do(t, ops.by("GET").at("/v1/ops/events/demo/books")).Code)
}

// What cannot be sold is refused with its fields, and never becomes the settings.
func TestOpsRefusesWhatCannotBeSold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := problemIn(t, r.do(t, ops.by("POST").saying(`{"id":"term","tickets":{"kind":"courses","items":[
		{"id":"math","capacity":5,"meetings":["mon 10:00-09:00"]}]}}`)))
	require.Equal(t, "tickets.items[0].meetings[0]", p.Errors[0].Field)
	p = problemIn(t, r.do(t, ops.by("POST").saying(`{"id":"shots","tickets":{"kind":"slots","items":[
		{"id":"s1","capacity":5,"starts_at":"2026-05-01T10:00:00Z"},{"id":"s1","capacity":-1}]}}`)))
	var fields []string
	for _, e := range p.Errors {
		fields = append(fields, e.Field)
	}
	require.Equal(t, []string{
		"tickets.items[0].ends_at", "tickets.items[1].id", "tickets.items[1].capacity", "tickets.items[1].starts_at", "tickets.items[1].ends_at",
	}, fields)
	require.Empty(t, r.ops.created)

	patch := ops.by("PATCH").at("/v1/ops/events/demo")
	r.tickets.put = func(ticket.Catalogue) error { return ticket.ErrWrongMode }
	require.Equal(t, "wrong_mode", problemIn(t, r.do(t, patch.saying(`{"tickets":{"kind":"stock","stock":5}}`))).Code)
	require.Empty(t, r.ops.patched, "the settings are as they were")
}

func TestAnEventThatSellsNothingHasNoMap(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.tickets.seats = &ticket.Map{Event: "demo", Kind: "seats"}
	get := call{method: "GET", path: "/v1/events/demo/seats"}
	require.Equal(t, http.StatusOK, r.do(t, get).Code)
	r.view.event.Tickets.Kind = "none"
	require.Equal(t, "wrong_mode", problemIn(t, r.do(t, get)).Code, "whatever the tickets' store still knows")
	require.Equal(t, http.StatusNoContent, r.do(t, ops.by("DELETE").at("/v1/ops/events/demo")).Code)
	require.Equal(t, []string{"demo"}, r.tickets.removed)
}

func TestPaymentWebhooks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	send := func(provider, signature string) int {
		c := call{method: "POST", path: "/v1/payments/webhooks/" + provider}.with("Stripe-Signature", signature)
		return r.do(t, c.saying(`{"type":"x"}`)).Code
	}
	require.Equal(t, http.StatusOK, send("stripe", "good"))
	require.Equal(t, http.StatusUnauthorized, send("stripe", "bad"))
	require.Equal(t, http.StatusNotFound, send("other", "good"))
}
