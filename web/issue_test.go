package web

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

func TestIssueAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.view.event.Mode, r.view.event.Durable = "instant", true
	asking := call{method: "POST", path: "/v1/events/demo/tokens"}
	w := r.do(t, asking)
	require.Equal(t, http.StatusCreated, w.Code)
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Contains(t, w.Header().Get("Set-Cookie"), "waitroom_place_demo="+goodReceipt)
	require.JSONEq(t, `{"result":"ISSUED","rank":7,"entry_id":"ann-entry","place_token":"receipt-of-ann","entry_token":"token-jti-1",
		"admitted_at":"2026-05-01T12:00:00.250Z","expires_at":"2026-05-01T12:05:00.250Z","redirect_url":"/e/demo/shop"}`, w.Body.String())

	var asked waitroom.IssueRequest
	r.line.issue = func(q waitroom.IssueRequest) (waitroom.Issued, error) {
		asked = q
		p := annsPlace(q.Event)
		p.State, p.Grant = waitroom.EntryEntered, annsGrant(q.Event)
		return waitroom.Issued{Place: p, Rank: 7}, nil
	}
	w = r.do(t, asking.with("Authorization", "Bearer "+goodReceipt))
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, waitroom.IssueRequest{Event: "demo", Receipt: goodReceipt, Durable: true}, asked)
	var body issuedAnswer
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	require.Equal(t, issuedAnswer{Result: "ALREADY_ISSUED", Rank: 7, ExpiresAt: "2026-05-01T12:10:00.250Z"}, body)
}

type issuedAnswer struct {
	Result    string `json:"result"`
	Rank      int64  `json:"rank"`
	ExpiresAt string `json:"expires_at"`
}

func TestIssueRefusals(t *testing.T) {
	t.Parallel()
	opens := testNow.Add(90 * time.Second)
	for name, c := range map[string]struct {
		err          error
		state        waitroom.State
		status       int
		code         string
		least, most  int64 // of retry_after_ms; 0: never again
		keepsReceipt bool
	}{
		"exhausted":                     {err: &waitroom.ExhaustedError{Next: 3 * time.Second}, status: 409, code: "exhausted", least: 3000, most: 8000},
		"exhausted, one is back by now": {err: &waitroom.ExhaustedError{}, status: 409, code: "exhausted", least: 1000, most: 6000},
		"exhausted for long":            {err: &waitroom.ExhaustedError{Next: time.Hour}, status: 409, code: "exhausted", least: 30_000, most: 30_000},
		"sold out":                      {err: waitroom.ErrSoldOut, status: 409, code: "sold_out"},
		"not open":                      {err: waitroom.ErrNotOpen, state: waitroom.Scheduled, status: 403, code: "not_open", least: 90_000, most: 90_000},
		"paused":                        {err: waitroom.ErrNotOpen, state: waitroom.Paused, status: 403, code: "not_open", least: 30_000, most: 30_000},
		"store away":                    {err: waitroom.ErrUnavailable, status: 503, code: "unavailable", least: 2000, most: 2000, keepsReceipt: true},
		"no replica":                    {err: waitroom.ErrNotReplicated, status: 503, code: "unavailable", least: 2000, most: 2000, keepsReceipt: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.view.event.Mode, r.view.event.OpensAt, r.view.event.State = "instant", &opens, c.state
			r.line.issue = func(waitroom.IssueRequest) (waitroom.Issued, error) {
				if c.keepsReceipt {
					return waitroom.Issued{Place: waitroom.Place{Receipt: goodReceipt}}, c.err
				}
				return waitroom.Issued{}, c.err
			}
			w := r.do(t, call{method: "POST", path: "/v1/events/demo/tokens"})
			require.Equal(t, c.status, w.Code)
			var p problem
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
			require.Equal(t, c.code, p.Code)
			require.True(t, p.RetryAfterMS >= c.least && p.RetryAfterMS <= c.most, "%d ms", p.RetryAfterMS)
			require.Equal(t, c.keepsReceipt, w.Header().Get("Set-Cookie") != "", "whoever has no answer asks again as the same person")
		})
	}
}

// A call of one mode is refused by events of the others.
func TestModesHaveTheirOwnCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.do(t, call{method: "POST", path: "/v1/events/demo/tokens"})
	require.Equal(t, http.StatusConflict, w.Code)
	require.Contains(t, w.Body.String(), "wrong_mode")
	r.view.event.Mode = "instant"
	w = r.do(t, call{method: "POST", path: "/v1/events/demo/entries"})
	require.Equal(t, http.StatusConflict, w.Code)
	require.Contains(t, w.Body.String(), "wrong_mode")
}
