package web

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAdmissionLogIsPublicAndPaged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, row := range []struct {
		path, body, cache string
		status            int
	}{
		{"/v1/events/demo/log", `{"from":0,"most":500}`, "public, max-age=60", http.StatusOK},
		{"/v1/events/demo/log?from=0&limit=1000", `{"from":0,"most":1000}`, "public, max-age=60", http.StatusOK},
		{"/v1/events/demo/log?from=9&limit=1", `{"from":9,"most":1}`, "public, max-age=1", http.StatusOK},
		{"/v1/events/demo/log?from=-1", "", "no-store", http.StatusUnprocessableEntity},
		{"/v1/events/demo/log?limit=1001", "", "no-store", http.StatusUnprocessableEntity},
		{"/v1/events/other/log", "", "no-store", http.StatusNotFound},
	} {
		w := r.do(t, call{method: http.MethodGet, path: row.path})
		require.Equal(t, row.status, w.Code, row.path)
		require.Equal(t, row.cache, w.Header().Get("Cache-Control"), row.path)
		if row.body != "" {
			require.JSONEq(t, row.body, w.Body.String())
		}
	}
	w := r.do(t, call{method: http.MethodGet, path: "/v1/events/demo"})
	require.Contains(t, w.Body.String(), `"log":{"n":7}`, "whoever reads the event has the log's head")
}
