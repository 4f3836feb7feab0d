package limit

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// shared are the buckets in the store.
type shared struct {
	rdb    redis.UniversalClient
	prefix string
}

// take charges every bucket in one round trip, and says which refuse. What a refused
// call has taken from the other buckets it gives back in a second one, which only
// the first of a flood's refusals needs: the others are remembered.
func (s *shared) take(ctx context.Context, charges []charge) ([]refusal, error) {
	results, err := s.send(ctx, charges, 1)
	if err != nil {
		return nil, err
	}
	var refused []refusal
	var taken []charge
	for i, c := range charges {
		if results[i].Allowed == 0 {
			refused = append(refused, refusal{c.bucket.which, results[i].RetryAfter})
		} else {
			taken = append(taken, c)
		}
	}
	if len(refused) > 0 && len(taken) > 0 {
		if _, err := s.send(ctx, taken, -1); err != nil {
			return nil, fmt.Errorf("give back: %w", err)
		}
	}
	return refused, nil
}

// send takes n calls from every bucket in one round trip.
//
// redis_rate sends one command a bucket and waits for its reply. It is therefore
// asked twice: the first time its commands go into a pipeline, the second time it is
// given their replies.
func (s *shared) send(ctx context.Context, charges []charge, n int) ([]*redis_rate.Result, error) {
	w := &wire{UniversalClient: s.rdb, pipe: s.rdb.Pipeline()}
	rates := redis_rate.NewLimiter(w)
	ask := func(c charge) (*redis_rate.Result, error) {
		limit := redis_rate.Limit{Rate: c.rule.N, Burst: c.rule.N, Period: c.rule.Per}
		return rates.AllowN(ctx, s.key(c.bucket), limit, n)
	}
	for _, c := range charges {
		if _, err := ask(c); !errors.Is(err, errUnsent) {
			return nil, fmt.Errorf("charge %s: not gathered: %w", c.bucket.which, err)
		}
	}
	w.exec(ctx)
	results := make([]*redis_rate.Result, len(charges))
	for i, c := range charges {
		var err error
		if results[i], err = ask(c); err != nil {
			return nil, fmt.Errorf("charge %s: %w", c.bucket.which, err)
		}
	}
	return results, nil
}

// key names a bucket; redis_rate puts "rate:" before it. The hash tag is the caller:
// one call's buckets are on one server of a cluster, and an event's callers spread
// over all.
func (s *shared) key(b bucket) string {
	who := b.person
	if b.addr != (netip.Addr{}) {
		who = b.addr.String()
	}
	return s.prefix + ":{" + b.event + ":" + who + "}:" + b.which
}

var errUnsent = errors.New("command not sent yet")

// wire carries redis_rate's commands. A server that has lost the script answers
// NOSCRIPT; redis_rate then sends the script itself, alone, which this leaves to the
// client.
type wire struct {
	redis.UniversalClient
	pipe redis.Pipeliner
	cmds []*redis.Cmd // in the pipeline; once it is sent, those whose replies are due
	sent bool
}

// EvalSha gathers a command, and after exec gives its reply.
func (w *wire) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	if w.sent {
		reply := w.cmds[0]
		w.cmds = w.cmds[1:]
		return reply
	}
	w.cmds = append(w.cmds, w.pipe.EvalSha(ctx, sha, keys, args...))
	unsent := redis.NewCmd(ctx)
	unsent.SetErr(errUnsent)
	return unsent
}

// exec makes the round trip. Each command has its own error.
func (w *wire) exec(ctx context.Context) {
	_, _ = w.pipe.Exec(ctx)
	w.sent = true
}
