package admission

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// metrics are the collectors of the loop. Event labels are bounded by the events
// that an operator makes, and go with them.
type metrics struct {
	leading, fence prometheus.Gauge
	promoted       *prometheus.CounterVec // by event
	perEvent       perEvent
	decisions      *prometheus.CounterVec // by reason
	failed         *prometheus.CounterVec // by call
	swept, missed  prometheus.Counter
	promote        prometheus.Histogram
	leaderless     prometheus.Histogram
}

// perEvent are the gauges that only a leader has.
type perEvent struct{ rate, usage, passing *prometheus.GaugeVec }

// Reset drops all events' values.
func (p perEvent) Reset() {
	p.rate.Reset()
	p.usage.Reset()
	p.passing.Reset()
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "waitroom", Subsystem: "admission", Name: name, Help: help}
	}
	gauge := func(name, help string) prometheus.GaugeOpts { return prometheus.GaugeOpts(opts(name, help)) }
	counter := func(name, help string) prometheus.CounterOpts { return prometheus.CounterOpts(opts(name, help)) }
	m := &metrics{
		leading:  prometheus.NewGauge(gauge("leading", "1 while this node lets people in.")),
		fence:    prometheus.NewGauge(gauge("fence", "The fence of this node's last term.")),
		promoted: prometheus.NewCounterVec(counter("promoted_total", "People let in by this node."), []string{"event"}),
		perEvent: perEvent{
			rate:    prometheus.NewGaugeVec(gauge("rate_per_s", "The rate decided on, people a second."), []string{"event"}),
			usage:   prometheus.NewGaugeVec(gauge("usage", "The load decided on, 0 to 1; NaN while unknown."), []string{"event"}),
			passing: prometheus.NewGaugeVec(gauge("pass_through", "1 while everybody passes, whatever the rate decided on."), []string{"event"}),
		},
		decisions: prometheus.NewCounterVec(counter("decisions_total", "Ticks decided, by reason."), []string{"reason"}),
		failed:    prometheus.NewCounterVec(counter("failed_total", "Calls that failed: events, promote, sweep, or room for one."), []string{"call"}),
		swept:     prometheus.NewCounter(counter("swept_total", "Places, claims and sessions that ended in a sweep.")),
		missed:    prometheus.NewCounter(counter("missed_ticks_total", "Ticks that came too late and were not made up for.")),
		leaderless: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "waitroom", Subsystem: "admission", Name: "leaderless_seconds",
			Help:    "How long nobody led before a term that this node won.",
			Buckets: []float64{.05, .1, .2, .5, 1, 1.5, 2, 2.1, 2.5, 3, 5, 10, 30, 60},
		}),
		promote: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "waitroom", Subsystem: "admission", Name: "promote_seconds", Help: "Time of a promote call.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1},
		}),
	}
	var err error
	for _, c := range []prometheus.Collector{
		m.leading, m.fence, m.promoted, m.perEvent.rate, m.perEvent.usage, m.perEvent.passing, m.decisions, m.failed, m.swept, m.missed, m.promote, m.leaderless,
	} {
		err = errors.Join(err, reg.Register(c))
	}
	return m, err
}

func (m *metrics) decided(s Standing) {
	m.perEvent.rate.WithLabelValues(string(s.Event)).Set(s.RatePerS)
	m.perEvent.usage.WithLabelValues(string(s.Event)).Set(s.Usage)
	passing := 0.0
	if s.PassThrough {
		passing = 1
	}
	m.perEvent.passing.WithLabelValues(string(s.Event)).Set(passing)
	m.decisions.WithLabelValues(s.Reason).Inc()
}

func (m *metrics) forget(event waitroom.EventID) {
	for _, v := range []*prometheus.GaugeVec{m.perEvent.rate, m.perEvent.usage, m.perEvent.passing} {
		v.DeleteLabelValues(string(event))
	}
	m.promoted.DeleteLabelValues(string(event))
}
