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
	seq  int64 // the newest sequence given, or later
}

// feedTail reads the feed's end first and the counter after it: whoever is gone by
// the time of the counter is in the line no longer or in the feed behind the end.
func (l *Line) feedTail(ctx context.Context, event EventID) (feedTail, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	newest, err := l.rdb.XRevRangeN(ctx, l.keys.feed(event), "+", "-", 1).Result()
	if err != nil {
		return feedTail{}, unavailable(err)
	}
	meta, err := l.rdb.HMGet(ctx, l.keys.meta(event), "base", "seq").Result()
	if err != nil {
		return feedTail{}, unavailable(err)
	}
	base, okBase := meta[0].(string)
	seq, okSeq := meta[1].(string)
	if !okBase || !okSeq {
		return feedTail{}, fmt.Errorf("event %s: %w", event, ErrNoEvent)
	}
	n, err := numbers(base, seq)
	if err != nil {
		return feedTail{}, err
	}
	t := feedTail{base: n[0], seq: n[1]}
	if len(newest) > 0 {
		if t.last, err = parseStreamID(newest[0].ID); err != nil {
			return feedTail{}, err
		}
	}
	return t, nil
}

// errScore is a member of a line whose score is no sequence.
var errScore = errors.New("score is no sequence")

// lineAfter is at most n sequences of those who wait, from the first after seq.
func (l *Line) lineAfter(ctx context.Context, event EventID, seq int64, n int64) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	zs, err := l.rdb.ZRangeByScoreWithScores(ctx, l.keys.line(event), &redis.ZRangeBy{
		Min: "(" + strconv.FormatInt(seq, 10), Max: "+inf", Count: n,
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
