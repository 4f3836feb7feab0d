package pages_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/web/browsertest"
)

// Promise 14: whoever may choose a line chooses one before joining, by keyboard too, and
// is then told of that line alone.
func TestPromise14TheLineIsChosen(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.set(func(s *service) {
		s.event["rate_per_s"] = 99
		s.event["lanes"] = []doc{{"name": "eu-west", "waiting": 1, "rate_per_s": 20}, {"name": "na-east", "waiting": 1200, "rate_per_s": 0, "paused": true}}
	})
	p := browsertest.NewVisitor(t)
	p.Open(s.address + "/?lane=of-another-event")
	p.Panel("join")
	require.Equal(t, "eu-west1 waiting", browsertest.Value[string](p, "document.querySelector('#lanes label').textContent"))
	p.Run("document.getElementById('join').focus()")
	p.Type(kb.Enter)
	p.Reads("lane-fault", "Please choose a line first.")
	require.Empty(t, s.seen(http.MethodPost, "/entries"))
	require.Equal(t, "eu-west", browsertest.Value[string](p, "document.activeElement.value"))
	shots(t, p, "lane-fault")
	p.Type(kb.ArrowDown)
	p.Until("document.getElementById('lane-fault').hidden && document.querySelector('#lanes :checked').value === 'na-east'")
	p.Type(kb.Enter)
	p.Panel("wait")
	require.JSONEq(t, `{"lane":"na-east"}`, s.seen(http.MethodPost, "/entries")[0].Body)
	p.Reads("line", "na-east")
	p.Reads("estimate", "Paused")
	p.Reads("link", "Live")
	p.Reads("rate", "30 a second") // as the connection says, not the event's
	shots(t, p, "lane-waiting")

	p.Open(s.address + "/?lane=eu-west") // a refresh keeps the place, whatever the address wishes for
	p.Reads("line", "na-east")
	other := browsertest.NewVisitor(t)
	other.Open(s.address + "/?lane=eu-west")
	other.Panel("join")
	other.Click("join")
	other.Reads("line", "eu-west")
	p.NoFaults()
	other.NoFaults()
}

// Promise 14: a code is asked for where it counts, what is wrong with it stands beside
// it, and whose window comes later counts down to it.
func TestPromise14CodesAndWindows(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.set(func(s *service) {
		s.event["groups"] = []doc{
			{"name": "members", "codes": true},
			{"name": "friends", "codes": true, "opens_at": s.stamp(3 * time.Second)},
			{"name": "everybody", "opens_at": s.stamp(48 * time.Hour)},
		}
		s.eligible = func(said doc) doc {
			switch code, _ := said["code"].(string); {
			case code == "":
				return doc{"reason": "no_group"}
			case code == "friend 23" && time.Now().UTC().Format("2006-01-02T15:04:05.000Z") < s.event["groups"].([]doc)[1]["opens_at"].(string):
				return doc{"reason": "window_early", "opens_at": s.event["groups"].([]doc)[1]["opens_at"]}
			case code == "friend 23":
				return nil
			case code == "club-2345":
				return doc{"reason": "code_used"}
			}
			return doc{"reason": "code_unknown"}
		}
	})
	p := browsertest.NewVisitor(t)
	p.Open(s.address + "/")
	p.Panel("join")
	require.Contains(t, p.Text("windows"), "membersnow")
	p.Click("join")
	p.Reads("code-fault", "You need a code to join now. Please enter the one that you were sent.")
	p.Until("document.activeElement.id === 'code' && document.activeElement.getAttribute('aria-invalid') === 'true'")
	shots(t, p, "code-fault")
	give := func(code string) {
		p.Run("const c = document.getElementById('code'); c.value = '" + code + "'; c.dispatchEvent(new Event('input', { bubbles: true })); c.focus()")
		p.Until("document.getElementById('code-fault').hidden && document.getElementById('code').getAttribute('aria-invalid') === null")
		p.Type(kb.Enter)
	}
	give(" wrong-23 ")
	p.Reads("code-fault", "This event does not know that code. Please look at it once more.")
	give("club-2345")
	p.Reads("code-fault", "This code has been used already. If it was by you, come back with the device on which you joined.")
	s.set(func(s *service) { s.event["groups"].([]doc)[1]["opens_at"] = s.stamp(4 * time.Second) })
	give("friend 23")
	p.Until("!document.getElementById('window').hidden && /^0:0[0-9]$/.test(document.getElementById('window-clock').textContent)")
	require.Contains(t, p.Text("window-text"), "It is not your turn to join yet. Your window opens at ")
	require.Contains(t, p.Text("say"), "Your window opens in ")
	shots(t, p, "window")
	p.Reads("say", "Your window is open. You can join now.")
	p.Until("document.getElementById('window').hidden")
	p.Click("join")
	p.Panel("wait")

	p.Run("document.getElementById('leave').click(); document.querySelector('#leave-dialog [value=yes]').click()")
	p.Panel("end")
	p.Click("again") // shows the choice again
	p.Panel("join")
	require.Len(t, s.seen(http.MethodPost, "/entries"), 5)

	s.set(func(s *service) { s.event["groups"] = []doc{{"name": "year-4"}} })
	s.set(func(s *service) { s.eligible = func(doc) doc { return doc{"reason": "window_past"} } })
	p.Open(s.address + "/")
	p.Panel("join")
	p.Until("document.getElementById('code-box').hidden && document.getElementById('windows-box').hidden")
	p.Click("join")
	p.Reads("note", "The time in which you could join is over.")
	p.NoFaults()
}
