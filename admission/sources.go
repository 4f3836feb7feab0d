package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
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

// Signal is what one source said at a decision, for people to look at.
type Signal struct {
	// Detail says where the figure comes from; Usage is absent where there is none.
	Detail string   `json:"detail,omitempty"`
	Usage  *float64 `json:"usage,omitempty"`
	// AgeMS is how old the figure was.
	AgeMS int64 `json:"age_ms"`
	// Fault is why it does not count.
	Fault string `json:"fault,omitempty"`
}

// load is what all sources together say of one event.
type load struct {
	expected, known bool
	usage, wanted   float64
	detail          string // of the figure that counts, or why there is none
	signals         []Signal
}

// combine takes the highest of the readings that are not too old. One that failed
// or makes no sense leaves the load unknown, whatever the others say: what cannot
// be measured is not idle. One that is merely old is left out while there is
// another, and leaves the load unknown when there is none.
func combine(readings []Reading, faults []error, now time.Time, staleAfter time.Duration) load {
	l := load{expected: len(readings)+len(faults) > 0}
	broken := ""
	for _, err := range faults {
		broken = cmp.Or(broken, err.Error())
		l.signals = append(l.signals, Signal{Fault: err.Error()})
	}
	for _, r := range readings {
		age := now.Sub(r.At)
		signal := Signal{Detail: r.Detail, AgeMS: max(0, age.Milliseconds())}
		switch {
		case math.IsNaN(r.Usage) || math.IsInf(r.Usage, 0) || r.Usage < 0:
			signal.Fault = fmt.Sprintf("usage %v makes no sense", r.Usage)
			broken = cmp.Or(broken, r.Detail+": "+signal.Fault)
		case age > staleAfter:
			signal.Usage, signal.Fault = &r.Usage, fmt.Sprintf("%v old", age.Round(100*time.Millisecond))
			if !l.known {
				l.detail = r.Detail + ": " + signal.Fault
			}
		default:
			signal.Usage = &r.Usage
			if !l.known || r.Usage > l.usage {
				l.known, l.usage, l.detail = true, r.Usage, r.Detail
			}
			l.wanted = max(l.wanted, cmp.Or(r.Wanted, r.Usage))
		}
		l.signals = append(l.signals, signal)
	}
	if broken != "" {
		l.known, l.usage, l.wanted, l.detail = false, 0, 0, broken
	}
	return l
}

// gather asks every source at the same time, within ctx: one that is slow costs the
// others nothing.
func gather(ctx context.Context, sources []Source, ev waitroom.Event) load {
	all, errs := make([]Reading, len(sources)), make([]error, len(sources))
	var asking sync.WaitGroup
	for i, s := range sources {
		asking.Go(func() { all[i], errs[i] = s.Usage(ctx, ev) })
	}
	asking.Wait()
	var (
		readings []Reading
		faults   []error
	)
	for i, err := range errs {
		switch {
		case errors.Is(err, ErrNoSignal):
		case err != nil:
			faults = append(faults, err)
		default:
			readings = append(readings, all[i])
		}
	}
	return combine(readings, faults, time.Now(), time.Duration(ev.Load.StaleAfter))
}
