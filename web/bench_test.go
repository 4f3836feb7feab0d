package web

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// discard is a response writer that costs nothing, so that the handler is measured.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

func benchmark(b *testing.B, method, path string, set func(*rig), headers ...string) {
	b.Helper()
	r := newRig(b, quiet)
	if set != nil {
		set(r)
	}
	req := httptest.NewRequestWithContext(b.Context(), method, path, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	h := r.Handler()
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(discard{http.Header{}}, req)
	}
}

func BenchmarkJoin(b *testing.B) { benchmark(b, "POST", "/v1/events/demo/entries", nil) }

func BenchmarkMe(b *testing.B) {
	benchmark(b, "GET", "/v1/events/demo/entries/me", nil, "Authorization", "Bearer "+goodReceipt)
}

func BenchmarkGate(b *testing.B) {
	benchmark(b, "GET", "/v1/gate/demo", nil, "X-Entry-Token", goodToken)
}

func BenchmarkEvent(b *testing.B) { benchmark(b, "GET", "/v1/events/demo", nil) }

func BenchmarkRefusal(b *testing.B) {
	benchmark(b, "POST", "/v1/events/demo/entries", func(r *rig) {
		r.line.join = func(waitroom.JoinRequest) (waitroom.Place, error) { return waitroom.Place{}, waitroom.ErrClosed }
	})
}

func BenchmarkHealth(b *testing.B) {
	require.NotEmpty(b, openAPIDocument)
	benchmark(b, "GET", "/healthz", nil)
}
