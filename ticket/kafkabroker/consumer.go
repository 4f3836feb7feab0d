package kafkabroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket/relay"
)

// ConsumerConfig says how a consumer works. The zero value of a field is its default.
type ConsumerConfig struct {
	// Group is the group's name; its consumers share the messages. Required.
	Group string
	// Topics are the outbox's topics that are handled; the others pass unseen.
	// Empty is all.
	Topics []string
	// Concurrency is the most messages polled, so handled, at a time. Default 32.
	Concurrency int
	// HandleTimeout bounds one try at a message. Default 10s.
	HandleTimeout time.Duration
	// MaxTries is how often a message is tried before it is a dead letter. Default
	// 4: the group must not wait for long.
	MaxTries int
	// Drain is how long messages in hand may go on after ctx ended. Default 5s.
	Drain time.Duration
}

func (c ConsumerConfig) withDefaults() ConsumerConfig {
	c.Concurrency = cmp.Or(c.Concurrency, 32)
	c.HandleTimeout = cmp.Or(c.HandleTimeout, 10*time.Second)
	c.MaxTries = cmp.Or(c.MaxTries, 4)
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
	if c.Concurrency < 1 || c.MaxTries < 1 {
		errs = append(errs, errors.New("concurrency, max tries: must be positive"))
	}
	if c.HandleTimeout < 0 || c.Drain < 0 {
		errs = append(errs, errors.New("handle timeout, drain: must be positive"))
	}
	return errors.Join(errs...)
}

// Consumer handles the messages of a group, together with the group's others.
type Consumer struct {
	cfg     ConsumerConfig
	address Address
	handle  relay.Handler
	log     *zap.Logger
	handled *prometheus.CounterVec
}

// NewConsumer makes a consumer; Run starts it.
func NewConsumer(cfg ConsumerConfig, a Address, h relay.Handler, log *zap.Logger, reg prometheus.Registerer) (*Consumer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("kafka consumer: %w", err)
	}
	c := &Consumer{
		cfg: cfg.withDefaults(), address: a, handle: h, log: log.Named("consumer").With(zap.String("group", cfg.Group)),
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "waitroom", Subsystem: "consumer", Name: "messages_total",
			Help:        "Messages by result: done, failed (to come again), dead.",
			ConstLabels: prometheus.Labels{"group": cfg.Group},
		}, []string{"result"}),
	}
	if reg != nil {
		if err := reg.Register(c.handled); err != nil {
			return nil, fmt.Errorf("register consumer metrics: %w", err)
		}
	}
	return c, nil
}

// Run handles messages until ctx ends; messages in hand may then go on for Drain.
func (c *Consumer) Run(ctx context.Context) error {
	client, err := c.address.client(
		kgo.ConsumerGroup(c.cfg.Group), kgo.ConsumeTopics(c.address.topic()), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500*time.Millisecond),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0), kgo.RecordDeliveryTimeout(5*time.Second),
	)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	hctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(c.cfg.Drain, cancel) })()
	made := false
	for failures := 0; ctx.Err() == nil; {
		if !made {
			err = ensure(ctx, client, c.address.topic(), c.address.Partitions)
			made = err == nil
		}
		if made {
			err = c.poll(ctx, hctx, client)
		}
		if err == nil {
			failures = 0
			continue
		}
		if ctx.Err() == nil {
			failures++
			c.log.Warn("broker away", zap.Int("failures", failures), zap.Error(err))
			pause(ctx, backoff(failures))
		}
	}
	return nil
}

// poll takes what is there, handles all of it at once, and commits what was done.
func (c *Consumer) poll(ctx, hctx context.Context, client *kgo.Client) error {
	defer client.AllowRebalance()
	fetches := client.PollRecords(ctx, c.cfg.Concurrency)
	var faults []error
	fetches.EachError(func(_ string, _ int32, err error) { faults = append(faults, err) })
	records := fetches.Records()
	done := make([]bool, len(records))
	var hands sync.WaitGroup
	for i, r := range records {
		hands.Go(func() { done[i] = c.deliver(hctx, client, r) })
	}
	hands.Wait()
	// Of each partition what comes before the first that is not done.
	stopped := map[int32]bool{}
	var commit []*kgo.Record
	for i, r := range records {
		stopped[r.Partition] = stopped[r.Partition] || !done[i]
		if !stopped[r.Partition] {
			commit = append(commit, r)
		}
	}
	if len(commit) > 0 {
		cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := client.CommitRecords(cctx, commit...); err != nil {
			faults = append(faults, fmt.Errorf("commit: %w", err)) // they come again
		}
	}
	return errors.Join(faults...)
}

// deliver handles one message, with a few tries; false means that it must come
// again.
func (c *Consumer) deliver(ctx context.Context, client *kgo.Client, r *kgo.Record) bool {
	m := messageOf(r)
	if len(c.cfg.Topics) > 0 && !slices.Contains(c.cfg.Topics, m.Topic) {
		return true
	}
	log := c.log.With(zap.String("id", m.DedupID))
	for try := 1; ; try++ {
		hctx, cancel := context.WithTimeout(ctx, c.cfg.HandleTimeout)
		err := c.handle(hctx, m)
		cancel()
		switch {
		case err == nil:
			c.handled.WithLabelValues("done").Inc()
			return true
		case ctx.Err() != nil: // we stop: nobody's fault
			return false
		case try >= c.cfg.MaxTries:
			return c.bury(ctx, client, r, log, err)
		}
		c.handled.WithLabelValues("failed").Inc()
		log.Warn("message failed, comes again", zap.Int("attempt", try), zap.Error(err))
		pause(ctx, backoff(try))
	}
}

// bury copies a message to the dead letters; if that fails, it comes again.
func (c *Consumer) bury(ctx context.Context, client *kgo.Client, r *kgo.Record, log *zap.Logger, cause error) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := ensure(ctx, client, c.address.dead(), 1)
	if err == nil {
		letter := &kgo.Record{
			Topic: c.address.dead(), Key: r.Key, Value: r.Value,
			Headers: append(slices.Clone(r.Headers), kgo.RecordHeader{Key: headCause, Value: []byte(cause.Error())}),
		}
		err = client.ProduceSync(ctx, letter).FirstErr()
	}
	if err != nil {
		log.Warn("message not buried, comes again", zap.Error(err))
		return false
	}
	c.handled.WithLabelValues("dead").Inc()
	log.Error("message is a dead letter", zap.Error(cause))
	return true
}
