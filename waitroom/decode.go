package waitroom

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"
)

// MarshalJSON writes the shortest Go form: "5m", not "5m0s".
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads the Go form.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("duration: %w", err)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("duration: %w", err)
	}
	*d = Duration(v)
	return nil
}

// String is the shortest Go form: "5m", not "5m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// DecodeSettings reads a whole event from JSON: defaults are filled in, and
// anything unknown or wrong is refused with its name. The state is empty when the
// document has none. Errors: *InvalidError.
func DecodeSettings(doc []byte) (Settings, State, error) {
	return DecodeSettingsOver(DefaultSettings(""), doc)
}

// DecodeSettingsOver is DecodeSettings with an installation's own defaults.
func DecodeSettingsOver(defaults Settings, doc []byte) (Settings, State, error) {
	return decodeOver(defaults, doc)
}

// Patched is the settings with any part of them, read from JSON, over them; a state
// in it is read and left alone. Errors: *InvalidError.
func (s Settings) Patched(doc []byte) (Settings, error) {
	s, _, err := decodeOver(s, doc)
	return s, err
}

// decodeOver reads a part of the settings, and perhaps a state, over those that are.
func decodeOver(s Settings, doc []byte) (Settings, State, error) {
	d := decoder{}
	s.Load.Target = cmp.Or(s.Load.Target, 0.75) // an event that was stored before has none
	s.Quota = s.Quota.Defaults()                // nor these
	fields := d.object("", doc)
	var state State
	if raw, ok := fields["state"]; ok {
		delete(fields, "state")
		d.value("state", raw, reflect.ValueOf(&state).Elem())
		if !slices.Contains(states, state) {
			d.fault("state", "must be one of %s", list(states))
		}
	}
	d.fill("", fields, reflect.ValueOf(&s).Elem())
	s.Limits = s.Limits.Defaults()
	s.Challenge = s.Challenge.Defaults()
	if s.Starts.On() {
		s.Starts.Keep = cmp.Or(s.Starts.Keep, Duration(time.Minute))
	} else if s.Starts.Usage == 0 && s.Starts.ArrivalsPerS == 0 {
		s.Starts = StartSettings{}
	}
	s.OnSoldOut = cmp.Or(s.OnSoldOut, keepSoldOut)
	s.Fail = cmp.Or(s.Fail, failClosed)
	if len(s.Load.Steps) == 0 {
		d.fault("load.steps", "must have at least one step; with law none the load bounds nothing")
	}
	if len(s.Winners) == 0 {
		s.Winners = nil
	}
	if len(s.Lanes) == 0 {
		s.Lanes = nil
	}
	if len(s.Groups) == 0 {
		s.Groups = nil
	}
	if len(s.Tickets.Sections) == 0 {
		s.Tickets.Sections = nil // "none" is written in one way
	}
	if len(s.Tickets.Items) == 0 {
		s.Tickets.Items = nil
	}
	for i := range s.Tickets.Items {
		if len(s.Tickets.Items[i].Meetings) == 0 {
			s.Tickets.Items[i].Meetings = nil
		}
	}
	if len(d.faults) == 0 {
		d.faults = s.faults()
	}
	if len(d.faults) > 0 {
		return Settings{}, "", &InvalidError{Fields: d.faults}
	}
	return s, state, nil
}

// decoder reads JSON strictly: names exactly as the struct tags spell them, and
// each fault with the path of its field.
type decoder struct{ faults []FieldError }

func (d *decoder) fault(field, format string, args ...any) {
	d.faults = append(d.faults, FieldError{Field: field, Detail: fmt.Sprintf(format, args...)})
}

// object reads the members of an object; a name that comes twice is a fault.
func (d *decoder) object(path string, raw []byte) map[string]json.RawMessage {
	members := make(map[string]json.RawMessage)
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		d.fault(path, "must be an object")
		return nil
	}
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		var value json.RawMessage
		if err == nil && ok {
			err = dec.Decode(&value)
		}
		if err != nil || !ok {
			d.fault(path, "is not JSON")
			return nil
		}
		if _, twice := members[name]; twice {
			d.fault(join(path, name), "is given twice")
		}
		members[name] = value
	}
	if _, err := dec.Token(); err != nil {
		d.fault(path, "is not JSON")
		return nil
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		d.fault(path, "has something behind its end")
		return nil
	}
	return members
}

// fill reads members into the struct v.
func (d *decoder) fill(path string, members map[string]json.RawMessage, v reflect.Value) {
	byName := make(map[string]reflect.Value)
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		byName[name] = v.Field(i)
	}
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		at := join(path, name)
		field, ok := byName[name]
		if !ok {
			d.fault(at, "is not a setting")
		} else {
			d.value(at, members[name], field)
		}
	}
}

var (
	timeType     = reflect.TypeFor[*time.Time]()
	durationType = reflect.TypeFor[Duration]()
)

// value reads one setting.
func (d *decoder) value(at string, raw json.RawMessage, v reflect.Value) {
	null := bytes.Equal(raw, []byte("null"))
	switch {
	case v.Type() == timeType:
		if null {
			v.SetZero()
			return
		}
		var t time.Time
		if err := json.Unmarshal(raw, &t); err != nil {
			d.fault(at, "must be a time like 2026-05-01T18:00:00Z")
			return
		}
		t = t.UTC().Truncate(time.Millisecond)
		v.Set(reflect.ValueOf(&t))
		return
	case null:
		d.fault(at, "must not be null")
		return
	case v.Type() == reflect.TypeFor[*LoadSettings](): // of a lane: what it does not say has its default
		load := DefaultSettings("").Load
		d.fill(at, d.object(at, raw), reflect.ValueOf(&load).Elem())
		v.Set(reflect.ValueOf(&load))
		return
	case v.Kind() == reflect.Struct:
		d.fill(at, d.object(at, raw), v)
		return
	case v.Kind() == reflect.Map: // of any values; whoever has it checks them
		v.SetZero()
		if err := json.Unmarshal(raw, v.Addr().Interface()); err != nil {
			d.fault(at, "must be an object")
		}
		return
	case v.Kind() == reflect.Slice:
		d.slice(at, raw, v)
		return
	}
	if err := json.Unmarshal(raw, v.Addr().Interface()); err != nil {
		switch {
		case v.Type() == durationType:
			d.fault(at, "must be a duration like 5m or 750ms")
		case v.Kind() == reflect.String:
			d.fault(at, "must be a string")
		case v.Kind() == reflect.Bool:
			d.fault(at, "must be true or false")
		case v.CanFloat():
			d.fault(at, "must be a number")
		default:
			d.fault(at, "must be a whole number")
		}
	}
}

// mostElements bounds a list in the settings.
const mostElements = 1000

func (d *decoder) slice(at string, raw json.RawMessage, v reflect.Value) {
	var elements []json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil {
		d.fault(at, "must be a list")
		return
	}
	if len(elements) > mostElements {
		d.fault(at, "must have at most %d elements", mostElements)
		return
	}
	out := reflect.MakeSlice(v.Type(), len(elements), len(elements))
	for i, e := range elements {
		d.value(fmt.Sprintf("%s[%d]", at, i), e, out.Index(i))
	}
	v.Set(out)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func list[T ~string](all []T) string {
	s := make([]string, len(all))
	for i, v := range all {
		s[i] = string(v)
	}
	return strings.Join(s, ", ")
}
