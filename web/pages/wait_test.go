package pages_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// joined is a visitor who stands in line, at 50 of 120.
func joined(t *testing.T, s *service) page {
	t.Helper()
	p := newVisitor(t)
	p.open(s.address + "/")
	p.panel("join")
	p.click("join")
	p.panel("wait")
	p.reads("position", "50")
	return p
}

// Promise 2: the position never grows, over refreshes and tabs; a new place begins anew.
func TestPromise2PositionNeverGrows(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := joined(t, s)
	p.reads("link", "Live")
	s.position(40)
	p.reads("position", "40")
	s.position(45)
	s.push(doc{"type": "event", "state": "open", "message": "after it"})
	p.reads("message-text", "after it")
	require.Equal(t, "40", p.text("position"), "a position grew")
	require.Equal(t, "39 people are ahead of you", p.text("ahead"))

	p.open(s.address + "/e/demo") // a refresh, with a server that forgot
	p.panel("wait")
	p.reads("position", "40")
	other := p.tab()
	other.open(s.address + "/")
	other.panel("wait")
	other.reads("position", "40")
	require.Len(t, s.seen(http.MethodPost, "/entries"), 1, "a refresh or a tab joined again")

	p.click("leave")
	p.until("document.getElementById('leave-dialog').open")
	p.run("document.querySelector('#leave-dialog [value=yes]').click()")
	p.panel("end")
	require.Equal(t, "You left the line", p.text("end-title"))
	p.click("again")
	p.panel("wait")
	p.reads("position", "50")
	other.reads("position", "50") // the other tab is of the same place
	p.noFaults()
	other.noFaults()
}

// Promise 3: the countdown is right on a device that is three years behind.
func TestPromise3CountdownByTheServersClock(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := newVisitor(t)
	set := time.Now()
	s.set(func(s *service) {
		s.ahead = 400 * 24 * time.Hour
		s.event["state"] = "scheduled"
		s.event["opens_at"] = s.stamp(4*time.Hour + 4*time.Second)
		s.event["lobby_opens_at"] = s.stamp(4 * time.Second)
	})
	p.open(s.address + "/late/")
	p.panel("before")
	require.Equal(t, "00", p.text("clock-hours"))
	require.Equal(t, "00", p.text("clock-minutes"))
	p.panel("join")
	require.GreaterOrEqual(t, time.Since(set), 3900*time.Millisecond, "the page opened before its time")
	require.Contains(t, p.text("join-text"), "The doors open in 4 hours")
	p.noFaults()
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

	p.reads("link", "Live")
	before := len(s.seen(http.MethodGet, "/live"))
	said := time.Now()
	s.push(doc{"type": "bye", "retry_after_ms": 1500})
	p.until("document.getElementById('link').dataset.link === 'retry'")
	p.reads("link", "Live")
	live := s.seen(http.MethodGet, "/live")
	require.Greater(t, len(live), before)
	require.GreaterOrEqual(t, live[before].At.Sub(said), 1500*time.Millisecond, "came back before its time")
	p.noFaults()
}

// Promise 5: without sockets by a stream, without streams by asking.
func TestPromise5FallsBackByItself(t *testing.T) {
	t.Parallel()
	t.Run("stream", func(t *testing.T) {
		t.Parallel()
		s := newService(t)
		s.set(func(s *service) { s.noSocket = true })
		p := joined(t, s)
		p.reads("link", "Live")
		s.position(33)
		p.reads("position", "33")
		s.admit("/members")
		p.panel("turn")
	})
	t.Run("asking", func(t *testing.T) {
		t.Parallel()
		s := newService(t)
		s.set(func(s *service) { s.noSocket, s.noStream = true, true })
		p := joined(t, s)
		p.reads("link", "Live, checked every few seconds")
		s.position(22)
		p.reads("position", "22")
		asked := s.seen(http.MethodGet, "/entries/me")
		for i := 1; i < len(asked); i++ {
			require.GreaterOrEqual(t, asked[i].At.Sub(asked[i-1].At), 2*time.Second-50*time.Millisecond, "asked before Retry-After")
		}
	})
	t.Run("back again", func(t *testing.T) {
		t.Parallel()
		s := newService(t)
		p := joined(t, s)
		p.reads("link", "Live")
		s.hangUp()
		p.until("document.getElementById('link').dataset.link !== 'live'")
		p.reads("link", "Live")
		s.position(11)
		p.reads("position", "11")
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
	p.reads("link", "Live")
	p.run("dispatchEvent(new Event('offline'))")
	p.reads("link", "You are offline")
	s.set(func(s *service) { s.place["position"], s.place["ahead"] = 9, 8 })
	back := time.Now()
	p.run("dispatchEvent(new Event('online'))")
	p.reads("position", "9")
	require.Less(t, time.Since(back), 2*time.Second)
	s.set(func(s *service) { s.place["position"], s.place["ahead"] = 7, 6 })
	p.run("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
	p.reads("position", "7")
	p.noFaults()
}

// Promise 6: no token in any address, from joining to the shop and to a foreign site.
func TestPromise6NoTokenInAnAddress(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := joined(t, s)
	s.admit("/e/demo/shop")
	p.panel("turn")
	require.Equal(t, "It’s your turn · Demo night", value[string](p, "document.title"))
	p.until("location.pathname === '/e/demo/shop'") // by itself
	p.panel("choose")
	p.open(s.address + "/")
	p.panel("turn")
	require.Empty(t, value[string](p, "document.getElementById('stay').hidden ? '' : 'sent off again'"))

	s.admit("/members?tier=gold")
	p.open(s.address + "/")
	p.panel("turn")
	p.click("enter")
	p.until("location.pathname === '/v1/gate/demo/enter'")
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

// What an operator does shows at once, and each end of a place says what to do next.
func TestStatesOfTheLine(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := joined(t, s)
	p.reads("link", "Live")
	s.push(doc{"type": "event", "state": "paused", "reason": "database_busy", "message": "Back at nine."})
	p.until("!document.getElementById('pause').hidden")
	p.reads("estimate", "Paused")
	p.reads("message-text", "Back at nine.")
	require.Contains(t, p.text("pause-text"), "very busy")
	require.True(t, strings.HasPrefix(value[string](p, "document.title"), "Paused"))
	s.push(doc{"type": "event", "state": "open", "reason": "store_unavailable"})
	p.until("!document.getElementById('away').hidden && document.getElementById('pause').hidden")
	p.reads("link", "Service interrupted")
	s.push(doc{"type": "event", "state": "open"})
	p.until("document.getElementById('away').hidden")
	s.set(func(s *service) { s.event["seats_left"] = 0 })
	s.push(doc{"type": "position", "position": 12, "ahead": 11, "waiting": 90, "eta_s": 240, "eta_p90_s": 360, "rate_per_s": 2, "seats_left": 0})
	p.reads("estimate", "4–6 min")
	p.until("!document.getElementById('soldout').hidden")
	s.push(doc{"type": "event", "state": "draining"})
	p.until("!document.getElementById('drain').hidden")
	s.push(doc{"type": "ended", "state": "expired"})
	p.panel("end")
	require.Equal(t, "Your place has ended", p.text("end-title"))
	p.until("document.getElementById('again').hidden") // nobody joins a draining event
	p.noFaults()
}
