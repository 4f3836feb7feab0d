package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

// metrics is one sample of an event.
func (s *instance) metrics(event string) map[string]any {
	s.t.Helper()
	status, body := s.ops(http.MethodGet, "/"+event+"/metrics", nil)
	require.Equal(s.t, http.StatusOK, status, body)
	return body
}

// stays asks for a second whether a condition holds all the time.
func stays(t *testing.T, what string, condition func() bool) {
	t.Helper()
	began := time.Now()
	until(t, 30*time.Second, what, func() bool {
		require.True(t, condition(), what)
		return time.Since(began) > time.Second
	})
}

// A change by one instance is true at once in the store, and soon on the other's
// pages: pause, resume, rate, drain, close. No second holds more than the rate.
func TestContractSteering(t *testing.T) {
	t.Parallel()
	flags := realServers.flags(t)
	a, b := startInstance(t, flags...), startInstance(t, flags...)
	const rate, crowd = 20, 60
	a.create("steered", facts{"rate_per_s": rate, "state": "paused", "max_active": 50})
	people := make([]*person, crowd)
	for i := range people {
		people[i] = join(t, a, "steered")
	}
	count := func(what string) float64 { // by the store itself
		_, whole := b.ops(http.MethodGet, "/steered", nil)
		return whole[what].(float64)
	}
	admitted := func() float64 { return count("admitted") }
	stays(t, "nobody is let in while paused", func() bool { return admitted() == 0 })
	b.patch("steered", facts{"state": "open"})
	until(t, 20*time.Second, "some are in", func() bool { return admitted() >= 5 })
	a.patch("steered", facts{"state": "paused"})
	paused := admitted()
	stays(t, "nobody is let in after the pause", func() bool { return admitted() == paused })
	until(t, 5*time.Second, "the other instance says so", func() bool { return b.public("steered")["state"] == "paused" })
	b.patch("steered", facts{"state": "open"})
	until(t, 30*time.Second, "the room is full", func() bool { return admitted() == 50 })
	stays(t, "never more than max_active are inside", func() bool { return count("inside") == 50 })

	times := make([]int64, 0, 50)
	for _, p := range people[:50] {
		at, err := time.Parse(time.RFC3339, p.me(b)["admitted_at"].(string))
		require.NoError(t, err)
		times = append(times, at.UnixMilli())
	}
	require.True(t, slices.IsSorted(times), "in the order of the joins")
	for i := range times {
		n := 0
		for _, at := range times[i:] {
			if at-times[i] < 1000 {
				n++
			}
		}
		require.LessOrEqual(t, n, rate+rate/10, "the rate and one tick's rounding, also across the pause")
	}

	a.patch("steered", facts{"pass_through": true, "max_active": 0, "rate_per_s": 0})
	until(t, 10*time.Second, "everybody passes, whatever the rate", func() bool { return admitted() == crowd })
	until(t, 5*time.Second, "the other instance says so", func() bool { return b.public("steered")["pass_through"] == true })
	passer := join(t, b, "steered")
	until(t, 5*time.Second, "whoever joins passes", func() bool { return passer.me(a)["state"] == "admitted" })
	b.patch("steered", facts{"pass_through": false})
	for range 5 {
		join(t, a, "steered")
	}
	stays(t, "the rate of 0 counts again", func() bool { return admitted() == crowd+1 })

	a.patch("steered", facts{"state": "draining", "rate_per_s": 1000})
	until(t, 10*time.Second, "the line empties", func() bool { return admitted() == crowd+6 })
	until(t, 5*time.Second, "the other instance has the rate", func() bool { return b.public("steered")["rate_per_s"] == 1000.0 })
	request{method: "POST", path: "/v1/events/steered/entries"}.refused(t, b, 403, "closed")
	status, _, _ := call(t, http.MethodPost, b.url+"/v1/events/steered/entries", nil, bearerOf(people[0].token))
	require.Equal(t, http.StatusOK, status, "who has a turn keeps it")
	b.patch("steered", facts{"state": "closed"})
	request{method: "POST", path: "/v1/events/steered/entries"}.refused(t, a, 403, "closed")
	status, _ = a.ops(http.MethodDelete, "/steered", nil)
	require.Equal(t, http.StatusNoContent, status)
	request{method: "POST", path: "/v1/events/steered/entries"}.refused(t, b, 404, "not_found")
	until(t, 5*time.Second, "gone on the other instance", func() bool {
		status, _, _ := request{method: "GET", path: "/v1/events/steered"}.send(t, b)
		return status == http.StatusNotFound
	})
}

