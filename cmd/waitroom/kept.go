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

	"github.com/waitroom-dev/waitroom/waitroom"
)

// keptEvent is an event as it was when the embedded store ended: what an operator
// has set, by hand or by file, is not undone by a restart, and a pause least of all.
type keptEvent struct {
	Settings waitroom.Settings `json:"settings"`
	State    waitroom.State    `json:"state"`
	Reason   string            `json:"reason"`
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
func writeKept(path string, events []waitroom.Event) error {
	kept := make([]keptEvent, len(events))
	for i, ev := range events {
		kept[i] = keptEvent{Settings: ev.Settings, State: ev.State, Reason: ev.Reason}
	}
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
		faults = append(faults, p.create(ctx, k.Settings, k.again(time.Now())))
	}
	return errors.Join(faults...)
}
