package natsbroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket/relay"
)

// ConsumerConfig says how a consumer works. The zero value of a field is its default.
type ConsumerConfig struct {
	// Prefix begins the names of streams and subjects. Default "wr".
	Prefix string
	// Group is the durable name whose consumers share the messages. Required.
	Group string
	// Topics are those that are handled. Empty is all.
	Topics []string
	// Concurrency is the most messages handled at a time. Default 32. At the
	// bound nothing more is fetched.
	Concurrency int
	// HandleTimeout bounds the handling of one message. Default 20s.
	HandleTimeout time.Duration
	// AckWait is how long a message may be in hand before it is delivered again.
	// Default 30s; more than HandleTimeout. The first consumer of a group sets it.
	AckWait time.Duration
	// MaxDeliveries is how often a message is delivered before it is a dead
	// letter. Default 10.
	MaxDeliveries int
	// Block is how long one fetch waits, so how long a stop may take. Default 500ms.
	Block time.Duration
	// Drain is how long messages in hand may go on after ctx ended. Default 5s.
	Drain time.Duration
}

func (c ConsumerConfig) withDefaults() ConsumerConfig {
	c.Concurrency = cmp.Or(c.Concurrency, 32)
	c.HandleTimeout = cmp.Or(c.HandleTimeout, 20*time.Second)
	c.AckWait = cmp.Or(c.AckWait, 30*time.Second)
	c.MaxDeliveries = cmp.Or(c.MaxDeliveries, 10)
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
	if c.HandleTimeout < 0 || c.AckWait <= c.HandleTimeout {
		errs = append(errs, fmt.Errorf("ack wait %s: must be more than the handle timeout %s", c.AckWait, c.HandleTimeout))
	}
	if c.MaxDeliveries < 1 {
		errs = append(errs, fmt.Errorf("max deliveries %d: must be positive", c.MaxDeliveries))
	}
	if c.Block < 10*time.Millisecond || c.Block > 5*time.Second {
		errs = append(errs, fmt.Errorf("block %s: must be 10ms to 5s", c.Block))
	}
	return errors.Join(errs...)
}

// Consumer handles the messages of a group, together with the group's others.
type Consumer struct {
	cfg     ConsumerConfig
	names   names
	js      jetstream.JetStream
	handle  relay.Handler
	log     *zap.Logger
	handled *prometheus.CounterVec
}

// NewConsumer makes a consumer on a connection; Run starts it.
func NewConsumer(cfg ConsumerConfig, conn *nats.Conn, h relay.Handler, log *zap.Logger, reg prometheus.Registerer) (*Consumer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("nats consumer: %w", err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("nats consumer: %w", err)
	}
	c := &Consumer{
		cfg: cfg.withDefaults(), names: newNames(cfg.Prefix), js: js, handle: h,
		log: log.Named("consumer").With(zap.String("group", cfg.Group)),
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
	hctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	free := make(chan struct{}, c.cfg.Concurrency) // a token for each message in hand
	var hands sync.WaitGroup
	var group jetstream.Consumer
	failures := 0
	for ctx.Err() == nil {
		var err error
		if group == nil {
			group, err = c.join(ctx)
		} else {
			err = c.fetch(ctx, group, free, func(m jetstream.Msg) {
				hands.Go(func() {
					defer func() { <-free }()
					c.deliver(hctx, m)
				})
			})
		}
		if err == nil {
			failures = 0
			continue
		}
		if ctx.Err() == nil {
			failures++
			group = nil // it may be gone with the server's data
			c.log.Warn("broker away", zap.Int("failures", failures), zap.Error(err))
			pause(ctx, backoff(failures))
		}
	}
	t := time.AfterFunc(c.cfg.Drain, cancel)
	defer t.Stop()
	hands.Wait()
	return nil
}

// join finds the group, or makes it, from the stream's beginning on.
func (c *Consumer) join(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	stream, err := ensure(ctx, c.js, c.names.stream(), c.names.all(), 1_000_000, 1)
	if err != nil {
		return nil, err
	}
	group, err := stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: c.cfg.Group, FilterSubjects: c.names.subjects(c.cfg.Topics),
		DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: c.cfg.AckWait, MaxDeliver: -1, MaxAckPending: max(1000, 4*c.cfg.Concurrency),
	})
	if err != nil {
		return nil, fmt.Errorf("group %s: %w", c.cfg.Group, err)
	}
	return group, nil
}

// fetch takes as many messages as there are free hands, within Block.
func (c *Consumer) fetch(ctx context.Context, group jetstream.Consumer, free chan struct{}, take func(jetstream.Msg)) error {
	select {
	case free <- struct{}{}:
		<-free
	case <-ctx.Done():
		return nil
	}
	batch, err := group.Fetch(cap(free)-len(free), jetstream.FetchMaxWait(c.cfg.Block))
	if err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	for m := range batch.Messages() {
		free <- struct{}{} // there was room for all
		take(m)
	}
	if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
		return fmt.Errorf("fetch: %w", err)
	}
	return nil
}

// deliver handles one message and tells the server what became of it.
func (c *Consumer) deliver(ctx context.Context, m jetstream.Msg) {
	count := 1
	if meta, err := m.Metadata(); err == nil {
		count = int(min(meta.NumDelivered, 1<<30))
	}
	msg := c.names.message(m)
	log := c.log.With(zap.String("id", msg.DedupID), zap.Int("attempt", count))
	var err error
	if count > c.cfg.MaxDeliveries {
		err = errors.New("its consumers died while they handled it")
	} else {
		hctx, cancel := context.WithTimeout(ctx, c.cfg.HandleTimeout)
		err = c.handle(hctx, msg)
		cancel()
	}
	// What was handled is acknowledged also while the process stops.
	actx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	switch {
	case err == nil:
		c.handled.WithLabelValues("done").Inc()
		if err := m.DoubleAck(actx); err != nil {
			log.Warn("message not acknowledged, comes again", zap.Error(err))
		}
	case ctx.Err() != nil: // we stop: nobody's fault
	case count >= c.cfg.MaxDeliveries:
		c.bury(actx, m, log, err)
	default:
		c.handled.WithLabelValues("failed").Inc()
		log.Warn("message failed, comes again", zap.Error(err))
	}
}

// bury moves a message to the dead letters; if that fails, it comes again.
func (c *Consumer) bury(ctx context.Context, m jetstream.Msg, log *zap.Logger, cause error) {
	if _, err := ensure(ctx, c.js, c.names.dead(), c.names.allDead(), 10_000, 1); err != nil {
		log.Warn("message not buried, comes again", zap.Error(err))
		return
	}
	letter := &nats.Msg{Subject: c.names.deadLetter(c.names.topic(m.Subject())), Data: m.Data(), Header: nats.Header{}}
	maps.Copy(letter.Header, m.Headers())
	letter.Header.Set(headCause, cause.Error())
	if _, err := c.js.PublishMsg(ctx, letter); err != nil {
		log.Warn("message not buried, comes again", zap.Error(err))
		return
	}
	if err := m.TermWithReason("dead letter"); err != nil {
		log.Warn("dead letter comes again", zap.Error(err))
	}
	c.handled.WithLabelValues("dead").Inc()
	log.Error("message is a dead letter", zap.Error(cause))
}
