package admission

import (
	"time"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// Why people wait, where an event's waiting starts by itself: the values of
// Starting.Why beside ReasonUnknown.
const (
	// StartUsage: the usage has reached starts.usage.
	StartUsage = "usage"
	// StartArrivals: as many a second as starts.arrivals_per_s have come.
	StartArrivals = "arrivals"
	// StartLine: more stand in the line than a second lets in, as after a pause.
	StartLine = "line"
)

const (
	// calmArrivals is the share of starts.arrivals_per_s below which arrivals are calm.
	calmArrivals = 0.8
	// countFor is how long arrivals are counted for a figure a second.
	countFor = time.Second
)

// StartSignals are what is known at one tick about whether people must wait.
type StartSignals struct {
	// Now is the event's clock.
	Now time.Time
	// Newest is the highest sequence given, of an epoch: every join takes the next.
	Newest waitroom.Seq
	Epoch  int64
	// Waiting is how many wait, and RatePerS what the law lets in.
	Waiting  int64
	RatePerS float64
	// Expected, Known and Usage are as in Signals.
	Expected, Known bool
	Usage           float64
}

// Starting is whether people wait, and what one decision hands to the next.
type Starting struct {
	// Waits: the line is in force; else everybody passes.
	Waits bool
	// Why it began; empty while everybody passes.
	Why string
	// Arrivals is how many a second came last.
	Arrivals float64

	begun bool
	epoch int64
	marks [12]startMark // of the last second, oldest first, and one that is as old or older
	n     int           // how many of them there are
	calm  time.Time     // since when nothing asks for waiting; zero: something does
}

// startMark is the newest sequence at a moment.
type startMark struct {
	at  time.Time
	seq waitroom.Seq
}

// Next decides anew. It is pure.
//
// Waiting starts in the tick that sees the usage or the arrivals of a second at their
// thresholds, or no longer sees a usage that it should. It ends when for Keep on end
// the usage is 0.05 below its threshold, arrivals are below 0.8 of theirs, and the
// line holds no more than a second lets in, so that ending it lets nobody rush in.
func (s Starting) Next(sig StartSignals, set waitroom.StartSettings) Starting {
	inLine := float64(sig.Waiting) > max(1, sig.RatePerS)
	if !s.begun {
		s = Starting{begun: true, Waits: s.Waits || inLine, Why: s.Why}
		if inLine && s.Why == "" {
			s.Why = StartLine
		}
	}
	s.count(sig)

	why := ""
	switch {
	case set.Usage > 0 && sig.Expected && !sig.Known:
		why = ReasonUnknown
	case set.Usage > 0 && sig.Known && sig.Usage >= set.Usage:
		why = StartUsage
	case set.ArrivalsPerS > 0 && s.Arrivals >= set.ArrivalsPerS:
		why = StartArrivals
	}
	if why != "" {
		if !s.Waits {
			s.Waits, s.Why = true, why
		}
		s.calm = time.Time{}
		return s
	}
	if !s.Waits {
		return s
	}
	busy := set.Usage > 0 && sig.Known && sig.Usage > set.Usage-hysteresis ||
		set.ArrivalsPerS > 0 && s.Arrivals > calmArrivals*set.ArrivalsPerS
	switch {
	case busy || inLine:
		s.calm = time.Time{}
	case s.calm.IsZero():
		s.calm = sig.Now
	case sig.Now.Sub(s.calm) >= time.Duration(set.Keep):
		s.Waits, s.Why, s.calm = false, "", time.Time{}
	}
	return s
}

// count counts the arrivals of the last second, or of the time since the tick before
// where that is more. A store that is another one by now is counted from here.
func (s *Starting) count(sig StartSignals) {
	last := startMark{sig.Now, sig.Newest}
	if s.n > 0 && (sig.Epoch != s.epoch || sig.Newest < s.marks[s.n-1].seq || sig.Now.Before(s.marks[s.n-1].at)) {
		s.n = 0
	}
	s.epoch = sig.Epoch
	old := 0
	for i := range s.n {
		if sig.Now.Sub(s.marks[i].at) >= countFor {
			old = i
		}
	}
	s.n = copy(s.marks[:], s.marks[old:s.n])
	if s.n == len(s.marks) { // ticks are closer than they should be
		s.n--
	}
	s.marks[s.n] = last
	s.n++
	first := s.marks[0]
	s.Arrivals = float64(last.seq-first.seq) / max(last.at.Sub(first.at), countFor).Seconds()
}
