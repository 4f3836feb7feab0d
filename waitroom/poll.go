package waitroom

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// pollsMost is how many who poll are remembered for an event in each of two
	// generations: about 130 bytes each. Whoever is forgotten is renewed once more.
	pollsMost = 1 << 16
	// dueMost is how many graces may wait to be renewed. Beyond it, whoever polls asks
	// the store instead, and is renewed by that.
	dueMost = 1 << 14
	// dueBatch is how many graces one call renews, and dueEvery how long the first of
	// them waits for the others.
	dueBatch = 256
	dueEvery = 500 * time.Millisecond
	// renewals is how often a grace is renewed in its time, however often its person
	// polls. Whoever asks three times in a grace, as they are told, may so lose one
	// answer: 1/4 + 2/3 is less than the whole.
	renewals = 4
)

// polls is what a follower remembers of the people who poll.
type polls struct {
	mu    sync.Mutex // guards the following; taken before the follower's state, never after
	young map[EntryID]*poller
	old   map[EntryID]*poller
	due   []placeCall // whose graces are to be renewed
	since time.Time   // when the first of due came

	// moved are those whom this process has let in or taken out of the line, of which
	// the feed has not told yet, each with the reading that was going on then; whoever
	// did it and asks gets the store's answer. more is the reading of those for whom
	// there was no room: until a later one nothing is answered from memory.
	moved   map[EntryID]int64
	more    int64
	reading int64 // counts the readings of the feed
}

// movedMost bounds polls.moved.
const movedMost = 1 << 14

// move notes that these have just left the line.
func (p *polls) move(entries ...EntryID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.moved)+len(entries) > movedMost {
		p.more = p.reading + 1
		return
	}
	if p.moved == nil {
		p.moved = make(map[EntryID]int64)
	}
	for _, e := range entries {
		p.moved[e] = p.reading
	}
}

// begin says that the feed is read from now on; what it gives is for caughtUp.
func (p *polls) begin() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reading++
	return p.reading
}

// caughtUp says that a reading has come to the feed's end: it has told of all who
// moved before it began.
func (p *polls) caughtUp(reading int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e, at := range p.moved {
		if at < reading {
			delete(p.moved, e)
		}
	}
	if p.more <= reading {
		p.more = 0
	}
}

// hasMoved is true of whoever memory may still take for waiting. Callers hold mu.
func (p *polls) hasMoved(entry EntryID) bool {
	_, moved := p.moved[entry]
	return moved || p.more > 0
}

type poller struct {
	seq     Seq
	least   int64 // the least position that was told; 0: none
	renewed time.Time
}

// find is what is known of an entry at a sequence, made where there is nothing.
// Callers hold mu.
func (p *polls) find(entry EntryID, seq Seq) *poller {
	if known := p.young[entry]; known != nil && known.seq == seq {
		return known
	}
	known := p.old[entry]
	if known == nil || known.seq != seq {
		known = &poller{seq: seq}
	}
	if len(p.young) >= pollsMost {
		p.old, p.young = p.young, nil
	}
	if p.young == nil {
		p.young = make(map[EntryID]*poller)
	}
	p.young[entry] = known
	return known
}

// seq is the last sequence that is known of an entry; 0: none. Callers hold mu.
func (p *polls) seq(entry EntryID) Seq {
	for _, generation := range []map[EntryID]*poller{p.young, p.old} {
		if known := generation[entry]; known != nil {
			return known.seq
		}
	}
	return 0
}

// renew sees to it that the store hears of whoever polls, and is false where there
// is no room for one more. Callers hold mu.
func (p *polls) renew(c placeCall, now time.Time, every time.Duration) bool {
	known := p.find(c.entry, c.seq)
	if !known.renewed.IsZero() && now.Sub(known.renewed) < every {
		return true
	}
	if len(p.due) >= dueMost {
		return false
	}
	if len(p.due) == 0 {
		p.since = now
	}
	p.due = append(p.due, c)
	known.renewed = now
	return true
}

// take is the next batch that is to be renewed; empty while it may still grow.
func (p *polls) take(now time.Time) []placeCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.due) < dueBatch && (len(p.due) == 0 || now.Sub(p.since) < dueEvery) {
		return nil
	}
	n := min(len(p.due), dueBatch)
	batch := p.due[:n:n]
	if p.due = p.due[n:]; len(p.due) == 0 {
		p.due = nil
	}
	return batch
}

// putBack returns a batch that the store did not take.
func (p *polls) putBack(batch []placeCall, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.due) == 0 {
		p.since = now
	}
	p.due = append(p.due, batch...)
}

// answered notes what the store said of somebody who waits.
func (p *polls) answered(entry EntryID, seq Seq, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.find(entry, seq).renewed = now
}

// shown is the least position told of an entry at a sequence, with this one.
func (p *polls) shown(entry EntryID, seq Seq, pos int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.find(entry, seq)
	if known.least == 0 || pos < known.least {
		known.least = pos
	}
	return known.least
}

