package admission

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/waitroom-dev/waitroom/admission/ledger"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// quietSweep is how often an event is swept in which nobody is.
const quietSweep = time.Second

// tenure is the work of one term: it knows the events, and lets each run by itself,
// so that one whose calls are slow holds up none of the others.
type tenure struct {
	*Controller
	term                Term
	began               time.Time
	stepDown            context.CancelCauseFunc
	promoting, sweeping *semaphore.Weighted

	running sync.WaitGroup                // of all runs
	runs    map[waitroom.EventID]*run     // refresh alone touches it
	heard   map[waitroom.EventID]Standing // what the leader before had decided, if it is fresh
	away    bool                          // the last refresh failed
	shares  shares
}

// run is one event in one term.
type run struct {
	*tenure
	id     waitroom.EventID
	start  time.Time                      // tick 0; before the tickers, so that a late tick is still its own
	event  atomic.Pointer[waitroom.Event] // as of the last refresh
	cancel context.CancelFunc
	gone   atomic.Bool // the event is no more
	head   atomic.Pointer[ledger.Head]

	// Of the sealing loop alone:
	sealed   bool  // in this term
	sealedAt int64 // how many had been let in by then

	// Of the promoting loop alone:
	reason   string    // of the last decision
	since    time.Time // when it began to hold
	paces    []pacing  // of each lane, at least one
	tick     int64     // the last one
	open     bool      // at the last tick
	opened   int64     // the tick in which it was seen to open; 0 if it was open before
	failing  bool
	starting Starting
}

// refresh reads the events at each tick: settings take effect within one. An event
// that cannot be read stays as it was.
func (t *tenure) refresh(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, t.cfg.CallTimeout)
	defer cancel()
	events, err := t.deps.Line.Events(call)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		t.metrics.failed.WithLabelValues("events").Inc()
	}
	if away := err != nil; away != t.away {
		t.away = away
		if away {
			t.log.Warn("events not read", zap.Error(err), zap.Int64("fence", t.term.Fence))
		} else {
			t.log.Info("events read again", zap.Int64("fence", t.term.Fence))
		}
	}
	listed := make(map[waitroom.EventID]bool, len(events))
	for i := range events {
		ev := &events[i]
		listed[ev.ID] = true
		r, ok := t.runs[ev.ID]
		if !ok {
			r = t.follow(ctx, ev)
		}
		r.event.Store(ev)
	}
	for id, r := range t.runs {
		if !listed[id] && err == nil {
			r.gone.Store(true)
			r.cancel()
			delete(t.runs, id)
		}
	}
}

// follow starts an event's two loops; lead waits for them.
func (t *tenure) follow(ctx context.Context, ev *waitroom.Event) *run {
	ctx, cancel := context.WithCancel(ctx)
	r := &run{tenure: t, id: ev.ID, start: time.Now(), cancel: cancel, open: admits(ev.State)}
	r.reason, r.since = t.heard[ev.ID].Reason, t.heard[ev.ID].Since
	heard, ok := t.heard[ev.ID]
	r.resume(ev, heard, ok)
	if ok && heard.Starts != "" {
		r.starting = Starting{Waits: true, Why: heard.Starts}
	}
	r.event.Store(ev)
	t.runs[ev.ID] = r
	t.running.Go(func() { _ = every(ctx, t.cfg.Tick, r.sweep) })
	if t.deps.Notary != nil {
		t.running.Go(func() { _ = every(ctx, sealEvery, r.seal) })
	}
	t.running.Go(func() {
		_ = every(ctx, t.cfg.Tick, r.promote)
		if r.gone.Load() {
			t.forget(ctx, ev.ID)
		}
	})
	return r
}

// admits says in which states people are let in.
func admits(s waitroom.State) bool { return s == waitroom.Open || s == waitroom.Draining }

// now is the number of the tick that runs.
func (r *run) now() int64 { return int64(time.Since(r.start) / r.cfg.Tick) }

// promote decides and lets in, once a tick. A tick that comes late is one tick; the
// ones that were missed are gone.
func (r *run) promote(ctx context.Context) {
	ev := *r.event.Load()
	tick := r.now()
	if missed := tick - r.tick - 1; missed > 0 {
		r.metrics.missed.Add(float64(missed))
	}
	open := admits(ev.State)
	if open && !r.open {
		r.opened = tick
	}
	r.tick, r.open = tick, open
	var s Standing
	if len(ev.Lanes) == 0 {
		s = r.decide(ctx, ev, 0)
	} else { // one after the other: those that stand first have the event's rate first
		lanes := make([]Standing, len(ev.Lanes))
		if len(r.paces) < len(lanes) { // another event of the same name by now
			r.paces = make([]pacing, len(lanes))
		}
		for i := range lanes {
			lanes[i] = r.decide(ctx, ev.ForLane(i), i)
		}
		s = together(ev, lanes)
	}
	if s.Reason != r.reason {
		r.reason, r.since = s.Reason, ev.Now
	}
	s.Since = r.since
	if ctx.Err() == nil {
		r.note(s)
	}
}

