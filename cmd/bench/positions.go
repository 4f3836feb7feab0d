package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// positionUnit counts what positions cost the store.
func positionUnit() unit {
	return unit{bars: []string{"position-commands"}, run: runPositions}
}

// watching is what one node's knowledge of everybody's position costs.
type watching struct{ commands, usual, usualMS float64 }

func runPositions(ctx context.Context, b *bench, _ func(string) bool) ([]result, error) {
	few, err := watch(ctx, b.few)
	if err != nil {
		return nil, err
	}
	far, err := watch(ctx, b.far)
	if err != nil {
		return nil, err
	}
	const most = 20
	// The tick's phase may shift one reading from one phase to the other.
	same := math.Abs(far.commands-few.commands) <= max(1, few.commands/10)
	return []result{{
		Name: "position-commands",
		Measured: fmt.Sprintf("%.1f a tick and node at %s waiting, %.1f at %s (%.2f ×; a ZRANK each: %s and %s, %.0f ms)",
			far.commands, thousands(float64(b.far)), few.commands, thousands(float64(b.few)), far.commands/few.commands,
			thousands(far.usual), thousands(few.usual), far.usualMS),
		Bar: "≤ 20, and the same at both", Verdict: verdict(same && max(few.commands, far.commands) <= most),
		Figures: map[string]float64{"commands_far": far.commands, "commands_few": few.commands, "zrank_commands_far": far.usual, "zrank_ms_far": far.usualMS},
	}}, nil
}

const (
	tick   = 100 * time.Millisecond
	ticks  = 30 // in a phase
	movers = 5  // promoted a tick, and as many who leave
)

// watch has n people wait and the line move, first without a node that follows
// it, then with one that tells everybody's position each tick. The node's
// commands are the difference, with all that its scripts call.
func watch(ctx context.Context, n int) (watching, error) {
	s, err := startRedis(ctx, "")
	if err != nil {
		return watching{}, err
	}
	defer s.end()
	_, line, err := openLine(ctx, s.rdb, "watch")
	if err != nil {
		return watching{}, err
	}
	if err := openEvent(ctx, line, event); err != nil {
		return watching{}, err
	}
	places := make([]waitroom.Place, n)
	if err := joinAll(ctx, line, event, n, func(i int, p waitroom.Place) { places[i] = p }); err != nil {
		return watching{}, err
	}
	slices.SortFunc(places, func(a, b waitroom.Place) int { return cmp.Compare(a.Seq, b.Seq) })
	const moved = ticks * movers // from the front, and as many from the end
	if n < 5*moved {
		return watching{}, fmt.Errorf("%d people are too few for a line that moves", n)
	}
	// The first call of a script is two.
	if _, err := line.Promote(ctx, waitroom.PromoteRequest{Event: event, Fence: 1, N: 1}); err != nil {
		return watching{}, err
	}
	if err := line.Leave(ctx, event, places[n-1].Entry); err != nil {
		return watching{}, err
	}
	without, _, err := phase(ctx, s, line, places[n-1-moved:n-1], func() error { return nil })
	if err != nil {
		return watching{}, err
	}
	view, err := waitroom.NewView(line, nil)
	if err != nil {
		return watching{}, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return view.Run(ctx) })
	if err := until(ctx, nil, func(context.Context) bool { return view.Level(event) }); err != nil {
		return watching{}, fmt.Errorf("view: %w", err)
	}
	with, passed, err := phase(ctx, s, line, places[n-1-2*moved:n-1-moved], func() error {
		told := 0
		for _, p := range places {
			if position, ok := view.Position(event, p.Seq); ok {
				view.Estimate(event, p.Seq, position)
				told++
			}
		}
		if told < n-5*moved {
			return fmt.Errorf("%d of %d have a position", told, n)
		}
		return nil
	})
	stop()
	if err := g.Wait(); err != nil {
		return watching{}, err
	}
	if err != nil {
		return watching{}, err
	}
	w := watching{commands: (with - without) / passed}
	w.usual, w.usualMS, err = usualTick(context.WithoutCancel(ctx), s, n)
	return w, err
}

// phase moves the line ticks times, which takes the same calls however long it
// takes. It gives all commands meanwhile, and the ticks that have passed.
func phase(ctx context.Context, s *store, line *waitroom.Line, leavers []waitroom.Place, ask func() error) (commands, passed float64, err error) {
	before, err := s.commands(ctx)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for i := range ticks {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		}
		if _, err := line.Promote(ctx, waitroom.PromoteRequest{Event: event, Fence: 1, N: movers}); err != nil {
			return 0, 0, err
		}
		for j := range movers {
			if err := line.Leave(ctx, event, leavers[i*movers+j].Entry); err != nil {
				return 0, 0, err
			}
		}
		if err := ask(); err != nil {
			return 0, 0, err
		}
	}
	passed = max(ticks, time.Since(began).Seconds()/tick.Seconds())
	after, err := s.commands(ctx)
	return total(after) - total(before), passed, err
}

// usualTick asks the store for the rank of each of n people once.
func usualTick(ctx context.Context, s *store, n int) (commands, ms float64, err error) {
	const key, piece = "usual", 1000
	for from := 0; from < n; from += piece {
		var members []redis.Z
		for i := from; i < min(n, from+piece); i++ {
			members = append(members, redis.Z{Score: float64(i), Member: i})
		}
		if err := s.rdb.ZAdd(ctx, key, members...).Err(); err != nil {
			return 0, 0, fmt.Errorf("fill: %w", err)
		}
	}
	before, err := s.commands(ctx)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	for from := 0; from < n; from += piece {
		_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := from; i < min(n, from+piece); i++ {
				p.ZRank(ctx, key, fmt.Sprint(i))
			}
			return nil
		})
		if err != nil {
			return 0, 0, fmt.Errorf("ranks: %w", err)
		}
	}
	ms = time.Since(began).Seconds() * 1e3
	after, err := s.commands(ctx)
	return total(after) - total(before), ms, err
}
