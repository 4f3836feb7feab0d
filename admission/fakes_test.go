package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// fakeStore is the lease's store for virtual time: a lock that runs out, and a fence.
type fakeStore struct {
	// fault, if set, is asked before each call of a node; it may wait. An error is
	// the call's, and the call does nothing.
	fault func(ctx context.Context) error

	mu    sync.Mutex // guards the fields below
	value string
	until time.Time
	fence int64
	seen  time.Time // the last sign of a leader's life
	calls []string
}

// now is the store's moment of a call; the lock may have run out.
func (f *fakeStore) expire() {
	if f.value != "" && !time.Now().Before(f.until) {
		f.value = ""
	}
}

// drop deletes the lock, as somebody with a console does.
func (f *fakeStore) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.value = ""
}

func (f *fakeStore) count(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, c := range f.calls {
		if c == call {
			n++
		}
	}
	return n
}

func (f *fakeStore) Eval(ctx context.Context, script string, _ []string, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	if f.fault != nil {
		if err := f.fault(ctx); err != nil {
			cmd.SetErr(err)
			return cmd
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire()
	ttl := func(arg any) time.Time {
		var ms int64
		_, _ = fmt.Sscan(fmt.Sprint(arg), &ms)
		return time.Now().Add(time.Duration(ms) * time.Millisecond)
	}
	own := f.value != "" && len(args) > 0 && f.value == args[0]
	switch {
	case strings.Contains(script, "seen"):
		f.calls = append(f.calls, "seen")
		cmd.SetVal(int64(-1))
		if !f.seen.IsZero() {
			cmd.SetVal(time.Since(f.seen).Milliseconds())
		}
		f.seen = time.Now()
		return cmd
	case strings.Contains(script, "pexpire"):
		f.calls = append(f.calls, "renew")
		if own {
			f.until = ttl(args[1])
		}
	case strings.Contains(script, `"del"`):
		f.calls = append(f.calls, "release")
		if own {
			f.value = ""
		}
	case strings.Contains(script, "TIME"):
		f.calls = append(f.calls, "fence")
		if own {
			f.fence++
			cmd.SetVal(f.fence)
			return cmd
		}
	case strings.Contains(script, `"NX"`):
		f.calls = append(f.calls, "obtain")
		if f.value == "" || own {
			f.value, f.until = args[0].(string), ttl(args[2])
			cmd.SetVal("OK")
		} else {
			cmd.SetErr(redis.Nil)
		}
		return cmd
	}
	if own {
		cmd.SetVal(int64(1))
	} else {
		cmd.SetVal(int64(0))
	}
	return cmd
}

type noScriptError struct{}

func (noScriptError) Error() string { return "NOSCRIPT no matching script" }
func (noScriptError) RedisError()   {}

func (f *fakeStore) EvalSha(ctx context.Context, _ string, _ []string, _ ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	cmd.SetErr(noScriptError{})
	return cmd
}

func (f *fakeStore) EvalRO(ctx context.Context, s string, k []string, a ...any) *redis.Cmd {
	return f.Eval(ctx, s, k, a...)
}

func (f *fakeStore) EvalShaRO(ctx context.Context, s string, k []string, a ...any) *redis.Cmd {
	return f.EvalSha(ctx, s, k, a...)
}

func (f *fakeStore) ScriptExists(ctx context.Context, _ ...string) *redis.BoolSliceCmd {
	return redis.NewBoolSliceCmd(ctx)
}

func (f *fakeStore) ScriptLoad(ctx context.Context, _ string) *redis.StringCmd {
	return redis.NewStringCmd(ctx)
}

// promoted is one promote that a fakeLine took.
type promoted struct {
	event waitroom.EventID
	at    time.Duration // since the line was made
	fence int64
	n     int
	pass  bool
	lane  int
}

// fakeLine keeps the highest fence, and what was promoted. It has no cap: what the
// loop asks for is seen whole.
type fakeLine struct {
	start time.Time
	// Hooks that may wait or fail a call.
	onPromote func(ctx context.Context, req waitroom.PromoteRequest) error
	onSweep   func(ctx context.Context, event waitroom.EventID) error
	onEvents  func(ctx context.Context) error

	mu     sync.Mutex // guards the fields below
	events []waitroom.Event
	fence  int64
	taken  []promoted
	swept  map[waitroom.EventID]int
	held   string
}

func newFakeLine(events ...waitroom.Event) *fakeLine {
	return &fakeLine{start: time.Now(), events: events, swept: make(map[waitroom.EventID]int)}
}

func (l *fakeLine) set(events ...waitroom.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = events
}

func (l *fakeLine) Events(ctx context.Context) ([]waitroom.Event, error) {
	if l.onEvents != nil {
		if err := l.onEvents(ctx); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]waitroom.Event(nil), l.events...), nil
}

func (l *fakeLine) Promote(ctx context.Context, req waitroom.PromoteRequest) (waitroom.Promotion, error) {
	if l.onPromote != nil {
		if err := l.onPromote(ctx, req); err != nil {
			return waitroom.Promotion{}, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if req.Fence < l.fence {
		return waitroom.Promotion{}, fmt.Errorf("promote: %w", waitroom.ErrFenced)
	}
	l.fence = req.Fence
	l.taken = append(l.taken, promoted{event: req.Event, at: time.Since(l.start), fence: req.Fence, n: req.N, pass: req.Pass, lane: req.Lane})
	return waitroom.Promotion{Grants: make([]waitroom.Grant, req.N), State: waitroom.Open, Reason: l.held}, nil
}

func (l *fakeLine) Sweep(ctx context.Context, event waitroom.EventID) (waitroom.Swept, error) {
	if l.onSweep != nil {
		if err := l.onSweep(ctx, event); err != nil {
			return waitroom.Swept{}, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.swept[event]++
	return waitroom.Swept{}, nil
}

// of is what was promoted in an event.
func (l *fakeLine) of(event waitroom.EventID) []promoted {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []promoted
	for _, p := range l.taken {
		if p.event == event {
			out = append(out, p)
		}
	}
	return out
}

func (l *fakeLine) sweeps(event waitroom.EventID) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.swept[event]
}

// terms hands out one term after the other, and counts them.
type terms struct {
	trusted time.Duration

	mu   sync.Mutex // guards won
	won  int64
	over []error
}

func (t *terms) Run(ctx context.Context, lead func(context.Context, Term)) error {
	return every(ctx, DefaultTick, func(ctx context.Context) {
		t.mu.Lock()
		t.won++
		fence := t.won
		t.mu.Unlock()
		lead(ctx, NewTerm(fence, t.trusted))
		t.mu.Lock()
		defer t.mu.Unlock()
		t.over = append(t.over, context.Cause(ctx))
	})
}

func (t *terms) count() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.won
}

// fakeSource says what it is told.
type fakeSource struct {
	mu    sync.Mutex // guards usage
	usage func(ctx context.Context, ev waitroom.Event) (Reading, error)
	gone  []waitroom.EventID
}

func (s *fakeSource) Usage(ctx context.Context, ev waitroom.Event) (Reading, error) {
	s.mu.Lock()
	usage := s.usage
	s.mu.Unlock()
	return usage(ctx, ev)
}

func (s *fakeSource) Forget(_ context.Context, event waitroom.EventID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = append(s.gone, event)
	return errors.New("store away")
}

func (s *fakeSource) set(usage func(ctx context.Context, ev waitroom.Event) (Reading, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usage = usage
}
