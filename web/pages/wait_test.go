package pages_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/web/browsertest"
)

// joined is a visitor who stands in line, at 50 of 120.
func joined(t *testing.T, s *service) browsertest.Page {
	t.Helper()
	p := browsertest.NewVisitor(t)
	p.Open(s.address + "/")
	p.Panel("join")
	p.Click("join")
	p.Panel("wait")
	p.Reads("position", "50")
	return p
}

// Promise 2: the position never grows, over refreshes and tabs; a new place begins anew.
func TestPromise2PositionNeverGrows(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := joined(t, s)
	p.Reads("link", "Live")
	s.position(40)
	p.Reads("position", "40")
	s.position(45)
	s.push(doc{"type": "event", "state": "open", "message": "after it"})
	p.Reads("message-text", "after it")
	require.Equal(t, "40", p.Text("position"), "a position grew")
	require.Equal(t, "39 people are ahead of you", p.Text("ahead"))

	p.Open(s.address + "/e/demo") // a refresh, with a server that forgot
	p.Panel("wait")
	p.Reads("position", "40")
	other := p.Tab()
	other.Open(s.address + "/")
	other.Panel("wait")
	other.Reads("position", "40")
	require.Len(t, s.seen(http.MethodPost, "/entries"), 1, "a refresh or a tab joined again")

	p.Click("leave")
	p.Until("document.getElementById('leave-dialog').open")
	p.Run("document.querySelector('#leave-dialog [value=yes]').click()")
	p.Panel("end")
	require.Equal(t, "You left the line", p.Text("end-title"))
	p.Click("again")
	p.Panel("wait")
	p.Reads("position", "50")
	other.Reads("position", "50") // the other tab is of the same place
	p.NoFaults()
	other.NoFaults()
}

// Promise 3: the countdown is right on a device that is three years behind.
func TestPromise3CountdownByTheServersClock(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := browsertest.NewVisitor(t)
	set := time.Now()
	s.set(func(s *service) {
		s.ahead = 400 * 24 * time.Hour
		s.event["state"] = "scheduled"
		s.event["opens_at"] = s.stamp(4*time.Hour + 4*time.Second)
		s.event["lobby_opens_at"] = s.stamp(4 * time.Second)
	})
	p.Open(s.address + "/late/")
	p.Panel("before")
	require.Equal(t, "00", p.Text("clock-hours"))
	require.Equal(t, "00", p.Text("clock-minutes"))
	p.Panel("join")
	require.GreaterOrEqual(t, time.Since(set), 3900*time.Millisecond, "the page opened before its time")
	require.Contains(t, p.Text("join-text"), "The doors open in 4 hours")
	p.NoFaults()
}

// Promise 4: no retry before the server's word, and a retry says its number.
func TestPromise4RetriesWait(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.set(func(s *service) {
		s.refuse["POST /entries"] = []refusal{{503, "unavailable", 1}, {429, "rate_limited", 2}}
	})
	p := joined(t, s)
	joins := s.seen(http.MethodPost, "/entries")
	require.Len(t, joins, 3)
	require.GreaterOrEqual(t, joins[1].At.Sub(joins[0].At), time.Second)
	require.GreaterOrEqual(t, joins[2].At.Sub(joins[1].At), 2*time.Second)
	require.Equal(t, []string{"", "2", "3"}, []string{
		joins[0].Header.Get("X-Attempt"), joins[1].Header.Get("X-Attempt"), joins[2].Header.Get("X-Attempt"),
	})

	p.Reads("link", "Live")
	before := len(s.seen(http.MethodGet, "/live"))
	said := time.Now()
	s.push(doc{"type": "bye", "retry_after_ms": 1500})
	p.Until("document.getElementById('link').dataset.link === 'retry'")
	p.Reads("link", "Live")
	live := s.seen(http.MethodGet, "/live")
	require.Greater(t, len(live), before)
	require.GreaterOrEqual(t, live[before].At.Sub(said), 1500*time.Millisecond, "came back before its time")
	p.NoFaults()
}

// Promise 5: without sockets by a stream, without streams by asking.
func TestPromise5FallsBackByItself(t *testing.T) {
	t.Parallel()
	t.Run("stream", func(t *testing.T) {
		t.Parallel()
		s := newService(t)
		s.set(func(s *service) { s.noSocket = true })
		p := joined(t, s)
		p.Reads("link", "Live")
		s.position(33)
		p.Reads("position", "33")
		s.admit("/members")
		p.Panel("turn")
	})
	t.Run("asking", func(t *testing.T) {
		t.Parallel()
		s := newService(t)
		s.set(func(s *service) { s.noSocket, s.noStream = true, true })
		p := joined(t, s)
		p.Reads("link", "Live, checked every few seconds")
		s.position(22)
		p.Reads("position", "22")
		unchanged := func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.unchanged
		}
		for end := time.Now().Add(20 * time.Second); unchanged() == 0; <-time.After(50 * time.Millisecond) {
			require.True(t, time.Now().Before(end), "the page does not say which answer it has")
		}
		s.position(21)
		p.Reads("position", "21")
		asked := s.seen(http.MethodGet, "/entries/me")
		for i := 1; i < len(asked); i++ {
			require.GreaterOrEqual(t, asked[i].At.Sub(asked[i-1].At), 2*time.Second-50*time.Millisecond, "asked before Retry-After")
		}
	})
	t.Run("back again", func(t *testing.T) {
		t.Parallel()
		s := newService(t)
		p := joined(t, s)
		p.Reads("link", "Live")
		s.hangUp()
		p.Until("document.getElementById('link').dataset.link !== 'live'")
		p.Reads("link", "Live")
		s.position(11)
		p.Reads("position", "11")
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Contains(t, s.hellos, "hello place-token-1")
	})
}

