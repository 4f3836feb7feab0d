package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// pair is one round: ours and the baseline's, next to each other in time.
type pair[T any] struct{ ours, base T }

// duel lets both sides work in turns. Who is first changes each round.
func duel[T any](ctx context.Context, rounds int, ours, base func(context.Context) (T, error)) ([]pair[T], error) {
	pairs := make([]pair[T], rounds)
	for i := range pairs {
		p := &pairs[i]
		turns := []func() error{
			func() (err error) { p.ours, err = ours(ctx); return err },
			func() (err error) { p.base, err = base(ctx); return err },
		}
		if i%2 == 1 {
			slices.Reverse(turns)
		}
		for _, turn := range turns {
			if err := turn(); err != nil {
				return nil, fmt.Errorf("round %d: %w", i+1, err)
			}
		}
	}
	return pairs, nil
}

// score is the median of both sides, and of the ratio of neighbours.
type score struct{ ours, base, ratio float64 }

func compare[T any](pairs []pair[T], figure func(T) float64) score {
	var ours, base, ratios []float64
	for _, p := range pairs {
		o, b := figure(p.ours), figure(p.base)
		ours, base, ratios = append(ours, o), append(base, b), append(ratios, o/b)
	}
	return score{ours: median(ours), base: median(base), ratio: median(ratios)}
}

// callers work at the same time, so that there is always something to gather.
const callers = 256

// busy has so many callers do something over and over, for d or until it was begun most
// times (0: no matter how often). It gives how often a second, and how often.
func busy(ctx context.Context, callers int, d time.Duration, most int64, do func(context.Context) error) (perS, n float64, err error) {
	var begun, done atomic.Int64
	began := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for range callers {
		g.Go(func() error {
			for time.Since(began) < d && (most == 0 || begun.Add(1) <= most) {
				if err := do(ctx); err != nil {
					return err
				}
				done.Add(1)
			}
			return nil
		})
	}
	err = g.Wait()
	n = float64(done.Load())
	return n / time.Since(began).Seconds(), n, err
}

// itself is the figure of a side that measures one number.
func itself(x float64) float64 { return x }

// median is the middle one, of an even number the mean of both; 0 of none.
func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	switch n := len(v); {
	case n == 0:
		return 0
	case n%2 == 0:
		return (v[n/2-1] + v[n/2]) / 2
	default:
		return v[n/2]
	}
}

// quantile is the value that a share q of the durations does not exceed.
func quantile(took []time.Duration, q float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	t := slices.Sorted(slices.Values(took))
	return t[min(len(t)-1, int(q*float64(len(t))))]
}

// thousands writes a number as people read it: 25,800; small ones with a digit
// behind the point.
func thousands(x float64) string {
	if x < 100 {
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	s := strconv.FormatInt(int64(x+0.5), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// millis and micros write durations in one unit, so that lines can be compared.
func millis(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1e3) }
func micros(us float64) string      { return fmt.Sprintf("%.1f µs", us) }
