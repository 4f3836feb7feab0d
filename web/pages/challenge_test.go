package pages_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/http"
	"path"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
	"github.com/waitroom-dev/waitroom/web/browsertest"
	"github.com/waitroom-dev/waitroom/web/challenge"
	"github.com/waitroom-dev/waitroom/web/pages"
)

// challenged is why a join is refused by the event's real challenge; the caller holds mu.
func (s *service) challenged(r *http.Request) string {
	var body struct {
		Challenge string `json:"challenge"`
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil || body.Challenge == "" {
		return "challenge_required"
	}
	if _, err := s.challenges.Check(r.Context(), challenge.Attempt{Event: "demo", Settings: s.settings, Solution: body.Challenge, Host: r.Host}); err != nil {
		s.t.Log(err)
		return "challenge_failed"
	}
	return ""
}

func (s *service) getChallenge(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	offer, err := s.challenges.Offer("demo", s.settings, r.Host)
	s.mu.Unlock()
	if err != nil {
		s.answer(w, http.StatusInternalServerError, doc{"code": "internal"})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(offer) // the tab may be gone
}

// Promise 12, and promise 1 of package challenge: ALTCHA's own widget from npm solves
// the service's own puzzles, under the page's own policy, and nobody clicks it.
func TestPromise12TheWidgetSolvesTheChallenge(t *testing.T) {
	t.Parallel()
	s := newService(t)
	challenges, err := challenge.New(challenge.Config{Key: make([]byte, 32)}, redistest.Mini(t), zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	s.set(func(s *service) {
		s.challenges, s.settings = challenges, waitroom.ChallengeSettings{Kind: waitroom.ChallengeALTCHA}
	})
	p := joined(t, s)
	require.Len(t, s.seen(http.MethodGet, "/challenge"), 1)
	require.Len(t, s.seen(http.MethodPost, "/entries"), 2, "without, and with the solution")
	p.Until("document.getElementById('check').hidden")
	for _, c := range s.seen(http.MethodPost, "/entries") {
		require.NotContains(t, c.Query, "challenge")
	}
	p.NoFaults()

	// What this page cannot solve is said, and nothing of a provider's is loaded.
	s.set(func(s *service) {
		s.place, s.settings = nil, waitroom.ChallengeSettings{Kind: waitroom.ChallengeTurnstile}
	})
	other := browsertest.NewVisitor(t)
	other.Open(s.address + "/")
	other.Panel("join")
	other.Click("join")
	other.Reads("note", "This event checks its visitors on its own site. Please go back there and join from it.")
	other.NoFaults()
}

// What is vendored is what .ci/vendor-altcha fetched, all of it is used, and it makes
// no code of text.
func TestVendoredWidget(t *testing.T) {
	t.Parallel()
	sums := map[string]string{
		"altcha.js":   "959494398e8fcde3414d09309ade24b444ede098b04dec1514f4754279bff031",
		"altcha.css":  "03622256effb4e962d0c1da9a59684cf237f541f290703934c07a97dabcbad47",
		"pbkdf2.js":   "7862add9c9d3d847ded3da928edcf406b46478754b9883351111414825b9c86f",
		"LICENSE.txt": "bee1fb9d9c97d42c12c22332c5250f2fb1ef5c2321f6f82beb23e3b77be50a29",
	}
	names, err := fs.Glob(pages.Files(), "assets/altcha/*")
	require.NoError(t, err)
	require.Len(t, names, len(sums))
	for _, name := range names {
		body := read(t, name)
		sum := sha256.Sum256([]byte(body))
		require.Equal(t, sums[path.Base(name)], hex.EncodeToString(sum[:]), name)
		require.NotRegexp(t, `\beval\(|new Function|document\.write|importScripts`, body, name)
		if path.Base(name) != "LICENSE.txt" {
			require.Contains(t, read(t, "assets/challenge.js"), "/"+path.Base(name), "nobody loads it")
		}
	}
}
