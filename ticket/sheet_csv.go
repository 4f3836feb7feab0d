package ticket

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// byteOrderMark is what spreadsheets put before UTF-8.
var byteOrderMark = []byte("\ufeff")

// readCSV goes on after a line that is wrong, so that all are told at once.
func (r *sheetReader) readCSV(file []byte) {
	file = bytes.TrimPrefix(file, byteOrderMark)
	c := csv.NewReader(bytes.NewReader(file))
	c.ReuseRecord = true
	header, ok := r.csvLine(c)
	if !ok {
		if len(r.faults) == 0 {
			r.fault(1, "header", "the file is empty")
		}
		return
	}
	to := r.header(slices.Clone(header))
	if to == nil {
		return
	}
	cells := make([]string, len(sheetColumns[r.kind]))
	for !r.full() {
		before := len(r.faults)
		record, ok := r.csvLine(c)
		if !ok {
			return
		}
		if len(r.faults) > before {
			continue
		}
		for i, cell := range record {
			cells[to[i]] = cell
		}
		line, _ := c.FieldPos(0)
		r.end = line
		r.place(line, cells)
	}
}

// csvLine reads one line; false at the end.
func (r *sheetReader) csvLine(c *csv.Reader) ([]string, bool) {
	record, err := c.Read()
	if errors.Is(err, io.EOF) {
		return nil, false
	}
	if err == nil {
		return record, true
	}
	wrong, ok := errors.AsType[*csv.ParseError](err)
	switch {
	case !ok: // reading from memory fails in no other way
		r.fault(max(r.end, 1), "file", "%v", err)
		return nil, false
	case errors.Is(wrong.Err, csv.ErrFieldCount):
		r.fault(wrong.Line, "column "+strconv.Itoa(len(record)), "the line has %d cells, and the first line has %d", len(record), c.FieldsPerRecord)
	default:
		r.fault(wrong.Line, "column "+strconv.Itoa(wrong.Column), "%v", wrong.Err)
	}
	return record, true
}

// header finds out what the file lists, and where each of its columns belongs; nil
// where it cannot be read.
func (r *sheetReader) header(names []string) []int {
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
	}
	switch {
	case slices.Contains(names, "section"):
		r.kind = KindSeats
	case slices.Contains(names, "starts_at"):
		r.kind = KindSlots
	case slices.Contains(names, "meetings"):
		r.kind = KindCourses
	default:
		r.fault(1, "header", "must name columns with commas between: section and number of seats; "+
			"id, starts_at, ends_at and capacity of slots; id, capacity and meetings of courses")
		return nil
	}
	to := make([]int, len(names))
	for i, name := range names {
		to[i] = columnOf(r.kind, name)
		switch {
		case to[i] < 0:
			r.fault(1, clipped(name), "is no column of %s, which are %s", r.kind, columnNames(r.kind))
		case slices.Contains(names[:i], name):
			r.fault(1, name, "is there twice")
		}
	}
	for _, col := range sheetColumns[r.kind] {
		if col.needed && !slices.Contains(names, col.name) {
			r.fault(1, col.name, "this column is missing")
		}
	}
	if len(r.faults) > 0 {
		return nil
	}
	return to
}

func columnNames(kind string) string {
	var names []string
	for _, c := range sheetColumns[kind] {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}

func (s Sheet) writeCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	if err := c.Write(strings.Split(columnNames(s.Kind), ", ")); err != nil {
		return fmt.Errorf("write sheet: %w", err)
	}
	for cells := range s.rows {
		if err := c.Write(cells); err != nil {
			return fmt.Errorf("write sheet: %w", err)
		}
	}
	c.Flush()
	return c.Error()
}

// rows are the cells of each place, in the order of its kind's columns.
func (s Sheet) rows(yield func([]string) bool) {
	price := func(cents *int64) string {
		if cents == nil {
			return ""
		}
		return strconv.FormatInt(*cents, 10)
	}
	for _, in := range s.Sections {
		for _, seat := range in.seats() {
			kind := string(seat.Kind)
			if kind == "" {
				kind = "seat"
			}
			if !yield([]string{
				seat.ID, in.ID, in.Name, seat.Row, strconv.Itoa(seat.Number), price(in.PriceCents), kind, seat.CompanionOf, strconv.FormatBool(seat.Blocked),
			}) {
				return
			}
		}
	}
	for _, it := range s.Items {
		cells := []string{it.ID, it.Name}
		if s.Kind == KindSlots {
			cells = append(cells, it.StartsAt.Format(moment), it.EndsAt.Format(moment), strconv.FormatInt(it.Capacity, 10), price(it.PriceCents))
		} else {
			cells = append(cells, strconv.FormatInt(it.Capacity, 10), price(it.PriceCents), strings.Join(meetingTexts(it.Meetings), "; "))
		}
		if !yield(cells) {
			return
		}
	}
}
