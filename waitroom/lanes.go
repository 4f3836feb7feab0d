package waitroom

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// LaneSettings are a line of its own inside an event, with a share of what the event
// lets in. The event's own rate_per_s, burst and max_active bind over all its lanes.
// In each tick the lanes are asked in their order: where the event's rate is not enough
// for all, those that stand first have it first. So lanes without a rate of their own
// are a strict priority, and lanes whose rates add up to the event's share it.
type LaneSettings struct {
	// Name is 1 to 32 characters of a-z, 0-9 and -. Names, and their order, stay as they
	// are when the event was made.
	Name string `json:"name"`
	// RatePerS is the most people of this lane admitted in any second. Default: no bound
	// but the event's.
	RatePerS *float64 `json:"rate_per_s,omitempty"`
	// Share is the same as a part of the event's rate_per_s, above 0 and at most 1; those
	// of all lanes add up to 1 at most. Give one of the two, or neither.
	Share float64 `json:"share,omitempty"`
	// MaxActive is the most people of this lane inside at any time; 0 is no bound but the
	// event's.
	MaxActive int `json:"max_active,omitempty"`
	// Paused lets nobody of this lane in, also where pass_through lets everybody in; joining
	// it goes on, and so do the other lanes.
	Paused bool `json:"paused,omitempty"`
	// Load is how the lane's own load signal bounds its rate. Default: the event's law on
	// the lane's signal, and on the event's where the lane has none.
	Load *LoadSettings `json:"load,omitempty"`
}

// LaneCounts are a lane as it is now.
type LaneCounts struct {
	Name     string  `json:"name"`
	RatePerS float64 `json:"rate_per_s"` // the most a second
	Paused   bool    `json:"paused,omitempty"`
	Waiting  int64   `json:"waiting"`
	Inside   int64   `json:"inside"`
	Admitted int64   `json:"admitted"` // since the event was made
}

const (
	// laneSpan is how far the sequences of neighbouring lanes are apart, as
	// scripts/common.lua has it.
	laneSpan  = 1 << 49
	mostLanes = 16
)

// LaneNumber is the number of the lane of a sequence, from 0, in the order of the
// settings; 0 for an event without lanes.
func (s *Settings) LaneNumber(seq Seq) int {
	if len(s.Lanes) == 0 {
		return 0
	}
	return int(seq / laneSpan)
}

// LaneOf is the name of the lane in which a place is; empty for an event without lanes.
func (s *Settings) LaneOf(seq Seq) string {
	if lane := s.LaneNumber(seq); lane < len(s.Lanes) {
		return s.Lanes[lane].Name
	}
	return ""
}

// LaneRate is the most people a second that a lane lets in by itself.
func (s Settings) LaneRate(lane LaneSettings) float64 {
	switch {
	case lane.Paused:
		return 0
	case lane.RatePerS != nil:
		return *lane.RatePerS
	case lane.Share > 0:
		return lane.Share * s.RatePerS
	default:
		return s.RatePerS
	}
}

// LaneStart is below every sequence of a lane (from 0), and of that lane.
func (s *Settings) LaneStart(lane int) Seq { return Seq(lane) * laneSpan }

// waitingIn is how many wait in a lane (from 0; in all, without lanes).
func (e *Event) waitingIn(lane int) int64 {
	if lane >= len(e.LaneCounts) {
		return e.Waiting
	}
	return e.LaneCounts[lane].Waiting
}

// WaitingWith is how many wait in the lane of a sequence, or in all without lanes.
func (e *Event) WaitingWith(seq Seq) int64 { return e.waitingIn(e.LaneNumber(seq)) }

// ForLane is the event as one of its lanes sees it (from 0): the lane's rate, law and
// counts in place of the event's. Lane tells which it is.
func (e Event) ForLane(lane int) Event {
	l := e.Lanes[lane]
	e.Lane, e.MaxActive = l.Name, l.MaxActive
	e.RatePerS = min(e.LaneRate(l), e.RatePerS)
	if l.Load != nil {
		e.Load = *l.Load
	}
	e.Waiting, e.Inside = 0, 0
	if lane < len(e.LaneCounts) {
		e.Waiting, e.Inside = e.LaneCounts[lane].Waiting, e.LaneCounts[lane].Inside
	}
	return e
}

