package waitroom

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom/rank"
)

// lineBatch is how many of a line are read in one call: about 3 ms of the store.
const lineBatch = 5000

// apply takes records over into what is known, and tells the listener: of a change
// of the event before those who were let in after it. It is false when the line must
// be read anew; the cursor is then behind what was taken over, and behind a record
// that was bad.
func (f *follower) apply(ctx context.Context, msgs []redis.XMessage) bool {
	r := &f.reader
	var granted []Grant
	var departed []Departure
	var numbered []Result
	var ended []End
	var parties []change
	whole := true
	for _, msg := range msgs {
		id, err := parseStreamID(msg.ID)
		var rec feedRecord
		if err == nil {
			rec, err = parseFeed(f.id, msg.Values)
		}
		if err == nil && f.ahead(rec.base) {
			if id != r.epoch {
				f.breakUp("new epoch", zap.Int64("base", rec.base))
				r.epoch, r.loadAfter = id, time.Time{}
				whole = false
				break
			}
			err = errFeed // the line was read since, and is not of this epoch
		}
		if err == nil {
			err = f.take(rec)
		}
		r.at = cursor{id: id, anchored: true}
		if err != nil {
			f.breakUp("bad record", zap.String("record", msg.ID), zap.Error(err))
			whole = false
			break
		}
		r.dirty = r.dirty || rec.version
		granted = append(granted, rec.granted...)
		departed = append(departed, rec.gone()...)
		parties = append(parties, rec.parties...)
		ended = append(ended, rec.ended...)
		numbered = append(numbered, rec.numbered...)
	}
	if r.dirty && len(granted) > 0 {
		_ = f.refresh(ctx) // it is still due if it fails, and nobody waits for it to hear of a turn
	}
	for _, e := range ended {
		f.verdicts.end(e.JTI, e.State)
	}
	if f.lis != nil && len(granted) > 0 {
		f.lis.Admitted(f.id, granted)
	}
	if f.lis != nil && len(departed) > 0 {
		f.lis.Departed(f.id, departed)
	}
	if lis, ok := f.lis.(PartyListener); ok && len(parties) > 0 {
		lis.Parties(f.id, whoChanged(parties))
	}
	if lis, ok := f.lis.(EndedListener); ok && len(ended) > 0 {
		lis.Ended(f.id, ended)
	}
	if lis, ok := f.lis.(NumberedListener); ok && len(numbered) > 0 {
		lis.Numbered(f.id, numbered)
	}
	return whole
}

// ahead is true for a record of an epoch after the one that is loaded or loading.
func (f *follower) ahead(base int64) bool {
	r := &f.reader
	if r.loading != nil {
		return base > r.base
	}
	return f.state.places != nil && base > f.state.base // only run writes these
}

// take takes one record over: all of it or, with an error, a part, which a repair
// makes good.
func (f *follower) take(rec feedRecord) error {
	r, s := &f.reader, &f.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.loading != nil {
		if err := r.loading.take(rec); err != nil {
			return err
		}
	}
	if s.places != nil {
		// A line that is about to be replaced goes on as well as it can.
		if err := s.places.take(rec); err != nil && !r.broken && r.loading == nil {
			return err
		}
	}
	for _, g := range rec.granted {
		s.laneOf(g.Seq).outlook.Admit(rec.moment, g.Seq)
	}
	for _, d := range rec.departed {
		s.laneOf(d.Seq).outlook.Depart(d.Seq)
	}
	if rec.moment > s.event.Now.UnixMilli() { // else the counts were read after it
		in, out := int64(len(rec.granted)), int64(len(rec.departed))
		s.event.Waiting = max(0, s.event.Waiting-in-out+int64(len(rec.returned)))
		s.event.Inside = max(0, s.event.Inside+in-int64(len(rec.ended)))
		s.event.Admitted += in
		s.countLanes(rec)
	}
	return nil
}

// load reads the line from the store in bounded pieces, and the feed between them,
// so that nobody waits for it to hear of an admission. At the end it takes the
// place of what was known. Without an error and with the reader still broken, it
// was given up, and is to be done again.
//
// Why this is right: each piece, and each record, is absolute, and a piece is newer
// than every record read before it. Whoever changed after a piece is in a record
// that is read after it. So the last word on each sequence is the newest.
func (f *follower) load(ctx context.Context) error {
	r, s := &f.reader, &f.state
	began := time.Now()
	if began.Sub(r.loadedAt) > time.Minute {
		r.loads.reset()
	}
	lanes := max(1, len(s.event.Lanes)) // only run writes it
	tail, err := f.line.feedTail(ctx, f.id, lanes)
	if err != nil {
		return err
	}
	next, err := newPlaces(tail)
	if err != nil {
		return unavailable(err)
	}
	// What the feed still has of what was missed is read too: its admissions are news.
	if r.at.id == (streamID{}) || tail.last.before(r.at.id) {
		r.at.id = tail.last
	}
	r.at.anchored = r.at.id == tail.last && tail.last != streamID{}
	r.broken, r.loading, r.base = false, next, tail.base
	defer func() { r.loading = nil }()
	for lane := range next {
		if err := f.loadLane(ctx, next, lane, tail.lanes[lane]); err != nil {
			r.broken = true
			return err
		}
		if r.broken {
			return nil
		}
	}
	s.mu.Lock()
	s.places, s.base = next, tail.base
	s.mu.Unlock()
	r.loadedAt = time.Now()
	r.loadAfter = r.loadedAt.Add(r.loads.next())
	for _, lane := range tail.lanes {
		f.line.saw(f.id, Seq(lane.seq))
	}
	f.log.Debug("line loaded", zap.Duration("took", r.loadedAt.Sub(began)))
	return nil
}

// loadLane reads one lane; the reader is broken afterwards if the feed was.
func (f *follower) loadLane(ctx context.Context, next places, lane int, tail laneTail) error {
	last, seq := time.Now(), int64(lane)*laneSpan
	if len(next) == 1 {
		seq = 0
	}
	for more := true; more; {
		seqs, err := f.line.lineAfter(ctx, f.id, seq, next.limit(lane), lineBatch)
		if err != nil {
			return err
		}
		if more = len(seqs) == lineBatch; more {
			err = place(next[lane], tail.base, seq, seqs, seqs[len(seqs)-1])
			seq = seqs[len(seqs)-1]
		} else {
			err = place(next[lane], tail.base, seq, seqs, tail.seq)
		}
		if err != nil {
			return unavailable(err)
		}
		if time.Since(last) >= viewPoll {
			last = time.Now()
			if _, err := f.tend(ctx); err != nil || f.reader.broken {
				return err
			}
		}
	}
	return nil
}

// place notes in line that seqs wait, and that nobody else does who has a sequence
// after the one given and up to last.
func place(line *rank.Line, base, after int64, seqs []int64, last int64) error {
	free := max(after, base) + 1 // the first sequence of the window not yet decided
	for _, seq := range seqs {
		if seq > base {
			if err := line.DepartRange(free, seq); err != nil {
				return err
			}
			free = seq + 1
		}
		if _, err := line.Return(seq); err != nil {
			return err
		}
	}
	return line.DepartRange(free, last+1)
}
