package web

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

func fieldsOf(tb testing.TB, w *httptest.ResponseRecorder) map[string]any {
	tb.Helper()
	require.Equal(tb, "application/json", w.Header().Get("Content-Type"), "%s", w.Body)
	var m map[string]any
	require.NoError(tb, json.Unmarshal(w.Body.Bytes(), &m))
	return m
}

func TestEventIsCacheableAndItsETagIgnoresNow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	opens := time.Date(2026, 5, 1, 14, 0, 0, 0, time.FixedZone("", 7200))
	r.view.event.OpensAt = &opens
	get := call{method: "GET", path: "/v1/events/demo"}

	w := r.do(t, get)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, map[string]any{
		"id": "demo", "name": "Demo", "mode": "queue", "order": "fifo", "state": "open", "opens_at": "2026-05-01T12:00:00.000Z",
		"waiting": 5.0, "rate_per_s": 20.0, "seats_left": 7.0, "now": "2026-05-01T12:00:00.250Z",
		"log": map[string]any{"n": 7.0}, // the signed head of the admission log
	}, fieldsOf(t, w))
	require.Equal(t, "public, max-age=1", w.Header().Get("Cache-Control"))
	require.Empty(t, w.Header().Values("Set-Cookie"))
	etag := w.Header().Get("ETag")
	require.NotEmpty(t, etag)

	r.view.event.Now = testNow.Add(time.Second)
	w = r.do(t, get.with("If-None-Match", `"other", `+etag))
	require.Equal(t, http.StatusNotModified, w.Code)
	require.Empty(t, w.Body.Bytes())
	require.Equal(t, etag, w.Header().Get("ETag"))

	r.view.event.Waiting = 6
	w = r.do(t, get.with("If-None-Match", etag))
	require.Equal(t, http.StatusOK, w.Code)
	require.NotEqual(t, etag, w.Header().Get("ETag"))

	require.Equal(t, http.StatusOK, r.do(t, get.by("HEAD")).Code)
}

func TestSeatsLeftIsReadOnceByOneCaller(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.tickets.cold, r.tickets.seats = true, &ticket.Map{Event: "demo"}
	get := call{method: "GET", path: "/v1/events/demo"}
	require.InDelta(t, 7, fieldsOf(t, r.do(t, get))["seats_left"], 0)
	r.do(t, get)
	require.EqualValues(t, 1, r.tickets.maps.Load())

	away := newRig(t)
	away.tickets.cold = true
	away.warmed.Store(time.Now().UnixNano())
	require.NotContains(t, fieldsOf(t, away.do(t, get)), "seats_left", "somebody else is asking; the event is told without it")
	require.Zero(t, away.tickets.maps.Load())
}

func TestJoinGivesAPlaceAndACookie(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.view.eta = 26500 * time.Millisecond
	w := r.do(t, joining)
	require.Equal(t, http.StatusCreated, w.Code)
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Equal(t, map[string]any{
		"entry_id": ann, "state": "waiting", "position": 3.0, "ahead": 2.0, "waiting": 5.0,
		"eta_s": 27.0, "eta_p90_s": 53.0, "place_token": goodReceipt, "event_state": "open",
	}, fieldsOf(t, w))

	cookies := w.Result().Cookies()
	require.Len(t, cookies, 1)
	c := cookies[0]
	require.Equal(t, "waitroom_place_demo", c.Name)
	require.Equal(t, goodReceipt, c.Value)
	require.True(t, c.HttpOnly && c.Secure && c.SameSite == http.SameSiteLaxMode && c.Path == "/")
	require.Positive(t, c.MaxAge, "the place outlives the browser")

	again := r.do(t, joining.with("Cookie", "waitroom_place_demo="+goodReceipt, "Content-Type", "application/json").saying("{}"))
	require.Equal(t, http.StatusOK, again.Code)
}

func TestCookieIsSecureOverHTTPSOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config, _ *Deps) { c.PublicURL = "http://127.0.0.1:8080" })
	require.False(t, r.do(t, joining).Result().Cookies()[0].Secure)
}

