package waitroom

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	// feedBatch is how many records are read in one call, and feedReads how many
	// calls are made in a row before anything else has its turn.
	feedBatch = 128
	feedReads = 16
)

// cursor is how far a feed was read. While it is anchored, the record with its id
// was seen and must still be there: if it is not, the feed was trimmed past it, or
// the store is another one.
type cursor struct {
	id       streamID
	anchored bool
}

// follower keeps one event's line for a View. run is its goroutine.
type follower struct {
	id   EventID
	line *Line
	lis  Listener
	log  *zap.Logger

	ready  chan struct{} // closed when the event is known, or known to be none
	ended  chan struct{} // closed by stop
	kicked chan struct{} // capacity 1: there may be something to see
	idle   atomic.Bool   // it is looked at rarely
	stop   func()        // asks run to end: the event is no more
	state  followed
	polls  polls
	reader feedReader // owned by run

	verdicts verdicts
}

// feedReader is run's own memory.
type feedReader struct {
	at        cursor
	loading   places    // the lines being read from the store, if any
	base      int64     // of loading
	broken    bool      // the line must be read from the store
	dirty     bool      // the event must be read from the store
	loads     backoff   // spaces repairs of a feed that breaks again and again
	loadAfter time.Time // zero: load before reading on
	epoch     streamID  // the record for whose epoch the line was last read anew
	loadedAt  time.Time
	refreshed time.Time
	beaten    time.Time
}

func newFollower(id EventID, l *Line, lis Listener, log *zap.Logger) *follower {
	f := &follower{
		id: id, line: l, lis: lis, log: log.With(zap.String("event", string(id))),
		ready: make(chan struct{}), ended: make(chan struct{}), kicked: make(chan struct{}, 1),
		reader: feedReader{broken: true, dirty: true},
		state:  followed{lanes: make([]laneView, 1)},
	}
	f.stop = sync.OnceFunc(func() { close(f.ended) })
	return f
}

// run follows the event until ctx ends, stop is called, or the store has no such
// event.
func (f *follower) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, f.stop)()
	known := sync.OnceFunc(func() { close(f.ready) })
	defer known()
	f.line.follows(f)
	defer f.line.unfollows(f)
	var tries backoff
	for {
		more, err := f.step(ctx)
		var pause time.Duration
		switch {
		case ctx.Err() != nil || errors.Is(err, ErrNoEvent):
			return
		case err != nil:
			pause = tries.next()
			f.unlevel()
			tries.once(func() { f.log.Warn("line not followed", zap.Error(err)) })
		default:
			if tries.tries > 0 {
				f.log.Info("line followed again")
			}
			tries.reset()
			known()
			if pause = f.rest(); more {
				pause = 0
			}
		}
		f.idle.Store(pause > viewPoll)
		timer := time.NewTimer(pause)
		select {
		case <-f.ended:
			timer.Stop()
			return
		case <-f.kicked:
			timer.Stop()
			f.reader.dirty = true
		case <-timer.C:
		}
	}
}

// leave tells the listener that the event is no more, unless it is the view that
// ends, or the event was never known.
func (f *follower) leave(ctx context.Context) {
	ev, ok := f.now()
	f.state.mu.Lock()
	f.state.known = false
	f.state.mu.Unlock()
	if ok && ctx.Err() == nil && f.lis != nil {
		ev.State, ev.Reason = Closed, ReasonDeleted
		f.lis.Changed(ev)
	}
}

// step does once what has to be done now; more is true when there is more to do at
// once.
func (f *follower) step(ctx context.Context) (more bool, err error) {
	r := &f.reader
	if more, err = f.tend(ctx); err != nil || more || !r.broken || time.Now().Before(r.loadAfter) {
		return more, err
	}
	return true, f.load(ctx)
}

// tend does all but load the line; more is true when the feed has more.
func (f *follower) tend(ctx context.Context) (more bool, err error) {
	r := &f.reader
	if r.dirty || time.Since(r.refreshed) >= viewRefresh {
		if err := f.refresh(ctx); err != nil {
			return false, err
		}
	}
	if time.Since(r.beaten) >= viewRefresh {
		if err := f.beat(ctx); err != nil {
			return false, err
		}
	}
	if err := errors.Join(f.renew(ctx), f.slide(ctx)); err != nil {
		return false, err
	}
	if r.broken && r.loadAfter.IsZero() {
		return false, nil // a feed is read on from where the line was loaded
	}
	if more, err = f.read(ctx); err == nil && r.dirty {
		err = f.refresh(ctx)
	}
	return more, err
}

