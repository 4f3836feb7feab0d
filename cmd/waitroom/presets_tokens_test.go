package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

// holder is who was issued a token, as a buyer.
func (a *asker) holder(t *testing.T, event string) *buyer {
	t.Helper()
	return &buyer{person: &person{t: t, event: event, token: a.answer.PlaceToken}, pass: a.answer.EntryToken}
}

// System A, game login: nothing is sold, and only who had a turn passes the gate.
func TestPresetGameLogin(t *testing.T) {
	t.Parallel()
	s := startInstance(t, "--preset", "game-login")
	game := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("in")) }))
	t.Cleanup(game.Close)
	front := startProcess(t, nil, "gate", "--addr", "127.0.0.1:0", "--upstream", game.URL, "--target", s.url, "--event", "game-login", "--log-format", "json")
	plays := func(b *buyer) bool {
		status, _, _ := call(t, http.MethodGet, front.url+"/login", nil, b.header(""))
		return status == http.StatusOK
	}
	require.EqualValues(t, 50_000, s.ev("game-login")["rate_per_s"])
	const people = 100
	players, sockets := s.lobby("game-login", people, nil)
	var in atomic.Int64
	inParallel(people, func(i int) {
		b := players[i].admitted(sockets[i], 30*time.Second)
		cheat := &buyer{person: players[i], pass: players[i].token} // a place is no turn
		if b.passes(s) == http.StatusNoContent && plays(b) && cheat.passes(s) == http.StatusUnauthorized && !plays(cheat) {
			in.Add(1)
		}
	})
	require.EqualValues(t, people, in.Load())

	// A region whose servers are full stops alone; the others go on.
	report := func(usage float64) {
		status, _, body := call(t, http.MethodPut, s.url+"/v1/events/game-login/load", facts{"pool_usage": usage, "lane": "asia"}, bearerOf(siteKey))
		require.Equal(t, http.StatusNoContent, status, body)
	}
	report(0.95)
	until(t, 20*time.Second, "asia's own signal", func() bool {
		_, now := s.ops(http.MethodGet, "/game-login/metrics", nil)
		report(0.95)
		return strings.Contains(fmt.Sprint(now["decision"]), "0.95")
	})
	joins := func(lane string) *person {
		status, _, body := call(t, http.MethodPost, s.url+"/v1/events/game-login/entries", facts{"lane": lane}, nil)
		require.Equal(t, http.StatusCreated, status, body)
		require.Equal(t, lane, body["lane"])
		return &person{t: t, event: "game-login", token: body["place_token"].(string)}
	}
	waits := joins("asia")
	joins("eu").inside(s)
	joins("oceania").inside(s)
	require.Equal(t, "waiting", waits.me(s)["state"])
	report(0.5)
	waits.inside(s)
	status, _, body := call(t, http.MethodPost, s.url+"/v1/events/game-login/entries", facts{"lane": "moon"}, nil)
	require.Equal(t, http.StatusUnprocessableEntity, status, body)
	require.Len(t, s.ev("game-login")["lane_counts"], 5)
	operate := func(args ...string) string {
		status, out, errs := runCommand(t, []string{"WAITROOM_OPERATOR_TOKEN=" + operatorToken}, append([]string{"event", "--target", s.url}, args...)...)
		require.Zero(t, status, errs)
		return out
	}
	require.Regexp(t, `(?m)^  na +8000 +0 +0 *$`, operate("rate", "game-login", "8000", "--lane", "na"))
	require.Regexp(t, `(?m)^  na +paused +0 +0 +0 *$`, operate("pause", "game-login", "--lane", "na"))
	require.Regexp(t, `(?m)^  asia +\d+ +0 +1 *$`, operate("list"))
	require.Regexp(t, `(?m)^  na +8000 `, operate("resume", "game-login", "--lane", "na"))
	until(t, 10*time.Second, "the sample to tell of each lane", func() bool {
		_, now := s.ops(http.MethodGet, "/game-login/metrics", nil)
		lanes := now["lanes"].([]any)
		asia := lanes[slices.IndexFunc(lanes, func(l any) bool { return l.(map[string]any)["name"] == "asia" })].(map[string]any)
		return len(lanes) == 5 && asia["admitted"] == 1.0 && asia["inside"] == 1.0 && len(now["decision"].(map[string]any)["lanes"].([]any)) == 5
	})
	request{"GET", "/v1/gate/game-login", "", nil}.refused(t, s, 401, "token_required")
	request{"GET", "/v1/events/game-login/seats", "", nil}.refused(t, s, 409, "wrong_mode")
}