// laneFaults refuses lanes that nobody could stand in, or that promise more than there is.
func (s Settings) laneFaults(d *decoder) {
	if len(s.Lanes) > mostLanes {
		d.fault("lanes", "must be at most %d", mostLanes)
	}
	if len(s.Lanes) > 0 && s.Mode != ModeQueue {
		d.fault("lanes", "are for mode queue")
	}
	if len(s.Lanes) > 0 && s.Order == OrderDraw {
		d.fault("lanes", "cannot be drawn: use order fifo")
	}
	if len(s.Lanes) > 0 && s.Starts.On() {
		d.fault("starts", "is for an event without lanes")
	}
	shares := 0.0
	for i, l := range s.Lanes {
		at := fmt.Sprintf("lanes[%d]", i)
		if !groupNames.MatchString(l.Name) {
			d.fault(at+".name", "must be 1 to 32 characters of a-z, 0-9 and -")
		}
		if slices.ContainsFunc(s.Lanes[:i], func(o LaneSettings) bool { return o.Name == l.Name }) {
			d.fault(at+".name", "is there twice")
		}
		if l.RatePerS != nil {
			d.number(at+".rate_per_s", *l.RatePerS, mostRate)
			if l.Share != 0 {
				d.fault(at+".share", "give either this or rate_per_s")
			}
		}
		shares += l.Share
		if !(l.Share >= 0 && l.Share <= 1) {
			d.fault(at+".share", "must be above 0 and at most 1")
		} else if shares > 1+1e-9 {
			d.fault(at+".share", "makes the shares more than 1 in all")
		}
		d.number(at+".max_active", float64(l.MaxActive), 100_000_000)
		if l.Load != nil {
			var of decoder
			l.Load.faults(&of)
			for _, f := range of.faults {
				d.fault(at+"."+f.Field, "%s", f.Detail)
			}
		}
	}
	for i, g := range s.Groups {
		known := slices.ContainsFunc(s.Lanes, func(l LaneSettings) bool { return l.Name == g.Lane })
		at := fmt.Sprintf("groups[%d].lane", i)
		switch {
		case len(s.Lanes) == 0 && g.Lane != "":
			d.fault(at, "the event has no lanes")
		case len(s.Lanes) > 0 && !known:
			d.fault(at, "must be the name of one of the lanes")
		}
	}
}

// lanesFault refuses a change of which lanes there are: sequences tell the lane.
func lanesFault(old, now Settings) error {
	same := slices.EqualFunc(old.Lanes, now.Lanes, func(a, b LaneSettings) bool { return a.Name == b.Name })
	if same {
		return nil
	}
	return &InvalidError{Fields: []FieldError{{
		Field: "lanes", Detail: "their names and order cannot be changed; make a new event",
	}}}
}

// laneFields are the lanes as common.lua reads them: "name rate max;" for each.
func laneFields(s Settings) string {
	var b strings.Builder
	for _, l := range s.Lanes {
		rate := "-"
		switch {
		case l.Paused:
			rate = "-0" // a rate of 0 to the scripts that know of no pause
		case l.RatePerS != nil || l.Share > 0:
			rate = strconv.FormatFloat(s.LaneRate(l), 'f', -1, 64)
		}
		fmt.Fprintf(&b, "%s %s %d;", l.Name, rate, l.MaxActive)
	}
	return b.String()
}

// laneIndex is the number of a lane by its name, for scripts; "" for an event without
// lanes or a name that is none.
func (s Settings) laneIndex(name string) string {
	for i, l := range s.Lanes {
		if l.Name == name {
			return strconv.Itoa(i)
		}
	}
	return ""
}

// readLanes reads event.lua's "waiting inside seq admitted;" of each lane.
func (e *Event) readLanes(text string) (seqs []Seq, err error) {
	for i, l := range e.Lanes {
		part, rest, _ := strings.Cut(text, ";")
		text = rest
		f := strings.Split(part, " ")
		if len(f) != 4 {
			return nil, unavailable(fmt.Errorf("%w: lane %d: %q", errReply, i, part))
		}
		n, err := numbers(f...)
		if err != nil {
			return nil, err
		}
		e.LaneCounts = append(e.LaneCounts, LaneCounts{Name: l.Name, RatePerS: min(e.LaneRate(l), e.RatePerS), Paused: l.Paused, Waiting: n[0], Inside: n[1], Admitted: n[3]})
		seqs = append(seqs, Seq(n[2]))
	}
	return seqs, nil
}
