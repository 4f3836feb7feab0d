package pages_test

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
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

// needWidget skips the test where .ci/widget has not brought the widget; under CI=true
// it fails.
func needWidget(t *testing.T) {
	t.Helper()
	if _, err := fs.Stat(pages.Files(), "assets/altcha/altcha.js"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("make widget has not been run")
		}
		t.Skip("make widget has not been run")
	}
}

// Promise 13, and promise 1 of package challenge: ALTCHA's own widget from npm solves
// the service's own puzzles, under the page's own policy, and nobody clicks it; where a
// build has no widget, the page solves them.
func TestPromise13ChallengesAreSolved(t *testing.T) {
	t.Parallel()
	for name, without := range map[string]bool{"widget": false, "page alone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !without {
				needWidget(t)
			}
			s := newService(t)
			challenges, err := challenge.New(challenge.Config{Key: make([]byte, 32)}, redistest.Mini(t), zap.NewNop(), prometheus.NewRegistry())
			require.NoError(t, err)
			s.set(func(s *service) {
				s.challenges, s.settings, s.noWidget = challenges, waitroom.ChallengeSettings{Kind: waitroom.ChallengeALTCHA}, without
			})
			p := joined(t, s)
			require.Len(t, s.seen(http.MethodGet, "/challenge"), 1)
			require.Len(t, s.seen(http.MethodPost, "/entries"), 2, "without, and with the solution")
			p.Until("document.getElementById('check').hidden")
			for _, c := range s.seen(http.MethodPost, "/entries") {
				require.NotContains(t, c.Query, "challenge")
			}
			p.NoFaults()
		})
	}
}

// Promise 13: what this page cannot solve is said, and nothing of a provider's is loaded.
func TestPromise13AnothersChallengeIsSaid(t *testing.T) {
	t.Parallel()
	s := newService(t)
	challenges, err := challenge.New(challenge.Config{Key: make([]byte, 32)}, redistest.Mini(t), zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	s.set(func(s *service) {
		s.challenges, s.settings = challenges, waitroom.ChallengeSettings{Kind: waitroom.ChallengeTurnstile}
	})
	p := browsertest.NewVisitor(t)
	p.Open(s.address + "/")
	p.Panel("join")
	p.Click("join")
	p.Reads("note", "This event checks its visitors on its own site. Please go back there and join from it.")
	p.NoFaults()
}

// What .ci/widget brings is what the page loads, and it makes no code of text.
func TestWidgetFiles(t *testing.T) {
	t.Parallel()
	needWidget(t)
	names, err := fs.Glob(pages.Files(), "assets/altcha/*.*s")
	require.NoError(t, err)
	require.Len(t, names, 3)
	for _, name := range names {
		require.NotRegexp(t, `\beval\(|new Function|document\.write|importScripts`, read(t, name), name)
		require.Contains(t, read(t, "assets/challenge.js"), "/"+path.Base(name), "nobody loads it")
	}
}
