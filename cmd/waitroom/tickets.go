package main

import (
	"context"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/pay"
	"github.com/waitroom-dev/waitroom/ticket/relay"
)

// buildTickets opens the database and makes the seats' side, where this process
// sells or works.
func (s *service) buildTickets(ctx context.Context) error {
	if !s.sells() {
		return nil
	}
	address := s.cfg.Database
	if address == "" {
		var err error
		if address, err = sqliteURL(s.cfg.Data); err != nil {
			return err
		}
	}
	openCtx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	db, err := ticket.Open(openCtx, address)
	if err != nil {
		return databaseError(err)
	}
	s.db = db
	s.closers = append(s.closers, db.Close)
	if err := ticket.Migrate(ctx, db); err != nil {
		return err
	}
	if s.store, err = ticket.New(ticket.Config{Retention: s.cfg.Retention}, db, s.log, s.metrics); err != nil {
		return err
	}
	s.back = append(s.back, s.store.Run)
	if s.cfg.has(roleWorker) {
		return s.buildWorker(ctx)
	}
	return nil
}

// buildWorker makes what carries messages out of the database and money into it.
func (s *service) buildWorker(ctx context.Context) error {
	publisher, err := s.broker.publisher()
	if err != nil {
		return err
	}
	carrier, err := relay.New(relay.Config{}, s.store, publisher, s.log, s.metrics)
	if err != nil {
		return err
	}
	s.store.OnCommit(carrier.Kick)
	provider, err := s.provider(ctx)
	if err != nil {
		return err
	}
	guard, err := pay.NewGuard(pay.GuardConfig{}, provider, s.log, s.metrics)
	if err != nil {
		return err
	}
	worker, err := pay.NewWorker(pay.WorkerConfig{}, s.store, guard, s.log, s.metrics)
	if err != nil {
		return err
	}
	if err := s.takeWebhooks(worker); err != nil {
		return err
	}
	consume, err := s.broker.consumer(paymentGroup, ticket.TopicPaymentRequested, worker.Handle)
	if err != nil {
		return err
	}
	s.back = append(s.back, carrier.Run, worker.Run, consume)
	return nil
}

// followOutcomes tells the hub what became of reservations: a node with the
// database hears it from there, any other from the broker.
func (s *service) followOutcomes() error {
	if s.store != nil {
		s.store.Listen(s.hub)
		return nil
	}
	tail, err := s.broker.tail(s.hub)
	if err != nil {
		return err
	}
	s.back = append(s.back, tail)
	return nil
}
