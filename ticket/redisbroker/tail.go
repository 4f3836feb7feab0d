package redisbroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/relay"
)

// Listener is told each outcome; it must not block.
type Listener interface {
	Outcome(o ticket.Outcome)
}

// TailConfig says how a tail works. The zero value of a field is its default.
type TailConfig struct {
	// Prefix is the key prefix. Default "wr".
	Prefix string
	// Block is how long one read waits in the store, so how long a stop may take.
	// Default 500ms.
	Block time.Duration
	// Batch is the most messages of one read. Default 500.
	Batch int64
}

// Tail tells this node every outcome. A tail is no member of a group: each node
// sees them all.
type Tail struct {
	cfg     TailConfig
	rdb     redis.UniversalClient
	keys    keys
	lis     Listener
	log     *zap.Logger
	told    prometheus.Counter
	skipped prometheus.Counter
}

// NewTail makes a tail; Run starts it.
func NewTail(cfg TailConfig, rdb redis.UniversalClient, lis Listener, log *zap.Logger, reg prometheus.Registerer) (*Tail, error) {
	cfg.Prefix = cmp.Or(cfg.Prefix, "wr")
	cfg.Block = cmp.Or(cfg.Block, 500*time.Millisecond)
	cfg.Batch = cmp.Or(cfg.Batch, 500)
	if cfg.Block < time.Millisecond || cfg.Block > 5*time.Second {
		return nil, fmt.Errorf("redis tail: block %s: must be 1ms to 5s", cfg.Block)
	}
	if cfg.Batch < 1 {
		return nil, fmt.Errorf("redis tail: batch %d: must be positive", cfg.Batch)
	}
	t := &Tail{
		cfg: cfg, rdb: rdb, keys: newKeys(cfg.Prefix), lis: lis, log: log.Named("tail"),
		told: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "waitroom", Subsystem: "tail", Name: "outcomes_total", Help: "Outcomes told to this node.",
		}),
		skipped: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "waitroom", Subsystem: "tail", Name: "unreadable_total", Help: "Messages whose payload is no outcome.",
		}),
	}
	for _, c := range []prometheus.Collector{t.told, t.skipped} {
		if reg == nil {
			break
		}
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register tail metrics: %w", err)
		}
	}
	return t, nil
}

// Run tells outcomes from now on until ctx ends.
func (t *Tail) Run(ctx context.Context) error {
	at := "" // the last record we saw; "" is not known yet
	var anchored time.Time
	failures := 0
	for ctx.Err() == nil {
		var err error
		if at == "" || time.Since(anchored) > reanchor {
			if at, err = t.anchor(ctx, at); err == nil {
				anchored = time.Now()
			}
		}
		if err == nil {
			at, err = t.read(ctx, at)
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

// reanchor is how often the tail checks that it reads a log that still exists. A
// store that lost its data need not show it by an error: the client sends a
// command again by itself.
const reanchor = 5 * time.Second

// anchor says where to read on: at the log's end when the tail starts, after that
// where it was. A log whose end lies before that is a new one (the store lost its
// data) and is read from its beginning.
func (t *Tail) anchor(ctx context.Context, at string) (string, error) {
	last, err := t.rdb.XRevRangeN(ctx, t.keys.log, "+", "-", 1).Result()
	if err != nil {
		return at, wrap("find the log's end", err)
	}
	end := "0-0"
	if len(last) > 0 {
		end = last[0].ID
	}
	switch {
	case at == "":
		return end, nil
	case before(end, at):
		return "0-0", nil
	default:
		return at, nil
	}
}

func (t *Tail) read(ctx context.Context, at string) (string, error) {
	res, err := t.rdb.XRead(ctx, &redis.XReadArgs{
		Streams: []string{t.keys.log, at}, Count: t.cfg.Batch, Block: t.cfg.Block,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return at, nil
	}
	if err != nil {
		return at, wrap("read the log", err)
	}
	for _, s := range res {
		for _, x := range s.Messages {
			at = x.ID
			t.tell(x)
		}
	}
	return at, nil
}

func (t *Tail) tell(x redis.XMessage) {
	m := messageOf(x)
	o, is, err := relay.OutcomeOf(m)
	if !is {
		return
	}
	if err != nil {
		t.skipped.Inc()
		t.log.Error("outcome unreadable", zap.String("id", x.ID), zap.String("topic", m.Topic), zap.Error(err))
		return
	}
	t.told.Inc()
	t.lis.Outcome(o)
}

// before says whether record id a is older than b.
func before(a, b string) bool {
	am, as := split(a)
	bm, bs := split(b)
	return am < bm || am == bm && as < bs
}

func split(id string) (ms, seq uint64) {
	m, s, _ := strings.Cut(id, "-")
	ms, _ = strconv.ParseUint(m, 10, 64)
	seq, _ = strconv.ParseUint(s, 10, 64)
	return ms, seq
}
