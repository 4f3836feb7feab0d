package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket/sqltest"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// The whole way on a cluster of three masters, with events on all of them.
func TestContractCluster(t *testing.T) {
	t.Parallel()
	addrs := strings.Join(redistest.Cluster(t).Options().Addrs, ",")
	flags := []string{"--redis", "redis+cluster://" + addrs, "--database", sqltest.Postgres(t), "--limits", "off"}
	a, b := startInstance(t, flags...), startInstance(t, flags...)
	for _, event := range []string{"one", "two", "three", "four", "five", "six"} {
		a.create(event, facts{"rate_per_s": 50, "tickets": facts{"kind": "stock", "stock": 5}})
		status, _, body := call(t, http.MethodPut, b.url+"/v1/events/"+event+"/load", map[string]any{"pool_usage": 0.1}, bearerOf(siteKey))
		require.Equal(t, http.StatusNoContent, status, body)
		in := newBuyer(t, b, event)
		require.Equal(t, in.pass, in.open(a).next(5*time.Second, "admitted")["entry_token"])
		id := in.held(b, map[string]any{"quantity": 2})
		status, _, body = in.pay(a, id, "pay", "")
		require.Equal(t, http.StatusAccepted, status, body)
		in.becomes(b, id, "paid")
		status, _, _ = call(t, http.MethodDelete, b.url+"/v1/events/"+event+"/entries/me", nil, bearerOf(in.token))
		require.Equal(t, http.StatusNoContent, status)
	}
	_, body := b.ops(http.MethodGet, "", nil)
	require.Len(t, body["events"], 7, "and the demo")
	for _, event := range []string{"one", "two", "three"} {
		status, body := b.ops(http.MethodDelete, "/"+event, nil)
		require.Equal(t, http.StatusNoContent, status, body)
	}
}

// Parts of a service run apart: one takes the line and lets people in, another sells.
func TestContractRolesApart(t *testing.T) {
	t.Parallel()
	flags := realServers.flags(t)
	with := func(roles string) *instance {
		return startInstance(t, append([]string{"--roles", roles}, flags...)...)
	}
	line, admission, seller, worker := with("line"), with("admission"), with("ticket"), with("worker")
	seller.create("parts", facts{"tickets": facts{"kind": "stock", "stock": 5}})
	p := join(t, line, "parts")
	l := p.open(line)
	b := p.admitted(l, 20*time.Second)
	id := b.held(seller, map[string]any{"quantity": 1})
	status, _, body := b.pay(seller, id, "pay", "")
	require.Equal(t, http.StatusAccepted, status, body)
	require.Equal(t, "paid", l.next(20*time.Second, "reservation")["status"], "told on the socket of another part")
	b.becomes(seller, id, "paid")
	request{"POST", "/v1/events/parts/reservations", `{"quantity":1}`, b.header("k")}.refused(t, line, 404, "not_found")
	for _, s := range []*instance{line, admission, seller, worker} {
		require.Equal(t, s == admission, s.metrics("parts")["leading"])
		status, _, _ := request{method: "GET", path: "/readyz"}.send(t, s)
		require.Equal(t, http.StatusOK, status)
	}
}

// With the database away nothing is sold and nothing is lost, the line goes on, at
// its floor, and everything comes back by itself. Whom it failed inside comes in once
// more by the credit of that answer, outside the rate, unless they bought in the end.
func TestContractDatabaseAway(t *testing.T) {
	t.Parallel()
	database := sqltest.Alone(t)
	s := startInstance(t, "--redis", redistest.Start(t, redistest.Config{}).URL(), "--database", database.URL(), "--limits", "off")
	s.create("sale", facts{"rate_per_s": 50, "tickets": facts{"kind": "stock", "stock": 5}, "load": facts{"floor_per_s": 2}})
	holder, late, failed := newBuyer(t, s, "sale"), newBuyer(t, s, "sale"), newBuyer(t, s, "sale")
	id := holder.held(s, map[string]any{"quantity": 2})

	database.Stop()
	lateCredit := request{"POST", "/v1/events/sale/reservations", `{"quantity":1}`, late.header("k")}.refused(t, s, 503, "unavailable")["credit"]
	credit := request{"POST", "/v1/events/sale/reservations", `{"quantity":1}`, failed.header("k")}.refused(t, s, 503, "unavailable")["credit"]
	request{"GET", "/v1/events/sale/reservations/" + id, "", holder.header("")}.refused(t, s, 503, "unavailable")
	request{"POST", "/v1/events/sale/reservations/" + id + "/payment", "", holder.header("k")}.refused(t, s, 503, "unavailable")
	request{method: "GET", path: "/readyz"}.refused(t, s, 503, "unavailable")
	status, _, _ := request{method: "GET", path: "/healthz"}.send(t, s)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, http.StatusNoContent, late.passes(s), "the gate does not need it")
	until(t, 20*time.Second, "the rate is the floor", func() bool {
		d, _ := s.metrics("sale")["decision"].(map[string]any)
		return d["reason"] == "load_unknown" && d["rate_per_s"] == 2.0
	})
	newBuyer(t, s, "sale")

	require.NoError(t, database.Start())
	until(t, 30*time.Second, "ready again", func() bool {
		status, _, _ := request{method: "GET", path: "/readyz"}.send(t, s)
		return status == http.StatusOK
	})
	status, _, body := late.reserve(s, "k", map[string]any{"quantity": 1})
	require.Equal(t, http.StatusCreated, status, "a refusal of this kind is not kept: %v", body)
	redeem := func(b *buyer, credit any) (int, map[string]any) {
		status, _, body := call(t, http.MethodPost, s.url+"/v1/events/sale/credits", map[string]any{"credit": credit}, bearerOf(b.token))
		return status, body
	}
	status, body = redeem(late, lateCredit)
	require.Equal(t, []any{http.StatusConflict, "token_used"}, []any{status, body["code"]}, "it has bought")
	status, body = redeem(late, credit)
	require.Equal(t, []any{http.StatusUnauthorized, "token_invalid"}, []any{status, body["code"]}, "somebody else's")
	status, body = redeem(failed, credit)
	require.Equal(t, []any{http.StatusOK, failed.pass}, []any{status, body["entry_token"]}, "the turn still runs")
	leave := request{"DELETE", "/v1/events/sale/entries/me", "", bearerOf(failed.token)}
	status, _, _ = leave.send(t, s)
	require.Equal(t, http.StatusNoContent, status)
	s.patch("sale", facts{"rate_per_s": 0})
	status, body = redeem(failed, credit)
	require.Equal(t, []any{http.StatusCreated, "admitted"}, []any{status, body["state"]}, body)
	failed.pass, _ = body["entry_token"].(string)
	require.Equal(t, http.StatusNoContent, failed.passes(s))
	status, _, _ = leave.send(t, s)
	require.Equal(t, http.StatusNoContent, status)
	status, body = redeem(failed, credit)
	require.Equal(t, []any{http.StatusConflict, "token_used"}, []any{status, body["code"]}, "once")
	s.patch("sale", facts{"rate_per_s": 50})
	status, _, _ = holder.pay(s, id, "k", "")
	require.Equal(t, http.StatusAccepted, status)
	holder.becomes(s, id, "paid")
	until(t, 20*time.Second, "the rate is back", func() bool {
		d, _ := s.metrics("sale")["decision"].(map[string]any)
		return d["rate_per_s"] == 50.0
	})
}

