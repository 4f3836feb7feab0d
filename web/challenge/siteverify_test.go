package challenge

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

const testSecret = "secret-at-the-provider"

// standIn is a provider as their documents describe siteverify.
func standIn(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

func saying(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

func provided(t *testing.T, kind, address string) *Challenger {
	t.Helper()
	c, _ := newChallenger(t, Config{
		Hosts: []string{"Wait.example", "shop.example"}, Secrets: map[string]string{kind: testSecret}, Verifiers: map[string]string{kind: address},
	}, redistest.Mini(t))
	return c
}

func bringing(kind, response, onError string) Attempt {
	return Attempt{
		Event: "my-event", Settings: waitroom.ChallengeSettings{Kind: kind, When: waitroom.ChallengeOn, OnError: onError},
		Solution: response, Host: "wait.example", Addr: netip.MustParseAddr("192.0.2.7"),
	}
}

// doc.go promise 7: what is asked, and what of the answer counts.
func TestPromise7AProvidersAnswer(t *testing.T) {
	t.Parallel()
	asked := make(chan url.Values, 8)
	c := provided(t, waitroom.ChallengeTurnstile, standIn(t, func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		asked <- r.PostForm
		_, _ = io.WriteString(w, `{"success":true,"hostname":"wait.example","action":"my_event","challenge_ts":"2026-05-01T12:00:00Z","error-codes":[],"cdata":""}`)
	}))
	cleared, err := c.Check(t.Context(), bringing(waitroom.ChallengeTurnstile, "response-1", ""))
	require.NoError(t, err)
	require.True(t, cleared)
	require.Equal(t, url.Values{"secret": {testSecret}, "response": {"response-1"}, "remoteip": {"192.0.2.7"}}, <-asked)
	_, err = c.Check(t.Context(), bringing(waitroom.ChallengeTurnstile, "response-1", ""))
	require.ErrorIs(t, err, errSpent, "single use, also where the provider forgets")

	const ok = `{"success":true,"hostname":"wait.example"`
	for i, tt := range []struct {
		kind, answer string
		want         error
	}{
		{waitroom.ChallengeTurnstile, ok + `,"action":"my_event"}`, nil},
		{waitroom.ChallengeTurnstile, ok + `,"action":"another"}`, errElsewhere},
		{waitroom.ChallengeTurnstile, ok + `}`, errElsewhere},
		{waitroom.ChallengeTurnstile, `{"success":true,"hostname":"evil.example","action":"my_event"}`, errElsewhere},
		{waitroom.ChallengeTurnstile, `{"success":true,"action":"my_event"}`, errElsewhere},
		{waitroom.ChallengeTurnstile, `{"success":false,"error-codes":["timeout-or-duplicate"]}`, errWrong},
		{waitroom.ChallengeTurnstile, `{"success":false,"error-codes":["invalid-input-secret"]}`, errDown},
		{waitroom.ChallengeTurnstile, `{"success":false,"error-codes":["internal-error"]}`, errDown},
		{waitroom.ChallengeTurnstile, `<html>`, errDown},
		{waitroom.ChallengeHCaptcha, `{"success":true,"hostname":"SHOP.example"}`, nil},
		{waitroom.ChallengeHCaptcha, `{"success":true,"hostname":"wait.example.evil"}`, errElsewhere},
		{waitroom.ChallengeHCaptcha, `{}`, errWrong},
		{waitroom.ChallengeReCaptcha, ok + `}`, nil}, // its second version
		{waitroom.ChallengeReCaptcha, ok + `,"action":"my_event","score":0.7}`, nil},
		{waitroom.ChallengeReCaptcha, ok + `,"action":"my_event","score":0.3}`, errWrong},
		{waitroom.ChallengeReCaptcha, ok + `,"action":"login","score":0.9}`, errElsewhere},
		{waitroom.ChallengeReCaptcha, ok + `,"score":0.9}`, errElsewhere},
	} {
		c := provided(t, tt.kind, standIn(t, saying(tt.answer)))
		_, err := c.Check(t.Context(), bringing(tt.kind, fmt.Sprint("response-", i), ""))
		if tt.want == nil {
			require.NoError(t, err, "%s", tt.answer)
			continue
		}
		require.ErrorIs(t, err, tt.want, "%s", tt.answer)
		require.ErrorIs(t, err, ErrFailed)
		require.NotContains(t, err.Error(), testSecret)
		require.NotContains(t, err.Error(), "response-")
	}
}

// doc.go promise 7: a provider that hangs is an answer within three seconds, by the
// event's policy, and after five failures none waits for it.
func TestPromise7AProviderThatIsDown(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	over := make(chan struct{})
	address := standIn(t, func(http.ResponseWriter, *http.Request) { calls.Add(1); <-over })
	t.Cleanup(func() { close(over) }) // before the server's own end
	c := provided(t, waitroom.ChallengeHCaptcha, address)
	require.Equal(t, 3*time.Second, c.providers[waitroom.ChallengeHCaptcha].client.Timeout)
	c.providers[waitroom.ChallengeHCaptcha].client.Timeout = 50 * time.Millisecond
	for i := range 20 {
		_, err := c.Check(t.Context(), bringing(waitroom.ChallengeHCaptcha, fmt.Sprint("r", i), waitroom.ChallengeRefuse))
		require.ErrorIs(t, err, ErrFailed)
		require.ErrorIs(t, err, errDown)
		require.NotContains(t, err.Error(), testSecret)
	}
	require.Less(t, calls.Load(), int64(20), "left alone for a second at a time")
	cleared, err := c.Check(t.Context(), bringing(waitroom.ChallengeHCaptcha, "r", waitroom.ChallengePass))
	require.NoError(t, err)
	require.False(t, cleared, "joins, but has cleared no limit")
	_, err = c.Check(t.Context(), bringing(waitroom.ChallengeTurnstile, "r", waitroom.ChallengeRefuse))
	require.ErrorIs(t, err, errDown, "no secret for it")
	require.True(t, c.Knows(waitroom.ChallengeHCaptcha))
	require.False(t, c.Knows(waitroom.ChallengeTurnstile))
}

// doc.go promise 7: a flood of made-up responses ends here, and is no failure of the
// provider that a policy would let pass.
func TestPromise7AFloodIsNotTheProviders(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	asked := make(chan struct{}, mostAsked)
	c := provided(t, waitroom.ChallengeHCaptcha, standIn(t, func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-over
		_, _ = io.WriteString(w, `{"success":false}`)
	}))
	c.providers[waitroom.ChallengeHCaptcha].client.Timeout = time.Minute
	failed := make(chan error, mostAsked)
	for i := range mostAsked {
		go func() {
			_, err := c.Check(t.Context(), bringing(waitroom.ChallengeHCaptcha, fmt.Sprint("made up ", i), waitroom.ChallengePass))
			failed <- err
		}()
	}
	for range mostAsked {
		<-asked
	}
	cleared, err := c.Check(t.Context(), bringing(waitroom.ChallengeHCaptcha, "one more", waitroom.ChallengePass))
	require.ErrorIs(t, err, waitroom.ErrUnavailable)
	require.False(t, cleared)
	close(over)
	for range mostAsked {
		require.ErrorIs(t, <-failed, errWrong)
	}
	_, err = c.Check(t.Context(), bringing(waitroom.ChallengeHCaptcha, "later", waitroom.ChallengePass))
	require.ErrorIs(t, err, errWrong, "asked again")
}

// The names of actions are such that every provider takes them, and one's own.
func TestActions(t *testing.T) {
	t.Parallel()
	require.Equal(t, "my_event_2", Action("my-event-2"))
	long := waitroom.EventID(strings.Repeat("a", 60))
	require.Len(t, Action(long), 30)
	require.NotEqual(t, Action(long), Action(long+"b"))
	c := provided(t, waitroom.ChallengeTurnstile, "http://127.0.0.1:1")
	offer, err := c.Offer("my-event", waitroom.ChallengeSettings{Kind: waitroom.ChallengeTurnstile, SiteKey: "1x00"}, "wait.example")
	require.NoError(t, err)
	require.JSONEq(t, `{"kind":"turnstile","site_key":"1x00","action":"my_event"}`, string(offer))
}
