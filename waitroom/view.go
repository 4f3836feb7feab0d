package waitroom

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// viewPoll is how often a feed is read: twice a tick, so that an admission is
	// known within one.
	viewPoll = 50 * time.Millisecond
	// viewRefresh is how often an event's counts are read, the node's heartbeat is
	// given, and the list of events is read.
	viewRefresh = time.Second
	// viewSpacing is the least time between two readings of the list of events, so
	// that asking for what does not exist costs the store nothing.
	viewSpacing = 50 * time.Millisecond
)

// Listener is told what happens in the lines, in the order of each event's feed.
// It is called from the View's goroutines, one at a time for an event, after the
// positions have changed, and must not block. What it is told are hints: after a
// gap in the feed some were never told, and somebody whose Position is not there
// any more asks for the place.
type Listener interface {
	// Admitted: these were promoted.
	Admitted(EventID, []Grant)
	// Departed: these left the line without a grant.
	Departed(EventID, []Departure)
	// Changed: settings or state changed, or the event was seen for the first time.
	// An event that was deleted, or that the store lost, comes once more, Closed with
	// ReasonDeleted.
	Changed(Event)
}

// NumberedListener is a Listener that wants to hear of people who have their numbers,
// in mode buffered.
type NumberedListener interface {
	Numbered(EventID, []Result)
}

// PartyListener is a Listener that wants to hear of parties: who came, who left, who buys.
// It is told the parties' entries and the people who came or went; each asks for their
// place. As with Departed, some are never told.
type PartyListener interface {
	Parties(event EventID, who []EntryID)
}

// ReasonDeleted is the reason of the last that a Listener hears of an event.
const ReasonDeleted = "deleted"

// ForgottenListener is a Listener that says with Line.Here whose sockets this node
// holds. It is told when the store knows nothing of what was said before for an
// event (also at the first heartbeat): all must be said again.
type ForgottenListener interface {
	Forgotten(EventID)
}

// EndedListener is a Listener that wants to hear of turns that are over: completed,
// given back, revoked, or whose time ended. As with Departed, some are never told.
type EndedListener interface {
	Ended(EventID, []End)
}

// View is what one node knows of all lines, in memory. Run keeps it up to date; all
// other methods may be called concurrently, and none but Event of an event that is
// not known waits for the store.
//
// It reads each event's feed and keeps the line as order statistics (package
// rank). Whenever a record is missing, bad, or of another epoch, it reads the line
// anew in bounded pieces; meanwhile the last state is kept, and Level is false.
// While the store is away, everything stays as it was.
type View struct {
	line *Line
	lis  Listener
	log  *zap.Logger
	wake chan struct{} // capacity 1: a miss waits for the list; more say the same

	mu        sync.RWMutex // guards the fields below
	followers map[EventID]*follower
	next      *listing // what misses wait for; nil without any
	over      bool     // Run has ended
}

// listing is one reading of the list of events.
type listing struct {
	done chan struct{} // closed when it is through
	err  error         // set before
}

// NewView makes a view of l's events; it connects to nothing. lis may be nil.
func NewView(l *Line, lis Listener) (*View, error) {
	if l == nil {
		return nil, errors.New("view: no line")
	}
	return &View{
		line: l, lis: lis, log: l.log.Named("view"),
		wake:      make(chan struct{}, 1),
		followers: make(map[EventID]*follower),
	}, nil
}

// Run follows all events and gives this node's heartbeats until ctx ends; it then
// returns nil. The store may go away and come back meanwhile.
func (v *View) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer func() {
		v.finish()
		wg.Wait()
	}()
	wg.Go(func() { v.listen(ctx) })
	var backoff backoff
	for {
		l := v.claim()
		ids, err := v.line.eventIDs(ctx)
		if ctx.Err() != nil {
			l.end(unavailable(context.Cause(ctx)))
			return nil
		}
		pause := viewRefresh
		if err != nil {
			pause = backoff.next()
			backoff.once(func() { v.log.Warn("list of events not read", zap.Error(err)) })
		} else {
			backoff.reset()
			v.follow(ctx, &wg, ids)
		}
		l.end(err)
		if !v.pause(ctx, pause) {
			return nil
		}
	}
}

// pause waits until the list is to be read again; false when ctx ended.
func (v *View) pause(ctx context.Context, most time.Duration) bool {
	if !wait(ctx, min(most, viewSpacing)) {
		return false
	}
	timer := time.NewTimer(max(0, most-viewSpacing))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-v.wake:
	case <-timer.C:
	}
	return true
}

// claim takes the listing that misses wait for.
func (v *View) claim() *listing {
	v.mu.Lock()
	defer v.mu.Unlock()
	l := v.next
	v.next = nil
	return l
}

