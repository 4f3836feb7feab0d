package redisbroker

import (
	"cmp"
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket/relay"
)

//go:embed bury.lua
var buryLua string

var buryScript = redis.NewScript(buryLua)

// ConsumerConfig says how a consumer works. The zero value of a field is its default.
type ConsumerConfig struct {
	// Prefix is the key prefix. Default "wr".
	Prefix string
	// Group is the group's name; its consumers share the messages. Required.
	Group string
	// Name is this consumer's name in the group. Default random.
	Name string
	// Topics are those that are handled; the others are acknowledged unseen.
	// Empty is all.
	Topics []string
	// Concurrency is the most messages handled at a time. Default 32. At the
	// bound nothing more is read.
	Concurrency int
	// HandleTimeout bounds the handling of one message. Default 20s.
	HandleTimeout time.Duration
	// MinIdle is how long a message is pending before it is delivered again, to
	// whoever is there. Default 30s; more than HandleTimeout.
	MinIdle time.Duration
	// MaxDeliveries is how often a message is delivered before it is a dead
	// letter. Default 10.
	MaxDeliveries int64
	// DeadLen is about the most dead letters kept, oldest dropped. Default 10,000.
	DeadLen int64
	// Block is how long one read waits in the store, so how long a stop may take
	// with nothing to handle. Default 500ms.
	Block time.Duration
	// Drain is how long messages in hand may go on after ctx ended. Default 5s.
	Drain time.Duration
}

func (c ConsumerConfig) withDefaults() ConsumerConfig {
	c.Prefix = cmp.Or(c.Prefix, "wr")
	c.Name = cmp.Or(c.Name, fmt.Sprintf("c%016x", rand.Uint64()))
	c.Concurrency = cmp.Or(c.Concurrency, 32)
	c.HandleTimeout = cmp.Or(c.HandleTimeout, 20*time.Second)
	c.MinIdle = cmp.Or(c.MinIdle, 30*time.Second)
	c.MaxDeliveries = cmp.Or(c.MaxDeliveries, 10)
	c.DeadLen = cmp.Or(c.DeadLen, 10_000)
	c.Block = cmp.Or(c.Block, 500*time.Millisecond)
	c.Drain = cmp.Or(c.Drain, 5*time.Second)
	return c
}

// Validate reports every wrong field.
func (c ConsumerConfig) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Group == "" {
		errs = append(errs, errors.New("group: must be named"))
	}
	if c.Concurrency < 1 {
		errs = append(errs, fmt.Errorf("concurrency %d: must be positive", c.Concurrency))
	}
	if c.HandleTimeout < 0 || c.MinIdle <= c.HandleTimeout {
		errs = append(errs, fmt.Errorf("min idle %s: must be more than the handle timeout %s", c.MinIdle, c.HandleTimeout))
	}
	if c.MaxDeliveries < 1 {
		errs = append(errs, fmt.Errorf("max deliveries %d: must be positive", c.MaxDeliveries))
	}
	if c.Block < time.Millisecond || c.Block > 5*time.Second {
		errs = append(errs, fmt.Errorf("block %s: must be 1ms to 5s", c.Block))
	}
	return errors.Join(errs...)
}

// Consumer handles the messages of a group, together with the group's others.
type Consumer struct {
	cfg     ConsumerConfig
	rdb     redis.UniversalClient
	keys    keys
	handle  relay.Handler
	log     *zap.Logger
	handled *prometheus.CounterVec
}

// NewConsumer makes a consumer; Run starts it.
func NewConsumer(cfg ConsumerConfig, rdb redis.UniversalClient, h relay.Handler, log *zap.Logger, reg prometheus.Registerer) (*Consumer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("redis consumer: %w", err)
	}
	c := &Consumer{
		cfg: cfg.withDefaults(), rdb: rdb, handle: h, log: log.Named("consumer").With(zap.String("group", cfg.Group)),
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "waitroom", Subsystem: "consumer", Name: "messages_total",
			Help:        "Messages by result: done, failed (to come again), dead.",
			ConstLabels: prometheus.Labels{"group": cfg.Group},
		}, []string{"result"}),
	}
	c.keys = newKeys(c.cfg.Prefix)
	if reg != nil {
		if err := reg.Register(c.handled); err != nil {
			return nil, fmt.Errorf("register consumer metrics: %w", err)
		}
	}
	return c, nil
}

// start is the cursor of a walk over the pending messages that begins, or is done.
const start = "0-0"

// delivery is a message in the hands of this consumer.
type delivery struct {
	id string
	// count is how often the message was delivered, this time included.
	count int64
	msg   redis.XMessage
}

// Run handles messages until ctx ends; messages in hand may then go on for Drain.
func (c *Consumer) Run(ctx context.Context) error {
	hctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	free := make(chan struct{}, c.cfg.Concurrency) // a token for each message in hand
	var hands sync.WaitGroup
	take := func(ds []delivery) {
		for _, d := range ds {
			free <- struct{}{}
			hands.Go(func() {
				defer func() { <-free }()
				c.deliver(hctx, d)
			})
		}
	}
	failures := 0
	var tidied, claimed time.Time
	cursor := start
	for ctx.Err() == nil {
		room, ok := c.room(ctx, free)
		if !ok {
			break
		}
		var ds []delivery
		var err error
		switch {
		case time.Since(tidied) > time.Hour:
			if err = c.tidy(ctx); err == nil {
				tidied = time.Now()
			}
		case time.Since(claimed) > c.cfg.MinIdle/4:
			if ds, cursor, err = c.claim(ctx, cursor, room); err == nil && cursor == start {
				claimed = time.Now()
			}
		default:
			ds, err = c.read(ctx, room)
		}
		if err == nil {
			failures = 0
			take(ds)
			continue
		}
		if ctx.Err() == nil {
			failures++
			tidied = time.Time{} // the group may be gone with the store's data
			c.log.Warn("broker away", zap.Int("failures", failures), zap.Error(err))
			pause(ctx, backoff(failures))
		}
	}
	t := time.AfterFunc(c.cfg.Drain, cancel)
	defer t.Stop()
	hands.Wait()
	c.resign(context.WithoutCancel(ctx))
	return nil
}

