package web

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
	"github.com/waitroom-dev/waitroom/web/challenge"
	"github.com/waitroom-dev/waitroom/web/limit"
)

// guarded is a rig with real challenges and limits, and an event with an ALTCHA puzzle.
func guarded(t *testing.T, s waitroom.ChallengeSettings) *rig {
	t.Helper()
	rdb := redistest.Mini(t)
	challenges, err := challenge.New(challenge.Config{Key: make([]byte, 32), Effort: 50}, rdb, zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	limiter, err := limit.New(limit.Config{CallTimeout: 20 * time.Second}, rdb, zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	r := newRig(t, func(c *Config, d *Deps) {
		d.Challenges, d.Limiter = challenges, limiter
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	})
	r.view.event.Challenge = s
	r.view.event.Limits = r.view.event.Limits.Defaults()
	return r
}

func puzzles(when string, above float64) waitroom.ChallengeSettings {
	return waitroom.ChallengeSettings{Kind: waitroom.ChallengeALTCHA, When: when, AbovePerS: above}.Defaults()
}

// solve gets a challenge where a refusal says, and works it out.
func (r *rig) solve(t *testing.T, p problem) string {
	t.Helper()
	w := r.do(t, call{method: "GET", path: p.Challenge})
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	solution, err := challenge.Solve(t.Context(), w.Body.Bytes())
	require.NoError(t, err)
	return solution
}

// refusedFor is the problem of a refusal with this code.
func (r *rig) refusedFor(t *testing.T, c call, code string) problem {
	t.Helper()
	w := r.do(t, c)
	p := problemIn(t, w)
	require.Equal(t, code, p.Code, "%s", w.Body)
	return p
}

// doc.go promise 13: a stranger solves a challenge before joining, and is asked once.
func TestPromise13StrangersSolveAChallenge(t *testing.T) {
	t.Parallel()
	r := guarded(t, puzzles(waitroom.ChallengeOn, 0))
	p := r.refusedFor(t, joining, "challenge_required")
	require.Equal(t, http.StatusForbidden, p.Status)
	require.Equal(t, "/v1/events/demo/challenge", p.Challenge)
	solution := r.solve(t, p)
	joined := joining.saying(fmt.Sprintf(`{"challenge":%q}`, solution))
	require.Equal(t, http.StatusCreated, r.do(t, joined).Code)
	p = r.refusedFor(t, joined, "challenge_failed")
	require.Equal(t, "/v1/events/demo/challenge", p.Challenge, "another one is to be had")

	other := r.solve(t, p)
	r.refusedFor(t, joining.with("X-Challenge", other[1:]), "challenge_failed")
	require.Equal(t, http.StatusCreated, r.do(t, joining.with("X-Challenge", other)).Code, "the header says the same")
	require.Equal(t, http.StatusOK, r.do(t, joining.with("Authorization", "Bearer "+goodReceipt)).Code, "a place is kept without one")
	r.refusedFor(t, joining.with("Authorization", "Bearer "+foreignPlace), "challenge_required")
	r.refusedFor(t, joining.saying(`{"challenge":1}`), "invalid")
	r.refusedFor(t, joining.saying(`{"else":"x"}`), "invalid")
	r.refusedFor(t, joining.saying(`{`), "bad_json")

	r.view.event.State = waitroom.Closed
	r.line.join = func(waitroom.JoinRequest) (waitroom.Place, error) { return waitroom.Place{}, waitroom.ErrClosed }
	r.refusedFor(t, joining, "closed") // nobody works for nothing
	r.view.event.State = waitroom.Open
	r.refusedFor(t, joining.at("/v1/events/demo/tokens"), "wrong_mode")
	r.view.event.Mode = waitroom.ModeInstant
	issuing := joining.at("/v1/events/demo/tokens")
	solution = r.solve(t, r.refusedFor(t, issuing, "challenge_required"))
	require.Equal(t, http.StatusCreated, r.do(t, issuing.saying(fmt.Sprintf(`{"challenge":%q}`, solution))).Code)

	r.view.event.Challenge.When = waitroom.ChallengeOff
	require.Equal(t, http.StatusCreated, r.do(t, issuing).Code)
	require.JSONEq(t, `{"kind":"none"}`, newRig(t).do(t, call{method: "GET", path: "/v1/events/demo/challenge"}).Body.String())
}

// A person whom the site knows solves it too: accounts may cost nothing. Without a
// token they hear that they need one, and solve nothing.
func TestKnownSubjectsSolveItToo(t *testing.T) {
	t.Parallel()
	r := guarded(t, puzzles(waitroom.ChallengeOn, 0))
	r.view.event.Identity = "jwt"
	r.refusedFor(t, joining, "token_required")
	r.refusedFor(t, joining.with("Authorization", "Bearer x.y.z"), "token_invalid")
}

// Over a hundred a minute from one address: a challenge instead of a wall, and a flood
// that solves none hears the same without a store call.
func TestAnAddressOverItsLimitIsChallenged(t *testing.T) {
	t.Parallel()
	r := guarded(t, puzzles(waitroom.ChallengeAbove, 1e5))
	r.view.event.Limits.Address = "100/1h" // a busy machine takes its time
	from := func(c call, addr string) call { return c.with("X-Forwarded-For", addr) }
	for range 100 {
		require.Equal(t, http.StatusCreated, r.do(t, from(joining, "198.51.100.7")).Code)
	}
	p := r.refusedFor(t, from(joining, "198.51.100.7"), "challenge_required")
	solution := r.solve(t, p)
	require.Equal(t, http.StatusCreated, r.do(t, from(joining, "198.51.100.7").saying(fmt.Sprintf(`{"challenge":%q}`, solution))).Code)
	require.Equal(t, http.StatusCreated, r.do(t, from(joining, "198.51.100.8")).Code, "another address")
	r.refusedFor(t, from(joining, "198.51.100.7").saying(`{"challenge":"wrong"}`), "challenge_required") // counted as any other
	r.refusedFor(t, from(call{method: "GET", path: "/v1/events/demo/draw"}, "198.51.100.7"), "rate_limited")

	redeem := from(call{method: "POST", path: "/v1/events/demo/credits", body: `{"credit":"credit-of-jti-1"}`}.with("Content-Type", "application/json"), "198.51.100.7")
	r.refusedFor(t, redeem, "token_required") // no solution is looked at here, so none is wanted

	r.view.event.Challenge.When = waitroom.ChallengeOff
	for i := 0; ; i++ {
		w := r.do(t, from(joining, "198.51.100.9"))
		if w.Code == http.StatusTooManyRequests {
			seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
			require.NoError(t, err)
			require.LessOrEqual(t, seconds, 3, "an office's turn comes twelve times as soon")
			break
		}
		require.Less(t, i, 5000, "a limit all the same")
	}
}

// Above a pace everybody is asked.
func TestAboveAPaceStrangersAreChallenged(t *testing.T) {
	t.Parallel()
	r := guarded(t, puzzles(waitroom.ChallengeAbove, 20))
	for i := 0; ; i++ { // a machine that is too slow for twenty a second is not above
		w := r.do(t, joining.with("X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i%200)))
		if w.Code == http.StatusForbidden {
			require.Equal(t, "challenge_required", problemIn(t, w).Code)
			require.GreaterOrEqual(t, i, 20)
			return
		}
		require.Less(t, i, 20_000)
	}
}

// An event whose challenge could not be checked here is refused, made or changed.
func TestChallengesThatCannotBeChecked(t *testing.T) {
	t.Parallel()
	r := guarded(t, puzzles(waitroom.ChallengeOn, 0))
	for _, c := range []call{
		ops.by("POST").saying(`{"id":"x","challenge":{"kind":"turnstile"}}`),
		ops.by("PATCH").at("/v1/ops/events/demo").saying(`{"challenge":{"kind":"hcaptcha"}}`),
	} {
		p := r.refusedFor(t, c, "invalid")
		require.Equal(t, "challenge.kind", p.Errors[0].Field)
		require.Contains(t, p.Errors[0].Detail, "challenge-secrets")
	}
	require.Equal(t, http.StatusCreated, r.do(t, ops.by("POST").saying(`{"id":"x","challenge":{"kind":"altcha"}}`)).Code)
}