// The site's own load steers the rate; one that is not heard of any more is the floor.
func TestContractLoad(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	report := func(event string, usage float64) {
		t.Helper()
		status, _, body := call(t, http.MethodPut, s.url+"/v1/events/"+event+"/load", map[string]any{"pool_usage": usage}, bearerOf(siteKey))
		require.Equal(t, http.StatusNoContent, status, body)
	}
	decides := func(event, reason string, rate float64) {
		t.Helper()
		until(t, 20*time.Second, fmt.Sprint(event, ": ", reason, " at ", rate), func() bool {
			d, _ := s.metrics(event)["decision"].(map[string]any)
			return d["reason"] == reason && d["rate_per_s"] == rate
		})
	}
	s.create("busy", facts{"rate_per_s": 100, "load": facts{"stale_after": "5m", "steps": []facts{{"at": 0.8, "rate_per_s": 30}, {"at": 0.9, "rate_per_s": 0}}}})
	report("busy", 0.85)
	decides("busy", "database_busy", 30)
	report("busy", 0.95)
	decides("busy", "database_busy", 0)
	p := join(t, s, "busy")
	l := p.open(s)
	l.next(5*time.Second, "position")
	why := l.next(10*time.Second, "event")
	require.Equal(t, []any{"open", "database_busy"}, []any{why["state"], why["reason"]}, "why it takes longer")
	stays(t, "nobody is let in", func() bool { return p.me(s)["state"] == "waiting" })
	report("busy", 0.1)
	decides("busy", "rate", 100)
	p.admitted(l, 10*time.Second)

	s.create("silent", facts{"rate_per_s": 100, "load": facts{"stale_after": "1s", "floor_per_s": 3}})
	report("silent", 0.1)
	decides("silent", "load_unknown", 3)
}

// Operators let people in by hand, put them out, and every deed is in the audit.
func TestContractByHand(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	s.create("hand", facts{"state": "paused", "max_active": 3})
	people := []*person{join(t, s, "hand"), join(t, s, "hand"), join(t, s, "hand"), join(t, s, "hand"), join(t, s, "hand")}
	admit := func(body map[string]any) (int, map[string]any) { return s.ops(http.MethodPost, "/hand/admit", body) }
	status, body := admit(map[string]any{"entry_id": people[3].entry})
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, []any{people[3].entry}, body["entries"])
	require.Equal(t, "admitted", people[3].me(s)["state"], "outside the rate, and while paused")
	status, body = admit(map[string]any{"count": 10})
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, []any{people[0].entry, people[1].entry}, body["entries"], "inside max_active, from the front")
	request{"POST", "/v1/ops/events/hand/admit", `{"count":1}`, bearerOf(operatorToken)}.refused(t, s, 409, "full")
	until(t, 5*time.Second, "the next move up", func() bool { return people[2].me(s)["position"] == 1.0 })
	status, _ = s.ops(http.MethodPost, "/hand/block", map[string]any{"entry_id": people[2].entry})
	require.Equal(t, http.StatusNoContent, status)
	until(t, 5*time.Second, "the next moves up", func() bool { return people[4].me(s)["position"] == 1.0 })
	s.patch("hand", facts{"rate_per_s": 7})

	_, body = s.ops(http.MethodGet, "/hand/audit", nil)
	var deeds []string
	for _, record := range body["records"].([]any) {
		record := record.(map[string]any)
		deeds = append(deeds, record["what"].(string))
		require.Equal(t, "operator", record["by"])
		require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, record["at"])
	}
	require.Equal(t, []string{"create", "admit", "admit", "block", "patch"}, deeds)
	_, page := s.ops(http.MethodGet, "/hand/audit?limit=2&after="+body["records"].([]any)[0].(map[string]any)["id"].(string), nil)
	require.Equal(t, body["records"].([]any)[1:3], page["records"])

	until(t, 5*time.Second, "the rate is known", func() bool { return s.metrics("hand")["rate_per_s"] == 7.0 })
	m := s.metrics("hand")
	require.Equal(t, []any{"paused", 1.0, 3.0, 3.0, 7.0}, []any{m["state"], m["waiting"], m["inside"], m["admitted"], m["rate_per_s"]})
	until(t, 10*time.Second, "the decision is told", func() bool { m = s.metrics("hand"); return m["decision"] != nil })
	for _, at := range []any{m["now"], m["decision"].(map[string]any)["at"]} {
		require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, at)
	}
	header := http.Header{"Authorization": {"Bearer " + operatorToken}}
	conn, res, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(s.url, "http")+"/v1/ops/events/hand/live", header)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(15*time.Second)))
	for range 3 {
		var sample map[string]any
		require.NoError(t, conn.ReadJSON(&sample))
		require.EqualValues(t, 3, sample["inside"])
	}
	_, res, err = websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(s.url, "http")+"/v1/ops/events/hand/live", nil)
	require.ErrorIs(t, err, websocket.ErrBadHandshake)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusUnauthorized, res.StatusCode)
}

