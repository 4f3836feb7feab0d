package hub

import "github.com/prometheus/client_golang/prometheus"

// metrics are the hub's collectors.
type metrics struct {
	messages, bytes, refused, slow, lost, dropped, unasked prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, h *Hub) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "waitroom", Subsystem: "hub", Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "waitroom", Subsystem: "hub", Name: "sockets", Help: "Fans' sockets that are open.",
	}, func() float64 { return float64(h.sockets.Load()) }))
	return &metrics{
		messages: counter("messages_total", "Messages written to fans."),
		bytes:    counter("bytes_total", "Bytes written to fans."),
		refused:  counter("refused_total", "Sockets refused because the node was full or draining."),
		slow:     counter("slow_total", "Sockets cut because their peer did not keep up."),
		lost:     counter("lost_total", "Sockets cut because their peer was silent."),
		dropped:  counter("dropped_total", "News dropped because a shard was far behind; visits make up for it."),
		unasked:  counter("unasked_total", "Questions to the line put off because too many waited."),
	}
}
