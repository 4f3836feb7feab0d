package ticket

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the store's collectors.
type metrics struct {
	reserved        *prometheus.CounterVec
	group           prometheus.Histogram
	retries, split  prometheus.Counter
	expired, parked prometheus.Counter
	payments        *prometheus.CounterVec
}

// newMetrics registers the collectors; a nil registerer leaves them unseen.
func newMetrics(reg prometheus.Registerer, s *Store) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "waitroom", Subsystem: "ticket", Name: name, Help: help})
	}
	m := &metrics{
		reserved: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "waitroom", Subsystem: "ticket", Name: "reservations_total",
			Help: "Answers to reservations, by result.",
		}, []string{"result"}),
		group: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "waitroom", Subsystem: "ticket", Name: "group_size",
			Help: "Reservations in one transaction.", Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
		retries: counter("retries_total", "Transactions that were tried again."),
		split:   counter("group_splits_total", "Groups that were halved, since something in them could not be done."),
		expired: counter("holds_ended_total", "Holds that ended by the clock."),
		parked:  counter("outbox_parked_total", "Messages that were given up until somebody looks."),
		payments: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "waitroom", Subsystem: "ticket", Name: "payment_results_total",
			Help: "What payments were found to have come to.",
		}, []string{"result"}),
	}
	if reg == nil {
		return m, nil
	}
	gauge := func(name, help string, of func(Usage) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "waitroom", Subsystem: "ticket", Name: name, Help: help},
			func() float64 { return float64(of(s.Usage())) })
	}
	for _, c := range []prometheus.Collector{
		m.reserved, m.group, m.retries, m.split, m.expired, m.parked, m.payments,
		gauge("pool_in_use", "Database connections in use.", func(u Usage) int { return u.InUse }),
		gauge("pool_max", "Database connections there may be.", func(u Usage) int { return u.Max }),
		gauge("pool_waiting", "Callers that wait for the database.", func(u Usage) int { return u.Waiting }),
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// answered counts one reservation's answer.
func (m *metrics) answered(err error, a Answer) {
	result := "refused"
	switch {
	case errors.Is(err, ErrContended):
		result = "contended"
	case errors.Is(err, ErrUnavailable):
		result = "unavailable"
	case err != nil:
		result = "failed"
	case a.Replayed:
		result = "replayed"
	case a.Status < 300:
		result = "made"
	}
	m.reserved.WithLabelValues(result).Inc()
}

// settled counts one payment's result.
func (m *metrics) settled(r PaymentResult) { m.payments.WithLabelValues(string(r)).Inc() }