// The operator's commands do what the ops API does.
func TestContractCommands(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	env := []string{"WAITROOM_OPERATOR_TOKEN=" + operatorToken}
	event := func(status int, args ...string) (stdout, stderr string) {
		t.Helper()
		got, stdout, stderr := runCommand(t, env, append([]string{"event", "--target", s.url}, args...)...)
		require.Equal(t, status, got, "%v: %s", args, stderr)
		return stdout, stderr
	}
	file := writeFile(t, "events.yaml", "events:\n  - id: gig\n    name: The Gig\n    rate_per_s: 5\n    opens_at: 2099-01-01T00:00:00Z\n    tickets: {kind: stock, stock: 5}\n")
	out, _ := event(exitOK, "create", file)
	require.Contains(t, out, "scheduled")
	require.EqualValues(t, 5, s.public("gig")["seats_left"])
	event(exitOK, "rate", "gig", "7.5")
	_, whole := s.ops(http.MethodGet, "/gig", nil)
	require.InDelta(t, 7.5, whole["rate_per_s"], 0)
	out, _ = event(exitOK, "pass-through", "gig", "on")
	require.Regexp(t, `(?m)^gig +scheduled +all pass +0 `, out)
	event(exitOK, "pass-through", "gig", "off")
	event(exitUsage, "pass-through", "gig", "perhaps")
	event(exitOK, "set", "gig", `{"max_active":1}`)
	_, errs := event(exitUsage, "set", "gig", `{"max_actives":1}`)
	require.Contains(t, errs, "max_actives")
	event(exitUsage, "set", "gig", "1")
	event(exitUsage, "admit", "gig")
	for _, step := range [][2]string{{"open", "open"}, {"hold", "paused"}, {"pause", "paused"}, {"resume", "open"}, {"drain", "draining"}, {"reject", "closed"}, {"close", "closed"}} {
		event(exitOK, step[0], "gig")
		_, whole := s.ops(http.MethodGet, "/gig", nil)
		require.Equal(t, step[1], whole["state"])
	}
	out, _ = event(exitOK, "list")
	require.Regexp(t, `(?m)^gig +closed +7.5 +0 +0 +The Gig$`, out)
	out, _ = event(exitOK, "audit", "gig")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 12)
	for _, line := range lines {
		require.True(t, json.Valid([]byte(line)), line)
	}

	event(exitOK, "set", "gig", `{"state":"open","rate_per_s":0}`)
	one, two := join(t, s, "gig"), join(t, s, "gig")
	out, _ = event(exitOK, "admit", "gig", "--entry", two.entry)
	require.Equal(t, "1 let in\n", out)
	_, errs = event(exitFailed, "admit", "gig", "--count", "5")
	require.Contains(t, errs, "full", "inside max_active")
	event(exitOK, "block", "gig", one.entry)
	_, errs = event(exitFailed, "block", "gig", "never-was")
	require.Contains(t, errs, "not_found")
	_, errs = event(exitUsage, "block", "gig", "--subject", "ann")
	require.Contains(t, errs, "identity jwt", "an event whose people are anonymous")
	event(exitUsage, "block", "gig")
	request{method: "POST", path: "/v1/events/gig/entries", header: bearerOf(one.token)}.refused(t, s, 403, "blocked")

	// Named operators: what their role may, under their name, until they are revoked.
	crew := func(status int, token string, args ...string) string {
		t.Helper()
		got, stdout, stderr := runCommand(t, []string{"WAITROOM_OPERATOR_TOKEN=" + token}, append(args[:1:1], append([]string{"--target", s.url}, args[1:]...)...)...)
		require.Equal(t, status, got, "%v: %s", args, stderr)
		return strings.TrimSpace(stdout + stderr)
	}
	bob := crew(exitOK, operatorToken, "operators", "add", "bob", "--expires", "1h")
	eve := crew(exitOK, operatorToken, "operators", "add", "eve", "--role", "viewer")
	require.Regexp(t, `(?m)^bob +operator +2\S+Z +operator$`, crew(exitOK, operatorToken, "operators", "list"))
	crew(exitOK, bob, "event", "rate", "gig", "8.5")
	require.Contains(t, crew(exitFailed, eve, "event", "rate", "gig", "1"), "forbidden")
	require.Contains(t, crew(exitFailed, bob, "operators", "list"), "forbidden")
	require.Regexp(t, `,bob,patch,`, crew(exitOK, eve, "event", "audit", "gig", "--format", "csv"))
	crew(exitUsage, eve, "event", "audit", "gig", "--format", "xml")
	require.Contains(t, crew(exitUsage, operatorToken, "operators", "add", "x", "--role", "god"), "role")
	crew(exitOK, operatorToken, "operators", "revoke", "bob")
	trail := crew(exitOK, operatorToken, "operators", "audit")
	require.Regexp(t, `(?m)^2\S+Z +operator +add +eve +viewer +2\S+Z$`, trail)
	require.Regexp(t, `(?m)^2\S+Z +operator +revoke +bob +operator +2\S+Z$`, trail)
	require.NotContains(t, trail, bob)
	require.Contains(t, crew(exitFailed, eve, "operators", "audit"), "forbidden")
	require.Contains(t, crew(exitFailed, bob, "event", "list"), "token_invalid")

	_, errs = event(exitFailed, "rate", "nope", "1")
	require.Contains(t, errs, "not_found")
	_, errs = event(exitFailed, "create", file)
	require.Contains(t, errs, "exists")
	_, errs = event(exitUsage, "rate", "gig", "fast")
	require.Contains(t, errs, "fast")
	event(exitUsage, "rate", "gig")
	event(exitUsage, "dance", "gig")
	_, errs = event(exitFailed, "list", "--operator-token", "another-token")
	require.Contains(t, errs, "token_invalid")
	require.NotContains(t, errs, "another-token")
	status, _, errs := runCommand(t, env, "event", "list", "--target", "http://127.0.0.1:1")
	require.Equal(t, exitFailed, status)
	require.Contains(t, errs, "cannot be reached")
	require.Len(t, strings.Split(strings.TrimSpace(errs), "\n"), 1, "one clear line")
}

