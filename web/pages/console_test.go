package pages_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/web/browsertest"
)

const operatorToken = "the-operators-token"

// operations plays the ops API for one event.
func (s *service) operations(mux *http.ServeMux) {
	guarded := func(h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if c, err := r.Cookie("waitroom_operator"); err != nil || c.Value != "a-session" {
				s.answer(w, http.StatusUnauthorized, doc{"status": 401, "code": "token_invalid"})
				return
			}
			h(w, r)
		}
	}
	session := func(value string, age int) *http.Cookie {
		return &http.Cookie{Name: "waitroom_operator", Value: value, Path: "/v1/ops", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode}
	}
	mux.HandleFunc("POST /v1/ops/session", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+operatorToken {
			s.answer(w, http.StatusUnauthorized, doc{"status": 401, "code": "token_invalid"})
			return
		}
		http.SetCookie(w, session("a-session", 60))
		s.answer(w, http.StatusOK, doc{"name": "operator", "role": "owner"})
	})
	mux.HandleFunc("DELETE /v1/ops/session", func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, session("", -1))
		w.WriteHeader(http.StatusNoContent)
	})
	event := func() doc {
		s.mu.Lock()
		defer s.mu.Unlock()
		return doc{"id": "demo", "name": "Demo night", "state": s.event["state"], "rate_per_s": s.event["rate_per_s"], "max_active": most(s), "pass_through": s.event["pass_through"] == true, "lanes": s.event["lanes"]}
	}
	mux.HandleFunc("GET /v1/ops/events", guarded(func(w http.ResponseWriter, _ *http.Request) {
		s.answer(w, http.StatusOK, doc{"events": []doc{event()}})
	}))
	mux.HandleFunc("GET /v1/ops/events/demo", guarded(func(w http.ResponseWriter, _ *http.Request) {
		s.answer(w, http.StatusOK, event())
	}))
	mux.HandleFunc("PATCH /v1/ops/events/demo", guarded(func(w http.ResponseWriter, r *http.Request) {
		s.patch(r)
		s.answer(w, http.StatusOK, event())
	}))
	mux.HandleFunc("POST /v1/ops/events/demo/block", guarded(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	mux.HandleFunc("POST /v1/ops/events/demo/admit", guarded(func(w http.ResponseWriter, _ *http.Request) {
		s.answer(w, http.StatusOK, doc{"admitted": 3, "entries": []string{"a", "b", "c"}})
	}))
	mux.HandleFunc("POST /v1/ops/events/demo/seats", guarded(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	mux.HandleFunc("GET /v1/ops/events/demo/metrics", guarded(func(w http.ResponseWriter, _ *http.Request) {
		e := event()
		s.answer(w, http.StatusOK, doc{
			"event": "demo", "state": e["state"], "waiting": 1234, "inside": 42, "admitted": 99, "admitted_per_s": 1.8,
			"rate_per_s": e["rate_per_s"], "max_active": e["max_active"], "pass_through": e["pass_through"], "pool_usage": 0.25, "estimate_kept": 0.914, "estimate_told": 210, "sockets": 7, "node": "N1", "leading": true,
			"decision": doc{
				"reason": "database_busy", "rate_per_s": 2, "held": "max_active", "pass_through": e["pass_through"], "leader": "N1", "fence": 5, "load": "pools: 1 of 4",
				"signals": []doc{{"detail": "pools: 1 of 4", "usage": 0.25, "age_ms": 1200}, {"detail": "site", "age_ms": 9000, "fault": "too old"}},
				"log":     doc{"n": 17, "hash": "0123456789abcdef"}, "lanes": s.decided,
			},
			"lanes": laneSamples(e["lanes"]),
		})
	}))
	mux.HandleFunc("GET /v1/ops/events/demo/audit", guarded(func(w http.ResponseWriter, r *http.Request) {
		records := []doc{{"id": "1-0", "at": s.stamp(0), "by": "operator", "what": "patch", "before": `{"rate_per_s":2}`, "after": `{"rate_per_s":9}`}}
		if r.URL.Query().Get("after") != "" {
			records = nil
		}
		s.answer(w, http.StatusOK, doc{"records": records})
	}))
}

// laneSamples are lanes as their settings have them, with some people in each.
func laneSamples(settings any) any {
	lanes, _ := settings.([]any)
	var out []doc
	for i, l := range lanes {
		lane, _ := l.(map[string]any)
		sample := doc{"name": lane["name"], "rate_per_s": lane["rate_per_s"], "waiting": 1000 * (i + 1), "inside": 7, "admitted": 1234, "admitted_per_s": 4.25, "max_active": 40 * i, "eta_s": 240}
		if sample["rate_per_s"] == nil {
			sample["rate_per_s"] = 20
		}
		if lane["paused"] == true {
			sample["paused"], sample["rate_per_s"], sample["admitted_per_s"] = true, 0, 0
		}
		out = append(out, sample)
	}
	return out
}

// The lanes of an event stand in a table, each with its own rate and pause, which are set
// without touching what else a lane is made of.
func TestConsoleLanes(t *testing.T) {
	t.Parallel()
	s := newService(t)
	load := map[string]any{"law": "none"}
	s.set(func(s *service) {
		s.event["lanes"] = []any{map[string]any{"name": "eu-west", "share": 0.4, "load": load}, map[string]any{"name": "na-east", "rate_per_s": 9}}
		s.decided = []doc{{"lane": "eu-west", "reason": "database_busy", "usage": 0.85, "load": "eu: 17 of 20"}, {"lane": "na-east", "reason": "rate"}}
	})
	p := browsertest.NewVisitor(t)
	p.Open(s.address + "/console")
	p.Until("document.activeElement.id === 'token'")
	p.Run("document.getElementById('token').value = '" + operatorToken + "'; document.getElementById('login').requestSubmit()")
	p.Panel("board")
	row := func(n int) string { return fmt.Sprintf("document.querySelectorAll('#lanes tr')[%d]", n) }
	p.Until(row(1) + " !== undefined")
	require.Equal(t, []string{"eu-west", "1,000", "4.3 of 20", "Held back: the database is busy – 85% (eu: 17 of 20)", "1,234", "7", "~ 4 min"},
		browsertest.Value[[]string](p, "[..."+row(0)+".children].slice(0, 7).map((c) => c.textContent)"))
	require.Equal(t, []string{"na-east", "2,000", "4.3 of 9", "At the event’s own rate", "1,234", "7 of 40 at most", "~ 4 min"},
		browsertest.Value[[]string](p, "[..."+row(1)+".children].slice(0, 7).map((c) => c.textContent)"))
	require.Equal(t, []string{"", "share: 40%", "9"}, browsertest.Value[[]string](p, "[...document.querySelectorAll('#lanes input')].flatMap((i) => [i.value, i.placeholder]).slice(0, 3)"))
	shots(t, p, "console-lanes")

	p.Run("const i = " + row(0) + ".querySelector('input'); i.value = '12'; i.dispatchEvent(new Event('input', { bubbles: true })); i.form.requestSubmit()")
	p.Until(row(0) + ".children[2].textContent === '4.3 of 12'")
	pause := row(1) + ".querySelector('button[type=button]')"
	require.Equal(t, "Pause na-east", browsertest.Value[string](p, pause+".ariaLabel"))
	p.Run(pause + ".click()")
	p.Until(pause + ".textContent === 'Resume' && " + row(1) + ".children[3].textContent === 'Paused by hand'")
	shots(t, p, "console-lane-paused")
	p.Run(pause + ".click()")
	p.Until(pause + ".textContent === 'Pause'")
	p.Run("const j = " + row(1) + ".querySelector('input'); j.value = ''; j.form.requestSubmit()")
	p.Until(row(1) + ".querySelector('input').placeholder === 'the event’s' && " + row(1) + ".children[2].textContent === '4.3 of 20'")
	p.NoFaults()
	s.mu.Lock()
	defer s.mu.Unlock()
	var patches []string
	for _, c := range s.calls {
		if c.Method == http.MethodPatch {
			patches = append(patches, c.Body)
		}
	}
	require.Equal(t, []string{
		`{"lanes":[{"load":{"law":"none"},"name":"eu-west","rate_per_s":12},{"name":"na-east","rate_per_s":9}]}`,
		`{"lanes":[{"load":{"law":"none"},"name":"eu-west","rate_per_s":12},{"name":"na-east","rate_per_s":9,"paused":true}]}`,
		`{"lanes":[{"load":{"law":"none"},"name":"eu-west","rate_per_s":12},{"name":"na-east","rate_per_s":9}]}`,
		`{"lanes":[{"load":{"law":"none"},"name":"eu-west","rate_per_s":12},{"name":"na-east"}]}`,
	}, patches)
}

// most is the limit of people inside: 500, or what was set.
func most(s *service) any {
	if n, ok := s.event["max_active"]; ok {
		return n
	}
	return 500
}

// The operator's token opens the console, is traded for a session and kept nowhere,
// and the deeds do what they say.
func TestConsole(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := browsertest.NewVisitor(t)
	p.Open(s.address + "/console")
	p.Until("document.activeElement.id === 'token'")
	enter := func(token string) {
		p.Run("document.getElementById('token').value = '" + token + "'; document.getElementById('login').requestSubmit()")
	}
	enter("another-token")
	p.Reads("note", "The service does not accept this token.")
	enter(operatorToken)
	p.Panel("board")
	p.Reads("waiting", "1,234")
	p.Reads("inside-of", "of 500 at most")
	p.Reads("pool", "25%")
	p.Reads("why", "Held back: the database is busy (2 a second), kept back by: the house is full")
	p.Reads("estimate", "91%")
	p.Reads("signals", "25% (pools: 1 of 4), 1.2 s old · – (site), 9 s old: too old")
	p.Reads("log", "17 leaves, head 0123456789ab")
	p.Reads("leader", "N1, the node that answers")
	p.Until("document.getElementById('audit').textContent.includes('rate_per_s: 2 → 9')")

	p.Run("document.getElementById('rate').value = '7'; document.getElementById('rate-form').requestSubmit()")
	p.Reads("rate-of", "of 7 allowed")
	p.Click("pause")
	p.Reads("state", "Paused")
	p.Reads("open", "Resume")
	p.Click("open")
	p.Reads("state", "Open")
	p.Click("pass")
	p.Until("document.getElementById('sure').open")
	p.Run("document.querySelector('#sure [value=yes]').click()")
	p.Reads("pass", "Keep to the rate again")
	p.Reads("why", "Everybody passes; the law would have: Held back: the database is busy (2 a second), kept back by: the house is full")
	p.Click("pass")
	p.Reads("pass", "Let everybody pass")
	p.Run("document.getElementById('most').value = '50'; document.getElementById('most-form').requestSubmit()")
	p.Reads("inside-of", "of 50 at most")
	p.Run("document.getElementById('person').value = 'e-17'")
	p.Click("person-block")
	p.Until("document.getElementById('sure').open")
	p.Run("document.querySelector('#sure [value=yes]').click()")
	p.Reads("say", "They are blocked.")
	p.Click("close")
	p.Until("document.getElementById('sure').open")
	p.Run("document.querySelector('#sure [value=no]').click()")
	p.Run("document.getElementById('admit-count').value = '3'; document.getElementById('admit-form').requestSubmit()")
	p.Reads("note", "3 people were let in.")
	p.Run("document.getElementById('seats-ids').value = 'A-1-1, A-1-2'; document.getElementById('seats-release').click()")
	p.Until("document.getElementById('seats-ids').value === ''")
	require.JSONEq(t, `{"release":["A-1-1","A-1-2"]}`, func() (body string) {
		s.set(func(s *service) {
			for _, c := range s.calls {
				if strings.HasSuffix(c.Path, "/demo/seats") && c.Method == http.MethodPost {
					body = c.Body
				}
			}
		})
		return body
	}())

	p.Open(s.address + "/console") // a refresh stays signed in
	p.Panel("board")
	require.Empty(t, browsertest.Value[string](p, "(JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.cookie).match(/"+operatorToken+"|a-session/)?.[0] ?? ''"), "kept on the device")
	s.mu.Lock()
	var patches []string
	blocked := false
	for _, c := range s.calls {
		require.NotContains(t, c.Path+c.Query, operatorToken)
		if c.Path != "/v1/ops/session" {
			require.Empty(t, c.Header.Get("Authorization"))
		}
		if c.Method == http.MethodPatch {
			patches = append(patches, c.Body)
		}
		if c.Method == http.MethodPost && c.Path == "/v1/ops/events/demo/block" {
			require.JSONEq(t, `{"entry_id":"e-17"}`, c.Body)
			blocked = true
		}
		if c.Method == http.MethodPost && c.Path == "/v1/ops/events/demo/admit" {
			require.NotEmpty(t, c.Header.Get("Idempotency-Key"))
			require.JSONEq(t, `{"count":3}`, c.Body)
		}
	}
	s.mu.Unlock()
	require.Equal(t, []string{`{"rate_per_s":7}`, `{"state":"paused"}`, `{"state":"open"}`, `{"pass_through":true}`, `{"pass_through":false}`, `{"max_active":50}`}, patches)
	require.True(t, blocked)
	p.NoFaults()
	p.Click("out")
	p.Panel("login")
	p.Open(s.address + "/console")
	p.Until("document.activeElement.id === 'token'") // signed out is signed out
}
