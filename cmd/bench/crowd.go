package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// joinAll lets n strangers join by real joins, callers at a time. each, if not nil,
// is told the i-th place; it may be called concurrently.
func joinAll(ctx context.Context, line *waitroom.Line, id waitroom.EventID, n int, each func(i int, p waitroom.Place)) error {
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range callers {
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				p, err := line.Join(ctx, waitroom.JoinRequest{Event: id})
				if err != nil {
					return err
				}
				if each != nil {
					each(i, p)
				}
			}
		})
	}
	return g.Wait()
}

// crowdUnits measure a line of a million beside one of a thousand, without HTTP.
func crowdUnits() []unit {
	return []unit{{bars: []string{"joins-million", "promote-500"}, run: runCrowd}}
}

// crowd is the two lines, in one store.
type crowd struct {
	store       *store
	line        *waitroom.Line
	small       int // lines of a thousand made so far
	few         int
	eachSegment int
}

func runCrowd(ctx context.Context, b *bench, wanted func(string) bool) ([]result, error) {
	s, err := startRedis(ctx, "")
	if err != nil {
		return nil, err
	}
	defer s.end()
	keys, line, err := openLine(ctx, s.rdb, "crowd")
	if err != nil {
		return nil, err
	}
	if err := openEvent(ctx, line, event); err != nil {
		return nil, err
	}
	// Filling takes larger batches than the measured joins do.
	filler, err := waitroom.New(waitroom.Config{Prefix: "crowd", ReceiptKeys: keys.ReceiptKeys(), Batch: 256, CallTimeout: patience}, s.rdb, zap.NewNop())
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := joinAll(ctx, filler, event, b.many, nil); err != nil {
		return nil, fmt.Errorf("fill the line: %w", err)
	}
	b.say("%s waiting, joined in %v", thousands(float64(b.many)), time.Since(began).Round(time.Second/10))
	c := &crowd{store: s, line: line, few: b.few, eachSegment: 2 * b.few}
	var results []result
	if wanted("joins-million") {
		r, err := c.joins(ctx, b)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	if wanted("promote-500") {
		r, err := c.promotes(ctx, b)
		if err != nil {
			return results, err
		}
		results = append(results, r)
	}
	return results, nil
}

// segments is how many stretches of joins make a round. A small line does not stay
// small under joins: each stretch has a new one.
const segments = 8

// joins compares the rates. Both sides join in the same stretches, so that their
// beginnings and ends cost both the same.
func (c *crowd) joins(ctx context.Context, b *bench) (result, error) {
	stretch := func(ctx context.Context, id waitroom.EventID) (time.Duration, error) {
		began := time.Now()
		err := joinAll(ctx, c.line, id, c.eachSegment, nil)
		return time.Since(began), err
	}
	round := func(one func(context.Context) (time.Duration, error)) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) {
			var took time.Duration
			for range segments {
				t, err := one(ctx)
				if err != nil {
					return 0, err
				}
				took += t
			}
			return float64(segments*c.eachSegment) / took.Seconds(), nil
		}
	}
	large := round(func(ctx context.Context) (time.Duration, error) { return stretch(ctx, event) })
	small := round(func(ctx context.Context) (time.Duration, error) {
		id, err := c.smallLine(ctx)
		if err != nil {
			return 0, err
		}
		took, err := stretch(ctx, id)
		if err != nil {
			return 0, err
		}
		return took, c.line.Delete(ctx, id, "bench")
	})
	pairs, err := duel(ctx, b.rounds, large, small)
	if err != nil {
		return result{}, err
	}
	s := compare(pairs, itself)
	return result{
		Name: "joins-million",
		Measured: fmt.Sprintf("%.0f %% (%s/s at %s waiting against %s/s at %s; package, AOF off, %d callers)",
			s.ratio*100, thousands(s.ours), thousands(float64(b.many)), thousands(s.base), thousands(float64(b.few)), callers),
		Bar: "≥ 70 % of the rate at 1,000", Verdict: verdict(s.ratio >= .7),
		Figures: map[string]float64{"ratio": s.ratio, "joins_per_s_many": s.ours, "joins_per_s_few": s.base, "waiting": float64(b.many)},
	}, nil
}

// smallLine is a new line with few waiting.
func (c *crowd) smallLine(ctx context.Context) (waitroom.EventID, error) {
	c.small++
	id := waitroom.EventID(fmt.Sprintf("few-%d", c.small))
	if err := openEvent(ctx, c.line, id); err != nil {
		return "", err
	}
	return id, joinAll(ctx, c.line, id, c.few, nil)
}

// promotes lets 500 in at a time, and reads from the store how long it had to do.
func (c *crowd) promotes(ctx context.Context, b *bench) (result, error) {
	const n = 500
	few, err := c.smallLine(ctx)
	if err != nil {
		return result{}, err
	}
	promote := func(id waitroom.EventID) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) {
			if err := joinAll(ctx, c.line, id, n, nil); err != nil {
				return 0, err
			}
			before, err := c.store.commands(ctx)
			if err != nil {
				return 0, err
			}
			p, err := c.line.Promote(ctx, waitroom.PromoteRequest{Event: id, Fence: 1, N: n})
			if err != nil {
				return 0, err
			}
			after, err := c.store.commands(ctx)
			if err != nil {
				return 0, err
			}
			if len(p.Grants) != n {
				return 0, fmt.Errorf("promoted %d, not %d: %s", len(p.Grants), n, p.Reason)
			}
			ran := scripts(after).n - scripts(before).n
			if ran != 1 {
				return 0, fmt.Errorf("promotion took %.0f scripts", ran)
			}
			return (scripts(after).usec - scripts(before).usec) / 1e3, nil
		}
	}
	// The first call of a script is two.
	if _, err := c.line.Promote(ctx, waitroom.PromoteRequest{Event: few, Fence: 1, N: 1}); err != nil {
		return result{}, err
	}
	pairs, err := duel(ctx, b.promotes, promote(event), promote(few))
	if err != nil {
		return result{}, err
	}
	s := compare(pairs, itself)
	worst := slices.MaxFunc(pairs, func(a, b pair[float64]) int { return int(a.ours*1e3) - int(b.ours*1e3) }).ours
	const most = 10 // ms
	return result{
		Name: "promote-500",
		Measured: fmt.Sprintf("%.2f ms in the store at %s waiting, the longest of %d %.2f ms (%.2f ms at %s: %.2f ×; AOF off)",
			s.ours, thousands(float64(b.many)), b.promotes, worst, s.base, thousands(float64(b.few)), s.ratio),
		Bar: "≤ 10 ms at 1,000,000 waiting", Verdict: verdict(s.ours <= most),
		Figures: map[string]float64{"ms": s.ours, "ms_longest": worst, "ms_few": s.base, "ratio": s.ratio, "waiting": float64(b.many)},
	}, nil
}
