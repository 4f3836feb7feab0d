package waitroom

import (
	"slices"
	"sync"
	"time"
)

// followed is what a follower knows.
type followed struct {
	mu     sync.RWMutex // guards all fields
	event  Event        // as last read, counts moved on by the feed since
	known  bool         // event is set
	at     time.Time    // when event.Now was read
	asked  time.Time    // when it was asked for
	sure   time.Time    // when the feed was last asked for what it then gave to its end, with no gap
	heard  time.Time    // when the feed was last read to its end
	places places       // nil until loaded
	base   int64        // of places
	level  bool
	lanes  []laneView // at least one
}

// laneView is how fast a lane moves.
type laneView struct {
	flow    Flow
	outlook Outlook
}

// countLanes moves the lanes' counts on by a record. Callers hold mu.
func (s *followed) countLanes(rec feedRecord) {
	if len(s.event.LaneCounts) == 0 {
		return
	}
	counts := slices.Clone(s.event.LaneCounts) // the old ones were given out
	count := func(seq Seq, waiting, admitted int64) {
		if lane := s.event.LaneNumber(seq); lane < len(counts) {
			counts[lane].Waiting = max(0, counts[lane].Waiting+waiting)
			counts[lane].Inside += admitted
			counts[lane].Admitted += admitted
		}
	}
	for _, g := range rec.granted {
		count(g.Seq, -1, 1)
	}
	for _, d := range rec.departed {
		count(d.Seq, -1, 0)
	}
	for _, seq := range rec.returned {
		count(seq, 1, 0)
	}
	s.event.LaneCounts = counts
}

// laneOf is the part of what is known that a sequence is of. Callers hold mu.
func (s *followed) laneOf(seq Seq) *laneView {
	return &s.lanes[min(s.event.LaneNumber(seq), len(s.lanes)-1)]
}

// moment is the event's clock now.
func (s *followed) moment() time.Time { return s.event.Now.Add(time.Since(s.at)) }

// now is the event with its clock of now; false when there is none.
func (f *follower) now() (Event, bool) {
	f.state.mu.RLock()
	defer f.state.mu.RUnlock()
	ev := f.state.event
	ev.Now = f.state.moment()
	return ev, f.state.known
}

// viewUnseen is more than can have joined since an event's counts were read.
const viewUnseen = 1 << 20

func (f *follower) position(seq Seq) (int64, bool) {
	f.state.mu.RLock()
	defer f.state.mu.RUnlock()
	if f.state.places == nil {
		return 0, false
	}
	pos, ok := f.state.places.position(seq)
	if pos > f.state.event.Waiting+viewUnseen {
		return 0, false // of an epoch whose beginning is yet to be read
	}
	return pos, ok
}

// flow is how fast the lane of a sequence moves.
func (f *follower) flow(seq Seq) Flow {
	f.state.mu.RLock()
	defer f.state.mu.RUnlock()
	return f.state.laneOf(seq).flow
}

func (f *follower) isLevel() bool {
	f.state.mu.RLock()
	defer f.state.mu.RUnlock()
	return f.state.level
}
