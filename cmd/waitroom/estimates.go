package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// estimates tells Prometheus how good the estimates are that this node shows.
type estimates struct{ view *waitroom.View }

var (
	estimateKept = prometheus.NewDesc("waitroom_estimate_kept",
		"Share of a sample of people who were in by the time that they were shown.", []string{"event", "quantile"}, nil)
	estimateTold = prometheus.NewDesc("waitroom_estimate_told",
		"How many people that share is of, since this node started.", []string{"event"}, nil)
)

// Describe names both figures.
func (e estimates) Describe(out chan<- *prometheus.Desc) {
	out <- estimateKept
	out <- estimateTold
}

// Collect asks the view; events of which nothing is known are left out.
func (e estimates) Collect(out chan<- prometheus.Metric) {
	for _, ev := range e.view.Events() {
		c, ok := e.view.Coverage(ev.ID)
		if !ok {
			continue
		}
		id := string(ev.ID)
		out <- prometheus.MustNewConstMetric(estimateKept, prometheus.GaugeValue, c.By50, id, "0.5")
		out <- prometheus.MustNewConstMetric(estimateKept, prometheus.GaugeValue, c.By90, id, "0.9")
		out <- prometheus.MustNewConstMetric(estimateTold, prometheus.GaugeValue, float64(c.Told), id)
	}
}