func TestJoinShowsTheLineTheBestReceipt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		call call
		want waitroom.JoinRequest
	}{
		"none":              {joining, waitroom.JoinRequest{Event: "demo"}},
		"cookie":            {joining.with("Cookie", "waitroom_place_demo="+goodReceipt), waitroom.JoinRequest{Event: "demo", Receipt: goodReceipt}},
		"cookie of another": {joining.with("Cookie", "waitroom_place_other="+goodReceipt), waitroom.JoinRequest{Event: "demo"}},
		"said aloud":        {joining.with("Authorization", "bearer "+goodReceipt), waitroom.JoinRequest{Event: "demo", Receipt: goodReceipt}},
		"nonsense aloud":    {joining.with("Authorization", "Bearer x", "Cookie", "waitroom_place_demo="+goodReceipt), waitroom.JoinRequest{Event: "demo", Receipt: goodReceipt}},
		"phone":             {joining.with("Sec-CH-UA-Mobile", "?1"), waitroom.JoinRequest{Event: "demo", Mobile: true}},
		"older phone":       {joining.with("User-Agent", "Mozilla/5.0 (iPhone) Mobile/15E148"), waitroom.JoinRequest{Event: "demo", Mobile: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var got waitroom.JoinRequest
			r.line.join = func(req waitroom.JoinRequest) (waitroom.Place, error) {
				got = req
				return annsPlace("demo"), nil
			}
			require.Equal(t, http.StatusOK, r.do(t, tc.call).Code)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestMeByState(t *testing.T) {
	t.Parallel()
	grant := annsGrant("demo")
	for name, tc := range map[string]struct {
		place    waitroom.Place
		position int64
		eta      time.Duration
		want     map[string]any
		retry    string
	}{
		"at the front": {
			place: waitroom.Place{State: waitroom.EntryWaiting}, position: 1,
			want: map[string]any{"state": "waiting", "position": 1.0, "ahead": 0.0, "waiting": 5.0}, retry: "1",
		},
		"far behind, no estimate": {
			place: waitroom.Place{State: waitroom.EntryWaiting}, position: 12847,
			want: map[string]any{"state": "waiting", "position": 12847.0, "ahead": 12846.0, "waiting": 12847.0}, retry: "5",
		},
		"in the middle": {
			place: waitroom.Place{State: waitroom.EntryWaiting}, position: 500, eta: 40 * time.Second,
			want: map[string]any{"state": "waiting", "position": 500.0, "ahead": 499.0, "waiting": 500.0, "eta_s": 40.0, "eta_p90_s": 80.0}, retry: "4",
		},
		"between two views": {
			place: waitroom.Place{State: waitroom.EntryWaiting},
			want:  map[string]any{"state": "waiting", "waiting": 5.0}, retry: "1",
		},
		"lobby": {
			place: waitroom.Place{State: waitroom.EntryLobby}, position: 9,
			want: map[string]any{"state": "lobby", "waiting": 9.0}, retry: "5",
		},
		"admitted": {
			place: waitroom.Place{State: waitroom.EntryAdmitted, Grant: grant},
			want: map[string]any{
				"state": "admitted", "waiting": 5.0, "entry_token": "token-jti-1",
				"admitted_at": "2026-05-01T12:00:00.250Z", "expires_at": "2026-05-01T12:05:00.250Z", "redirect_url": "/e/demo/shop",
			}, retry: "20",
		},
		"entered": {
			place: waitroom.Place{State: waitroom.EntryEntered, Grant: grant},
			want: map[string]any{
				"state": "entered", "waiting": 5.0, "entry_token": "token-jti-1",
				"admitted_at": "2026-05-01T12:00:00.250Z", "expires_at": "2026-05-01T12:10:00.250Z", "redirect_url": "/e/demo/shop",
			}, retry: "20",
		},
		"expired": {place: waitroom.Place{State: waitroom.EntryExpired}, want: map[string]any{"state": "expired", "waiting": 5.0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.view.position, r.view.eta = tc.position, tc.eta
			r.line.place = func() (waitroom.Place, error) {
				tc.place.Event, tc.place.Entry = "demo", ann
				return tc.place, nil
			}
			w := r.do(t, asking)
			require.Equal(t, http.StatusOK, w.Code)
			tc.want["entry_id"] = ann
			if tc.want["state"] == "waiting" || tc.want["state"] == "lobby" {
				tc.want["event_state"] = "open"
			}
			require.Equal(t, tc.want, fieldsOf(t, w))
			require.Equal(t, tc.retry, w.Header().Get("Retry-After"))
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		})
	}
}

// Whoever polls, and the public event, hear why nobody is let in, or fewer are, and
// since when; an event that is open at its rate says no reason to those who wait.
func TestPollsSayWhyTheLineStands(t *testing.T) {
	t.Parallel()
	since, busy := testNow.Add(-10*time.Minute), testNow.Add(-time.Minute)
	at := func(when time.Time) any { return when.UTC().Format(stampFormat) }
	for name, tc := range map[string]struct {
		state         waitroom.State
		reason, holds string
		wantMe, want  [2]any // reason and since, of entries/me and of the public event
	}{
		"paused by hand":   {waitroom.Paused, "operator", "database_busy", [2]any{"operator", at(since)}, [2]any{"operator", at(since)}},
		"open, and busy":   {waitroom.Open, "operator", "database_busy", [2]any{"database_busy", at(busy)}, [2]any{"database_busy", at(busy)}},
		"open at its rate": {waitroom.Open, "schedule", "", [2]any{nil, nil}, [2]any{"schedule", at(since)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(_ *Config, d *Deps) {
				d.Holding = func(waitroom.EventID) (string, time.Time) { return tc.holds, busy }
			})
			r.view.event.State, r.view.event.Reason, r.view.event.Since = tc.state, tc.reason, since
			me := fieldsOf(t, r.do(t, asking))
			require.Equal(t, string(tc.state), me["event_state"])
			require.Equal(t, tc.wantMe, [2]any{me["reason"], me["since"]})
			public := fieldsOf(t, r.do(t, call{method: "GET", path: "/v1/events/demo"}))
			require.Equal(t, tc.want, [2]any{public["reason"], public["since"]})
		})
	}
}

// Who has an answer is not sent it again, and whoever sends its tag back, to whichever
// node, is shown no greater position.
func TestPollsHaveATag(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.view.position = 40
	w := r.do(t, asking)
	require.Equal(t, http.StatusOK, w.Code)
	tag := w.Header().Get("ETag")
	require.True(t, strings.HasPrefix(tag, `W/"`), "%s", tag)

	w = r.do(t, asking.with("If-None-Match", tag))
	require.Equal(t, http.StatusNotModified, w.Code)
	require.Empty(t, w.Body.Bytes())
	require.Equal(t, tag, w.Header().Get("ETag"))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Equal(t, "1", w.Header().Get("Retry-After"))

	r.view.position, r.view.event.Waiting = 44, 90 // places that others got back
	w = r.do(t, asking.with("If-None-Match", tag))
	require.Equal(t, http.StatusOK, w.Code)
	require.InDelta(t, 40, fieldsOf(t, w)["position"], 0)
	require.InDelta(t, 44, fieldsOf(t, r.do(t, asking))["position"], 0)
	for _, foreign := range []string{
		`W/"4.1.x"`, `W/"3.0.x"`, `W/"3.-5.x"`, `W/"3..x"`, `"3"`, "*x", `W/"3.zzzzzzzzzzzzzzzzz.x"`, `,,"`,
	} {
		require.InDelta(t, 44, fieldsOf(t, r.do(t, asking.with("If-None-Match", foreign)))["position"], 0, "%s", foreign)
	}

	r.view.position = 39
	w = r.do(t, asking.with("If-None-Match", tag))
	require.InDelta(t, 39, fieldsOf(t, w)["position"], 0)
	require.NotEqual(t, tag, w.Header().Get("ETag"))
}

// Whoever only polls, and as rarely as they are told, keeps the place.
func TestAskAgainIsWithinTheGrace(t *testing.T) {
	t.Parallel()
	for agent, want := range map[string]string{"": "3", "Mobile": "4"} {
		r := newRig(t)
		r.view.event.Grace, r.view.event.GraceMobile = waitroom.Duration(9*time.Second), waitroom.Duration(12*time.Second)
		r.view.position = 12847
		w := r.do(t, asking.with("User-Agent", agent))
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, want, w.Header().Get("Retry-After"))
	}
}

func TestRedirectGoesToAllowedHostsOnly(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"":                                  "https://shop.example/cart",
		"https://shop.example/buy?x=1#top":  "https://shop.example/buy?x=1",
		"https://wait.example/e/demo/shop":  "https://wait.example/e/demo/shop",
		"https://evil.example/":             "https://shop.example/cart",
		"https://shop.example@evil.example": "https://shop.example/cart",
		"https://shop.example.evil.example": "https://shop.example/cart",
		"//evil.example":                    "https://shop.example/cart",
		"javascript:alert(1)":               "https://shop.example/cart",
		"https://shop.example:444/":         "https://shop.example/cart",
		`https://shop.example\@evil/`:       "https://shop.example/cart",
	} {
		r := newRig(t)
		r.view.event.RedirectURL = "https://shop.example/cart"
		r.line.place = func() (waitroom.Place, error) {
			return waitroom.Place{Event: "demo", Entry: ann, State: waitroom.EntryAdmitted, Grant: annsGrant("demo")}, nil
		}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/events/demo/entries/me", http.NoBody)
		q := req.URL.Query()
		q.Set("return_to", to)
		req.URL.RawQuery = q.Encode()
		req.Header.Set("Authorization", "Bearer "+goodReceipt)
		w := httptest.NewRecorder()
		r.Handler().ServeHTTP(w, req)
		require.Equal(t, want, fieldsOf(t, w)["redirect_url"], "return_to %q", to)
	}
}

