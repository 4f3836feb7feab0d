package redisbroker

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waitroom-dev/waitroom/ticket"
)

// Log reads what the broker holds, for an audit.
type Log struct {
	rdb  redis.UniversalClient
	keys keys
}

var _ ticket.BrokerLog = (*Log)(nil)

// NewLog makes a reader of the log under a key prefix, "" for the default "wr".
func NewLog(prefix string, rdb redis.UniversalClient) *Log {
	return &Log{rdb: rdb, keys: newKeys(cmp.Or(prefix, "wr"))}
}

// logBatch is the most records of one read.
const logBatch = 1000

// Records calls each for every record that the log holds when it is called,
// oldest first.
func (l *Log) Records(ctx context.Context, each func(ticket.LogRecord)) error {
	end, err := l.rdb.XRevRangeN(ctx, l.keys.log, "+", "-", 1).Result()
	if err != nil {
		return wrap("find the log's end", err)
	}
	if len(end) == 0 {
		return nil
	}
	for from := "-"; ; {
		batch, err := l.rdb.XRangeN(ctx, l.keys.log, from, end[0].ID, logBatch).Result()
		if err != nil {
			return wrap("read the log", err)
		}
		for _, x := range batch {
			m := messageOf(x)
			ms, _ := split(x.ID)
			each(ticket.LogRecord{Event: m.Event, DedupID: m.DedupID, Key: m.Key, Topic: m.Topic, At: time.UnixMilli(int64(ms))}) //nolint:gosec // a time of this age
		}
		if len(batch) < logBatch {
			return nil
		}
		from = fmt.Sprintf("(%s", batch[len(batch)-1].ID)
	}
}
