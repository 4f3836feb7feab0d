package pages_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/draw"
	"github.com/waitroom-dev/waitroom/web/browsertest"
)

// party has ann in a party of two, for which she buys once she said so or made it.
func (s *service) party(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodDelete {
		s.place = doc{"entry_id": "ann", "state": "left"}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	s.token = "party-token-1"
	buys := r.Method == http.MethodPut || r.URL.Path == "/v1/events/demo/party" && r.Method == http.MethodPost
	members := 1
	if r.URL.Path != "/v1/events/demo/party" {
		members = 2
	}
	if r.Method == http.MethodGet && s.place["party"] != nil {
		buys, _ = s.place["party"].(doc)["you_buy"].(bool)
	}
	told := doc{"members": members, "size": 4, "you_buy": buys}
	s.place["party"], s.place["place_token"], s.place["entry_id"] = told, s.token, "theirs"
	if s.place["state"] == "admitted" {
		s.place["entry_token"], s.place["redirect_url"] = "entry-token-1", "/e/demo/shop"
	}
	s.answer(w, http.StatusOK, doc{"members": members, "size": 4, "you_buy": buys, "code": "ABCDE-FGHJK", "place_token": s.token})
}

// Promise 15: friends go together from the lobby's page on: by a code that is made there or
// typed there, with who buys in sight, and the way in for who buys alone.
func TestPromise15FriendsGoTogether(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.set(func(s *service) {
		s.event["party"] = doc{"size": 4}
		s.refuse["POST /party/members"] = []refusal{{status: 404, code: "not_found"}}
	})
	p := inLobby(t, s, draw.Hash{1})
	p.Until("!document.getElementById('party').hidden")
	require.Contains(t, p.Text("party-text"), "Up to 4 friends")
	p.Run("document.getElementById('party-code').value = 'abcde fghjk'")
	p.Click("party-join")
	p.Reads("party-fault", "No party has this code. Please look at it once more.")
	require.Equal(t, "party-code", p.Focused())
	p.Click("party-join")
	p.Reads("party-members", "2 of 4 are here")
	p.Reads("party-buyer", "One of your friends buys for all of you.")
	p.Reads("party-is", "ABCDE-FGHJK")
	p.Until("document.activeElement.id === 'party-title'") // the button that was pressed is gone
	require.JSONEq(t, `{"code":"abcde fghjk"}`, s.seen("POST", "/party/members")[1].Body)
	for _, look := range []struct {
		name, scheme string
		width        int64
	}{{"light", "light", 1100}, {"dark", "dark", 1100}, {"phone", "light", 360}, {"phone-dark", "dark", 360}} {
		p.Scheme(look.scheme)
		p.Resize(look.width, 900)
		require.LessOrEqual(t, browsertest.Value[int](p, "document.documentElement.scrollWidth"), int(look.width), look.name)
		if dir := os.Getenv("SCREENSHOTS"); dir != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "party-"+look.name+".png"), p.Screenshot(), 0o600))
		}
	}
	s.push(doc{"type": "party", "members": 3, "size": 4, "you_buy": false})
	p.Reads("party-members", "3 of 4 are here")

	// Their turn: the friend buys, until ann says that she does.
	s.set(func(s *service) {
		s.place["state"], s.place["expires_at"] = "admitted", s.stamp(5*time.Minute)
		s.event["state"] = "open"
		s.say(doc{"type": "party", "members": 3, "size": 4, "you_buy": false, "state": "admitted", "expires_at": s.place["expires_at"]})
	})
	p.Panel("friend")
	p.Until("document.activeElement.textContent === 'It’s your party’s turn'")
	p.Click("friend-buy")
	p.Panel("turn")
	p.Until("document.activeElement.textContent === 'It’s your turn'")
	require.Len(t, s.seen("PUT", "/party/buyer"), 1)

	// Whoever leaves is asked first, and the others keep the place.
	p.Click("party-leave")
	p.Until("document.getElementById('leave-dialog').open")
	require.Contains(t, p.Text("leave-text"), "Your friends keep the place")
	require.Empty(t, s.seen("DELETE", "/party/members/me"))
	p.Run("document.querySelector('#leave-dialog [value=yes]').click()")
	p.Panel("end")
	p.Reads("end-title", "You left the party")
	p.Until("document.activeElement.id === 'end-title'")
	require.Len(t, s.seen("DELETE", "/party/members/me"), 1)
	p.NoFaults()
}
