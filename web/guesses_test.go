package web

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web/limit"
)

// threeGuesses lets everything pass but the fourth guess.
type threeGuesses struct{ made int }

func (l *threeGuesses) Allow(_ context.Context, r limit.Request, _ limit.Rules) limit.Verdict {
	if r.Call != limit.Guess {
		return limit.Verdict{OK: true}
	}
	if l.made++; l.made > 3 {
		return limit.Verdict{RetryAfter: time.Minute, Which: limit.WhichGuesses}
	}
	return limit.Verdict{OK: true}
}

// Wrong codes are counted by address; at the limit no code is looked at any more.
func TestGuessesAreLimited(t *testing.T) {
	t.Parallel()
	limiter := &threeGuesses{}
	r := newRig(t, func(_ *Config, d *Deps) { d.Limiter = limiter })
	asked := 0
	r.line.join = func(q waitroom.JoinRequest) (waitroom.Place, error) {
		asked++
		if q.Code == "right" || q.Code == "" {
			return annsPlace(q.Event), nil
		}
		return waitroom.Place{}, &waitroom.NotEligibleError{Why: waitroom.UnknownCode}
	}
	guess := func(code string) int {
		return r.do(t, call{method: "POST", path: "/v1/events/demo/entries", body: `{"code":"` + code + `"}`}).Code
	}
	require.Equal(t, http.StatusOK, guess("right"))
	for range 3 {
		require.Equal(t, http.StatusForbidden, guess("wrong"))
	}
	require.Equal(t, http.StatusOK, guess("right"), "who has a code gets in, whoever else guesses")
	require.Equal(t, http.StatusTooManyRequests, guess("wrong"))
	before := asked
	require.Equal(t, http.StatusTooManyRequests, guess("right"), "right or wrong: nothing is to be learnt")
	require.Equal(t, before, asked, "and the store is not asked")
	require.Equal(t, http.StatusOK, guess(""), "whoever has none is not concerned")

	r = newRig(t, func(_ *Config, d *Deps) { d.Limiter = &threeGuesses{} })
	r.line.party = func(waitroom.PartyRequest) (waitroom.Party, error) { return waitroom.Party{}, waitroom.ErrNoParty }
	party := call{method: "POST", path: "/v1/events/demo/party/members", body: `{"code":"ABCDE-FGHJK"}`}.with("Authorization", "Bearer "+goodReceipt)
	for range 3 {
		require.Equal(t, http.StatusNotFound, r.do(t, party).Code)
	}
	for range 2 {
		require.Equal(t, http.StatusTooManyRequests, r.do(t, party).Code, "a party's codes are not guessed either")
	}
}
