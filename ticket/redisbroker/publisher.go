package redisbroker

import (
	"cmp"
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/waitroom-dev/waitroom/ticket/relay"
)

//go:embed publish.lua
var publishLua string

var publishScript = redis.NewScript(publishLua)

// scriptBatch is the most messages one run of the publish script appends, so that
// no run blocks the store for long.
const scriptBatch = 64

// PublisherConfig says how a publisher works. The zero value of a field is its default.
type PublisherConfig struct {
	// Prefix is the key prefix. Default "wr".
	Prefix string
	// MaxLen is about the most messages the log holds, oldest dropped. Default 100,000.
	MaxLen int64
	// SeenLen is the number of deduplication ids remembered. Default 50,000;
	// more than are published within a relay's lease.
	SeenLen int64
	// MaxBytes is the largest payload; a larger one is refused for good.
	// Default 256 KiB.
	MaxBytes int
}

// Publisher appends messages to the log. It is safe for concurrent use.
type Publisher struct {
	cfg  PublisherConfig
	rdb  redis.UniversalClient
	keys keys
}

var _ relay.Publisher = (*Publisher)(nil)

// NewPublisher makes a publisher; it connects at the first Publish.
func NewPublisher(cfg PublisherConfig, rdb redis.UniversalClient) (*Publisher, error) {
	cfg.Prefix = cmp.Or(cfg.Prefix, "wr")
	cfg.MaxLen = cmp.Or(cfg.MaxLen, 100_000)
	cfg.SeenLen = cmp.Or(cfg.SeenLen, 50_000)
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 256<<10)
	var errs []error
	if cfg.MaxLen < 0 {
		errs = append(errs, fmt.Errorf("max len %d: must be positive", cfg.MaxLen))
	}
	if cfg.SeenLen < 0 {
		errs = append(errs, fmt.Errorf("seen len %d: must be positive", cfg.SeenLen))
	}
	if cfg.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("max bytes %d: must be positive", cfg.MaxBytes))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("redis publisher: %w", err)
	}
	return &Publisher{cfg: cfg, rdb: rdb, keys: newKeys(cfg.Prefix)}, nil
}

// Publish appends the messages in order. A message without a topic or a
// deduplication id, or too large, is relay.ErrRefused; any other failure is
// relay.ErrAway, and of all messages from there on.
func (p *Publisher) Publish(ctx context.Context, ms []relay.Message) []error {
	errs := make([]error, len(ms))
	failed := false
	for start := 0; start < len(ms); {
		args := []any{p.cfg.MaxLen, p.cfg.SeenLen}
		var sent []int
		i := start
		for ; i < len(ms) && len(sent) < scriptBatch; i++ {
			if errs[i] = p.check(ms[i]); errs[i] != nil {
				failed = true
				continue
			}
			m := ms[i]
			args = append(args, m.DedupID, m.Event, m.Topic, m.Key, m.Payload)
			sent = append(sent, i)
		}
		if len(sent) > 0 {
			err := publishScript.Run(ctx, p.rdb, []string{p.keys.log, p.keys.seen}, args...).Err()
			if err != nil {
				err = fmt.Errorf("append to %s: %w: %w", p.keys.log, relay.ErrAway, err)
				for j := sent[0]; j < len(ms); j++ {
					errs[j] = cmp.Or(p.check(ms[j]), err)
				}
				return errs
			}
		}
		start = i
	}
	if !failed {
		return nil
	}
	return errs
}

func (p *Publisher) check(m relay.Message) error {
	switch {
	case m.DedupID == "" || m.Topic == "":
		return fmt.Errorf("%w: no deduplication id or no topic", relay.ErrRefused)
	case len(m.Payload) > p.cfg.MaxBytes:
		return fmt.Errorf("%w: %d bytes, at most %d", relay.ErrRefused, len(m.Payload), p.cfg.MaxBytes)
	default:
		return nil
	}
}
