package pages_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/draw"
	"github.com/waitroom-dev/waitroom/web/browsertest"
)

// numberStatus is the status of an answer in mode buffered.
func numberStatus(place doc) int {
	if place["seq"] == nil {
		return http.StatusAccepted
	}
	return http.StatusOK
}

// postToken gives out the one token that there is.
func (s *service) postToken(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	s.token = "place-token-1"
	s.place = doc{
		"entry_id": "ann", "state": "admitted", "result": "ISSUED", "rank": 1, "entry_token": "entry-token-1",
		"expires_at": s.stamp(5 * time.Minute), "redirect_url": "/e/demo/shop", "place_token": s.token,
	}
	body := s.place
	s.mu.Unlock()
	s.answer(w, http.StatusCreated, body)
}

func (s *service) getProof(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	proof := s.proof
	s.mu.Unlock()
	if proof == nil {
		s.answer(w, http.StatusNotFound, doc{"status": 404, "code": "not_found"})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(proof) // the tab may be gone
}

// drawnAs is a draw of ten that ann is in: what is published, her proof, her place.
func drawnAs(t *testing.T) (draw.Bundle, draw.Proof, int) {
	t.Helper()
	const size = 10
	seed := draw.Seed(sha256.Sum256([]byte("seed 2")))
	leaves := []draw.Hash{draw.Leaf("demo", "ann")}
	for i := 1; i < size; i++ {
		leaves = append(leaves, draw.Leaf("demo", fmt.Sprint("entry-", i)))
	}
	list, err := draw.NewList(leaves)
	require.NoError(t, err)
	b := draw.Bundle{Event: "demo", Commitment: draw.Commitment("demo", seed), Root: list.Root(), Size: size, Seed: seed}
	order, err := draw.NewOrder(draw.Key("demo", seed, b.Root, size, nil), size)
	require.NoError(t, err)
	proof, ok := list.Proof(leaves[0])
	require.True(t, ok)
	place := order.Place(proof.Index) + 1
	require.Greater(t, place, 1, "the first place would show less")
	return b, proof, place
}

func published(b draw.Bundle) doc {
	return doc{"commitment": b.Commitment, "closed_at": "2026-05-01T12:00:00Z", "root": b.Root, "size": b.Size, "seed": b.Seed}
}

// inLobby is a visitor in the lobby of a draw that is bound to this commitment.
func inLobby(t *testing.T, s *service, commitment draw.Hash) browsertest.Page {
	t.Helper()
	s.set(func(s *service) {
		s.event["order"], s.event["state"] = "draw", "lobby"
		s.event["opens_at"] = s.stamp(time.Hour)
		s.event["draw"] = doc{"commitment": commitment}
		s.newcomer = doc{"entry_id": "ann", "state": "lobby", "waiting": 10}
	})
	p := browsertest.NewVisitor(t)
	p.Open(s.address + "/")
	p.Panel("join")
	p.Reads("join-title", "Take part in the draw")
	require.Contains(t, p.Text("join-text"), "Coming early or late until then makes no difference.")
	p.Run("Math.random = () => 0.01") // its turn to ask after the draw is soon
	p.Click("join")
	p.Panel("wait")
	return p
}

// open ends the draw: ann stands at place.
func (s *service) open(b draw.Bundle, proof draw.Proof, place int) {
	s.set(func(s *service) {
		s.event["state"], s.event["draw"], s.proof = "open", published(b), proof
		s.place = doc{"entry_id": "ann", "state": "waiting", "position": place, "ahead": place - 1, "waiting": 120, "place_token": "drawn-token-1"}
		s.say(doc{"type": "event", "state": "open"})
		s.say(s.first())
	})
}

// Promise 10: in the lobby of a draw no place is shown; afterwards everybody can check
// it, against the commitment that was kept from before.
func TestPromise10DrawIsCheckedByWhoeverIsInIt(t *testing.T) {
	t.Parallel()
	b, proof, place := drawnAs(t)
	said := func(p browsertest.Page) string {
		p.Until("!document.getElementById('drawn').hidden")
		p.Click("drawn-check")
		p.Until("document.getElementById('drawn-said').textContent !== ''")
		return p.Text("drawn-said")
	}
	fair := fmt.Sprintf("Place %d of 10, checked: the draw was fair.", place)
	t.Run("fair", func(t *testing.T) {
		t.Parallel()
		s := newService(t)
		p := inLobby(t, s, b.Commitment)
		p.Reads("wait-title", "You are in the draw")
		require.Contains(t, p.Text("finding"), "Coming early or late makes no difference")
		require.True(t, browsertest.Value[bool](p, "document.getElementById('position-box').hidden && document.getElementById('drawn').hidden"))
		shots(t, p, "draw-lobby")
		p.Reads("link", "Live")
		asked := len(s.seen(http.MethodGet, "/entries/me"))
		s.open(b, proof, place)
		p.Reads("position", fmt.Sprint(place))
		p.Reads("wait-title", "Your place in line")
		p.Until("!document.getElementById('drawn').hidden")
		require.Equal(t, fair, said(p))
		p.Until("document.getElementById('drawn-check').hidden")
		shots(t, p, "draw-fair")
		require.Len(t, s.seen(http.MethodGet, "/entries/me"), asked+1, "asks once for its place")
		require.Contains(t, browsertest.Value[string](p, "localStorage.getItem('waitroom:place:demo')"), `"drawn-token-1"`, "whose receipt carries the drawn one")
		p.NoFaults()
	})
	t.Run("what does not fit", func(t *testing.T) {
		t.Parallel()
		s := newService(t)
		p := inLobby(t, s, b.Commitment)
		p.Reads("link", "Live")
		s.set(func(s *service) { s.anyone = true })
		other := b
		other.Seed[0] ^= 1
		s.open(other, proof, place)
		require.Contains(t, said(p), "the secret that was published is not the one")
		other.Commitment = draw.Commitment("demo", other.Seed) // which fits by itself
		s.set(func(s *service) { s.event["draw"] = published(other) })
		p.Open(s.address + "/") // a refresh keeps what was seen
		require.Contains(t, said(p), "bound to something else than what this browser saw")
		shots(t, p, "draw-unfit")
		s.set(func(s *service) { s.event["draw"], s.proof = published(b), nil })
		p.Open(s.address + "/")
		require.Contains(t, said(p), "You joined after the lobby had closed")
		wrong := proof
		wrong.Index = (wrong.Index + 1) % wrong.Size
		s.set(func(s *service) { s.proof = wrong })
		p.Open(s.address + "/")
		require.Contains(t, said(p), "you are not in the published list")
		s.set(func(s *service) { s.proof = proof })
		p.Run("Object.defineProperty(crypto, 'subtle', { value: undefined })")
		p.Click("drawn-check")
		p.Until("document.getElementById('drawn-said').textContent.startsWith('This browser cannot compute')")
		p.Open(s.address + "/")
		require.Equal(t, fair, said(p))
		p.Run("localStorage.removeItem('waitroom:commitment:demo')")
		p.Open(s.address + "/")
		require.Contains(t, said(p), "kept nothing from before the draw")
		p.NoFaults()
	})
}

// Promise 11: a number is asked for under one key, however often, and told by a
// connection or by asking.
func TestPromise11NumberIsAskedForOnce(t *testing.T) {
	t.Parallel()
	asks := func(t *testing.T, s *service) browsertest.Page {
		t.Helper()
		s.set(func(s *service) {
			s.event["mode"] = "buffered"
			s.newcomer = doc{"entry_id": "ann", "request_id": "r", "status": "queued"}
			s.refuse["POST /entries"] = []refusal{{503, "unavailable", 1}}
		})
		p := browsertest.NewVisitor(t)
		p.Open(s.address + "/")
		p.Panel("join")
		p.Reads("join", "Ask for a number")
		p.Click("join")
		p.Panel("number")
		p.Reads("number-title", "In the queue")
		tries := s.seen(http.MethodPost, "/entries")
		require.Len(t, tries, 2)
		require.Regexp(t, "^[0-9a-f]{32}$", tries[0].Header.Get("Idempotency-Key"))
		require.Equal(t, tries[0].Header.Get("Idempotency-Key"), tries[1].Header.Get("Idempotency-Key"))
		return p
	}
	t.Run("pushed", func(t *testing.T) {
		t.Parallel()
		s := newService(t)
		p := asks(t, s)
		shots(t, p, "number-queued")
		p.Reads("link", "Live")
		s.set(func(s *service) {
			s.place = doc{"entry_id": "ann", "request_id": "r", "status": "numbered", "seq": 1000, "winner": true}
		})
		s.push(doc{"type": "result", "seq": 1000, "winner": true})
		p.Reads("number", "1,000")
		p.Reads("number-title", "You have won")
		require.Contains(t, p.Text("say"), "Your number is 1,000.")
		shots(t, p, "number-won")
		p.Open(s.address + "/") // a refresh
		p.Reads("number", "1,000")
		require.Len(t, s.seen(http.MethodPost, "/entries"), 2, "a refresh asked anew")
		p.NoFaults()
	})
	t.Run("asked", func(t *testing.T) {
		t.Parallel()
		s := newService(t)
		s.set(func(s *service) { s.noSocket, s.noStream = true, true })
		p := asks(t, s)
		p.Reads("link", "Live, checked every few seconds")
		s.set(func(s *service) {
			s.place = doc{"entry_id": "ann", "request_id": "r", "status": "numbered", "seq": 7, "winner": false}
		})
		p.Reads("number", "7")
		p.Reads("number-title", "Your number did not win")
		asked := len(s.seen(http.MethodGet, "/entries/me"))
		p.Until("document.getElementById('link').dataset.link === 'idle'") // nothing more is to come
		require.Len(t, s.seen(http.MethodGet, "/entries/me"), asked)
		p.NoFaults()
	})
}

// Where there is no line whoever asks has an answer: none now, one, or none any more.
func TestTokenIsAskedFor(t *testing.T) {
	t.Parallel()
	instant := func(t *testing.T, s *service) browsertest.Page {
		t.Helper()
		s.set(func(s *service) { s.event["mode"] = "instant" })
		p := browsertest.NewVisitor(t)
		p.Open(s.address + "/")
		p.Panel("join")
		p.Reads("join", "Ask for a token")
		p.Reads("join-title", "Get your token")
		return p
	}
	t.Run("issued", func(t *testing.T) {
		t.Parallel()
		s := newService(t)
		s.set(func(s *service) { s.refuse["POST /tokens"] = []refusal{{409, "exhausted", 2}} })
		p := instant(t, s)
		p.Click("join")
		p.Until("document.getElementById('join-retry').textContent.includes('one may come back')")
		shots(t, p, "token-exhausted")
		p.Panel("turn")
		tries := s.seen(http.MethodPost, "/tokens")
		require.Len(t, tries, 2)
		require.GreaterOrEqual(t, tries[1].At.Sub(tries[0].At), 2*time.Second, "asked before its time")
		require.Empty(t, s.seen(http.MethodPost, "/entries"), "there is no line")
		p.Open(s.address + "/") // a refresh
		p.Panel("turn")
		require.Len(t, s.seen(http.MethodPost, "/tokens"), 2, "a refresh asked anew")
		p.NoFaults()
	})
	t.Run("sold out", func(t *testing.T) {
		t.Parallel()
		s := newService(t)
		s.set(func(s *service) { s.refuse["POST /tokens"] = []refusal{{409, "sold_out", 0}} })
		p := instant(t, s)
		p.Click("join")
		p.Until("document.getElementById('note').textContent.startsWith('All tokens are given out')")
		require.Len(t, s.seen(http.MethodPost, "/tokens"), 1)
		p.NoFaults()
	})
}

// shots looks at a page on the smallest of screens and on a desk, in light and in
// dark: nothing is to scroll sideways. SCREENSHOTS names where pictures go.
func shots(t *testing.T, p browsertest.Page, name string) {
	t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	for _, width := range []int64{320, 1280} {
		p.Resize(width, 800)
		require.LessOrEqual(t, browsertest.Value[int64](p, "document.documentElement.scrollWidth"), width, "%s scrolls sideways", name)
		for _, scheme := range []string{"light", "dark"} {
			if dir == "" {
				continue
			}
			p.Scheme(scheme)
			p.Until("document.getAnimations().every((a) => a.playState !== 'running' || a.effect.getTiming().iterations === Infinity)")
			p.Run("document.querySelector('#drawn:not([hidden]), #lanes-box:not([hidden])')?.scrollIntoView()")
			require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), p.Screenshot(), 0o600))
		}
	}
}
