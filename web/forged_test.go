package web

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// Whatever a caller claims beside their token, in a header, an address, a cookie or a
// body, changes neither who they are nor where they stand.
func TestForgedClaimsChangeNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var got []waitroom.JoinRequest
	r.line.join = func(req waitroom.JoinRequest) (waitroom.Place, error) {
		got = append(got, req)
		return annsPlace(req.Event), nil
	}
	plain := joining.with("Authorization", "Bearer "+goodReceipt)
	forged := plain.at("/v1/events/demo/entries?event=other&position=1&priority=9&sub=eve&entry_id=eve&lane=vip").with(
		"X-Waitroom-User", "eve", "X-Waitroom-Entry", "eve", "X-User-Id", "eve", "X-Position", "1", "X-Priority", "9", "X-Event", "other",
		"X-HTTP-Method-Override", "DELETE", "X-Original-URL", "/v1/events/other/entries", "X-Forwarded-For", "127.0.0.1", "Forwarded", "for=127.0.0.1",
		"Cookie", "position=1; priority=9; waitroom_place_other="+goodReceipt,
	)
	require.Equal(t, http.StatusOK, r.do(t, plain).Code)
	require.Equal(t, http.StatusOK, r.do(t, forged).Code)
	require.Len(t, got, 2)
	require.Equal(t, got[0], got[1])
	for _, body := range []string{`{"position":1}`, `{"priority":9}`, `{"event":"other"}`, `{"entry_id":"eve"}`, `{"subject":"eve"}`, `{"seq":1}`} {
		r.refusedFor(t, plain.saying(body), "invalid")
	}
	require.Len(t, got, 2, "and what a body claims is not even looked at")
}
