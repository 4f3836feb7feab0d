package ticket

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Imported says what an import did. Nothing at all means that the event sold just
// this already.
type Imported struct {
	Added   int `json:"added"`
	Changed int `json:"changed"`
	Removed int `json:"removed"`
	// Places is how many places that are not blocked there are now, and Before how many
	// there were.
	Places int64 `json:"places"`
	Before int64 `json:"places_before"`
}

// Import makes the places of an event those of a sheet: what is missing is added,
// what is not in it is removed, what differs is changed. Nobody loses what they hold
// or own: where the sheet would change or remove such a place, or give a slot or a
// course fewer places than are taken, the error is an *InvalidError that names the
// lines, and nothing is done. From then on the event's settings change only the
// terms of sale. ErrWrongMode: the event does not sell places of the sheet's kind.
func (s *Store) Import(ctx context.Context, event string, sheet Sheet) (Imported, error) {
	var done Imported
	err := s.againWithin(ctx, putCalls*s.cfg.CallTimeout, func(ctx context.Context, t tx) error {
		now, err := s.now(ctx, t)
		if err != nil {
			return err
		}
		was, found, err := lockCatalogue(ctx, t, event)
		if err != nil {
			return err
		}
		if !found || was.kind != sheet.Kind {
			return fmt.Errorf("%s sells no %s: %w", event, sheet.Kind, ErrWrongMode)
		}
		if was.kind != KindSeats { // seats have guards of their own
			if err := t.query(ctx, func(scan func(...any) error) error { return scan(new(string)) },
				`SELECT id FROM items WHERE event = $1 ORDER BY id {lock}`, nil, event); err != nil {
				return err
			}
		}
		var in intake
		if err := in.read(ctx, t, event); err != nil {
			return err
		}
		w, err := sheet.against(in)
		if err != nil {
			return err
		}
		done = w.sum()
		done.Places, done.Before = sheet.places(), in.sheet().places()
		if !was.imported {
			if err := t.insert(ctx, 1, `UPDATE catalogues SET imported = 1 WHERE event = $1`, nil, event); err != nil {
				return err
			}
		}
		if w.nothing() {
			return nil
		}
		if err := w.write(ctx, t, event, now); err != nil {
			return err
		}
		return announceCatalogue(ctx, t, event, now)
	})
	if err != nil {
		return Imported{}, fmt.Errorf("import into %s: %w", event, err)
	}
	return done, s.renewed(ctx, event)
}

// places are those of the sheet that are for sale.
func (s Sheet) places() (n int64) {
	for _, section := range s.Sections {
		for _, seat := range section.Seats {
			if !seat.Blocked {
				n++
			}
		}
	}
	for _, it := range s.Items {
		n += it.Capacity
	}
	return n
}

// Export gives the places that an event sells. ErrWrongMode: it sells nothing that
// a sheet could list.
func (s *Store) Export(ctx context.Context, event string) (Sheet, error) {
	var in intake
	err := s.againWithin(ctx, putCalls*s.cfg.CallTimeout, func(ctx context.Context, t tx) error {
		in = intake{}
		_, found, err := lockCatalogue(ctx, t, event)
		if err != nil || !found {
			return err
		}
		return in.read(ctx, t, event)
	})
	if err == nil && sheetColumns[in.cat.Kind] == nil {
		err = ErrWrongMode
	}
	if err != nil {
		return Sheet{}, fmt.Errorf("export %s: %w", event, err)
	}
	return in.sheet(), nil
}

// sheet lists what an event sells.
func (in intake) sheet() Sheet {
	s := Sheet{Kind: in.cat.Kind}
	at := map[string]int{}
	for _, b := range in.sections {
		at[b.ID] = len(s.Sections)
		s.Sections = append(s.Sections, SectionSpec{ID: b.ID, Name: b.Name, PriceCents: new(b.PriceCents)})
	}
	for _, p := range in.seats {
		in := &s.Sections[at[p.section]]
		in.Seats = append(in.Seats, p.spec())
	}
	s.Sections = slices.DeleteFunc(s.Sections, func(in SectionSpec) bool { return len(in.Seats) == 0 })
	if in.cat.Kind == KindSeats {
		return s
	}
	for _, p := range in.items {
		s.Items = append(s.Items, p.spec(in.cat.PriceCents))
	}
	return s
}

