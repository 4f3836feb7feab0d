package ticket

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// faultsOf reads a sheet that is wrong, and gives "line column" of each fault.
func faultsOf(tb testing.TB, err error) []string {
	tb.Helper()
	invalid, ok := errors.AsType[*InvalidError](err)
	require.True(tb, ok, "%v", err)
	var at []string
	for _, f := range invalid.Faults {
		require.NotEmpty(tb, f.Detail)
		at = append(at, fmt.Sprint(f.Line, " ", f.Field))
	}
	return at
}

func written(tb testing.TB, s Sheet, format string) []byte {
	tb.Helper()
	var b bytes.Buffer
	require.NoError(tb, s.Write(&b, format))
	return b.Bytes()
}

// bare is a sheet without its lines.
func bare(s Sheet) Sheet { return Sheet{Kind: s.Kind, Sections: s.Sections, Items: s.Items} }

// read reads a sheet that is right.
func read(tb testing.TB, format, file string) Sheet {
	tb.Helper()
	s, err := ReadSheet(format, []byte(file))
	require.NoError(tb, err)
	return s
}

// anySheet draws a sheet of a kind, as an export would write it.
func anySheet(rt *rapid.T, kind string) Sheet {
	s := Sheet{Kind: kind}
	text := rapid.StringMatching(`([A-Za-z0-9=",;äß€']([ A-Za-z0-9",;]{0,8}[a-zö"])?)?`)
	cents := rapid.Int64Range(0, mostPrice)
	n := rapid.IntRange(1, 12).Draw(rt, "places")
	id := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Za-z0-9._:-]{1,12}`), n, n, rapid.ID[string]).Draw(rt, "ids")
	if kind == KindSeats {
		wheelchair := ""
		for i := range n {
			if i == 0 || rapid.IntRange(0, 3).Draw(rt, "another section") == 0 {
				s.Sections = append(s.Sections, SectionSpec{ID: fmt.Sprint("S", i), Name: text.Draw(rt, "section"), PriceCents: new(cents.Draw(rt, "price"))})
			}
			in := &s.Sections[len(s.Sections)-1]
			seat := SeatSpec{ID: id[i], Row: text.Draw(rt, "row"), Number: rapid.IntRange(1, 1_000_000).Draw(rt, "number"), Blocked: rapid.Bool().Draw(rt, "blocked")}
			switch rapid.IntRange(0, 3).Draw(rt, "kind") {
			case 0:
				seat.Kind, wheelchair = SeatWheelchair, seat.ID
			case 1:
				if wheelchair != "" {
					seat.Kind, seat.CompanionOf = SeatCompanion, wheelchair
				}
			}
			in.Seats = append(in.Seats, seat)
		}
		return s
	}
	for i := range n {
		it := ItemSpec{ID: id[i], Name: text.Draw(rt, "name"), Capacity: rapid.Int64Range(0, mostCapacity).Draw(rt, "capacity"), PriceCents: new(cents.Draw(rt, "price"))}
		if kind == KindSlots {
			it.StartsAt = millis(rapid.Int64Range(1, 250_000_000_000_000).Draw(rt, "starts"))
			it.EndsAt = it.StartsAt.Add(time.Duration(rapid.IntRange(1, 1_000_000).Draw(rt, "for")) * time.Millisecond)
		} else {
			for day := range rapid.IntRange(0, 4).Draw(rt, "meetings") {
				m := Meeting{Day: time.Weekday(day), From: rapid.IntRange(0, 700).Draw(rt, "from"), To: rapid.IntRange(701, 1440).Draw(rt, "to")}
				if rapid.Bool().Draw(rt, "once") {
					at := time.Date(2026, 10, 4+day, 0, 0, 0, 0, time.UTC)
					m.Day, m.Date = at.Weekday(), at.Format(time.DateOnly)
				}
				it.Meetings = append(it.Meetings, m)
			}
		}
		s.Items = append(s.Items, it)
	}
	return s
}

// Promise 20: what is written is read again as it was, in both formats.
func TestPromise20SheetsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{KindSeats, KindSlots, KindCourses} {
		rapid.Check(t, func(rt *rapid.T) {
			s := anySheet(rt, kind)
			for _, format := range []string{CSV, JSON} {
				file := written(t, s, format)
				got, err := ReadSheet(format, file)
				require.NoError(rt, err, "%s", file)
				require.Equal(rt, s, bare(got), "%s", file)
			}
		})
	}
	require.Error(t, Sheet{}.Write(&bytes.Buffer{}, "xml"))
}

// Promise 20: everything that is wrong in a file is told at once, by line and column.
func TestPromise20FaultsNameLineAndColumn(t *testing.T) {
	t.Parallel()
	for why, c := range map[string]struct {
		format, file string
		want         []string
	}{
		"empty":             {CSV, "", []string{"1 header"}},
		"a header only":     {CSV, "section,number\n", []string{"1 id"}},
		"another separator": {CSV, "section;number\nA;1\n", []string{"1 header"}},
		"columns":           {CSV, "section,seats,number,number\nA,1,2,2\n", []string{"1 seats", "1 number"}},
		"a column missing":  {CSV, "section,row\nA,1\n", []string{"1 number"}},
		"cells": {
			CSV, "section,row,number,price_cents,kind,of,blocked\nA,1,one,5,seat,,\nA,1,2,-5,couch,,perhaps\n\nA,1,3,5\nA,1,4,6,seat,W1,\nÄ,1,5,,,,\nA,\"1\n\",9,,,,\n",
			[]string{"2 number", "3 kind", "3 blocked", "3 price_cents", "5 column 4", "6 of", "6 price_cents", "7 section", "7 id", "8 row"},
		},
		"quotes, and more behind them": {CSV, "section,number\nA,1\"2\nB,x\n", []string{"2 column 4", "3 number"}},
		"a seat twice":                 {CSV, "section,number\nA,1\nB,1\nA,1\n", []string{"4 id"}},
		"of nobody":                    {CSV, "section,number,kind,of\nA,1,companion,\nA,2,wheelchair,\nA,3,companion,A-1\nA,4,companion,A-2\n", []string{"2 of", "4 of"}},
		"slots": {
			CSV, "id,starts_at,ends_at,capacity\ns1,2026-05-01T10:00:00Z,2026-05-01T09:00:00Z,5\ns 2,today,2026-05-01T09:00:00Z,\n",
			[]string{"2 ends_at", "3 id", "3 capacity", "3 starts_at"},
		},
		"courses": {
			CSV, "id,capacity,meetings\nmath,5,mon 10:00-12:00; mon 11:00-13:00\nart,5,noon;tue 9-10\n",
			[]string{"2 meetings", "3 meetings", "3 meetings"},
		},
		"no JSON":         {JSON, "{\n\"seats\": [\n}", []string{"3 document"}},
		"cut short":       {JSON, "{\n", []string{"2 document"}},
		"no object":       {JSON, "[]", []string{"1 document"}},
		"nothing in it":   {JSON, `{"seats":[]}`, []string{"1 id"}},
		"no list in it":   {JSON, "{\n\"kind\":\"seats\"}", []string{"1 document"}},
		"two lists":       {JSON, "{\"seats\":[{\"section\":\"A\",\"number\":1}],\n\"slots\":[]}", []string{"2 slots"}},
		"another kind":    {JSON, "{\n\"kind\":\"slots\",\n\"seats\":[{\"section\":\"A\",\"number\":1}]}", []string{"2 kind"}},
		"fields":          {JSON, "{\"seats\":[\n{\"section\":\"A\",\"number\":\"1\"},\n7,\n{\"section\":\"A\",\n\"nubmer\":1,\n\"row\":null,\"row\":\"1\"}\n],\"more\":1}", []string{"2 number", "3 seats", "5 nubmer", "6 row", "6 row", "7 more"}},
		"meetings, texts": {JSON, `{"courses":[{"id":"c","capacity":1,"meetings":"mon 10:00-11:00"}]}`, []string{"1 meetings"}},
	} {
		_, err := ReadSheet(c.format, []byte(c.file))
		require.Equal(t, c.want, faultsOf(t, err), "%s: %v", why, err)
	}
	_, err := ReadSheet(CSV, []byte("section,number\n"+strings.Repeat("A,x\n", 5000)))
	require.Len(t, faultsOf(t, err), mostFaults)
	_, err = ReadSheet("xml", nil)
	require.ErrorIs(t, err, errFormat)

	got := read(t, CSV, "\ufeffnumber,section\r\n7,A\r\n8,A\r\n")
	require.Equal(t, []SectionSpec{{ID: "A", Seats: []SeatSpec{{ID: "A-7", Number: 7}, {ID: "A-8", Number: 8}}}}, got.Sections, "as a spreadsheet writes it")
}

// FuzzReadSheet: whatever a file holds, it is read as it would be written, or told
// what is wrong in which line.
func FuzzReadSheet(f *testing.F) {
	for _, file := range []string{
		"section,row,number,price_cents,kind,of,blocked\nA,1,1,500,wheelchair,,\nA,1,2,,companion,A-1-1,true\n",
		"id,name,starts_at,ends_at,capacity,price_cents\ns1,\"a \"\"b\"\"\",2026-05-01T10:00:00.5+02:00,2026-05-01T11:00:00Z,5,0\n",
		"id,capacity,meetings\nmath,5,mon 10:00-12:00; 2026-10-05 09:00-12:00\n", "section,number\n\"A,1\n", "\xff", "section,number\r\rA,1",
		`{"seats":[{"section":"A","number":1,"blocked":false}],"kind":"seats"}`, `{"courses":[{"id":"c","capacity":1,"meetings":["mon 10:00-11:00"]}]}`,
		"{\"slots\":[\n{}]}", "{\"seats\":{}}", "section,row,number,price_cents,kind,of,blocked\n,,,,companion,,0", "[[[[", "section,,number", `{"":1}`, `{"seats":[[]]}`,
	} {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file string) {
		for _, format := range []string{CSV, JSON} {
			s, err := ReadSheet(format, []byte(file))
			if err != nil {
				invalid, ok := errors.AsType[*InvalidError](err)
				require.True(t, ok)
				require.NotEmpty(t, invalid.Faults)
				require.LessOrEqual(t, len(invalid.Faults), mostFaults)
				for _, f := range invalid.Faults {
					require.True(t, f.Line >= 1 && f.Line <= strings.Count(file, "\n")+1, "%+v", f)
					require.NotEmpty(t, f.Field)
				}
				continue
			}
			for _, again := range []string{CSV, JSON} {
				got, err := ReadSheet(again, written(t, s, again))
				require.NoError(t, err)
				require.Equal(t, bare(s), bare(got))
			}
		}
	})
}