// Place says where the holder of a receipt stands, as Line.Place does. Of somebody
// who waits it answers from memory, without the store, which hears of them a few
// times in their grace and many at once. It asks the store about everybody else, and
// while the view is not level. Errors as Line.Place.
func (v *View) Place(ctx context.Context, event EventID, token string) (Place, error) {
	rc, err := v.line.readReceipt(event, token)
	if err != nil {
		return Place{}, fmt.Errorf("place: %w", err)
	}
	return v.poll(ctx, event, rc.call())
}

// PlaceOf says where one of the site's own subjects stands, as Place does; the first
// time, the store is asked.
func (v *View) PlaceOf(ctx context.Context, event EventID, subject string) (Place, error) {
	return v.poll(ctx, event, placeCall{entry: v.line.entryOf(event, subject), subject: subject})
}

func (v *View) poll(ctx context.Context, event EventID, c placeCall) (Place, error) {
	f := v.follower(event)
	if f != nil {
		if p, ok := f.remembered(c, time.Now()); ok {
			return p, nil
		}
	}
	p, err := v.line.poll(ctx, event, c)
	if err == nil && f != nil && p.State == EntryWaiting {
		f.polls.answered(p.Entry, p.Seq, time.Now())
	}
	return p, err
}

// Shown is the position to show to an entry that stands at pos: the least that this
// node has shown it at this sequence, so that nobody who polls is moved back by a
// place that another one got back. It remembers as many as are bounded by pollsMost.
func (v *View) Shown(event EventID, entry EntryID, seq Seq, pos int64) int64 {
	f := v.follower(event)
	if f == nil {
		return pos
	}
	return f.polls.shown(entry, seq, pos)
}

// remembered answers from memory about somebody who is known to wait; false where
// only the store can tell.
func (f *follower) remembered(c placeCall, now time.Time) (Place, bool) {
	grace, exact := f.exact()
	if !exact || c.member != "" { // who is in a party, only the store knows
		return Place{}, false
	}
	f.polls.mu.Lock()
	defer f.polls.mu.Unlock()
	if f.polls.hasMoved(c.entry) {
		return Place{}, false
	}
	if c.seq == 0 {
		c.seq = f.polls.seq(c.entry)
	}
	if _, waits := f.position(c.seq); !waits || !f.polls.renew(c, now, grace/renewals) {
		return Place{}, false
	}
	return Place{
		Event: f.id, Entry: c.entry, Seq: c.seq, State: EntryWaiting,
		Receipt: f.line.signer.sign(receipt{Event: f.id, Entry: c.entry, Seq: c.seq, Mobile: c.mobile}),
	}, true
}

// exact says whether memory is what the store has, but for a moment, and what the
// shortest grace is. Where nobody waits in a line, or the lobby's order is still to
// come, it never is.
func (f *follower) exact() (grace time.Duration, exact bool) {
	s := &f.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	grace = time.Duration(min(s.event.Grace, s.event.GraceMobile))
	lines := (s.event.Mode == "" || s.event.Mode == "queue") && !s.event.Undrawn()
	if s.event.Party.Size > 0 && s.event.drawPhase != drawDone { // a person's place may be their party's by now
		lines = false
	}
	return grace, lines && s.level && s.known && time.Since(s.heard) < viewRefresh
}

// follows has f hear of those whom this process moves. The last who follows an event
// with l hears of them.
func (l *Line) follows(f *follower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.followers[f.id] = f
}

func (l *Line) unfollows(f *follower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.followers[f.id] == f {
		delete(l.followers, f.id)
	}
}

// moved tells this process's own view of those who have just left the line.
func (l *Line) moved(event EventID, entries ...EntryID) {
	l.mu.Lock()
	f := l.followers[event]
	l.mu.Unlock()
	if f != nil && len(entries) > 0 {
		f.polls.move(entries...)
	}
}

// over tells this process's own view of a grant that it has ended.
func (l *Line) over(event EventID, jti string, state EntryState) {
	l.mu.Lock()
	f := l.followers[event]
	l.mu.Unlock()
	if f != nil {
		f.verdicts.end(jti, state)
	}
}

// admitted is moved for those who were let in.
func (l *Line) admitted(event EventID, grants []Grant) {
	entries := make([]EntryID, len(grants))
	for i, g := range grants {
		entries[i] = g.Entry
	}
	l.moved(event, entries...)
}

// renew renews the graces that are due, as far as one call goes.
func (f *follower) renew(ctx context.Context) error {
	batch := f.polls.take(time.Now())
	if len(batch) == 0 {
		return nil
	}
	if _, err := f.line.sendPlaces(ctx, f.id, batch); err != nil {
		f.polls.putBack(batch, time.Now())
		return err
	}
	return nil
}
