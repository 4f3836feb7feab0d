package relay

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config says how a relay works. The zero value of a field is its default.
type Config struct {
	// Batch is the most rows held at a time. Default 256, 1 to 10,000.
	Batch int
	// Lease is how long a claim lasts. Default 30s; at least four times PublishTimeout.
	Lease time.Duration
	// PublishTimeout bounds one call to the broker. Default 5s.
	PublishTimeout time.Duration
	// StoreTimeout bounds one call to the outbox, and the last marks after ctx
	// ended. Default 5s.
	StoreTimeout time.Duration
	// Poll is the time between looks at the outbox without a kick. Default 200ms,
	// at most 250ms.
	Poll time.Duration
	// BackoffMax bounds the jittered, doubling wait after a failure of broker or
	// store. Default 2s.
	BackoffMax time.Duration
	// Keep is how long published rows stay. Default 1h.
	Keep time.Duration
	// SweepEvery is the time between sweeps of published rows. Default 1m.
	SweepEvery time.Duration
	// SweepBatch is the most rows a sweep deletes in one transaction. Default 1000.
	SweepBatch int
}

func (c Config) withDefaults() Config {
	c.Batch = cmp.Or(c.Batch, 256)
	c.PublishTimeout = cmp.Or(c.PublishTimeout, 5*time.Second)
	c.Lease = cmp.Or(c.Lease, 30*time.Second)
	c.StoreTimeout = cmp.Or(c.StoreTimeout, 5*time.Second)
	c.Poll = cmp.Or(c.Poll, 200*time.Millisecond)
	c.BackoffMax = cmp.Or(c.BackoffMax, 2*time.Second)
	c.Keep = cmp.Or(c.Keep, time.Hour)
	c.SweepEvery = cmp.Or(c.SweepEvery, time.Minute)
	c.SweepBatch = cmp.Or(c.SweepBatch, 1000)
	return c
}

// Validate reports every wrong field.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Batch < 1 || c.Batch > 10_000 {
		errs = append(errs, fmt.Errorf("batch %d: must be 1 to 10000", c.Batch))
	}
	if c.PublishTimeout < 0 || c.Lease < 4*c.PublishTimeout {
		errs = append(errs, fmt.Errorf("lease %s: must be at least four times the publish timeout %s", c.Lease, c.PublishTimeout))
	}
	if c.Poll < 0 || c.Poll > 250*time.Millisecond {
		errs = append(errs, fmt.Errorf("poll %s: must be at most 250ms", c.Poll))
	}
	for name, d := range map[string]time.Duration{
		"store timeout": c.StoreTimeout, "backoff max": c.BackoffMax, "keep": c.Keep, "sweep every": c.SweepEvery,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s %s: must be positive", name, d))
		}
	}
	if c.SweepBatch < 1 {
		errs = append(errs, fmt.Errorf("sweep batch %d: must be positive", c.SweepBatch))
	}
	return errors.Join(errs...)
}

type metrics struct {
	published *prometheus.CounterVec
	failures  *prometheus.CounterVec
	swept     prometheus.Counter
	lag       prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		published: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "waitroom", Subsystem: "relay", Name: "published_total",
			Help: "Outbox rows handed to the broker, by topic.",
		}, []string{"topic"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "waitroom", Subsystem: "relay", Name: "failures_total",
			Help: "Failures by fault: broker (a whole call), message (poison), store.",
		}, []string{"fault"}),
		swept: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "waitroom", Subsystem: "relay", Name: "swept_total",
			Help: "Published outbox rows deleted.",
		}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "waitroom", Subsystem: "relay", Name: "lag_seconds",
			Help:    "From the making of a row to its publication; the two clocks may differ.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300},
		}),
	}
	for _, fault := range []string{faultBroker, faultMessage, faultStore} {
		m.failures.WithLabelValues(fault)
	}
	for _, c := range []prometheus.Collector{m.published, m.failures, m.swept, m.lag} {
		if reg == nil {
			break
		}
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register relay metrics: %w", err)
		}
	}
	return m, nil
}

// Whose fault a failure is.
const (
	faultBroker  = "broker"
	faultMessage = "message"
	faultStore   = "store"
)
