package waitroom

import (
	"context"
	"slices"
	"sync"
)

// batcher gathers calls: while a call of a key is on its way, those that arrive wait,
// and go out together as the next. It has no timer and no goroutine of its own: whoever
// finds nothing on its way sends at once, and when the call is back, the baton goes to
// the first who waits. So batches grow exactly as far as the store is slow.
//
// A lone call holds up nobody: as long as each call on its way carries one question and
// nobody waits, the next few go out beside it. Without that, two who come in the same
// moment would wait one for the other, which is what a server with time to spare sees
// most of the time.
//
// A caller that gives up while it waits takes its question with it and harms
// nobody. A caller that is sending finishes first: the others ride on its call.
type batcher[K comparable, Q, A any] struct {
	most  int // questions in a call
	bound int // callers of a key that may wait; more are refused with ErrBusy
	send  func(context.Context, K, []Q) ([]A, error)

	free sync.Pool // of *asked, whose one message was read

	mu    sync.Mutex // guards lanes and everything in them
	lanes map[K]*lane[Q, A]
}

// mostLone is how many calls of one question each are on their way at the same time.
const mostLone = 3

// lane exists while a call of its key is on its way.
type lane[Q, A any] struct {
	waiting []*asked[Q, A]
	calls   int  // on their way, or about to be
	batch   bool // one of them is of several questions
}

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
	b.mu.Lock()
	ln := b.lanes[key]
	if ln == nil {
		ln = &lane[Q, A]{}
		b.lanes[key] = ln
	}
	switch {
	case len(ln.waiting) == 0 && !ln.batch && ln.calls < mostLone:
		ln.calls++
		b.mu.Unlock()
		return b.alone(ctx, key, ln, q)
	case len(ln.waiting) >= b.bound:
		b.mu.Unlock()
		return none, ErrBusy
	}
	me, _ := b.free.Get().(*asked[Q, A])
	if me == nil {
		me = &asked[Q, A]{news: make(chan told[A], 1)}
	}
	me.q, me.took = q, false
	ln.waiting = append(ln.waiting, me)
	b.mu.Unlock()

	select {
	case n := <-me.news:
		if n.baton {
			n.answer, n.err = b.lead(ctx, key, ln, me)
		}
		me.q = *new(Q)
		b.free.Put(me)
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

// alone sends one question.
func (b *batcher[K, Q, A]) alone(ctx context.Context, key K, ln *lane[Q, A], q Q) (A, error) {
	defer b.pass(key, ln)
	answers, err := b.send(context.WithoutCancel(ctx), key, []Q{q})
	if err != nil {
		var none A
		return none, err
	}
	return answers[0], nil
}

// lead sends the first batch of the lane, which holds me, and gives everyone
// their answer.
func (b *batcher[K, Q, A]) lead(ctx context.Context, key K, ln *lane[Q, A], me *asked[Q, A]) (A, error) {
	b.mu.Lock()
	n := min(b.most, len(ln.waiting))
	batch := slices.Clone(ln.waiting[:n])
	ln.waiting = slices.Delete(ln.waiting, 0, n)
	ln.batch = n > 1
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

// pass ends a call. The last one on its way hands the baton to the first who waits, or
// closes the lane.
func (b *batcher[K, Q, A]) pass(key K, ln *lane[Q, A]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ln.calls--
	if ln.calls > 0 {
		return
	}
	ln.batch = false
	if len(ln.waiting) == 0 {
		delete(b.lanes, key)
		return
	}
	ln.calls = 1
	ln.waiting[0].news <- told[A]{baton: true}
}
