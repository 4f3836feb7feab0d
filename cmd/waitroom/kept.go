package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// keptEvent is an event as it was when the embedded store ended: what an operator
// has set, by hand or by file, is not undone by a restart, and a pause least of all.
type keptEvent struct {
	Settings waitroom.Settings `json:"settings"`
	State    waitroom.State    `json:"state"`
	Reason   string            `json:"reason"`
	// Draw is what there is of the event's draw; a secret until its seed is published.
	Draw *waitroom.KeptDraw `json:"draw,omitempty"`
}

// keptPath is where the events of the embedded store are kept; empty with --redis,
// which keeps them itself.
func (c serveConfig) keptPath() string {
	if c.Redis != "" {
		return ""
	}
	return filepath.Join(c.Data, "events.json")
}

// readKept reads what writeKept wrote; nothing where there is none.
func readKept(path string) ([]keptEvent, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the directory
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("kept events: %w", err)
	}
	var kept []keptEvent
	if err := json.Unmarshal(text, &kept); err != nil {
		return nil, fmt.Errorf("kept events: %s: %w", path, err)
	}
	return kept, nil
}

// writeKept replaces the file as a whole, so that a crash leaves the old or the new one.
func writeKept(path string, kept []keptEvent) error {
	slices.SortFunc(kept, func(a, b keptEvent) int { return strings.Compare(string(a.Settings.ID), string(b.Settings.ID)) })
	text, err := json.MarshalIndent(kept, "", "  ")
	if err != nil {
		return fmt.Errorf("kept events: %w", err)
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("kept events: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("kept events: %w", err)
	}
	return nil
}

// bySchedule is the reason of a state that no operator has set.
const bySchedule = "schedule"

// again is the state to begin in anew. What the schedule has set, it may have moved
// on meanwhile; what was open stays so, since an opening's burst comes once.
func (k keptEvent) again(now time.Time) waitroom.State {
	before := k.State == waitroom.Scheduled || k.State == waitroom.Lobby
	ended := k.Settings.ClosesAt != nil && !k.Settings.ClosesAt.After(now)
	if k.Reason == bySchedule && (before || ended) {
		return ""
	}
	return k.State
}

// plantKept makes the events that were kept, before those that are planned.
func (p *planter) plantKept(ctx context.Context) error {
	if p.kept == "" {
		return nil
	}
	kept, err := readKept(p.kept)
	if err != nil {
		return err
	}
	var faults []error
	for _, k := range kept {
		state := k.again(time.Now())
		if k.Draw != nil {
			faults = append(faults, p.createDrawn(ctx, k, state))
			continue
		}
		faults = append(faults, p.create(ctx, k.Settings, state))
	}
	return errors.Join(faults...)
}

// comeBack is how long a lobby stays open after a start at which it was due to close:
// its people come back to it by their receipts, and whoever is not there when the list
// is made is not in the draw.
const comeBack = time.Minute

// createDrawn makes an event with its draw. Once the list is published the draw is what
// it was; before, the lobby goes on, and closes no sooner than its people can be back.
func (p *planter) createDrawn(ctx context.Context, k keptEvent, state waitroom.State) error {
	if err := p.supply(ctx, k.Settings); err != nil {
		return err
	}
	now := time.Now()
	if k.Reason == bySchedule && k.Settings.ClosesAt != nil && !k.Settings.ClosesAt.After(now) {
		state = waitroom.Closed
	}
	soon := now.Add(comeBack)
	due := state != waitroom.Scheduled && state != waitroom.Paused && state != waitroom.Draining && state != waitroom.Closed
	if !k.Draw.Listed() && due && (k.Draw.Closing() || k.Settings.OpensAt != nil && k.Settings.OpensAt.Before(soon)) {
		p.s.log.Warn("the lobby stays open a moment more, so that those who were in it come back",
			zap.String("event", string(k.Settings.ID)), zap.Time("opens_at", soon))
		k.Settings.OpensAt, state = &soon, waitroom.Lobby
	}
	begin := waitroom.Lobby
	if state == "" || state == waitroom.Scheduled {
		begin = state
	}
	if _, err := p.s.line.Recreate(ctx, k.Settings, begin, *k.Draw, plantedBy); err != nil {
		if errors.Is(err, waitroom.ErrExists) {
			return nil
		}
		return fmt.Errorf("event %s: %w", k.Settings.ID, err)
	}
	if state == "" || state == waitroom.Scheduled || state == waitroom.Lobby || state == waitroom.Open { // the end of the draw opens it
		return nil
	}
	if _, err := p.s.line.Patch(ctx, k.Settings.ID, []byte(`{"state":"`+string(state)+`"}`), plantedBy); err != nil {
		return fmt.Errorf("event %s: %w", k.Settings.ID, err)
	}
	return nil
}

// keep writes down what the embedded store has.
func (p *planter) keep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, plantTimeout)
	defer cancel()
	events := p.ears.living()
	kept := make([]keptEvent, len(events))
	for i, ev := range events {
		drawn, err := p.s.line.KeepDraw(ctx, ev)
		if err != nil && !errors.Is(err, waitroom.ErrNoEvent) { // deleted meanwhile, of which we shall hear
			return err
		}
		kept[i] = keptEvent{Settings: ev.Settings, State: ev.State, Reason: ev.Reason, Draw: drawn}
	}
	return writeKept(p.kept, kept)
}