// A store that lost everything gets its events from the service and its line from
// the people who wait, whose sockets stay open all the while.
func TestContractEmptiedStore(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.Config{})
	s := startInstance(t, "--redis", srv.URL(), "--database", sqltest.Postgres(t), "--limits", "off")
	s.create("line", facts{"rate_per_s": 0})
	people := make([]*person, 5)
	sockets := make([]*live, len(people))
	for i := range people {
		people[i] = join(t, s, "line")
		sockets[i] = people[i].open(s)
		require.EqualValues(t, i+1, sockets[i].next(5*time.Second, "position")["position"])
	}
	require.NoError(t, srv.Client(t).FlushAll(t.Context()).Err())
	until(t, 20*time.Second, "the line to be put back", func() bool {
		status, _, body := call(t, http.MethodGet, s.url+"/v1/events/line", nil, nil)
		return status == http.StatusOK && body["waiting"] == float64(len(people))
	})
	for i, p := range people {
		require.EqualValues(t, i+1, p.me(s)["position"], "the place of before")
	}
	status, body := s.ops(http.MethodPatch, "/line", facts{"rate_per_s": 50})
	require.Equal(t, http.StatusOK, status, body)
	for _, l := range sockets {
		l.next(20*time.Second, "admitted")
	}
	status, body = s.ops(http.MethodDelete, "/line", nil)
	require.Equal(t, http.StatusNoContent, status, body)
	for _, l := range sockets {
		require.Equal(t, 4404, l.closed(20*time.Second), "a deleted event does not come back")
	}
}

// A store that hangs lets nobody pass, keeps nobody waiting for the answer, and is
// told to those who wait; when it answers again, so does everything.
func TestContractStoreHangs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	s := startInstance(t, "--redis", server.URL(), "--limits", "off")
	s.create("hangs", facts{"rate_per_s": 50})
	b := newBuyer(t, s, "hangs")
	s.patch("hangs", facts{"state": "paused"})
	until(t, 5*time.Second, "the pause is known", func() bool { return s.public("hangs")["state"] == "paused" })
	p := join(t, s, "hangs")
	l := p.open(s)
	l.next(5*time.Second, "position")

	server.Freeze(t)
	began := time.Now()
	request{method: "GET", path: "/v1/gate/hangs", header: b.header("")}.refused(t, s, 403, "unavailable")
	request{method: "POST", path: "/v1/events/hangs/entries"}.refused(t, s, 503, "unavailable")
	request{method: "GET", path: "/v1/events/hangs/entries/me", header: bearerOf(p.token)}.refused(t, s, 503, "unavailable")
	require.Less(t, time.Since(began), 20*time.Second, "each has its deadline")
	until(t, 30*time.Second, "told on the socket", func() bool { return l.next(30*time.Second, "event")["reason"] == "store_unavailable" })
	require.Equal(t, "paused", s.public("hangs")["state"], "what everybody may know is told from memory")
	status, _, _ := request{method: "GET", path: "/healthz"}.send(t, s)
	require.Equal(t, http.StatusOK, status)

	server.Thaw(t)
	until(t, 30*time.Second, "told on the socket", func() bool { return l.next(30*time.Second, "event")["reason"] != "store_unavailable" })
	until(t, 20*time.Second, "the gate is open", func() bool { return b.passes(s) == http.StatusNoContent })
	require.EqualValues(t, 1, p.me(s)["position"])
	s.patch("hangs", facts{"state": "open"})
	p.admitted(l, 20*time.Second)
}