// room waits until a message fits in, and says how many do.
func (c *Consumer) room(ctx context.Context, free chan struct{}) (int, bool) {
	select {
	case free <- struct{}{}:
		<-free
		return cap(free) - len(free), true
	case <-ctx.Done():
		return 0, false
	}
}

// deliver handles one message and writes down what became of it.
func (c *Consumer) deliver(ctx context.Context, d delivery) {
	var err error
	if d.count > c.cfg.MaxDeliveries {
		err = errors.New("its consumers died while they handled it")
	} else {
		hctx, cancel := context.WithTimeout(ctx, c.cfg.HandleTimeout)
		err = c.handle(hctx, messageOf(d.msg))
		cancel()
	}
	// What was handled is acknowledged also while the process stops.
	actx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	switch {
	case err == nil:
		c.handled.WithLabelValues("done").Inc()
		if err := c.rdb.XAck(actx, c.keys.log, c.cfg.Group, d.id).Err(); err != nil {
			c.log.Warn("message not acknowledged, comes again", zap.String("id", d.id), zap.Error(err))
		}
	case ctx.Err() != nil: // we stop: nobody's fault
	case d.count >= c.cfg.MaxDeliveries:
		c.bury(actx, d, err)
	default:
		c.handled.WithLabelValues("failed").Inc()
		c.log.Warn("message failed, comes again", zap.String("id", d.id), zap.Int64("attempt", d.count), zap.Error(err))
	}
}

func (c *Consumer) bury(ctx context.Context, d delivery, cause error) {
	args := []any{c.cfg.Group, d.id, c.cfg.DeadLen, fieldOrigin, d.id, fieldCause, cause.Error()}
	for _, f := range []string{fieldID, fieldEvent, fieldTopic, fieldKey, fieldPayload} {
		if v, ok := d.msg.Values[f]; ok {
			args = append(args, f, v)
		}
	}
	if err := buryScript.Run(ctx, c.rdb, []string{c.keys.log, c.keys.dead}, args...).Err(); err != nil {
		c.log.Warn("message not buried, comes again", zap.String("id", d.id), zap.Error(err))
		return
	}
	c.handled.WithLabelValues("dead").Inc()
	c.log.Error("message is a dead letter", zap.String("id", d.id), zap.Int64("attempt", d.count), zap.Error(cause))
}

// read takes new messages, and acknowledges those of other topics.
func (c *Consumer) read(ctx context.Context, room int) ([]delivery, error) {
	res, err := c.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: c.cfg.Group, Consumer: c.cfg.Name, Streams: []string{c.keys.log, ">"},
		Count: int64(room), Block: c.cfg.Block,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.keys.log, err)
	}
	var ds []delivery
	for _, s := range res {
		for _, m := range s.Messages {
			ds = append(ds, delivery{id: m.ID, count: 1, msg: m})
		}
	}
	return c.ours(ctx, ds), nil
}

// claim takes over messages that are pending for too long, ours included. It goes
// through the pending ones from cursor on, and gives the next cursor: "0-0" when
// it has seen them all. The store gives out only what is still idle: of two that
// claim, one gets it. (XCLAIM with a list of ids would do, but miniredis does not
// look at the idle time there.)
func (c *Consumer) claim(ctx context.Context, cursor string, room int) (ds []delivery, next string, err error) {
	ms, next, err := c.rdb.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: c.keys.log, Group: c.cfg.Group, Consumer: c.cfg.Name, MinIdle: c.cfg.MinIdle, Start: cursor, Count: int64(room),
	}).Result()
	if err != nil {
		return nil, cursor, wrap("claim pending", err)
	}
	if len(ms) == 0 {
		return nil, next, nil
	}
	pending, err := c.rdb.XPendingExt(ctx, &redis.XPendingExtArgs{
		Stream: c.keys.log, Group: c.cfg.Group, Consumer: c.cfg.Name,
		Start: ms[0].ID, End: ms[len(ms)-1].ID, Count: int64(room + c.cfg.Concurrency),
	}).Result()
	if err != nil {
		// They are ours now, and come again when they have been idle for long enough.
		return nil, cursor, wrap("count deliveries", err)
	}
	counts := make(map[string]int64, len(pending))
	for _, p := range pending {
		counts[p.ID] = p.RetryCount
	}
	for _, m := range ms {
		ds = append(ds, delivery{id: m.ID, count: counts[m.ID], msg: m})
	}
	return c.ours(ctx, ds), next, nil
}

// ours keeps the messages of our topics and acknowledges the others.
func (c *Consumer) ours(ctx context.Context, ds []delivery) []delivery {
	if len(c.cfg.Topics) == 0 {
		return ds
	}
	var others []string
	ds = slices.DeleteFunc(ds, func(d delivery) bool {
		topic, _ := d.msg.Values[fieldTopic].(string)
		if slices.Contains(c.cfg.Topics, topic) {
			return false
		}
		others = append(others, d.id)
		return true
	})
	if len(others) > 0 {
		if err := c.rdb.XAck(ctx, c.keys.log, c.cfg.Group, others...).Err(); err != nil {
			// They come again and are acknowledged then; ours must not wait for them.
			c.log.Warn("other topics not acknowledged", zap.Int("messages", len(others)), zap.Error(err))
		}
	}
	return ds
}
