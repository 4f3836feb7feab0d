package waitroom

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// archivist is the consumer group of the archives: each record goes to one of its
// members, and stays pending until it is filed.
const archivist = "archivist"

// Given is a token that was given out in mode instant, on its way to a database.
type Given struct {
	Grant
	Rank int64
}

// Batch is what one call of Unfiled found.
type Batch struct {
	Event EventID
	// Records are the ids for Filed.
	Records []string
	Given   []Given
}

// Archives are the events whose archive may hold something, deleted ones too.
// Errors: ErrUnavailable.
func (l *Line) Archives(ctx context.Context) ([]EventID, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	names, err := l.rdb.SMembers(ctx, l.keys.archives()).Result()
	if err != nil {
		return nil, fmt.Errorf("archives: %w", unavailable(err))
	}
	ids := make([]EventID, len(names))
	for i, name := range names {
		ids[i] = EventID(name)
	}
	return ids, nil
}

// Unfiled takes the next records of an event's archive, at most limit: those that
// another member took idle ago and did not file, then new ones. An event that is
// gone and has nothing left is taken off the list. Errors: ErrUnavailable.
func (l *Line) Unfiled(ctx context.Context, event EventID, limit int, idle time.Duration) (Batch, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	b := Batch{Event: event}
	msgs, err := l.unfiled(ctx, event, limit, idle)
	if redis.HasErrorPrefix(err, "NOGROUP") { // the first time, or the store has lost it
		err = l.rdb.XGroupCreateMkStream(ctx, l.keys.archive(event), archivist, "0").Err()
		if err == nil || redis.HasErrorPrefix(err, "BUSYGROUP") {
			msgs, err = l.unfiled(ctx, event, limit, idle)
		}
	}
	if err != nil {
		return b, fmt.Errorf("archive of %s: %w", event, unavailable(err))
	}
	for _, m := range msgs {
		b.Records = append(b.Records, m.ID)
		text, _ := m.Values["l"].(string)
		for line := range strings.SplitSeq(text, "\n") {
			rank, rest, _ := strings.Cut(line, " ")
			n, err := numbers(rank)
			if err != nil {
				return b, fmt.Errorf("archive of %s: %w", event, err)
			}
			g, err := parseGrant(event, rest)
			if err != nil {
				return b, fmt.Errorf("archive of %s: %w", event, err)
			}
			b.Given = append(b.Given, Given{Grant: g, Rank: n[0]})
		}
	}
	if len(msgs) == 0 {
		return b, l.foldArchive(ctx, event)
	}
	return b, nil
}

func (l *Line) unfiled(ctx context.Context, event EventID, limit int, idle time.Duration) ([]redis.XMessage, error) {
	key := l.keys.archive(event)
	msgs, _, err := l.rdb.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: key, Group: archivist, Consumer: l.cfg.Node, MinIdle: idle, Start: "0", Count: int64(limit),
	}).Result()
	if err != nil || len(msgs) > 0 {
		return msgs, err
	}
	streams, err := l.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: archivist, Consumer: l.cfg.Node, Streams: []string{key, ">"}, Count: int64(limit), Block: -1,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return streams[0].Messages, nil
}

// Filed takes records out of an event's archive: a database has them. Harmless if
// repeated. Errors: ErrUnavailable.
func (l *Line) Filed(ctx context.Context, event EventID, records []string) error {
	if len(records) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	key := l.keys.archive(event)
	_, err := l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.XAck(ctx, key, archivist, records...)
		p.XDel(ctx, key, records...)
		return nil
	})
	if err != nil {
		return fmt.Errorf("archive of %s: %w", event, unavailable(err))
	}
	return nil
}

// foldArchive takes an event that is gone off the list, once nothing of it is left.
func (l *Line) foldArchive(ctx context.Context, event EventID) error {
	r, err := l.call(ctx, scriptFold, event, []string{l.keys.archive(event)})
	if err != nil || r.outcome != outcomeDone {
		return err
	}
	if err := l.rdb.SRem(ctx, l.keys.archives(), string(event)).Err(); err != nil {
		return unavailable(err)
	}
	return nil
}

// listArchive puts an event on the list, where its tokens are to be archived.
func (l *Line) listArchive(ctx context.Context, s Settings) error {
	if s.Mode != ModeInstant {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	if err := l.rdb.SAdd(ctx, l.keys.archives(), string(s.ID)).Err(); err != nil {
		return fmt.Errorf("archive of %s: %w", s.ID, unavailable(err))
	}
	return nil
}