// Who comes back to the page sees a fresh state, whatever became of the connection.
func TestComingBackIsFresh(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := joined(t, s)
	p.Reads("link", "Live")
	p.Run("dispatchEvent(new Event('offline'))")
	p.Reads("link", "You are offline")
	s.set(func(s *service) { s.place["position"], s.place["ahead"] = 9, 8 })
	back := time.Now()
	p.Run("dispatchEvent(new Event('online'))")
	p.Reads("position", "9")
	require.Less(t, time.Since(back), 2*time.Second)
	s.set(func(s *service) { s.place["position"], s.place["ahead"] = 7, 6 })
	p.Run("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
	p.Reads("position", "7")
	p.NoFaults()
}

// Promise 6: no token in any address, from joining to the shop and to a foreign site.
func TestPromise6NoTokenInAnAddress(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := joined(t, s)
	s.admit("/e/demo/shop")
	p.Panel("turn")
	require.Equal(t, "It’s your turn · Demo night", browsertest.Value[string](p, "document.title"))
	p.Until("location.pathname === '/e/demo/shop'") // by itself
	p.Panel("choose")
	p.Open(s.address + "/")
	p.Panel("turn")
	require.Empty(t, browsertest.Value[string](p, "document.getElementById('stay').hidden ? '' : 'sent off again'"))

	s.admit("/members?tier=gold")
	p.Open(s.address + "/")
	p.Panel("turn")
	p.Click("enter")
	p.Until("location.pathname === '/v1/gate/demo/enter'")
	s.mu.Lock()
	defer s.mu.Unlock()
	entered := false
	for _, c := range s.calls {
		require.NotContains(t, c.Path+c.Query, "token-1", "%s %s", c.Method, c.Path)
		require.NotContains(t, c.Header.Get("Referer"), "token-1")
		if c.Path == "/v1/gate/demo/enter" {
			entered = true
			require.Equal(t, http.MethodPost, c.Method)
			require.Equal(t, "entry_token=entry-token-1&return_to=%2Fmembers%3Ftier%3Dgold", c.Body)
		}
	}
	require.True(t, entered)
}

// A browser that keeps no cookie of the site is told so, and goes round no more.
func TestCookiesBlocked(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := joined(t, s)
	s.admit("/members")
	p.Panel("turn")
	p.Open(s.address + "/?cookies=blocked&return_to=%2Fmembers")
	p.Panel("turn")
	p.Until("document.getElementById('note').textContent.includes('Allow cookies')")
	require.Empty(t, browsertest.Value[string](p, "document.getElementById('stay').hidden ? '' : 'sent off again'"))
	p.Click("enter") // by their own will it still goes
	p.Until("location.pathname === '/v1/gate/demo/enter'")
}

// What an operator does shows at once, and each end of a place says what to do next.
func TestStatesOfTheLine(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := joined(t, s)
	p.Reads("link", "Live")
	s.push(doc{"type": "event", "state": "paused", "reason": "database_busy", "message": "Back at nine."})
	p.Until("!document.getElementById('pause').hidden")
	p.Reads("estimate", "Paused")
	p.Reads("message-text", "Back at nine.")
	require.Contains(t, p.Text("pause-text"), "very busy")
	require.True(t, strings.HasPrefix(browsertest.Value[string](p, "document.title"), "Paused"))
	require.Contains(t, p.Text("pause-text"), "Your place is kept")
	s.push(doc{"type": "event", "state": "paused", "reason": "database_busy", "since": s.stamp(-10 * time.Minute)})
	p.Until("/^The line is paused since \\d{1,2}:\\d\\d( [AP]M)?$/.test(document.getElementById('pause-title').textContent)")
	s.push(doc{"type": "event", "state": "open", "reason": "database_busy"})
	p.Reads("pause-title", "Slower than usual")
	require.Contains(t, p.Text("pause-text"), "Your place is kept")
	s.push(doc{"type": "event", "state": "open", "reason": "store_unavailable"})
	p.Until("!document.getElementById('away').hidden && document.getElementById('pause').hidden")
	p.Reads("link", "Service interrupted")
	s.push(doc{"type": "event", "state": "open"})
	p.Until("document.getElementById('away').hidden")
	s.set(func(s *service) { s.event["seats_left"] = 0 })
	s.push(doc{"type": "position", "position": 12, "ahead": 11, "waiting": 90, "eta_s": 240, "eta_p90_s": 360, "rate_per_s": 2, "seats_left": 0})
	p.Reads("estimate", "4–6 min")
	p.Until("!document.getElementById('soldout').hidden")
	s.push(doc{"type": "event", "state": "draining"})
	p.Until("!document.getElementById('drain').hidden")
	s.push(doc{"type": "ended", "state": "expired"})
	p.Panel("end")
	require.Equal(t, "Your place has ended", p.Text("end-title"))
	p.Until("document.getElementById('again').hidden") // nobody joins a draining event
	p.NoFaults()
}
