package limit

import (
	"cmp"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// decider says who decided about a call.
type decider string

const (
	byNobody decider = "nobody" // exempt, cleared, or no rule
	byMemory decider = "memory" // a local bucket, without the store
	byStore  decider = "store"
	byAway   decider = "away" // this process, for the store's absence
)

// metrics are labelled by call, rule and decider, of which there are few.
type metrics struct {
	verdicts *prometheus.CounterVec
	calls    prometheus.Histogram
	failures prometheus.Counter
	away     prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer, m *memory) (*metrics, error) {
	name := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "waitroom", Subsystem: "limit", Name: name, Help: help}
	}
	ms := &metrics{
		verdicts: prometheus.NewCounterVec(prometheus.CounterOpts(name("verdicts_total",
			"Calls, by kind, by the rule that refused them (none if let through) and by who decided.")),
			[]string{"call", "refused", "by"}),
		calls: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "waitroom", Subsystem: "limit", Name: "store_seconds", Help: "Time of a round trip to the shared buckets.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25},
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts(name("store_failures_total", "Round trips that failed."))),
		away:     prometheus.NewGauge(prometheus.GaugeOpts(name("store_away", "1 while this process decides alone."))),
	}
	remembered := prometheus.NewGaugeFunc(prometheus.GaugeOpts(name("buckets", "Local buckets in memory.")),
		func() float64 { return float64(m.len()) })
	for _, c := range []prometheus.Collector{ms.verdicts, ms.calls, ms.failures, ms.away, remembered} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register limit metrics: %w", err)
		}
	}
	return ms, nil
}

func (m *metrics) count(call Call, v Verdict, by decider) {
	switch call {
	case Join, Poll, Booking, Issue, Guess, Browse:
	default:
		call = Browse
	}
	m.verdicts.WithLabelValues(string(call), cmp.Or(v.Which, "none"), string(by)).Inc()
}

func (m *metrics) asked(took time.Duration, err error) {
	m.calls.Observe(took.Seconds())
	if err != nil {
		m.failures.Inc()
	}
}
