package web

import (
	"time"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// sellsNothing is the kind of an event that is a line and a gate only.
const sellsNothing = "none"

// Catalogue is what an event's settings sell; ok is false where they sell nothing.
func Catalogue(s waitroom.Settings) (c ticket.Catalogue, ok bool) {
	t := s.Tickets
	if t.Kind == "" || t.Kind == sellsNothing {
		return ticket.Catalogue{}, false
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
	return c, true
}