func TestLeaveGivesUpTheReceiptsEntry(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var left waitroom.EntryID
	r.line.leave = func(e waitroom.EntryID) error { left = e; return nil }
	require.Equal(t, http.StatusNoContent, r.do(t, asking.by("DELETE")).Code)
	require.Equal(t, waitroom.EntryID(ann), left)
}

func TestLiveHandsTheReceiptToTheHub(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.do(t, call{method: "GET", path: "/v1/events/demo/live"}.with("Cookie", "waitroom_place_demo="+goodReceipt))
	require.Equal(t, "live demo "+goodReceipt, w.Body.String())
	w = r.do(t, call{method: "GET", path: "/v1/events/demo/live"})
	require.Equal(t, http.StatusUnauthorized, w.Code)
	require.Equal(t, "token_required", problemIn(t, w).Code)
}

func TestAskAgainIsSoonerNearerTheFront(t *testing.T) {
	t.Parallel()
	before := time.Duration(0)
	for position := int64(1); position < 1<<40; position *= 3 {
		wait := askAgain(position, 0, false)
		require.GreaterOrEqual(t, wait, before)
		require.True(t, wait >= polledNear && wait <= polledFar)
		before = wait
	}
	require.Equal(t, polledFar, askAgain(5, 1000*time.Hour, true))
	require.Equal(t, polledNear, askAgain(1<<40, time.Second, true))
}

