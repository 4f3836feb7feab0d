package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// ErrNoSignal is what a source answers for an event of which it never had a
// figure and expects none: no fault, the source is left out.
var ErrNoSignal = errors.New("no load signal for this event")

// Source says how loaded an event's site is. It answers from memory, or within half
// a tick, after which it has failed, and is safe for concurrent use.
type Source interface {
	// Usage is the latest figure, however old: its At tells. ErrNoSignal means that
	// none is expected; any other error, that one is and that it is not to be had.
	Usage(ctx context.Context, event waitroom.Event) (Reading, error)
}

// load is what all sources together say of one event.
type load struct {
	expected, known bool
	usage, wanted   float64
	detail          string // of the figure that counts, or why there is none
}

// combine takes the highest of the readings that are not too old. One that failed
// or makes no sense leaves the load unknown, whatever the others say: what cannot
// be measured is not idle. One that is merely old is left out while there is
// another, and leaves the load unknown when there is none.
func combine(readings []Reading, faults []error, now time.Time, staleAfter time.Duration) load {
	l := load{expected: len(readings)+len(faults) > 0}
	if len(faults) > 0 {
		l.detail = faults[0].Error()
		return l
	}
	for _, r := range readings {
		switch age := now.Sub(r.At); {
		case math.IsNaN(r.Usage) || math.IsInf(r.Usage, 0) || r.Usage < 0:
			return load{expected: true, detail: fmt.Sprintf("%s: usage %v makes no sense", r.Detail, r.Usage)}
		case age > staleAfter:
			if !l.known {
				l.detail = fmt.Sprintf("%s: %v old", r.Detail, age.Round(100*time.Millisecond))
			}
		default:
			if !l.known || r.Usage > l.usage {
				l.known, l.usage, l.detail = true, r.Usage, r.Detail
			}
			l.wanted = max(l.wanted, cmp.Or(r.Wanted, r.Usage))
		}
	}
	return l
}

// gather asks every source, within ctx.
func gather(ctx context.Context, sources []Source, ev waitroom.Event) load {
	var (
		readings []Reading
		faults   []error
	)
	for _, s := range sources {
		r, err := s.Usage(ctx, ev)
		switch {
		case errors.Is(err, ErrNoSignal):
		case err != nil:
			faults = append(faults, err)
		default:
			readings = append(readings, r)
		}
	}
	return combine(readings, faults, time.Now(), time.Duration(ev.Load.StaleAfter))
}
