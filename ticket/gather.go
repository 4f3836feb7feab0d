package ticket

import (
	"context"
	"fmt"
	"runtime"
	"sync"
)

// gather lets calls that are in flight together share one transaction. There is
// no timer and no goroutine of its own: a caller who finds a lane idle runs the
// group itself, and whoever arrives meanwhile is the next group. So a lone call
// waits for nobody, and a group is as large as the load makes it.
type gather[Q any] struct {
	lanes int // groups that run at once
	most  int // calls in a group
	bound int // calls that wait; one more is refused
	// run handles a group; each call's result is written into it.
	run func(context.Context, []Q)

	mu      sync.Mutex // guards below
	running int
	last    int // calls in the last group
	queue   []*waiter[Q]
}

// waiter is a call that waits for its turn.
type waiter[Q any] struct {
	call Q
	// turn says lead (true) or done (false). It holds both without blocking.
	turn chan bool
	// leads is set, under mu, when this waiter was told to lead.
	leads bool
}

// do runs call in some group and returns when that group is done. When ctx ends
// first, a call that still waits is taken out; one whose group runs is left to
// its group, and nobody hears its result.
func (g *gather[Q]) do(ctx context.Context, call Q) error {
	w := &waiter[Q]{call: call, turn: make(chan bool, 2)}
	g.mu.Lock()
	if len(g.queue) >= g.bound {
		g.mu.Unlock()
		return fmt.Errorf("%w: %d calls wait already", ErrUnavailable, g.bound)
	}
	g.queue = append(g.queue, w)
	if g.running < g.lanes {
		g.running++
		g.appoint()
	}
	g.mu.Unlock()
	for {
		select {
		case lead := <-w.turn:
			if !lead {
				return nil
			}
			g.lead(ctx)
		case <-ctx.Done():
			if g.leave(w) {
				return fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
			}
			// It leads, or its group runs; a leader must do its duty first.
			select {
			case lead := <-w.turn:
				if !lead {
					return nil
				}
				g.lead(ctx)
			default:
				return fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
			}
		}
	}
}

// appoint makes the first who waits the leader; with nobody waiting the lane
// goes idle. The caller holds mu and owns the lane.
func (g *gather[Q]) appoint() {
	for _, w := range g.queue {
		if !w.leads {
			w.leads = true
			w.turn <- true
			return
		}
	}
	g.running--
}

// lead runs one group and passes the lane on.
func (g *gather[Q]) lead(ctx context.Context) {
	g.mu.Lock()
	g.settle()
	n := min(g.most, len(g.queue))
	g.last = n
	group := g.queue[:n:n]
	g.queue = append([]*waiter[Q](nil), g.queue[n:]...)
	for _, w := range group {
		w.leads = true // cannot leave any more
	}
	g.mu.Unlock()
	defer func() { // also when a caller's Encode panics
		for _, w := range group {
			w.turn <- false
		}
		g.mu.Lock()
		g.appoint()
		g.mu.Unlock()
	}()
	if n == 0 {
		return
	}
	calls := make([]Q, n)
	for i, w := range group {
		calls[i] = w.call
	}
	g.run(context.WithoutCancel(ctx), calls)
}

// settle lets those come who are on their way, where the last group was one: who was
// answered asks again at once, and the first of hundreds would commit alone. Nobody is
// waited for, only the processor is given to who can run. The caller holds mu.
func (g *gather[Q]) settle() {
	for was := 0; g.last > 1 && len(g.queue) > was && len(g.queue) < g.most; {
		was = len(g.queue)
		g.mu.Unlock()
		runtime.Gosched()
		g.mu.Lock()
	}
}

// leave takes a waiter out of the queue, unless it leads or its group runs.
func (g *gather[Q]) leave(w *waiter[Q]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.leads {
		return false
	}
	for i, other := range g.queue {
		if other == w {
			g.queue = append(g.queue[:i:i], g.queue[i+1:]...)
			return true
		}
	}
	return false
}

// backlog is the number of calls that the next groups will not take.
func (g *gather[Q]) backlog() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(0, len(g.queue)-g.most*g.lanes)
}