// spec is the seat as a sheet lists it.
func (p seatPlace) spec() SeatSpec {
	return SeatSpec{ID: p.id, Row: p.row, Number: p.number, Kind: p.kind, CompanionOf: p.companionOf, Blocked: p.status == SeatBlocked}
}

// spec is the item as a sheet lists it, with its price.
func (p itemPlace) spec(price int64) ItemSpec {
	if p.price >= 0 {
		price = p.price
	}
	it := ItemSpec{ID: p.id, Name: p.name, Capacity: p.total, PriceCents: &price}
	if p.starts != 0 || p.ends != 0 {
		it.StartsAt, it.EndsAt = millis(p.starts), millis(p.ends)
	}
	for _, text := range p.meetings {
		if m, err := ParseMeeting(text); err == nil { // they were written by Meeting
			it.Meetings = append(it.Meetings, m)
		}
	}
	return it
}

// works are what an import has to do.
type works struct {
	sections []block // as they are to be
	noMore   []string

	add, change []seatPlace // a change has the version that it was judged by
	reorder     []seatPlace
	remove      []seatRow

	addItems, changeItems []itemPlace
	removeItems           []stockRow
}

func (w works) sum() Imported {
	return Imported{
		Added: len(w.add) + len(w.addItems), Changed: len(w.change) + len(w.changeItems),
		Removed: len(w.remove) + len(w.removeItems),
	}
}

func (w works) nothing() bool {
	return w.sum() == Imported{} && len(w.sections)+len(w.noMore)+len(w.reorder) == 0
}

// against judges a sheet by what is there.
func (s Sheet) against(in intake) (works, error) {
	var w works
	judge := sheetJudge{Sheet: s}
	if s.Kind == KindSeats {
		judge.seats(in, &w)
	} else {
		judge.items(in, &w)
	}
	if len(judge.faults) > 0 {
		slices.SortStableFunc(judge.faults, func(a, b Fault) int { return a.Line - b.Line })
		return works{}, &InvalidError{judge.faults}
	}
	return w, nil
}

// sheetJudge collects what a sheet must not do.
type sheetJudge struct {
	Sheet
	faults []Fault
}

func (j *sheetJudge) fault(line int, column, format string, args ...any) {
	if len(j.faults) < mostFaults {
		j.faults = append(j.faults, Fault{Line: line, Field: column, Detail: fmt.Sprintf(format, args...)})
	}
}

func (j *sheetJudge) seats(in intake, w *works) {
	have := make(map[string]seatPlace, len(in.seats))
	for _, p := range in.seats {
		have[p.id] = p
	}
	sections := map[string]*block{}
	for _, b := range in.sections {
		sections[b.ID] = b
	}
	var ord int64
	for i, spec := range j.Sections {
		price := in.cat.PriceCents
		if spec.PriceCents != nil {
			price = *spec.PriceCents
		}
		want := block{Section: Section{ID: spec.ID, Name: cmp.Or(spec.Name, spec.ID), PriceCents: price}, ord: int64(i)}
		was := sections[spec.ID]
		delete(sections, spec.ID)
		if was == nil || was.Name != want.Name || was.PriceCents != want.PriceCents || was.ord != want.ord {
			w.sections = append(w.sections, want)
		}
		for _, seat := range spec.Seats {
			ord++
			want := seatPlace{
				seatRow: seatRow{seat.ID, SeatFree, 0}, section: spec.ID, row: seat.Row, number: seat.Number, ord: ord,
				kind: seat.Kind, companionOf: seat.CompanionOf,
			}
			if seat.Blocked {
				want.status = SeatBlocked
			}
			was, found := have[seat.ID]
			delete(have, seat.ID)
			if !found {
				w.add = append(w.add, want)
				continue
			}
			j.seat(was, want, w)
		}
	}
	for id := range sections {
		w.noMore = append(w.noMore, id)
	}
	for _, p := range in.seats {
		if _, gone := have[p.id]; !gone {
			continue
		}
		if p.status == SeatHeld || p.status == SeatSold {
			j.fault(j.end, "id", "%s is %s and cannot be removed: the file must list it", p.id, p.status)
		}
		w.remove = append(w.remove, p.seatRow)
	}
}

