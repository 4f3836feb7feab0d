package ticket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

const (
	// recheck is how often catalogues and whole maps are read again, as a safety net
	// below the news.
	recheck = 10 * time.Second
)

// Run ends holds, follows the changes of other nodes and forgets old answers,
// until ctx ends. A database that is away is waited for.
func (s *Store) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.loop(ctx, "follow changes", s.cfg.Poll, s.news.wake, s.catchUp) })
	g.Go(func() error { return s.loop(ctx, "end holds", s.cfg.Sweep, nil, s.sweep) })
	g.Go(func() error { return s.loop(ctx, "check maps", recheck, nil, s.recheck) })
	g.Go(func() error { return s.loop(ctx, "forget answers", forgetEvery, nil, newForgetter(s).share) })
	return g.Wait()
}

// loop does something every so often, and when woken. It reports the first
// failure of a row of them, and the recovery.
func (s *Store) loop(ctx context.Context, what string, every time.Duration, wake <-chan struct{}, do func(context.Context) error) error {
	log := s.log.With(zap.String("task", what))
	tick := time.NewTicker(every)
	defer tick.Stop()
	failing := false
	for {
		err := do(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			log.Warn("ticket task fails", zap.Error(err))
			failing = true
		case err == nil && failing:
			log.Info("ticket task works again")
			failing = false
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-wake:
			if failing { // the ticker is the limit of retries
				select {
				case <-ctx.Done():
					return nil
				case <-tick.C:
				}
			}
		}
	}
}

// sweep ends the holds of all events whose time is over.
func (s *Store) sweep(ctx context.Context) error {
	events, err := s.due(ctx)
	if err != nil {
		return err
	}
	for _, event := range events {
		if err := s.expireAll(ctx, event, false); err != nil {
			return err
		}
	}
	return nil
}

// due gives the events that have a hold whose time is over: one question for all
// of them, outside of any transaction, which looks at those holds only.
func (s *Store) due(ctx context.Context) ([]string, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	var events []string
	err := s.db.look(ctx, func(ctx context.Context, t tx) error {
		return t.query(ctx, func(scan func(...any) error) error {
			var event string
			err := scan(&event)
			events = append(events, event)
			return err
		}, `SELECT DISTINCT event FROM reservations
			WHERE `+ending+` AND ends_ms <= (SELECT {now} + $1)`, nil, s.skew.Load())
	})
	if err != nil {
		return nil, fmt.Errorf("look for ended holds: %w", err)
	}
	return events, nil
}

// expireAll ends all holds of an event whose time is over, batch by batch.
func (s *Store) expireAll(ctx context.Context, event string, urgent bool) error {
	for {
		n, err := s.expire(ctx, event, sweepBatch, urgent)
		if err != nil || n < sweepBatch {
			return err
		}
	}
}

// recheck reads every hall of this node again.
func (s *Store) recheck(ctx context.Context) error {
	s.mu.Lock()
	halls := make([]*hall, 0, len(s.halls))
	for _, h := range s.halls {
		halls = append(halls, h)
	}
	s.mu.Unlock()
	var faults []error
	for _, h := range halls {
		if err := s.reload(ctx, h); !errors.Is(err, ErrWrongMode) { // gone, and forgotten
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}
