package waitroom

import (
	"context"
	"slices"
	"sync"
)

// batcher gathers calls: while one call of a key is on its way, those that
// arrive wait, and go out together as the next. It has no timer and no goroutine
// of its own: whoever finds nothing on its way sends at once, and when its call
// is back it hands the baton to the first who waits. So a lone call waits for
// nothing, and batches grow exactly as far as the store is slow.
//
// A caller that gives up while it waits takes its question with it and harms
// nobody. A caller that is sending finishes first: the others ride on its call.
type batcher[K comparable, Q, A any] struct {
	most  int // questions in a call
	bound int // callers of a key that may wait; more are refused with ErrBusy
	send  func(context.Context, K, []Q) ([]A, error)

	mu    sync.Mutex // guards lanes and everything in them
	lanes map[K]*lane[Q, A]
}

// lane exists while a call of its key is on its way.
type lane[Q, A any] struct{ waiting []*asked[Q, A] }

type asked[Q, A any] struct {
	q    Q
	took bool          // a sender has it
	news chan told[A]  // one message to come: the answer, or the baton
	_    [0]func(Q, A) // not comparable
}

type told[A any] struct {
	baton  bool
	answer A
	err    error
}

func newBatcher[K comparable, Q, A any](most, bound int, send func(context.Context, K, []Q) ([]A, error)) *batcher[K, Q, A] {
	return &batcher[K, Q, A]{most: most, bound: bound, send: send, lanes: make(map[K]*lane[Q, A])}
}

// do asks q and waits for its own answer. Errors: ErrBusy when too many wait, the
// ctx's own, and whatever the call that carried q came back with.
func (b *batcher[K, Q, A]) do(ctx context.Context, key K, q Q) (A, error) {
	var none A
	if err := ctx.Err(); err != nil {
		return none, err
	}
	me := &asked[Q, A]{q: q, news: make(chan told[A], 1)}
	b.mu.Lock()
	ln, busy := b.lanes[key]
	switch {
	case !busy:
		ln = &lane[Q, A]{waiting: []*asked[Q, A]{me}}
		b.lanes[key] = ln
		b.mu.Unlock()
		return b.lead(ctx, key, ln, me)
	case len(ln.waiting) >= b.bound:
		b.mu.Unlock()
		return none, ErrBusy
	}
	ln.waiting = append(ln.waiting, me)
	b.mu.Unlock()

	select {
	case n := <-me.news:
		if n.baton {
			return b.lead(ctx, key, ln, me)
		}
		return n.answer, n.err
	case <-ctx.Done():
	}
	b.mu.Lock()
	if !me.took {
		ln.waiting = slices.DeleteFunc(ln.waiting, func(a *asked[Q, A]) bool { return a == me })
	}
	b.mu.Unlock()
	select {
	case n := <-me.news: // the baton or the answer came meanwhile
		if n.baton {
			b.pass(key, ln)
		} else if n.err == nil {
			return n.answer, nil
		}
	default:
	}
	return none, context.Cause(ctx)
}

// lead sends the first batch of the lane, which holds me, and gives everyone
// their answer.
func (b *batcher[K, Q, A]) lead(ctx context.Context, key K, ln *lane[Q, A], me *asked[Q, A]) (A, error) {
	b.mu.Lock()
	n := min(b.most, len(ln.waiting))
	batch := slices.Clone(ln.waiting[:n])
	ln.waiting = slices.Delete(ln.waiting, 0, n)
	for _, a := range batch {
		a.took = true
	}
	b.mu.Unlock()
	defer b.pass(key, ln)

	qs := make([]Q, len(batch))
	for i, a := range batch {
		qs[i] = a.q
	}
	answers, err := b.send(context.WithoutCancel(ctx), key, qs)
	var mine told[A]
	for i, a := range batch {
		t := told[A]{err: err}
		if err == nil {
			t.answer = answers[i]
		}
		if a == me {
			mine = t
			continue
		}
		a.news <- t
	}
	return mine.answer, mine.err
}

// pass hands the baton to the first who waits, or closes the lane.
func (b *batcher[K, Q, A]) pass(key K, ln *lane[Q, A]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(ln.waiting) == 0 {
		delete(b.lanes, key)
		return
	}
	ln.waiting[0].news <- told[A]{baton: true}
}