func TestIdentityJWT(t *testing.T) {
	t.Parallel()
	secret := []byte(strings.Repeat("k", 32))
	sign := func(claims jwt.MapClaims) string {
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(secret)
		require.NoError(t, err)
		return token
	}
	in, ago := time.Now().Add(time.Hour).Unix(), time.Now().Add(-time.Hour).Unix()
	for name, tc := range map[string]struct {
		token string
		code  string
	}{
		"good":        {sign(jwt.MapClaims{"sub": "u1", "exp": in}), ""},
		"none":        {"", "token_required"},
		"expired":     {sign(jwt.MapClaims{"sub": "u1", "exp": ago}), "token_expired"},
		"no subject":  {sign(jwt.MapClaims{"exp": in}), "token_invalid"},
		"place token": {goodReceipt, "token_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var got waitroom.JoinRequest
			r.line.join = func(req waitroom.JoinRequest) (waitroom.Place, error) {
				got = req
				return annsPlace("members"), nil
			}
			for _, c := range []call{joining.at("/v1/events/members/entries"), asking.at("/v1/events/members/entries/me"), asking.at("/v1/events/members/entries/me").by("DELETE")} {
				authorization := ""
				if tc.token != "" {
					authorization = "Bearer " + tc.token
				}
				w := r.do(t, c.with("Authorization", authorization))
				if tc.code == "" {
					require.Less(t, w.Code, 300, "%s", w.Body)
					continue
				}
				require.Equal(t, tc.code, problemIn(t, w).Code)
			}
			if tc.code == "" {
				require.Equal(t, waitroom.JoinRequest{Event: "members", Subject: "u1"}, got)
			}
		})
	}
}