// begins decides whether people wait, where an event's waiting starts by itself. While
// nobody is let in nothing is decided: whoever came meanwhile must not rush in together.
func (r *run) begins(ev waitroom.Event, l load, s *Standing) {
	if !r.open {
		r.starting = Starting{}
		return
	}
	before := r.starting
	r.starting = before.Next(StartSignals{
		Now: ev.Now, Newest: ev.Newest, Epoch: ev.Epoch, Waiting: ev.Waiting, RatePerS: s.RatePerS,
		Expected: l.expected, Known: l.known, Usage: l.usage,
	}, ev.Starts)
	s.PassThrough, s.Starts = !r.starting.Waits, r.starting.Why
	if r.starting.Waits == before.Waits && before.begun {
		return
	}
	said := "everybody passes"
	if r.starting.Waits {
		said = "waiting started"
	}
	r.log.Info(said, zap.String("event", string(r.id)), zap.String("why", r.starting.Why), zap.Float64("usage", l.usage),
		zap.Float64("arrivals_per_s", r.starting.Arrivals), zap.Int64("waiting", ev.Waiting), zap.Int64("fence", r.term.Fence))
}

// call promotes, within the tick's room and the term.
func (r *run) call(ctx context.Context, s Standing, lane int) Standing {
	wait, cancel := context.WithTimeout(ctx, r.cfg.Tick)
	defer cancel()
	if err := r.promoting.Acquire(wait, 1); err != nil {
		r.metrics.failed.WithLabelValues("room").Inc()
		return s
	}
	defer r.promoting.Release(1)
	if !r.term.Trusted() {
		r.stepDown(ErrLeaseUntrusted)
		return s
	}
	call, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	begun := time.Now()
	p, err := r.deps.Line.Promote(call, waitroom.PromoteRequest{
		Event: r.id, Fence: r.term.Fence, N: s.N, Pass: s.PassThrough, Lane: lane, Ran: time.Since(r.began),
		Why: waitroom.Why{RatePerS: s.RatePerS, Reason: s.Reason, Usage: s.Usage},
	})
	r.metrics.promote.Observe(time.Since(begun).Seconds())
	if errors.Is(err, waitroom.ErrFenced) {
		r.log.Warn("fenced off", zap.String("event", string(r.id)), zap.Int64("fence", r.term.Fence))
		r.stepDown(waitroom.ErrFenced)
		return s
	}
	r.heard(ctx, err)
	if err != nil {
		return s
	}
	if s.Held = p.Reason; p.Reason == "rate_cap" {
		r.paces[lane].unserved = max(0, s.N-len(p.Grants))
	}
	s.Given, s.Waiting, s.Inside, s.At = len(p.Grants), p.Waiting, p.Inside, p.Now
	r.metrics.promoted.WithLabelValues(string(r.id)).Add(float64(s.Given))
	return s
}

// heard says when the line stops and when it begins to answer for this event.
func (r *run) heard(ctx context.Context, err error) {
	if err == nil {
		if r.failing {
			r.failing = false
			r.log.Info("promoting again", zap.String("event", string(r.id)))
		}
		return
	}
	if ctx.Err() != nil || errors.Is(err, waitroom.ErrNoEvent) { // ends, or is deleted: the next refresh knows
		return
	}
	r.metrics.failed.WithLabelValues("promote").Inc()
	if !r.failing {
		r.failing = true
		r.log.Warn("promote failed", zap.String("event", string(r.id)), zap.Int64("fence", r.term.Fence), zap.Error(err))
	}
}

// sweep ends what is over, at each tick, beside the promoting: a large sweep must
// not keep people waiting. An event in which nobody is needs it for its schedule
// alone.
func (r *run) sweep(ctx context.Context) {
	ev := r.event.Load()
	if ev.Waiting == 0 && ev.Inside == 0 && r.now()%max(1, int64(quietSweep/r.cfg.Tick)) != 0 {
		return
	}
	wait, cancel := context.WithTimeout(ctx, r.cfg.Tick)
	defer cancel()
	if err := r.sweeping.Acquire(wait, 1); err != nil {
		r.metrics.failed.WithLabelValues("room").Inc()
		return
	}
	defer r.sweeping.Release(1)
	call, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	swept, err := r.deps.Line.Sweep(call, r.id)
	if err != nil && ctx.Err() == nil && !errors.Is(err, waitroom.ErrNoEvent) {
		r.metrics.failed.WithLabelValues("sweep").Inc()
	}
	r.metrics.swept.Add(float64(swept.Departed + swept.Ended))
}

// sealEvery is how often a log is sealed in which something may have happened.
const sealEvery = time.Second

// seal signs the end of the event's log, when people were let in since.
func (r *run) seal(ctx context.Context) {
	admitted := r.event.Load().Admitted
	if r.sealed && admitted == r.sealedAt {
		return
	}
	head, err := r.deps.Notary.Seal(ctx, r.id)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, waitroom.ErrNoEvent) {
			r.metrics.failed.WithLabelValues("seal").Inc()
			r.log.Warn("log not sealed", zap.String("event", string(r.id)), zap.Error(err))
		}
		return
	}
	r.sealed, r.sealedAt = true, admitted
	r.head.Store(&head)
}

// LimitsOf is what the law needs of an event's settings.
func LimitsOf(ev waitroom.Settings, tick time.Duration) Limits {
	l := Limits{
		Tick: tick, RatePerS: ev.RatePerS, Law: ev.Load.Law, FloorPerS: ev.Load.FloorPerS,
		Target: cmp.Or(ev.Load.Target, 0.75), // an event that was stored before has none
	}
	for _, s := range ev.Load.Steps {
		l.Steps = append(l.Steps, Step{At: s.At, RatePerS: s.RatePerS})
	}
	return l
}
