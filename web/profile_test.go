package web

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProfilesAreTheOperators(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for path, want := range map[string]int{
		"/v1/ops/profiles/heap":              http.StatusOK,
		"/v1/ops/profiles/block?seconds=1":   http.StatusOK,
		"/v1/ops/profiles/cpu?seconds=1":     http.StatusOK,
		"/v1/ops/profiles/passwords":         http.StatusNotFound,
		"/v1/ops/profiles/cpu?seconds=99":    http.StatusUnprocessableEntity,
		"/v1/ops/profiles/block?seconds=one": http.StatusUnprocessableEntity,
	} {
		w := r.do(t, ops.at(path))
		require.Equal(t, want, w.Code, path)
		if want == http.StatusOK {
			require.Equal(t, []byte{0x1f, 0x8b}, w.Body.Bytes()[:2], "%s: pprof's format is gzipped", path)
		}
	}
	require.Equal(t, http.StatusUnauthorized, r.do(t, call{method: "GET", path: "/v1/ops/profiles/heap"}).Code)
}
