package ticket

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Sheet is the places of a catalogue as a file lists them, one a line; the terms
// of sale are the event's own.
type Sheet struct {
	// Kind is seats, slots or courses.
	Kind string
	// Sections have their seats listed.
	Sections []SectionSpec
	Items    []ItemSpec

	lines map[string]int // of seats or items, by id
	end   int            // the last line
}

// The formats of a sheet.
const (
	CSV  = "csv"
	JSON = "json"
)

// errFormat is a caller's mistake: the formats are CSV and JSON.
var errFormat = errors.New("no such format")

// ReadSheet reads a file of places. Names of columns, the same in both formats, are
//
//	seats    section, row, number, price_cents, kind, of, blocked; id, section_name
//	slots    id, name, starts_at, ends_at, capacity, price_cents
//	courses  id, name, capacity, price_cents, meetings
//
// A CSV file names them in its first line, in any order, and tells by them what it
// lists; a JSON file has them as fields of the objects in a list that is called
// seats, slots or courses. What may be empty may be left out: id
// ({section}-{row}-{number}, or {section}-{number} without a row), section_name, row,
// price_cents (the event's own price), kind (seat, wheelchair, companion), of (the
// wheelchair place of a companion's seat), blocked, name and meetings (in CSV with
// semicolons between). The error is an *InvalidError that names lines and columns.
func ReadSheet(format string, file []byte) (Sheet, error) {
	r := &sheetReader{ids: map[string]int{}, sections: map[string]*sheetSection{}}
	switch format {
	case CSV:
		r.readCSV(file)
	case JSON:
		r.readJSON(file)
	default:
		return Sheet{}, fmt.Errorf("%w: %s", errFormat, format)
	}
	return r.done()
}

// Write writes a sheet so that ReadSheet gives it again.
func (s Sheet) Write(w io.Writer, format string) error {
	switch format {
	case CSV:
		return s.writeCSV(w)
	case JSON:
		return s.writeJSON(w)
	}
	return fmt.Errorf("%w: %s", errFormat, format)
}

// column is one thing that a sheet says of a place.
type column struct {
	name string
	// form is how JSON writes it.
	form form
	// needed: a CSV file must have it.
	needed bool
}

type form int

const (
	asText form = iota
	asNumber
	asBool
	asTexts // a list; in CSV with semicolons between
)

var sheetColumns = map[string][]column{
	KindSeats: {
		{"id", asText, false},
		{"section", asText, true},
		{"section_name", asText, false},
		{"row", asText, false},
		{"number", asNumber, true},
		{"price_cents", asNumber, false},
		{"kind", asText, false},
		{"of", asText, false},
		{"blocked", asBool, false},
	},
	KindSlots: {
		{"id", asText, true},
		{"name", asText, false},
		{"starts_at", asText, true},
		{"ends_at", asText, true},
		{"capacity", asNumber, true},
		{"price_cents", asNumber, false},
	},
	KindCourses: {
		{"id", asText, true},
		{"name", asText, false},
		{"capacity", asNumber, true},
		{"price_cents", asNumber, false},
		{"meetings", asTexts, true},
	},
}

// columnOf is the place of a column, or -1.
func columnOf(kind, name string) int {
	return slices.IndexFunc(sheetColumns[kind], func(c column) bool { return c.name == name })
}

// sheetReader takes in one place after the other, and collects what is wrong.
type sheetReader struct {
	kind     string
	faults   []Fault
	ids      map[string]int // lines
	places   int
	order    []*sheetSection
	sections map[string]*sheetSection
	items    []ItemSpec
	end      int
}

type sheetSection struct {
	SectionSpec
	priced, named int // the lines that said so
}

// full says that more faults are of no use.
func (r *sheetReader) full() bool { return len(r.faults) >= mostFaults }

func (r *sheetReader) fault(line int, column, format string, args ...any) {
	if !r.full() {
		r.faults = append(r.faults, Fault{Line: line, Field: column, Detail: fmt.Sprintf(format, args...)})
	}
}

// place takes in one place; the cells are in the order of the kind's columns.
func (r *sheetReader) place(line int, cells []string) {
	before := len(r.faults)
	p := placed{r: r, line: line, cells: cells}
	most := mostItems
	if r.kind == KindSeats {
		most = mostSeats
	}
	if r.places++; r.places > most {
		if r.places == most+1 {
			r.fault(line, "id", "must be at most %d in all", most)
		}
		return
	}
	var id string
	switch r.kind {
	case KindSeats:
		id = p.seat()
	case KindSlots:
		id = p.slot()
	default:
		id = p.course()
	}
	if len(r.faults) > before {
		return
	}
	if first, twice := r.ids[id]; twice {
		r.fault(line, "id", "%s is there already, in line %d", id, first)
		return
	}
	r.ids[id] = line
}

// placed is one place as it is read.
type placed struct {
	r     *sheetReader
	line  int
	cells []string
}

func (p placed) at(name string) string { return p.cells[columnOf(p.r.kind, name)] }

func (p placed) fault(column, format string, args ...any) { p.r.fault(p.line, column, format, args...) }

// text is a cell of letters that people can read.
func (p placed) text(name string) string {
	cell := p.at(name)
	if len(cell) > mostName || !utf8.ValidString(cell) || strings.ContainsFunc(cell, unicode.IsControl) || strings.TrimSpace(cell) != cell {
		p.fault(name, "must be one line of UTF-8, at most %d bytes, without spaces around it", mostName)
		return ""
	}
	return cell
}

func (p placed) id(name, id string) string {
	if !IsID(id) {
		p.fault(name, "must be 1 to %d letters, digits, '-', '_', '.' or ':'", mostID)
	}
	return id
}