// beat says that this node lives.
func (f *follower) beat(ctx context.Context) error {
	known, err := f.line.beat(ctx, f.id)
	if err != nil {
		return err
	}
	f.reader.beaten = time.Now()
	if lis, ok := f.lis.(ForgottenListener); ok && !known {
		lis.Forgotten(f.id)
	}
	return nil
}

// refresh reads the event: settings, state and counts.
func (f *follower) refresh(ctx context.Context) error {
	asked := time.Now()
	ev, err := f.line.Event(ctx, f.id)
	if err != nil {
		return err
	}
	r, s := &f.reader, &f.state
	r.dirty, r.refreshed = false, time.Now()

	s.mu.Lock()
	before, known := s.event, s.known
	changed := !known || ev.Version != before.Version || ev.State != before.State || ev.Reason != before.Reason
	if len(ev.Lanes) > len(s.lanes) {
		s.lanes = make([]laneView, len(ev.Lanes))
	}
	for lane := range s.lanes {
		if known && ev.paceCap(lane) != before.paceCap(lane) {
			s.lanes[lane].outlook.Turn()
		}
	}
	s.event, s.known, s.at, s.asked = ev, true, time.Now(), asked
	base := s.base
	if r.loading != nil {
		base = r.base
	}
	if (s.places != nil || r.loading != nil) && ev.Epoch != base {
		s.level, r.broken = false, true
	}
	s.mu.Unlock()
	if changed && f.lis != nil {
		f.lis.Changed(ev)
	}
	return nil
}

// read reads the feed up to its end, or as far as a turn goes.
func (f *follower) read(ctx context.Context) (more bool, err error) {
	r := &f.reader
	reading := f.polls.begin()
	gapless := r.at.anchored
	for range feedReads {
		asked := time.Now()
		msgs, err := f.line.feedRead(ctx, f.id, r.at, feedBatch)
		if err != nil {
			return false, err
		}
		full := len(msgs) == feedBatch
		// The feed keeps far more than a batch: where less comes, nothing was trimmed.
		gapless = gapless || !full
		if r.at.anchored {
			if len(msgs) == 0 || msgs[0].ID != r.at.id.String() {
				f.breakUp("feed does not go on where it was left")
				r.at.anchored = false
				return false, nil
			}
			msgs = msgs[1:]
		}
		if !f.apply(ctx, msgs) {
			return false, nil
		}
		if !full {
			f.caughtUp()
			f.assure(asked, gapless)
			f.polls.caughtUp(reading)
			return false, nil
		}
	}
	return true, nil
}

// breakUp has the line read from the store.
func (f *follower) breakUp(why string, fields ...zap.Field) {
	f.reader.broken = true
	f.unlevel()
	f.doubt()
	f.log.Warn("line is read anew", append(fields, zap.String("reason", why))...)
}

// doubt drops what was known of grants: the feed may have told of their ends, or the
// store is another one.
func (f *follower) doubt() {
	f.state.mu.Lock()
	f.state.sure = time.Time{}
	f.state.mu.Unlock()
	f.verdicts.clear()
}

// assure notes that all was heard that had happened by then.
func (f *follower) assure(asked time.Time, gapless bool) {
	if f.reader.broken || !gapless {
		return
	}
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	f.state.sure = asked
}

func (f *follower) unlevel() {
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	f.state.level = false
}

// caughtUp notes that the feed was read to its end just now.
func (f *follower) caughtUp() {
	r, s := &f.reader, &f.state
	newest := f.line.highest(f.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
	s.level = !r.broken && r.loading == nil && s.places != nil
	lets := s.event.State == Open || s.event.State == Draining
	moment := s.moment().UnixMilli()
	for i := range s.lanes {
		lane := &s.lanes[i]
		lane.outlook.Look(moment, lets && s.event.waitingIn(i) > 0)
		lane.flow = Flow{}
		if !lets {
			lane.outlook.Pause()
			continue
		}
		lane.flow = lane.outlook.Flow(moment, s.event.paceCap(i))
		if s.level {
			last := newest[i]
			if len(s.lanes) == 1 {
				last = slices.Max(newest[:])
			}
			lane.outlook.Note(moment, last, s.places.position, lane.flow)
		}
	}
}
