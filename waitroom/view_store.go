package waitroom

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/waitroom-dev/waitroom/waitroom/rank"
)

// What a view reads from the store. Nothing here writes.

// eventIDs is the ids of all events.
func (l *Line) eventIDs(ctx context.Context) ([]EventID, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	names, err := l.rdb.SMembers(ctx, l.keys.index()).Result()
	if err != nil {
		return nil, unavailable(err)
	}
	ids := make([]EventID, 0, len(names))
	for _, n := range names {
		ids = append(ids, EventID(n))
	}
	return ids, nil
}

// feedRead reads at most n records of an event's feed: from the one with the id on
// if that must be there, else those after it.
func (l *Line) feedRead(ctx context.Context, event EventID, at cursor, n int64) ([]redis.XMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	start := at.id.String()
	if !at.anchored {
		start = "(" + start
	}
	msgs, err := l.rdb.XRangeN(ctx, l.keys.feed(event), start, "+", n).Result()
	if err != nil {
		return nil, unavailable(err)
	}
	return msgs, nil
}

// feedTail is where a feed and a line's counter are.
type feedTail struct {
	last streamID // of the newest record; zero without any
	base int64
	// lanes are the base and the newest sequence given, or later, of each lane; an event
	// without lanes has one.
	lanes []laneTail
}

type laneTail struct{ base, seq int64 }

// feedTail reads the feed's end first and the counters after it: whoever is gone by
// the time of the counter is in the line no longer or in the feed behind the end.
func (l *Line) feedTail(ctx context.Context, event EventID, lanes int) (feedTail, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	newest, err := l.rdb.XRevRangeN(ctx, l.keys.feed(event), "+", "-", 1).Result()
	if err != nil {
		return feedTail{}, unavailable(err)
	}
	names := []string{"base", "seq"}
	for lane := 1; lane < lanes; lane++ {
		names = append(names, "seq:"+strconv.Itoa(lane))
	}
	meta, err := l.rdb.HMGet(ctx, l.keys.meta(event), names...).Result()
	if err != nil {
		return feedTail{}, unavailable(err)
	}
	fields := make([]string, len(meta))
	for i := range meta {
		var ok bool
		if fields[i], ok = meta[i].(string); !ok && i < 2 {
			return feedTail{}, fmt.Errorf("event %s: %w", event, ErrNoEvent)
		}
	}
	n, err := numbers(fields[:2]...)
	if err != nil {
		return feedTail{}, err
	}
	t := feedTail{base: n[0], lanes: []laneTail{{n[0], n[1]}}}
	for lane := 1; lane < lanes; lane++ {
		at := laneTail{base: int64(lane)*laneSpan + t.base, seq: int64(lane)*laneSpan + t.base}
		if fields[lane+1] != "" { // a lane in which nobody has been has none
			if n, err = numbers(fields[lane+1]); err != nil {
				return feedTail{}, err
			}
			at.seq = n[0]
		}
		t.lanes = append(t.lanes, at)
	}
	if len(newest) > 0 {
		if t.last, err = parseStreamID(newest[0].ID); err != nil {
			return feedTail{}, err
		}
	}
	return t, nil
}

// errScore is a member of a line whose score is no sequence.
var errScore = errors.New("score is no sequence")

// lineAfter is at most n sequences of those who wait, from the first after seq and below
// the limit (0: none).
func (l *Line) lineAfter(ctx context.Context, event EventID, seq, limit, n int64) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	most := "+inf"
	if limit > 0 {
		most = "(" + strconv.FormatInt(limit, 10)
	}
	zs, err := l.rdb.ZRangeByScoreWithScores(ctx, l.keys.line(event), &redis.ZRangeBy{
		Min: "(" + strconv.FormatInt(seq, 10), Max: most, Count: n,
	}).Result()
	if err != nil {
		return nil, unavailable(err)
	}
	seqs := make([]int64, len(zs))
	for i, z := range zs {
		if z.Score != math.Trunc(z.Score) || z.Score <= float64(seq) || z.Score > rank.MaxSeq {
			return nil, fmt.Errorf("line of %s at %v: %w", event, z.Score, errScore)
		}
		seqs[i] = int64(z.Score)
		seq = seqs[i]
	}
	return seqs, nil
}
