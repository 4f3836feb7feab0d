package main

import (
	"context"
	"net/http"
	"time"

	"github.com/waitroom-dev/waitroom/admission"
	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/waitroom/draw/drand"
)

// buildAdmission makes what decides how many come in; a process without that role
// follows what is decided elsewhere.
func (s *service) buildAdmission(context.Context) error {
	s.board = admission.NewPoolBoard(s.rdb, keyPrefix, s.node)
	s.reports = admission.NewReports(s.rdb, keyPrefix)
	if s.store != nil && s.cfg.has(roleTicket) {
		s.board.Publish(admission.Pool{Ping: s.store.Ping, Stats: func() admission.PoolStats {
			u := s.store.Usage()
			return admission.PoolStats{InUse: float64(u.InUse), Max: float64(u.Max), Waiting: float64(u.Waiting)}
		}})
	}
	s.back = append(s.back, s.board.Run, s.reports.Run)
	sources, err := s.moreSources()
	if err != nil {
		return err
	}
	leaseConfig := admission.LeaseConfig{Prefix: keyPrefix}
	if s.cfg.Redis == "" {
		// Nobody else can lead: the store ends with this process. So the lease only has
		// to outlast a machine so busy that nothing runs for a while.
		leaseConfig.TTL = embeddedLease
	}
	lease, err := admission.NewLease(leaseConfig, s.rdb, s.log)
	if err != nil {
		return err
	}
	var leadership admission.Leadership = lease
	if !s.cfg.has(roleAdmission) {
		leadership = bystander{}
	}
	s.notary = admission.NewNotary(s.line, s.keys)
	s.controller, err = admission.New(admission.Config{Node: s.node}, admission.Deps{
		Line: s.line, Leadership: leadership, Sources: append(sources, s.board, s.reports),
		Bulletin: admission.NewBulletin(s.rdb, keyPrefix), Notary: s.notary, Log: s.log, Metrics: s.metrics,
	})
	if err != nil {
		return err
	}
	s.front = append(s.front, s.controller.Run)
	if s.cfg.has(roleAdmission) {
		beacons := &http.Client{Timeout: beaconTimeout}
		drawer := waitroom.NewDrawer(s.line, s.view, func(url string) waitroom.Beacon { return drand.New(url, beacons) }, s.log)
		s.front = append(s.front, drawer.Run)
	}
	return nil
}

// beaconTimeout ends one question to a drand network.
const beaconTimeout = 5 * time.Second

// bystander never leads: the process has not the role.
type bystander struct{}

// Run waits for ctx.
func (bystander) Run(ctx context.Context, _ func(context.Context, admission.Term)) error {
	<-ctx.Done()
	return nil
}

// holding is why an open event lets in fewer than its rate, where it is for load, and
// since when by the event's clock.
func (s *service) holding(event waitroom.EventID) (reason string, since time.Time) {
	if s.controller == nil {
		return "", time.Time{}
	}
	d, _ := s.controller.Decision(event)
	if !d.PassThrough && (d.Reason == admission.ReasonBusy || d.Reason == admission.ReasonUnknown) {
		return d.Reason, d.Since
	}
	return "", time.Time{}
}
