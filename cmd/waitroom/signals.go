package main

import (
	"time"

	"github.com/waitroom-dev/waitroom/admission"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// embeddedLease is the lease of a node that has its store in itself.
const embeddedLease = 5 * time.Minute

// publicLog is the admission log as everybody may read it.
type publicLog struct {
	*admission.Notary
	controller *admission.Controller
}

// Head is the newest head that this node has heard of.
func (l publicLog) Head(event waitroom.EventID) ([]byte, bool) { return l.controller.Head(event) }

// moreSources are the loads that the operator has named: requests in work, and what a
// Prometheus says.
func (s *service) moreSources() ([]admission.Source, error) {
	workers := admission.NewWorkerBoard(s.rdb, keyPrefix, s.node)
	if s.cfg.Workers > 0 {
		workers.Publish(admission.Pool{Stats: func() admission.PoolStats {
			return admission.PoolStats{InUse: float64(s.inWork.Load()), Max: float64(s.cfg.Workers)}
		}})
	}
	s.back = append(s.back, workers.Run)
	sources := []admission.Source{workers}
	if s.cfg.LoadURL != "" {
		prom, err := admission.NewPrometheus(s.cfg.LoadURL, s.cfg.LoadQuery)
		if err != nil {
			return nil, usage(err)
		}
		s.back = append(s.back, prom.Run)
		sources = append(sources, prom)
	}
	return sources, nil
}