func (l *listing) end(err error) {
	if l != nil {
		l.err = err
		close(l.done)
	}
}

func (v *View) finish() {
	v.mu.Lock()
	v.over = true
	v.mu.Unlock()
	v.claim().end(unavailable(errors.New("view has ended")))
}

// follow begins to follow new events, and ends with those that are no more. wg
// counts the goroutines; Run waits for them.
func (v *View) follow(ctx context.Context, wg *sync.WaitGroup, ids []EventID) {
	listed := make(map[EventID]bool, len(ids))
	for _, id := range ids {
		listed[id] = true
		if v.follower(id) != nil {
			continue
		}
		f := newFollower(id, v.line, v.lis, v.log)
		v.mu.Lock()
		v.followers[id] = f
		v.mu.Unlock()
		wg.Go(func() {
			f.run(ctx)
			f.leave(ctx) // before an event of the same name can be told of
			v.mu.Lock()
			delete(v.followers, id)
			v.mu.Unlock()
		})
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	for id, f := range v.followers {
		if !listed[id] {
			f.stop()
		}
	}
}

func (v *View) follower(id EventID) *follower {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.followers[id]
}

// Event is an event as it is now, from memory: at most one tick old while the store
// answers, else as it was last seen. What Settings point to is shared: read only.
// An id that is not known waits for the list of events to be read, once for all who
// ask. Errors: ErrNoEvent, ErrUnavailable, the ctx's own.
func (v *View) Event(ctx context.Context, id EventID) (Event, error) {
	f := v.follower(id)
	if f == nil {
		if err := v.list(ctx); err != nil {
			return Event{}, fmt.Errorf("event %s: %w", id, err)
		}
		if f = v.follower(id); f == nil {
			return Event{}, fmt.Errorf("event %s: %w", id, ErrNoEvent)
		}
	}
	select {
	case <-f.ready: // nearly always, and then without a timer
	default:
		ctx, cancel := context.WithTimeoutCause(ctx, v.line.cfg.CallTimeout, ErrUnavailable)
		defer cancel()
		select {
		case <-f.ready:
		case <-ctx.Done():
			return Event{}, fmt.Errorf("event %s: %w", id, context.Cause(ctx))
		}
	}
	ev, ok := f.now()
	if !ok {
		return Event{}, fmt.Errorf("event %s: %w", id, ErrNoEvent)
	}
	return ev, nil
}

// Events are all events that are known, as Event gives them, in no order.
func (v *View) Events() []Event {
	v.mu.RLock()
	defer v.mu.RUnlock()
	events := make([]Event, 0, len(v.followers))
	for _, f := range v.followers {
		if ev, ok := f.now(); ok {
			events = append(events, ev)
		}
	}
	return events
}

// list waits until the list of events has been read from now on.
func (v *View) list(ctx context.Context) error {
	v.mu.Lock()
	if v.over {
		v.mu.Unlock()
		return unavailable(errors.New("view has ended"))
	}
	if v.next == nil {
		v.next = &listing{done: make(chan struct{})}
	}
	l := v.next
	v.mu.Unlock()
	select {
	case v.wake <- struct{}{}:
	default:
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 2*v.line.cfg.CallTimeout, ErrUnavailable)
	defer cancel()
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Position is the place of a sequence: 1 is the front. It is exact while the view
// is Level, else as of the last record seen. It is false for a sequence that does
// not wait: promoted, departed, or lost by the store; asking for the place tells.
// It is false too until a line is loaded for the first time; Level says so.
func (v *View) Position(id EventID, seq Seq) (int64, bool) {
	f := v.follower(id)
	if f == nil {
		return 0, false
	}
	return f.position(seq)
}

// Estimate is how long a sequence at a position has yet to wait: what half and what
// nine of ten stay below. There is none while nobody is let in.
func (v *View) Estimate(id EventID, seq Seq, pos int64) (eta, p90 time.Duration, ok bool) {
	f := v.follower(id)
	if f == nil {
		return 0, 0, false
	}
	return Estimate(pos, f.flow(seq))
}

// Level is true while positions are exact: the line is loaded, and every record of
// the feed up to the last reading was seen.
func (v *View) Level(id EventID) bool {
	f := v.follower(id)
	return f != nil && f.isLevel()
}

// wait is true after d, false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// backoff spaces tries while the store is away: from a tenth of a second, doubling
// to two, each between half of that and the whole.
type backoff struct{ tries int }

func (b *backoff) next() time.Duration {
	b.tries++
	most := min(100*time.Millisecond<<min(b.tries-1, 10), 2*time.Second)
	return most/2 + rand.N(most/2+1)
}

// once runs say at the first try of a row.
func (b *backoff) once(say func()) {
	if b.tries == 1 {
		say()
	}
}

func (b *backoff) reset() { b.tries = 0 }
