package ticket

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// readJSON reads {"kind": …, "seats": […]}, or slots or courses; kind may be left out.
func (r *sheetReader) readJSON(file []byte) {
	file = bytes.TrimPrefix(file, byteOrderMark)
	lines := &lineCount{file: file, line: 1}
	for at := 0; at < len(file); { // the decoder would put something else in its place
		c, n := utf8.DecodeRune(file[at:])
		if c == utf8.RuneError && n == 1 {
			r.fault(lines.of(int64(at)), "document", "is not UTF-8")
			return
		}
		at += n
	}
	var whole json.RawMessage
	if err := json.Unmarshal(file, &whole); err != nil {
		at := int64(len(file))
		if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = wrong.Offset
		}
		r.fault(lines.of(at), "document", "is not JSON: %v", err)
		return
	}
	dec := json.NewDecoder(bytes.NewReader(file))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		r.fault(1, "document", "must be an object with a list called seats, slots or courses")
		return
	}
	var said string
	var saidLine int
	for dec.More() && !r.full() {
		key, err := dec.Token()
		if err != nil {
			return // it was read as a whole above
		}
		name, _ := key.(string)
		line := lines.of(dec.InputOffset())
		_, isList := sheetColumns[name]
		switch {
		case name == "kind":
			saidLine = line
			err = dec.Decode(&said)
			if err != nil {
				r.fault(line, name, "must be seats, slots or courses")
				return
			}
		case !isList:
			r.fault(line, clipped(name), "is no field of a file of places: kind, and one of seats, slots, courses")
			err = dec.Decode(&whole)
		case r.kind != "":
			r.fault(line, name, "must be the only list; there is %s", r.kind)
			err = dec.Decode(&whole)
		default:
			r.kind = name
			r.list(dec, lines)
		}
		if err != nil {
			return
		}
	}
	switch {
	case r.kind == "" && len(r.faults) == 0:
		r.fault(1, "document", "has no list called seats, slots or courses")
	case r.kind != "" && said != "" && said != r.kind:
		r.fault(saidLine, "kind", "is %s, and the list is %s", clipped(said), r.kind)
	}
	r.end = max(r.end, 1)
}

// list reads the places of a list, each of them an object.
func (r *sheetReader) list(dec *json.Decoder, lines *lineCount) {
	line := lines.of(dec.InputOffset())
	if first, err := dec.Token(); err != nil || first != json.Delim('[') {
		r.fault(line, r.kind, "must be a list")
		return
	}
	cells := make([]string, len(sheetColumns[r.kind]))
	for dec.More() && !r.full() {
		line := lines.start(dec.InputOffset())
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return
		}
		r.end = line
		before := len(r.faults)
		clear(cells)
		r.object(raw, line, cells)
		if len(r.faults) == before {
			r.place(line, cells)
		}
	}
	_, _ = dec.Token() // the list's end, if it was read so far
}

// object reads one place's fields into its cells.
func (r *sheetReader) object(raw json.RawMessage, line int, cells []string) {
	within := &lineCount{file: raw, line: line}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		r.fault(line, r.kind, "must be objects")
		return
	}
	seen := 0
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return
		}
		name, _ := key.(string)
		at := within.of(dec.InputOffset())
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return
		}
		i := columnOf(r.kind, name)
		switch {
		case i < 0:
			r.fault(at, clipped(name), "is no field of %s, which are %s", r.kind, columnNames(r.kind))
		case seen&(1<<i) != 0:
			r.fault(at, name, "is there twice")
		default:
			seen |= 1 << i
			cell, want := sheetColumns[r.kind][i].form.read(value)
			if want != "" {
				r.fault(at, name, "must be %s", want)
			}
			cells[i] = cell
		}
	}
}

// read gives a value's cell, or what it should have been.
func (f form) read(value json.RawMessage) (cell, want string) {
	var text *string
	switch f {
	case asNumber:
		if value[0] == '-' || value[0] >= '0' && value[0] <= '9' {
			return string(value), ""
		}
		return "", "a number"
	case asBool:
		if value[0] == 't' || value[0] == 'f' {
			return string(value), ""
		}
		return "", "true or false"
	case asTexts:
		var texts []string
		if value[0] != '[' || json.Unmarshal(value, &texts) != nil {
			return "", "a list of texts"
		}
		return strings.Join(texts, ";"), ""
	case asText:
	}
	if json.Unmarshal(value, &text) != nil || text == nil {
		return "", "a text"
	}
	return *text, ""
}

// clipped is a name that comes from outside, bounded, for people to read.
func clipped(name string) string {
	if name == "" {
		return "(no name)"
	}
	return strings.ToValidUTF8(name[:min(len(name), mostID)], "?")
}

// lineCount tells lines of a file; each question is about the same place or a later one.
type lineCount struct {
	file []byte
	at   int64
	line int
}

func (c *lineCount) of(offset int64) int {
	offset = min(offset, int64(len(c.file)))
	if offset > c.at {
		c.line += bytes.Count(c.file[c.at:offset], []byte{'\n'})
		c.at = offset
	}
	return c.line
}

// start is the line of the value that begins behind an offset.
func (c *lineCount) start(offset int64) int {
	for offset < int64(len(c.file)) && strings.IndexByte(" \t\r\n,", c.file[offset]) >= 0 {
		offset++
	}
	return c.of(offset)
}

// writeJSON writes one place a line.
func (s Sheet) writeJSON(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\"kind\":%q,\"%s\":[", s.Kind, s.Kind)
	first := true
	for cells := range s.rows {
		if !first {
			b.WriteByte(',')
		}
		first = false
		b.WriteByte('\n')
		if err := s.object(&b, cells); err != nil {
			return err
		}
	}
	b.WriteString("\n]}\n")
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write sheet: %w", err)
	}
	return nil
}

func (s Sheet) object(b *bytes.Buffer, cells []string) error {
	sep := "{"
	for i, c := range sheetColumns[s.Kind] {
		var value any = cells[i]
		switch {
		case cells[i] == "":
			continue
		case c.form == asNumber || c.form == asBool:
			value = json.RawMessage(cells[i])
		case c.form == asTexts:
			value = strings.Split(cells[i], "; ")
		}
		packed, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("write sheet: %w", err)
		}
		fmt.Fprintf(b, "%s%q:%s", sep, c.name, packed)
		sep = ","
	}
	b.WriteByte('}')
	return nil
}
