package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

func TestOpsImportAndExport(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	put := ops.by("PUT").at("/v1/ops/events/demo/catalogue").with("Content-Type", "text/csv; charset=UTF-8")
	get := ops.at("/v1/ops/events/demo/catalogue")
	require.Equal(t, http.StatusConflict, r.do(t, get).Code)
	w := r.do(t, put.saying("id,capacity,meetings\nmath,5,mon 10:00-12:00; wed 10:00-12:00\nart,7,\n"))
	require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
	require.JSONEq(t, `{"added":2,"changed":0,"removed":0,"places_before":4,"places":7}`, w.Body.String())
	require.Equal(t, []waitroom.AuditRecord{{
		By: "operator", What: "import", Before: `{"places":4}`, After: `{"added":2,"changed":0,"removed":0,"places":7,"places_before":4}`,
	}}, r.ops.notes)
	require.Empty(t, r.ops.patched)
	w = r.do(t, get)
	require.JSONEq(t, `{"kind":"courses","courses":[{"id":"math","capacity":5,"meetings":["mon 10:00-12:00","wed 10:00-12:00"]},{"id":"art","capacity":7}]}`,
		w.Body.String())
	require.Equal(t, http.StatusOK, r.do(t, put.with("Content-Type", "application/json").saying(w.Body.String())).Code)
	require.Equal(t, r.tickets.sheets[0].Items, r.tickets.sheets[1].Items)
	for _, c := range []call{get.at("/v1/ops/events/demo/catalogue?format=csv"), get.with("Accept", "text/csv")} {
		w = r.do(t, c)
		require.Equal(t, "id,name,capacity,price_cents,meetings\nmath,,5,,mon 10:00-12:00; wed 10:00-12:00\nart,,7,,\n", w.Body.String())
		require.Equal(t, mimeCSVOut, w.Header().Get("Content-Type"))
	}

	p := problemIn(t, r.do(t, put.saying("section,number\nA,x\n,2\n")))
	require.Equal(t, []waitroom.FieldError{
		{Field: "line 2: number", Detail: "must be a whole number from 1 to 1000000"},
		{Field: "line 3: section", Detail: "must be 1 to 64 letters, digits, '-', '_', '.' or ':'"},
	}, p.Errors)
	for _, c := range []struct {
		call   call
		status int
	}{
		{put.with("Content-Type", "text/plain").saying("x"), http.StatusUnsupportedMediaType},
		{put.with("Content-Type", "text/csv; charset=latin1").saying("x"), http.StatusUnsupportedMediaType},
		{put.with("Authorization", "").saying("x"), http.StatusUnauthorized},
		{put.at("/v1/ops/events/nope/catalogue").saying("section,number\nA,1\n"), http.StatusNotFound},
		{get.at("/v1/ops/events/demo/catalogue?format=xml"), http.StatusUnprocessableEntity},
		{get.at("/v1/ops/events/nope/catalogue"), http.StatusNotFound},
	} {
		require.Equal(t, c.status, r.do(t, c.call).Code, "%+v", c.call)
	}
	require.Len(t, r.tickets.sheets, 2)
}

// A file of places may be much larger than what fans send, but only an operator's.
func TestOnlyAnOperatorSendsLargeFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	put := ops.by("PUT").at("/v1/ops/events/demo/catalogue").with("Content-Type", "text/csv")
	file := "section,number\nA,1\n" + strings.Repeat("\n", 2*defaultMaxBody)
	w := r.do(t, put.saying(file))
	require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
	require.Equal(t, []ticket.SeatSpec{{ID: "A-1", Number: 1}}, r.tickets.sheets[0].Sections[0].Seats)
	require.Equal(t, http.StatusRequestEntityTooLarge, r.do(t, put.saying(file+strings.Repeat("\n", mostSheet))).Code)
	require.Equal(t, http.StatusRequestEntityTooLarge, r.do(t, put.with("Authorization", "Bearer x").saying(file)).Code)
	require.Equal(t, http.StatusRequestEntityTooLarge, r.do(t, ops.by("POST").saying(file)).Code)
}

func TestOpsBlocksAndReleasesSeats(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	post := ops.by("POST").at("/v1/ops/events/demo/seats")
	require.Equal(t, http.StatusNoContent, r.do(t, post.saying(`{"block":["A-1"],"release":["A-2"]}`)).Code)
	require.Equal(t, [][]string{{"A-1"}, {"A-2"}}, r.tickets.blocked)
	require.Equal(t, []waitroom.AuditRecord{{By: "operator", What: "seats", Before: `{"A-1":"free"}`, After: `{"A-1":"blocked"}`}}, r.ops.notes)
	require.Equal(t, http.StatusNoContent, r.do(t, post.saying(`{"release":["A-1"]}`)).Code)
	require.Len(t, r.ops.notes, 1, "nothing changed, nothing to note")
	for body, status := range map[string]int{
		`{}`: 422, `{"block":[]}`: 422, `{"block":["A 1"]}`: 422, `{"block":"A-1"}`: 422, `{"blocks":["A-1"]}`: 422, `[`: 400,
	} {
		require.Equal(t, status, r.do(t, post.saying(body)).Code, body)
	}
	require.Equal(t, http.StatusNotFound, r.do(t, post.at("/v1/ops/events/nope/seats").saying(`{"block":["A-1"]}`)).Code)
	require.Equal(t, http.StatusUnauthorized, r.do(t, post.with("Authorization", "").saying(`{"block":["A-1"]}`)).Code)
}