// A hall comes from a file, is sold, and is changed by another one; what is held stays.
func TestContractImportAndExport(t *testing.T) {
	t.Parallel()
	s := startInstance(t)
	env := []string{"WAITROOM_OPERATOR_TOKEN=" + operatorToken}
	event := func(status int, args ...string) (stdout, stderr string) {
		t.Helper()
		got, stdout, stderr := runCommand(t, env, append([]string{"event", "--target", s.url}, args...)...)
		require.Equal(t, status, got, "%v: %s", args, stderr)
		return stdout, stderr
	}
	s.create("filed", facts{"tickets": facts{"kind": "seats", "price_cents": 900}})
	s.create("copied", facts{"tickets": facts{"kind": "seats"}})
	const head = "section,row,number,kind,of,blocked\n"
	first := writeFile(t, "first.csv", head+"A,1,1,,,\nA,1,2,,,true\nA,1,3,wheelchair,,\nA,1,4,companion,A-1-3,\n")
	out, _ := event(exitOK, "import", "filed", first)
	require.Equal(t, "4 added, 0 changed, 0 removed\n", out)
	out, _ = event(exitOK, "import", "filed", first)
	require.Equal(t, "0 added, 0 changed, 0 removed\n", out)
	b := newBuyer(t, s, "filed")
	b.held(s, map[string]any{"seats": []string{"A-1-1"}})
	for _, format := range []string{"csv", "json"} {
		out, _ = event(exitOK, "export", "filed", "--format", format)
		event(exitOK, "import", "copied", writeFile(t, "copy."+format, out))
		copied, _ := event(exitOK, "export", "copied", "--format", format)
		require.Equal(t, out, copied)
	}
	_, errs := event(exitUsage, "import", "filed", writeFile(t, "second.csv", head+"A,1,2,,,\nA,1,x,,,\nA,1,3,couch,,\n"))
	require.Contains(t, errs, "line 3: number")
	require.Contains(t, errs, "line 4: kind")
	_, errs = event(exitUsage, "import", "filed", writeFile(t, "third.csv", head+"A,1,2,,,\nA,1,5,,,\n"))
	require.Contains(t, errs, "line 3: id: A-1-1 is held")
	require.Len(t, s.seatsOf("filed"), 4, "nothing was done")
	out, _ = event(exitOK, "import", "filed", writeFile(t, "fourth.csv", head+"A,1,1,,,\nA,1,2,,,\nA,1,5,,,\n"))
	require.Equal(t, "1 added, 1 changed, 2 removed\n", out)
	seats := s.seatsOf("filed")
	require.Len(t, seats, 3)
	require.True(t, strings.HasPrefix(seats["A-1-1"], "held "), "%v", seats)
	event(exitOK, "block-seats", "filed", "A-1-2", "A-1-5")
	require.Contains(t, s.seatsOf("filed")["A-1-5"], "blocked")
	_, errs = event(exitUsage, "block-seats", "filed", "A-1-1")
	require.Contains(t, errs, "A-1-1 is held")
	event(exitOK, "release-seats", "filed", "A-1-2")
	require.Contains(t, s.seatsOf("filed")["A-1-2"], "free")
	event(exitUsage, "release-seats", "filed")
	trail, _ := event(exitOK, "audit", "filed")
	require.Contains(t, trail, `"what":"seats","before":"{\"A-1-2\":\"free\",\"A-1-5\":\"free\"}","after":"{\"A-1-2\":\"blocked\",\"A-1-5\":\"blocked\"}"`)
	require.Contains(t, trail, `"what":"import","before":"{\"places\":3}","after":"{\"added\":1,\"changed\":1,\"removed\":2,\"places\":3,\"places_before\":3}"`)

	// The tokens of mode instant are made of the places that were imported.
	s.create("drop", facts{"mode": "instant", "quota": facts{"factor": 1}, "tickets": facts{"kind": "seats", "stock": 1}})
	event(exitOK, "import", "drop", writeFile(t, "drop.csv", head+"A,1,1,,,\nA,1,2,,,\nA,1,3,,,\n"))
	issued := 0
	for range 4 {
		if status, _, _ := call(t, http.MethodPost, s.url+"/v1/events/drop/tokens", nil, nil); status == http.StatusCreated {
			issued++
		}
	}
	require.Equal(t, 3, issued)
	event(exitFailed, "export", "nope")
	event(exitUsage, "export", "filed", "--format", "xml")
	event(exitUsage, "import", "filed", "no such file.csv")
}
