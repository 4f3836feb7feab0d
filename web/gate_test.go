package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// TestGateAnswersEveryMethod holds promise 8: 204 for a good token, however asked.
func TestGateAnswersEveryMethod(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, path := range []string{"/v1/gate/demo", "/v1/gate/demo/", "/v1/gate/demo/cart/1?x=1", "/v1/gate/demo/enter/x"} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "BREW"} {
			c := passing.at(path).by(method)
			w := r.do(t, c.with("Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"))
			require.Equal(t, http.StatusNoContent, w.Code, "%s %s: %s", method, path, w.Body)
			require.Equal(t, ann, w.Header().Get("X-Waitroom-User"))
			require.Equal(t, ann, w.Header().Get("X-Waitroom-Entry"))
			require.Equal(t, http.StatusUnauthorized, r.do(t, c.with("X-Entry-Token", "")).Code, "%s %s", method, path)
		}
	}
	require.Equal(t, http.StatusNoContent, r.do(t, passing.at("/v1/gate/demo/enter")).Code, "enter takes POST only")
	huge := passing.by("POST").saying(string(make([]byte, 2*defaultMaxBody)))
	require.Equal(t, http.StatusNoContent, r.do(t, huge).Code, "the body is the site's")
}

func TestEntryTokenIsLookedUpInOrder(t *testing.T) {
	t.Parallel()
	bare := passing.with("X-Entry-Token", "")
	for name, tc := range map[string]struct {
		call call
		user string
	}{
		"header":                        {bare.with("X-Entry-Token", goodToken), ann},
		"bearer":                        {bare.with("Authorization", "Bearer "+goodToken), ann},
		"cookie":                        {bare.with("Cookie", "waitroom_entry_demo="+goodToken), ann},
		"cookie of another event":       {bare.with("Cookie", "waitroom_entry_other="+goodToken), ""},
		"header wins":                   {bare.with("X-Entry-Token", goodToken, "Authorization", "Bearer "+otherToken), ann},
		"header wins, also if bad":      {bare.with("X-Entry-Token", "x", "Authorization", "Bearer "+goodToken), ""},
		"bearer before cookie":          {bare.with("Authorization", "Bearer "+otherToken, "Cookie", "waitroom_entry_demo="+goodToken), "bob-entry"},
		"the site's own Authorization":  {bare.with("Authorization", "Bearer site-jwt", "Cookie", "waitroom_entry_demo="+goodToken), ann},
		"the site's own basic password": {bare.with("Authorization", "Basic YTpi", "Cookie", "waitroom_entry_demo="+goodToken), ann},
		"in the address":                {bare.at("/v1/gate/demo?token=" + goodToken + "&entry_token=" + goodToken), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRig(t).do(t, tc.call)
			require.Equal(t, tc.user, w.Header().Get("X-Waitroom-User"))
			require.Equal(t, tc.user != "", w.Code == http.StatusNoContent)
		})
	}
}

// TestGateRedirect holds the other half of promise 8: nobody is sent to a host
// that is not configured.
func TestGateRedirect(t *testing.T) {
	t.Parallel()
	const waiting = "https://wait.example/e/demo"
	bare := passing.at("/v1/gate/demo?redirect=1").with("X-Entry-Token", "")
	for name, tc := range map[string]struct {
		call call
		back string
	}{
		"no address":     {bare, ""},
		"forwarded":      {bare.with("X-Forwarded-Proto", "https", "X-Forwarded-Host", "shop.example", "X-Forwarded-Uri", "/cart?a=1&b=2"), "https://shop.example/cart?a=1&b=2"},
		"without scheme": {bare.with("X-Forwarded-Host", "shop.example", "X-Forwarded-Uri", "/cart"), "https://shop.example/cart"},
		"whole":          {bare.with("X-Original-URL", "https://shop.example/x"), "https://shop.example/x"},
		"foreign host":   {bare.with("X-Forwarded-Host", "evil.example", "X-Forwarded-Uri", "/"), ""},
		"foreign whole":  {bare.with("X-Original-URL", "https://evil.example/x"), ""},
		"user info":      {bare.with("X-Forwarded-Host", "shop.example@evil.example", "X-Forwarded-Uri", "/"), ""},
		"host in path":   {bare.with("X-Forwarded-Host", "shop.example", "X-Forwarded-Uri", "@evil.example/"), "https://shop.example/@evil.example/"},
		"script":         {bare.with("X-Original-URL", "javascript:alert(1)"), ""},
		"a list":         {bare.with("X-Forwarded-Host", "shop.example, evil.example", "X-Forwarded-Uri", "/"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRig(t).do(t, tc.call)
			require.Equal(t, http.StatusFound, w.Code)
			want := waiting
			if tc.back != "" {
				want += "?return_to=" + url.QueryEscape(tc.back)
			}
			require.Equal(t, want, w.Header().Get("Location"))
		})
	}
	// Straight from the waiting page and without a cookie: no second round.
	w := newRig(t).do(t, bare.with("X-Original-URL", "https://shop.example/x", "Referer", testPublicURL+"/"))
	require.Equal(t, waiting+"?cookies=blocked&return_to="+url.QueryEscape("https://shop.example/x"), w.Header().Get("Location"))
	r := newRig(t)
	r.line.enter = func(waitroom.Pass) (waitroom.Grant, error) { return waitroom.Grant{}, waitroom.ErrUnavailable }
	w = r.do(t, passing.at("/v1/gate/demo?redirect=1"))
	require.Equal(t, http.StatusForbidden, w.Code, "waiting does not help while the store is away")
	require.Equal(t, codeUnavailable, problemIn(t, w).Code)
}

