package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/waitroom-dev/waitroom/deploy/events"
	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web"
)

// demoPreset is what an empty store starts with when nothing else is named.
const demoPreset = "demo"

// plannedEvent is an event that a file asks for.
type plannedEvent struct {
	settings waitroom.Settings
	state    waitroom.State // empty: by schedule
}

// presetNames lists the ready-made events, in alphabetical order.
func presetNames() []string {
	entries, _ := events.Files.ReadDir(".") // an embedded directory can be read
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".yaml"))
	}
	return names
}

// preset reads a ready-made file.
func preset(name string) ([]plannedEvent, error) {
	raw, err := events.Files.ReadFile(name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("preset %s: %w", name, err)
	}
	return parseEvents("preset "+name, raw)
}

// eventsFile reads the file that --events names.
func eventsFile(path string) ([]plannedEvent, error) {
	raw, err := os.ReadFile(path) //nolint:gosec // the operator's own choice of a file
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	return parseEvents("events file "+path, raw)
}

// parseEvents reads `events:`, a list whose items have the fields of the ops API.
// YAML becomes JSON, so that both ways in share one strict decoder.
func parseEvents(where string, raw []byte) ([]plannedEvent, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	var faults []error
	for key := range doc {
		if key != "events" {
			faults = append(faults, fmt.Errorf("%s: key %q is unknown, only events is known", where, key))
		}
	}
	items, ok := doc["events"].([]any)
	if !ok || len(items) == 0 {
		faults = append(faults, fmt.Errorf("%s: events wants a list with at least one event", where))
	}
	var planned []plannedEvent
	for i, item := range items {
		body, err := json.Marshal(item)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: event %d: %w", where, i+1, err))
			continue
		}
		settings, state, err := waitroom.DecodeSettings(body)
		if err == nil {
			_, _, err = web.Catalogue(settings)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: event %d: %w", where, i+1, err))
			continue
		}
		planned = append(planned, plannedEvent{settings: settings, state: state})
	}
	return planned, errors.Join(faults...)
}
