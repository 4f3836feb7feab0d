package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web"
)

// plan is what a start wants to exist.
type plan struct {
	events []plannedEvent
	// onlyIfEmpty is true for the demo: it is made when the store holds no event.
	onlyIfEmpty bool
}

// readPlan reads the preset and the events file; without either it is the demo.
// What they do not say is as this installation has it.
func readPlan(cfg serveConfig) (plan, error) {
	p, err := readFiles(cfg)
	if err != nil {
		return plan{}, err
	}
	for i, e := range p.events {
		if p.events[i].settings, _, err = waitroom.DecodeSettingsOver(cfg.defaults(), e.said); err != nil {
			return plan{}, fmt.Errorf("event %s: %w", e.settings.ID, err)
		}
	}
	return p, nil
}

func readFiles(cfg serveConfig) (plan, error) {
	var p plan
	if cfg.Preset != "" {
		events, err := preset(cfg.Preset)
		if err != nil {
			return plan{}, err
		}
		p.events = append(p.events, events...)
	}
	if cfg.Events != "" {
		events, err := eventsFile(cfg.Events)
		if err != nil {
			return plan{}, err
		}
		p.events = append(p.events, events...)
	}
	if len(p.events) == 0 {
		events, err := preset(demoPreset)
		return plan{events: events, onlyIfEmpty: true}, err
	}
	return p, nil
}

// planter makes the planned events, and makes again whatever this node knows of
// when the store has lost everything. The people come back by their receipts.
type planter struct {
	s    *service
	ears *ears
	kept string // the file that keeps the embedded store's events; empty elsewhere
}

const (
	// plantedKey marks a store that has been planted; a store without it is new, or
	// has lost its data.
	plantedKey   = keyPrefix + ":planted"
	plantEvery   = time.Second
	plantTimeout = 5 * time.Second
	// plantedBy is who the audit trail names.
	plantedBy = "serve"
)

// plant makes the planned events that the store does not have.
func (s *service) plant(ctx context.Context, p plan) error {
	ctx, cancel := context.WithTimeout(ctx, plantTimeout)
	defer cancel()
	if err := s.planter.plantKept(ctx); err != nil {
		return err
	}
	if p.onlyIfEmpty {
		events, err := s.line.Events(ctx)
		if err != nil {
			return fmt.Errorf("events: %w", err)
		}
		if len(events) > 0 {
			p.events = nil
		}
	}
	for _, planned := range p.events {
		if err := s.planter.create(ctx, planned.settings, planned.state); err != nil {
			return err
		}
	}
	events, err := s.line.Events(ctx)
	if err != nil {
		return fmt.Errorf("events: %w", err)
	}
	for _, ev := range events {
		s.planter.ears.remember(ev)
	}
	return s.planter.mark(ctx)
}

func (p *planter) create(ctx context.Context, settings waitroom.Settings, state waitroom.State) error {
	if ev, err := p.s.line.Event(ctx, settings.ID); err == nil {
		settings = ev.Settings // it is there, and may have been changed since it was planned
	}
	if err := p.supply(ctx, settings); err != nil {
		return err
	}
	// A drawn event begins in its lobby, whatever became of it since: its draw is lost
	// with the store.
	then := waitroom.State("")
	if settings.Order == waitroom.OrderDraw && settings.LobbyOpensAt == nil && state != "" && state != waitroom.Scheduled {
		state, then = waitroom.Lobby, state
	}
	_, err := p.s.line.Create(ctx, settings, state, plantedBy)
	if err == nil && then != "" && then != waitroom.Lobby {
		_, err = p.s.line.Patch(ctx, settings.ID, []byte(`{"state":"`+string(then)+`"}`), plantedBy)
	}
	if err != nil && !errors.Is(err, waitroom.ErrExists) {
		return fmt.Errorf("event %s: %w", settings.ID, err)
	}
	return nil
}

// supply puts what an event sells into the database, before there is the event: one
// that is open has its seats.
func (p *planter) supply(ctx context.Context, settings waitroom.Settings) error {
	catalogue, sells, err := web.Catalogue(settings)
	if err != nil {
		return fmt.Errorf("event %s: %w", settings.ID, err)
	}
	if sells && p.s.store != nil {
		if err := p.s.store.Put(ctx, string(settings.ID), catalogue); err != nil {
			return fmt.Errorf("seats of event %s: %w", settings.ID, err)
		}
	}
	return nil
}

func (p *planter) mark(ctx context.Context) error {
	return p.s.rdb.Set(ctx, plantedKey, time.Now().UTC().Format(time.RFC3339), 0).Err()
}

// Run looks for the mark until ctx ends, and plants anew where it is gone.
func (p *planter) Run(ctx context.Context) error {
	ticker := time.NewTicker(plantEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-p.ears.changed:
			if p.kept != "" {
				if err := p.keep(ctx); err != nil {
					p.s.log.Error("events not kept for the next start", zap.Error(err))
				}
			}
			continue
		case <-p.ears.lost: // at once, so that as few as can be find nothing
		}
		if err := p.replant(ctx); err != nil && ctx.Err() == nil {
			p.s.log.Warn("events not planted anew", zap.Error(err))
		}
	}
}

func (p *planter) replant(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, plantTimeout)
	defer cancel()
	there, err := p.s.rdb.Exists(ctx, plantedKey).Result()
	if err != nil {
		return nil // a store that is away is looked at again; others say so
	}
	if there > 0 {
		p.ears.believe()
		return nil
	}
	known := p.ears.events()
	var faults []error
	for _, ev := range known {
		faults = append(faults, p.create(ctx, ev.Settings, ev.State))
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	p.s.log.Warn("store had lost its data: events planted anew", zap.Int("events", len(known)))
	return p.mark(ctx)
}
