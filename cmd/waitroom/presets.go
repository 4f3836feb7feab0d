package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

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
	said     []byte         // what the file says of it, as JSON
	at       time.Time      // from when on its opens_in and the like count
}

// body is the event as the ops API takes it: what the file says and no more.
func (p plannedEvent) body() (map[string]any, error) {
	var body map[string]any
	if err := json.Unmarshal(p.said, &body); err != nil {
		return nil, fmt.Errorf("event %s: %w", p.settings.ID, err)
	}
	return body, nil
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
	if err := oneOf("preset", name, presetNames()...); err != nil {
		return nil, err
	}
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

// parseEvents reads `events:`, a list whose items have the fields of the ops API; the
// list alone, and the one event alone, are understood as well.
// YAML becomes JSON, so that both ways in share one strict decoder. A time may also be
// said from the start on: opens_in: 30s is the opens_at half a minute from now.
func parseEvents(where string, raw []byte) ([]plannedEvent, error) {
	var file any
	if err := yaml.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	var faults []error
	doc := document(file)
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
	seen := make(map[waitroom.EventID]bool)
	now := time.Now().Truncate(time.Second)
	for i, item := range items {
		err := resolve(item, now)
		var body []byte
		if err == nil {
			body, err = json.Marshal(item)
		}
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
		if seen[settings.ID] {
			faults = append(faults, fmt.Errorf("%s: event %d: id: %q is there twice", where, i+1, settings.ID))
			continue
		}
		seen[settings.ID] = true
		planned = append(planned, plannedEvent{settings: settings, state: state, said: body, at: now})
	}
	return planned, errors.Join(faults...)
}

// document is the file as `events:` and a list, however it was written.
func document(file any) map[string]any {
	switch file := file.(type) {
	case []any:
		return map[string]any{"events": file}
	case map[string]any:
		if _, one := file["id"]; one && file["events"] == nil {
			return map[string]any{"events": []any{file}}
		}
		return file
	default:
		return nil
	}
}

// resolve writes the times of an event, its groups and its items that are said from the start
// on as moments. An item of another form is left to the decoder.
func resolve(event any, now time.Time) error {
	fields, ok := event.(map[string]any)
	if !ok {
		return nil
	}
	faults := []error{moments(fields, now, "", "lobby_opens", "opens", "closes")}
	groups, _ := fields["groups"].([]any)
	for i, group := range groups {
		if group, ok := group.(map[string]any); ok {
			faults = append(faults, moments(group, now, fmt.Sprintf("groups[%d].", i), "opens", "closes"))
		}
	}
	tickets, _ := fields["tickets"].(map[string]any)
	items, _ := tickets["items"].([]any)
	for i, item := range items {
		if item, ok := item.(map[string]any); ok {
			faults = append(faults, moments(item, now, fmt.Sprintf("tickets.items[%d].", i), "starts", "ends"))
		}
	}
	return errors.Join(faults...)
}

// moments turns NAME_in into NAME_at.
func moments(fields map[string]any, now time.Time, where string, names ...string) error {
	var faults []error
	for _, name := range names {
		after, given := fields[name+"_in"]
		if !given {
			continue
		}
		text, _ := after.(string)
		d, err := time.ParseDuration(text)
		switch _, twice := fields[name+"_at"]; {
		case err != nil || d < 0:
			faults = append(faults, fmt.Errorf("%s%s_in: must be a duration like 30s or 168h", where, name))
		case twice:
			faults = append(faults, fmt.Errorf("%s%s_in: %s_at is given too", where, name, name))
		}
		delete(fields, name+"_in")
		fields[name+"_at"] = now.Add(d).UTC().Format(time.RFC3339)
	}
	return errors.Join(faults...)
}
