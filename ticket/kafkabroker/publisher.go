package kafkabroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waitroom-dev/waitroom/ticket/relay"
)

// Publisher hands messages to the topic. It is safe for concurrent use; close it
// after use.
type Publisher struct {
	address Address
	client  *kgo.Client

	mu   sync.Mutex // guards below
	made bool       // the topic was there
}

var _ relay.Publisher = (*Publisher)(nil)

// NewPublisher makes a publisher; it connects at the first Publish.
func NewPublisher(a Address) (*Publisher, error) {
	client, err := a.client(
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0), kgo.ProduceRequestTimeout(3*time.Second),
		kgo.RecordDeliveryTimeout(10*time.Second), kgo.UnknownTopicRetries(1), kgo.MaxBufferedRecords(20_000),
	)
	if err != nil {
		return nil, err
	}
	return &Publisher{address: a, client: client}, nil
}

// Close ends the connections.
func (p *Publisher) Close() { p.client.Close() }

// Publish hands the messages over in order and waits for the brokers' word on
// each. A message without a topic or a deduplication id, or too large, is
// relay.ErrRefused; any other failure is relay.ErrAway. What an earlier call could
// not finish comes first, so that nothing overtakes it and nothing piles up.
func (p *Publisher) Publish(ctx context.Context, ms []relay.Message) []error {
	errs := make([]error, len(ms))
	err := p.ready(ctx)
	if err == nil && p.client.BufferedProduceRecords() > 0 {
		err = p.client.Flush(ctx)
	}
	if err != nil {
		for i, m := range ms {
			errs[i] = cmp.Or(check(m), away(err))
		}
		return errs
	}
	type word struct {
		of  int
		err error
	}
	words := make(chan word, len(ms)) // nobody waits to say one, also when we are gone
	waiting, failed := 0, false
	for i, m := range ms {
		if errs[i] = check(m); errs[i] != nil {
			failed = true
			continue
		}
		waiting++
		errs[i] = errPending
		p.client.TryProduce(ctx, recordOf(p.address.topic(), m), func(_ *kgo.Record, err error) { words <- word{i, err} })
	}
	for ; waiting > 0; waiting-- {
		select {
		case w := <-words:
			errs[w.of] = p.judge(w.err)
			failed = failed || w.err != nil
			continue
		case <-ctx.Done():
		}
		break
	}
	if waiting > 0 {
		failed = true
		for i, err := range errs {
			if errors.Is(err, errPending) {
				errs[i] = away(ctx.Err())
			}
		}
	}
	if !failed {
		return nil
	}
	return errs
}

var errPending = errors.New("no word yet")

// judge says whose fault a failure is.
func (p *Publisher) judge(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge), errors.Is(err, kerr.InvalidRecord):
		return fmt.Errorf("%w: %w", relay.ErrRefused, err)
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		p.mu.Lock()
		p.made = false
		p.mu.Unlock()
	}
	return away(err)
}

func away(err error) error { return fmt.Errorf("%w: %w", relay.ErrAway, err) }

func check(m relay.Message) error {
	if m.DedupID == "" || m.Topic == "" {
		return fmt.Errorf("%w: no deduplication id or no topic", relay.ErrRefused)
	}
	return nil
}

// ready makes the topic, once.
func (p *Publisher) ready(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.made {
		return nil
	}
	err := ensure(ctx, p.client, p.address.topic(), p.address.Partitions)
	p.made = err == nil
	return err
}
