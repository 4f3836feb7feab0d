package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/relay"
)

// Tail shows this node every message. A tail is no member of a group: each node
// sees them all.
type Tail struct {
	address Address
	each    func(relay.Message)
	log     *zap.Logger
}

// NewTail makes a tail that calls each for every message, which must not block.
// Run starts it.
func NewTail(a Address, each func(relay.Message), log *zap.Logger) *Tail {
	return &Tail{address: a, each: each, log: log.Named("tail")}
}

// Run shows messages from now on until ctx ends.
func (t *Tail) Run(ctx context.Context) error {
	// Only where it begins is the end: after a loss it reads what is there.
	client, err := t.address.client(
		kgo.ConsumeTopics(t.address.topic()), kgo.ConsumeStartOffset(kgo.NewOffset().AtEnd()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500*time.Millisecond),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	made := false
	for failures := 0; ctx.Err() == nil; {
		if !made {
			err = ensure(ctx, client, t.address.topic(), t.address.Partitions)
			made = err == nil
		}
		if made {
			fetches := client.PollRecords(ctx, 500)
			fetches.EachRecord(func(r *kgo.Record) { t.each(messageOf(r)) })
			err = fetches.Err()
		}
		if err == nil {
			failures = 0
			continue
		}
		if ctx.Err() == nil {
			failures++
			t.log.Warn("broker away", zap.Int("failures", failures), zap.Error(err))
			pause(ctx, backoff(failures))
		}
	}
	return nil
}

// Log reads what the topic holds, for an audit.
type Log struct{ address Address }

var _ ticket.BrokerLog = Log{}

// NewLog makes a reader of the topic; it connects when it is asked.
func NewLog(a Address) Log { return Log{a} }

// Records calls each for every message that the topic holds when it is called, in
// the order of each partition.
func (l Log) Records(ctx context.Context, each func(ticket.LogRecord)) error {
	client, err := l.address.client()
	if err != nil {
		return err
	}
	defer client.Close()
	admin, topic := kadm.NewClient(client), l.address.topic()
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return fmt.Errorf("kafka: where the topic begins: %w", err)
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return fmt.Errorf("kafka: where the topic ends: %w", err)
	}
	if err := errors.Join(starts.Error(), ends.Error()); err != nil {
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			return nil
		}
		return fmt.Errorf("kafka: %w", err)
	}
	left := map[int32]int64{} // partition: where to stop
	from := map[int32]kgo.Offset{}
	ends.Each(func(end kadm.ListedOffset) {
		if begin, ok := starts.Lookup(topic, end.Partition); ok && begin.Offset < end.Offset {
			left[end.Partition], from[end.Partition] = end.Offset, kgo.NewOffset().At(begin.Offset)
		}
	})
	if len(left) == 0 {
		return nil
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})
	for len(left) > 0 {
		fetches := client.PollRecords(ctx, 1000)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("kafka: read the topic: %w", err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, reading := left[r.Partition]
			if !reading || r.Offset >= end {
				return
			}
			m := messageOf(r)
			each(ticket.LogRecord{Event: m.Event, DedupID: m.DedupID, Key: m.Key, Topic: m.Topic, At: r.Timestamp})
			if r.Offset+1 >= end {
				delete(left, r.Partition)
			}
		})
	}
	return nil
}