func TestEnterKeepsTheTokenOnTheSitesHost(t *testing.T) {
	t.Parallel()
	form := func(token, back string) call {
		values := url.Values{"entry_token": {token}, "return_to": {back}}
		return call{method: "POST", path: "/v1/gate/demo/enter", body: values.Encode()}.with(
			"Content-Type", "application/x-www-form-urlencoded", "Origin", testPublicURL, "Sec-Fetch-Site", "cross-site")
	}
	for back, want := range map[string]string{
		"":                            "/",
		"/cart?a=1":                   "/cart?a=1",
		"https://shop.example/x":      "https://shop.example/x",
		"//evil.example/":             "/",
		`/\evil.example/`:             "/",
		"https://evil.example/":       "/",
		"javascript:alert(1)":         "/",
		"/a\r\nSet-Cookie: a=b":       "/",
		"/\t/evil.example":            "/",
		"https:shop.example":          "/",
		"https://shop.example:80@e.x": "/",
	} {
		r := newRig(t)
		w := r.do(t, form(goodToken, back))
		require.Equal(t, http.StatusSeeOther, w.Code, "%s", w.Body)
		require.Equal(t, want, w.Header().Get("Location"), "return_to %q", back)
		cookies := w.Result().Cookies()
		require.Len(t, cookies, 1)
		require.Equal(t, "waitroom_entry_demo", cookies[0].Name)
		require.Equal(t, goodToken, cookies[0].Value)
		require.True(t, cookies[0].HttpOnly && cookies[0].Secure && cookies[0].SameSite == http.SameSiteLaxMode)
	}
	r := newRig(t)
	require.Equal(t, "token_required", problemIn(t, r.do(t, form("", ""))).Code)
	require.Equal(t, "token_invalid", problemIn(t, r.do(t, form("x", ""))).Code)
	require.Equal(t, "token_expired", problemIn(t, r.do(t, form(expiredToken, ""))).Code)
	w := r.do(t, form(goodToken, "").with("Origin", "https://evil.example"))
	require.Equal(t, "forbidden", problemIn(t, w).Code, "nobody else's page may set the cookie")
	require.Empty(t, w.Result().Cookies())
}

// A gate of the site's own has many verdicts confirmed in one question.
func TestCheckTellsWhoPassesNoLonger(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.line.enter = func(p waitroom.Pass) (waitroom.Grant, error) {
		return annsGrant(p.Event), map[string]error{
			"b": waitroom.ErrRevoked, "c": waitroom.ErrNoEntry, "d": waitroom.ErrUnavailable, "e": waitroom.ErrTokenExpired,
		}[p.JTI]
	}
	w := r.do(t, loading.by("POST").at("/v1/events/demo/sessions/check").saying(`{"jtis":["a","b","c","d","e"]}`))
	require.Equal(t, http.StatusOK, w.Code)
	require.JSONEq(t, `{"refused":{"b":"token_revoked","c":"token_expired","d":"unavailable","e":"token_expired"}}`, w.Body.String())
}

// A proxy that can neither change the address nor take a 204, as Envoy: it hands the
// visitor's host and path on, and asks by headers.
func TestGateAnswersAsEnvoyAsks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	envoy := passing.at("/v1/gate/demo/cart/1%20a?a=1&b=2").with("X-Waitroom-OK", "200", "X-Waitroom-Redirect", "1", "X-Forwarded-Proto", "http")
	w := r.do(t, envoy)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, ann, w.Header().Get("X-Waitroom-User"))
	stranger := envoy.with("X-Entry-Token", "")
	for host, back := range map[string]string{
		"shop.example": "?return_to=" + url.QueryEscape("http://shop.example/cart/1%20a?a=1&b=2"),
		"evil.example": "",
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+stranger.path, http.NoBody)
		for name, value := range stranger.headers {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		r.Handler().ServeHTTP(w, req)
		require.Equal(t, http.StatusFound, w.Code)
		require.Equal(t, testPublicURL+"/e/demo"+back, w.Header().Get("Location"))
	}
	r.line.enter = func(waitroom.Pass) (waitroom.Grant, error) { return waitroom.Grant{}, waitroom.ErrRevoked }
	require.Equal(t, http.StatusForbidden, r.do(t, envoy).Code)
}
