package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// The calls of a party, what they answer, and what they refuse: promises 1, 3 and 5.
func TestPartyCalls(t *testing.T) {
	t.Parallel()
	const base = "/v1/events/demo/party"
	whole := `{"members":2,"size":4,"you_buy":true,"code":"ABCDE-FGHJK","place_token":"` + partyReceipt + `"}`
	mine := func(method, path, body string) call {
		return call{method: method, path: path, body: body}.with("Authorization", "Bearer "+goodReceipt)
	}
	r := newRig(t)
	r.view.event.Party.Size = 4
	for _, tc := range []struct {
		call   call
		status int
	}{
		{mine("GET", base, ""), 200},
		{mine("POST", base, ""), 201},
		{mine("POST", base+"/members", `{"code":"abcde fghjk"}`), 200},
		{mine("PUT", base+"/buyer", ""), 200},
		{mine("DELETE", base+"/members/me", ""), 204},
	} {
		w := r.do(t, tc.call)
		require.Equal(t, tc.status, w.Code, "%s %s: %s", tc.call.method, tc.call.path, w.Body)
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		if tc.status != http.StatusNoContent {
			require.JSONEq(t, whole, w.Body.String())
			require.Contains(t, w.Header().Get("Set-Cookie"), placeCookie+"demo="+partyReceipt)
		}
		w = r.do(t, tc.call.with("Authorization", ""))
		require.Equal(t, "401 token_required", fmt.Sprintf("%d %s", w.Code, problemIn(t, w).Code), "%s %s without a token", tc.call.method, tc.call.path)
		for _, token := range []string{"nobody-s", foreignPlace} {
			for _, bad := range []call{
				tc.call.with("Authorization", "Bearer "+token),
				tc.call.with("Authorization", "").with("Cookie", placeCookie+"demo="+token),
			} {
				w = r.do(t, bad)
				require.Equal(t, "401 token_invalid", fmt.Sprintf("%d %s", w.Code, problemIn(t, w).Code), "%s %s", tc.call.method, tc.call.path)
			}
		}
	}
	for body, field := range map[string]string{`{}`: "code", `{"code":7}`: "code", `{"code":"x","size":9}`: "size", `{"code":"x","lane":"a"}`: "lane"} {
		w := r.do(t, mine("POST", base+"/members", body))
		require.Equal(t, http.StatusUnprocessableEntity, w.Code)
		require.Contains(t, w.Body.String(), `"field":"`+field+`"`)
	}
	for _, of := range []call{mine("POST", base, `{"size":9}`), mine("PUT", base+"/buyer", `{"size":9}`)} {
		w := r.do(t, of)
		require.Equal(t, http.StatusUnprocessableEntity, w.Code)
		require.Contains(t, w.Body.String(), `"field":"size"`)
		require.Equal(t, http.StatusUnauthorized, r.do(t, of.with("Authorization", "")).Code, "who calls comes before the body")
	}
	w := r.do(t, mine("POST", base+"/members", `{"code":7}`).with("Authorization", ""))
	require.Equal(t, http.StatusUnauthorized, w.Code, "who calls comes before the body")
	for err, want := range map[error]string{
		waitroom.ErrNoParty: "404 not_found", waitroom.ErrPartyFull: "409 full", waitroom.ErrInParty: "409 exists",
		waitroom.ErrLobbyOver: "403 closed", waitroom.ErrUsed: "409 token_used", waitroom.ErrWrongMode: "409 wrong_mode",
		&waitroom.NotEligibleError{Why: waitroom.PartyTurn}: "403 not_eligible",
	} {
		r.line.party = func(waitroom.PartyRequest) (waitroom.Party, error) {
			return waitroom.Party{}, fmt.Errorf("a party: %w", err)
		}
		w := r.do(t, mine("POST", base+"/members", `{"code":"ABCDE-FGHJK"}`))
		require.Equal(t, want, fmt.Sprintf("%d %s", w.Code, problemIn(t, w).Code))
	}

	// A member who does not buy is told of the turn, and has no token.
	r.line.place = func() (waitroom.Place, error) {
		p := annsPlace("demo")
		p.State, p.Grant, p.Party = waitroom.EntryAdmitted, annsGrant("demo"), &waitroom.Membership{Members: 2}
		p.Grant.State = waitroom.EntryAdmitted
		return p, nil
	}
	w = r.do(t, asking)
	require.Equal(t, http.StatusOK, w.Code)
	require.NotContains(t, w.Body.String(), "entry_token")
	require.Contains(t, w.Body.String(), `"party":{"members":2,"size":4,"you_buy":false}`)
	require.Contains(t, w.Body.String(), `"expires_at"`)
	require.Contains(t, r.do(t, call{method: "GET", path: "/v1/events/demo"}).Body.String(), `"party":{"size":4}`)
}

// Whom the site knows leaves their party by giving up their place, and not the place that
// is their friends' too.
func TestASubjectInAPartyLeavesTheParty(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.line.place = func() (waitroom.Place, error) { return annsParty("members").Place, nil }
	r.line.leave = func(e waitroom.EntryID) error { return fmt.Errorf("gave up %s, which is nobody's alone", e) }
	var left waitroom.PartyRequest
	r.line.party = func(req waitroom.PartyRequest) (waitroom.Party, error) {
		left = req
		return waitroom.Party{}, nil
	}
	login, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "u1", "exp": time.Now().Add(time.Hour).Unix()}).
		SignedString([]byte(strings.Repeat("k", 32)))
	require.NoError(t, err)
	w := r.do(t, asking.at("/v1/events/members/entries/me").by("DELETE").with("Authorization", "Bearer "+login))
	require.Equal(t, http.StatusNoContent, w.Code, "%s", w.Body)
	require.Equal(t, waitroom.PartyRequest{JoinRequest: waitroom.JoinRequest{Event: "members", Subject: "u1"}}, left)
}

// Who buys for a party without names has what is bought also by the place token; no other
// member has, and nobody before the party has entered.
func TestPartyBuyerHasTheReservation(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.view.event.Party.Size, r.tickets.owner = 4, "theirs"
	for _, tc := range []struct {
		state  waitroom.EntryState
		buys   bool
		status int
	}{
		{waitroom.EntryEntered, true, http.StatusOK},
		{waitroom.EntryCompleted, true, http.StatusOK},
		{waitroom.EntryEntered, false, http.StatusNotFound},
		{waitroom.EntryAdmitted, true, http.StatusNotFound},
	} {
		r.line.place = func() (waitroom.Place, error) {
			p := annsParty("demo").Place
			p.State, p.Party.Buys = tc.state, tc.buys
			return p, nil
		}
		see := call{method: "GET", path: "/v1/events/demo/reservations/" + annsReservation.ID}
		for _, by := range []call{see.with("Authorization", "Bearer "+goodReceipt), see.with("Cookie", placeCookie+"demo="+goodReceipt)} {
			w := r.do(t, by)
			require.Equal(t, tc.status, w.Code, "%s, buys %t: %s", tc.state, tc.buys, w.Body)
		}
	}
}
