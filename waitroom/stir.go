package waitroom

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

const (
	// viewIdle is how often an event is looked at in which nothing can happen but by
	// an operator, or at a time that is known. It is less than a third of
	// HeartbeatTTL.
	viewIdle = 4 * time.Second
	// viewStir is how often a view that has such events asks whether an operator has
	// stirred one: one command for all of them together.
	viewStir = 100 * time.Millisecond
	// stirsLength is how many stirs are kept for views to read. Whoever misses one
	// sees what it told of within viewIdle.
	stirsLength = 1000
)

// stir has every view look at an event at once. It is a hint, and may fail.
func (l *Line) stir(ctx context.Context, id EventID) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	err := l.rdb.XAdd(ctx, &redis.XAddArgs{
		Stream: l.keys.stirs(), MaxLen: stirsLength, Approx: true, Values: []any{"event", string(id)},
	}).Err()
	if err != nil {
		l.log.Debug("event not stirred", zap.String("event", string(id)), zap.Error(err))
	}
}

// lastStir is where the stirs end.
func (l *Line) lastStir(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	newest, err := l.rdb.XRevRangeN(ctx, l.keys.stirs(), "+", "-", 1).Result()
	if err != nil {
		return "", unavailable(err)
	}
	if len(newest) == 0 {
		return "0-0", nil
	}
	return newest[0].ID, nil
}

// stirred are the events stirred after a stir, and the last of these.
func (l *Line) stirred(ctx context.Context, after string) (ids []EventID, last string, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	msgs, err := l.rdb.XRangeN(ctx, l.keys.stirs(), "("+after, "+", stirsLength).Result()
	if err != nil {
		return nil, after, unavailable(err)
	}
	for _, m := range msgs {
		id, _ := m.Values["event"].(string)
		ids, after = append(ids, EventID(id)), m.ID
	}
	return ids, after, nil
}

// listen wakes the followers of idle events that somebody stirs, until ctx ends.
func (v *View) listen(ctx context.Context) {
	last := ""
	tick := time.NewTicker(viewStir)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !v.idles() {
			last = "" // what was stirred meanwhile was seen by itself
			continue
		}
		if last == "" {
			var err error
			if last, err = v.line.lastStir(ctx); err != nil {
				last = ""
				continue
			}
			v.kick(nil) // what was stirred just before
			continue
		}
		ids, upTo, err := v.line.stirred(ctx, last)
		if err != nil {
			continue // whoever does not hear of it looks by itself
		}
		last = upTo
		if len(ids) > 0 {
			v.kick(ids)
		}
	}
}

// idles is true while some event is idle.
func (v *View) idles() bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, f := range v.followers {
		if f.idle.Load() {
			return true
		}
	}
	return false
}

// kick has these events looked at, or all that are idle if there are none.
func (v *View) kick(ids []EventID) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if ids == nil {
		for id, f := range v.followers {
			if f.idle.Load() {
				ids = append(ids, id)
			}
		}
	}
	for _, id := range ids {
		if f := v.followers[id]; f != nil {
			select {
			case f.kicked <- struct{}{}:
			default:
			}
		}
	}
}

// rest is how long the follower may leave its event alone: viewPoll, unless nothing
// can happen in it. An event that is closed and empty stays so until an operator
// stirs it; one that is scheduled, until the next of its times.
func (f *follower) rest() time.Duration {
	s := &f.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.level || s.event.Waiting > 0 || s.event.Inside > 0 {
		return viewPoll
	}
	switch s.event.State {
	case Closed:
		return viewIdle
	case Scheduled:
		rest := viewIdle
		for _, at := range []*time.Time{s.event.LobbyOpensAt, s.event.OpensAt, s.event.ClosesAt} {
			if at != nil {
				rest = min(rest, max(at.Sub(s.moment()), viewPoll))
			}
		}
		return rest
	case Lobby, Open, Paused, Draining:
	}
	return viewPoll
}