func (p placed) number(name string, least, most int64) int64 {
	n, err := strconv.ParseInt(p.at(name), 10, 64)
	if err != nil || n < least || n > most {
		p.fault(name, "must be a whole number from %d to %d", least, most)
		return 0
	}
	return n
}

func (p placed) price() *int64 {
	if p.at("price_cents") == "" {
		return nil
	}
	before := len(p.r.faults)
	cents := p.number("price_cents", 0, mostPrice)
	if len(p.r.faults) > before {
		return nil
	}
	return &cents
}

// time is to the millisecond, in UTC, as the database keeps it.
func (p placed) time(name string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, p.at(name))
	if err != nil || at.UnixMilli() == 0 || at.Year() < 1 || at.UTC().Year() > 9999 || at.UTC().Year() < 1 {
		p.fault(name, "must be a time like 2026-05-01T18:00:00Z")
		return time.Time{}
	}
	return millis(at.UnixMilli())
}

// seat gives the seat's id.
func (p placed) seat() string {
	section := p.id("section", p.at("section"))
	s := SeatSpec{Row: p.text("row"), Number: int(p.number("number", 1, 1_000_000)), CompanionOf: p.at("of")}
	switch kind := p.at("kind"); kind {
	case "", "seat":
	case string(SeatWheelchair), string(SeatCompanion):
		s.Kind = SeatKind(kind)
	default:
		p.fault("kind", "must be seat, wheelchair or companion")
	}
	if s.CompanionOf != "" && s.Kind != SeatCompanion {
		p.fault("of", "is for kind companion")
	}
	switch p.at("blocked") {
	case "", "false":
	case "true":
		s.Blocked = true
	default:
		p.fault("blocked", "must be true or false")
	}
	s.ID = p.at("id")
	if s.ID == "" {
		s.ID = section + "-" + strconv.Itoa(s.Number)
		if s.Row != "" {
			s.ID = section + "-" + s.Row + "-" + strconv.Itoa(s.Number)
		}
	}
	p.id("id", s.ID)
	in := p.r.sections[section]
	if in == nil {
		in = &sheetSection{SectionSpec: SectionSpec{ID: section}}
		p.r.sections[section] = in
		p.r.order = append(p.r.order, in)
	}
	if price := p.price(); price != nil {
		switch {
		case in.PriceCents == nil:
			in.PriceCents, in.priced = price, p.line
		case *in.PriceCents != *price:
			p.fault("price_cents", "must be one price for all of section %s, which has %d in line %d", section, *in.PriceCents, in.priced)
		}
	}
	if name := p.text("section_name"); name != "" {
		switch {
		case in.Name == "":
			in.Name, in.named = name, p.line
		case in.Name != name:
			p.fault("section_name", "must be one name for all of section %s, which is %q in line %d", section, in.Name, in.named)
		}
	}
	in.Seats = append(in.Seats, s)
	return s.ID
}

func (p placed) slot() string {
	it := ItemSpec{ID: p.id("id", p.at("id")), Name: p.text("name"), Capacity: p.number("capacity", 0, mostCapacity), PriceCents: p.price()}
	it.StartsAt, it.EndsAt = p.time("starts_at"), p.time("ends_at")
	if !it.StartsAt.IsZero() && !it.EndsAt.IsZero() && !it.EndsAt.After(it.StartsAt) {
		p.fault("ends_at", "must be after starts_at")
	}
	p.r.items = append(p.r.items, it)
	return it.ID
}

func (p placed) course() string {
	it := ItemSpec{ID: p.id("id", p.at("id")), Name: p.text("name"), Capacity: p.number("capacity", 0, mostCapacity), PriceCents: p.price()}
	for text := range strings.SplitSeq(p.at("meetings"), ";") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		m, err := ParseMeeting(text)
		if err != nil {
			p.fault("meetings", "%v", err)
			continue
		}
		if at := slices.IndexFunc(it.Meetings, m.overlaps); at >= 0 {
			p.fault("meetings", "%s meets at the time of %s", m, it.Meetings[at])
		}
		it.Meetings = append(it.Meetings, m)
		if len(it.Meetings) > mostMeetings {
			p.fault("meetings", "must be at most %d", mostMeetings)
			break
		}
	}
	p.r.items = append(p.r.items, it)
	return it.ID
}

// mostMeetings is more than a year has weeks, five times a week.
const mostMeetings = 366

// done gives the sheet, or all that is wrong with it.
func (r *sheetReader) done() (Sheet, error) {
	s := Sheet{Kind: r.kind, Items: r.items, lines: r.ids, end: r.end}
	places := map[string]bool{} // of wheelchairs
	for _, in := range r.order {
		s.Sections = append(s.Sections, in.SectionSpec)
		for _, seat := range in.Seats {
			if seat.Kind == SeatWheelchair {
				places[seat.ID] = true
			}
		}
	}
	for _, in := range s.Sections {
		for _, seat := range in.Seats {
			line, known := r.ids[seat.ID] // else its row is at fault already
			if known && seat.Kind == SeatCompanion && !places[seat.CompanionOf] {
				r.fault(line, "of", "must be the id of a wheelchair place of this file")
			}
		}
	}
	if len(r.faults) == 0 && r.places == 0 {
		r.fault(max(r.end, 1), "id", "the file lists nothing")
	}
	if len(r.faults) > 0 {
		slices.SortStableFunc(r.faults, func(a, b Fault) int { return a.Line - b.Line })
		return Sheet{}, &InvalidError{r.faults}
	}
	return s, nil
}