// System B: 240 tokens for 200 pieces, everybody else a quick "over"; 200 buy, and
// from then on it is over for good.
func TestPresetTokenDrop(t *testing.T) {
	t.Parallel()
	s := startInstance(t, "--preset", "token-drop")
	holders := judged(t, crowdAsks(t, 1000, "token-drop", 0, nil, s), 240)
	sameAgain(t, holders[:10], "token-drop", s)
	var mu sync.Mutex
	codes := make(map[string]int)
	inParallel(len(holders), func(i int) {
		_, code := holders[i].holder(t, "token-drop").buys(s, map[string]any{"quantity": 1})
		mu.Lock()
		defer mu.Unlock()
		codes[code]++
	})
	require.Equal(t, map[string]int{"": 200, "409 sold_out": 40}, codes)
	until(t, 10*time.Second, "sold out is said", func() bool {
		_, _, body := call(t, http.MethodPost, s.url+"/v1/events/token-drop/tokens", nil, nil)
		return body["code"] == "sold_out"
	})
	s.audited("token-drop")
}

// System E: 900 wristbands and 1,300 people, none over, none twice, nobody left
// guessing.
func TestPresetWristband(t *testing.T) {
	t.Parallel()
	s := startInstance(t, "--preset", "wristband", "--identity-secret", identitySecret)
	status, _, none := call(t, http.MethodPost, s.url+"/v1/events/wristband/tokens", nil, nil)
	require.Equal(t, []any{http.StatusUnauthorized, "token_required"}, []any{status, none["code"]})
	status, _, early := call(t, http.MethodPost, s.url+"/v1/events/wristband/tokens", nil, student(t, "frida", jwt.MapClaims{"status": "freshman"}))
	require.Equal(t, []any{http.StatusForbidden, "not_eligible", "window_early"}, []any{status, early["code"], early["reason"]})
	require.Equal(t, s.public("wristband")["groups"].([]any)[1].(map[string]any)["opens_at"], early["opens_at"])
	people := make([]*asker, 1300)
	for i := range people {
		people[i] = &asker{login: strings.TrimPrefix(student(t, fmt.Sprint("student-", i), jwt.MapClaims{"status": "graduate"})["Authorization"], "Bearer ")}
	}
	askTogether(t, people, "wristband", 0, nil, s)
	holders := judged(t, people, 900)
	for _, p := range people {
		if p.status == http.StatusConflict {
			require.Equal(t, "sold_out", p.answer.Code, "nothing comes back")
		} else {
			require.LessOrEqual(t, p.answer.Rank, int64(900))
		}
	}
	sameAgain(t, holders[:10], "wristband", s)
	_, code := holders[0].holder(t, "wristband").buys(s, map[string]any{"quantity": 1})
	require.Empty(t, code)
	s.audited("wristband")
}

// System D: numbers 1..N without a hole, and exactly the 1000th wins.
func TestPresetWinner(t *testing.T) {
	t.Parallel()
	s := startInstance(t, "--preset", "winner")
	const people = 1100
	seqs := make([]bool, people+1)
	var winners, late atomic.Int64
	var mu sync.Mutex
	inParallel(people, func(i int) {
		key := map[string]string{"Idempotency-Key": "fan-" + strconv.Itoa(i)}
		_, _, body := call(t, http.MethodPost, s.url+"/v1/events/winner/entries", nil, key)
		me := &person{t: t, event: "winner", token: body["place_token"].(string)}
		var seq float64
		until(t, 30*time.Second, "numbered", func() bool {
			_, _, body = call(t, http.MethodGet, s.url+"/v1/events/winner/entries/me", nil, bearerOf(me.token))
			n, known := body["seq"].(float64)
			seq = n
			return known
		})
		if body["winner"] == true {
			winners.Add(1)
			require.InDelta(t, 1000, seq, 0)
		}
		mu.Lock()
		defer mu.Unlock()
		if seq < 1 || seq > people || seqs[int(seq)] {
			late.Add(1)
			return
		}
		seqs[int(seq)] = true
	})
	require.Zero(t, late.Load(), "no number twice, none above %d", people)
	require.EqualValues(t, 1, winners.Load())
}
