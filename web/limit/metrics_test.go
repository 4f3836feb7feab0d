package limit

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// TestMetricsTellNobody holds promise 10: labels are of few values, all known here.
func TestMetricsTellNobody(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	l, err := New(Config{}, redistest.Mini(t), zap.NewNop(), reg)
	require.NoError(t, err)
	for _, call := range []Call{Join, Poll, Booking, Issue, Browse, "made up"} {
		for _, person := range []string{"", "ann"} {
			passed(t.Context(), l, 30, Request{Event: "an-event", Call: call, Person: person, Addr: office}, hourly)
		}
	}
	families, err := reg.Gather()
	require.NoError(t, err)
	known := map[string][]string{
		"call":    {"join", "poll", "booking", "issue", "browse"},
		"refused": {"none", "person", "person_burst", "address", "address_join", "booking", "issue", "away"},
		"by":      {"nobody", "memory", "store", "away"},
	}
	total := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				require.Contains(t, known[label.GetName()], label.GetValue(), f.GetName())
			}
			if f.GetName() == "waitroom_limit_verdicts_total" {
				total += m.GetCounter().GetValue()
			}
		}
	}
	require.InDelta(t, 6*2*30, total, 0, "every call is counted once")
	_, err = New(Config{}, nil, zap.NewNop(), reg)
	require.ErrorContains(t, err, "register limit metrics")
}