// seat judges a seat that is there.
func (j *sheetJudge) seat(was, want seatPlace, w *works) {
	if was.ord != want.ord {
		w.reorder = append(w.reorder, want)
	}
	want.version = was.version
	taken := was.status == SeatHeld || was.status == SeatSold
	if taken && want.status != SeatBlocked {
		want.status = was.status
	}
	changed := func(column string, differs bool, is any) bool {
		if differs && taken {
			j.fault(j.lines[want.id], column, "%s is %s and stays as it is: %v", want.id, was.status, is)
		}
		return differs
	}
	kind := cmp.Or(was.kind, "seat")
	different := []bool{
		changed("section", was.section != want.section, was.section), changed("row", was.row != want.row, was.row),
		changed("number", was.number != want.number, was.number), changed("kind", was.kind != want.kind, kind),
		changed("of", was.companionOf != want.companionOf, was.companionOf), changed("blocked", was.status != want.status, false),
	}
	if slices.Contains(different, true) {
		w.change = append(w.change, want)
	}
}

func (j *sheetJudge) items(in intake, w *works) {
	have := make(map[string]itemPlace, len(in.items))
	for _, p := range in.items {
		have[p.id] = p
	}
	for i, spec := range j.Items {
		want := itemPlace{
			stockRow: stockRow{id: spec.ID, total: spec.Capacity}, ord: int64(i), name: spec.Name,
			price: inherited, meetings: meetingTexts(spec.Meetings),
		}
		if spec.PriceCents != nil {
			want.price = *spec.PriceCents
		}
		if !spec.StartsAt.IsZero() {
			want.starts, want.ends = spec.StartsAt.UnixMilli(), spec.EndsAt.UnixMilli()
		}
		was, found := have[spec.ID]
		delete(have, spec.ID)
		if !found {
			w.addItems = append(w.addItems, want)
			continue
		}
		if was.price < 0 && want.price == in.cat.PriceCents {
			want.price = was.price // says the same
		}
		j.item(was, want, w)
	}
	for _, p := range in.items {
		if _, gone := have[p.id]; !gone {
			continue
		}
		if p.free < p.total {
			j.fault(j.end, "id", "%s has %d places held or sold and cannot be removed: the file must list it", p.id, p.total-p.free)
		}
		w.removeItems = append(w.removeItems, p.stockRow)
	}
}

// item judges an item that is there.
func (j *sheetJudge) item(was, want itemPlace, w *works) {
	taken := was.total - was.free
	line := j.lines[want.id]
	if want.total < taken {
		j.fault(line, "capacity", "must be at least the %d places of %s that are held or sold", taken, want.id)
	}
	if taken > 0 && (was.starts != want.starts || was.ends != want.ends) {
		j.fault(line, "starts_at", "%s has places held or sold and keeps its time: %s to %s", want.id,
			millis(was.starts).Format(moment), millis(was.ends).Format(moment))
	}
	other := !slices.Equal(was.meetings, want.meetings)
	if taken > 0 && other {
		j.fault(line, "meetings", "%s has places held or sold and keeps its meetings: %v", want.id, was.meetings)
	}
	if other || was.name != want.name || was.price != want.price || was.total != want.total ||
		was.starts != want.starts || was.ends != want.ends || was.ord != want.ord {
		w.changeItems = append(w.changeItems, want)
	}
}
