package web

import (
	"errors"
	"fmt"
	"time"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// sellsNothing is the kind of an event that is a line and a gate only.
const sellsNothing = "none"

// sells says whether an event sells anything.
func sells(s waitroom.Settings) bool { return s.Tickets.Kind != "" && s.Tickets.Kind != sellsNothing }

// Catalogue is what an event's settings sell; ok is false where they sell nothing.
// The error is a *waitroom.InvalidError that names what cannot be sold so.
func Catalogue(s waitroom.Settings) (c ticket.Catalogue, ok bool, err error) {
	t := s.Tickets
	if !sells(s) {
		return ticket.Catalogue{}, false, nil
	}
	c = ticket.Catalogue{
		Kind: t.Kind, Stock: int64(t.Stock), PriceCents: t.PriceCents, Currency: t.Currency,
		PerUser: t.PerUser, HoldTTL: time.Duration(t.HoldTTL), Locking: t.Locking, OnBreakerOpen: t.OnBreakerOpen,
	}
	for _, section := range t.Sections {
		spec := ticket.SectionSpec{ID: section.ID, Name: section.Name, Rows: section.Rows, SeatsPerRow: section.SeatsPerRow}
		if section.PriceCents != 0 {
			spec.PriceCents = &section.PriceCents
		}
		c.Sections = append(c.Sections, spec)
	}
	var faults []waitroom.FieldError
	for i, item := range t.Items {
		spec := ticket.ItemSpec{ID: item.ID, Name: item.Name, Capacity: int64(item.Capacity), PriceCents: item.PriceCents}
		if item.StartsAt != nil {
			spec.StartsAt = *item.StartsAt
		}
		if item.EndsAt != nil {
			spec.EndsAt = *item.EndsAt
		}
		for j, text := range item.Meetings {
			m, err := ticket.ParseMeeting(text)
			if err != nil {
				faults = append(faults, waitroom.FieldError{Field: fmt.Sprintf("tickets.items[%d].meetings[%d]", i, j), Detail: err.Error()})
			}
			spec.Meetings = append(spec.Meetings, m)
		}
		c.Items = append(c.Items, spec)
	}
	if faults == nil {
		faults = catalogueFields(c.Validate(), "tickets.")
	}
	if faults != nil {
		return ticket.Catalogue{}, true, &waitroom.InvalidError{Fields: faults}
	}
	return c, true, nil
}

// catalogueFields are the faults of a catalogue as an answer names them.
func catalogueFields(err error, prefix string) []waitroom.FieldError {
	invalid, ok := errors.AsType[*ticket.InvalidError](err)
	if !ok {
		return nil
	}
	fields := make([]waitroom.FieldError, len(invalid.Faults))
	for i, f := range invalid.Faults {
		fields[i] = waitroom.FieldError{Field: prefix + f.Field, Detail: f.Detail}
		if f.Line > 0 {
			fields[i].Field = fmt.Sprintf("line %d: %s", f.Line, f.Field)
		}
	}
	return fields
}
