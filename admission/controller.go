package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// DefaultTick is how often each event is decided on.
const DefaultTick = 100 * time.Millisecond

// Line is what admission asks of the line.
type Line interface {
	// Events are all events, as they are now; with an error, those that could be read.
	Events(ctx context.Context) ([]waitroom.Event, error)
	// Promote moves at most N people from the line to the grants; ErrFenced when a
	// later term was seen.
	Promote(ctx context.Context, req waitroom.PromoteRequest) (waitroom.Promotion, error)
	// Sweep ends what is over, in bounded batches.
	Sweep(ctx context.Context, event waitroom.EventID) (waitroom.Swept, error)
}

// Leadership gives this node its terms: a Lease, or a fake of it.
type Leadership interface {
	// Run calls lead for each term that is won, and returns when ctx ended.
	Run(ctx context.Context, lead func(context.Context, Term)) error
}

// Config says how the loop runs.
type Config struct {
	// Node names this process in what the leader tells the others. Required.
	Node string
	// Tick is how often each event is decided on. Default 100ms.
	Tick time.Duration
	// CallTimeout bounds each call of the line. Default 1s.
	CallTimeout time.Duration
	// Concurrency is how many events may be calling the line at once, for promoting
	// and for sweeping each. An event that finds no room misses its tick. Default 16.
	Concurrency int64
}

// Deps are what a Controller works with.
type Deps struct {
	Line       Line
	Leadership Leadership
	// Sources say how loaded the site is; each leaves out the events it knows
	// nothing of.
	Sources []Source
	// Bulletin tells the nodes that stand by what the leader decides; nil tells nobody.
	Bulletin *Bulletin
	// Notary seals the admission logs; nil leaves them unsealed.
	Notary  *Notary
	Log     *zap.Logger
	Metrics prometheus.Registerer
}

// Controller lets people in: on the node that leads, tick by tick, and for each
// event by itself. The others stand by.
type Controller struct {
	cfg     Config
	deps    Deps
	log     *zap.Logger
	metrics *metrics

	mu      sync.Mutex // guards the fields below
	leading bool
	last    map[waitroom.EventID]Standing
	heardAt time.Time // when the last bulletin came, or this node led
}

// New checks the settings; it connects and starts nothing.
func New(cfg Config, deps Deps) (*Controller, error) {
	cfg.Tick = cmp.Or(cfg.Tick, DefaultTick)
	cfg.CallTimeout = cmp.Or(cfg.CallTimeout, time.Second)
	cfg.Concurrency = cmp.Or(cfg.Concurrency, 16)
	var faults []error
	if cfg.Node == "" {
		faults = append(faults, errors.New("node: must be given"))
	}
	if cfg.Tick < 0 {
		faults = append(faults, fmt.Errorf("tick %v: must be above 0", cfg.Tick))
	}
	if cfg.CallTimeout < 0 {
		faults = append(faults, fmt.Errorf("call timeout %v: must be above 0", cfg.CallTimeout))
	}
	if cfg.Concurrency < 0 {
		faults = append(faults, fmt.Errorf("concurrency %d: must be above 0", cfg.Concurrency))
	}
	if deps.Line == nil || deps.Leadership == nil || deps.Log == nil || deps.Metrics == nil {
		faults = append(faults, errors.New("line, leadership, log and metrics: must be given"))
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("admission: %w", errors.Join(faults...))
	}
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, fmt.Errorf("admission: %w", err)
	}
	return &Controller{
		cfg: cfg, deps: deps, log: deps.Log, metrics: m,
		last: make(map[waitroom.EventID]Standing),
	}, nil
}

// Run stands by and leads in turn until ctx ends. The term's work has ended, and
// the lease is given back, when it returns.
func (c *Controller) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.deps.Leadership.Run(ctx, c.lead) })
	if c.deps.Bulletin != nil {
		group.Go(func() error { return every(ctx, bulletinEvery, c.bulletin) })
	}
	return group.Wait()
}

// Decision is what was decided last for an event: here, while this node leads, or
// by the leader as far as its bulletin came. False when nothing is known.
func (c *Controller) Decision(event waitroom.EventID) (Standing, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.last[event]
	return s, ok
}

// Leading reports whether this node leads.
func (c *Controller) Leading() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leading
}

// lead works for one term: it returns when ctx ends, or when a promote was fenced off.
func (c *Controller) lead(ctx context.Context, term Term) {
	ctx, stepDown := context.WithCancelCause(ctx)
	defer stepDown(nil)
	heard := c.begin(term)
	t := &tenure{
		Controller: c, term: term, began: time.Now(), stepDown: stepDown,
		promoting: semaphore.NewWeighted(c.cfg.Concurrency), sweeping: semaphore.NewWeighted(c.cfg.Concurrency),
		runs: make(map[waitroom.EventID]*run), heard: heard,
	}
	_ = every(ctx, c.cfg.Tick, t.refresh)
	for _, r := range t.runs {
		r.cancel()
	}
	t.running.Wait()
	c.end()
}

// begin is what the leader before was last heard to have decided.
func (c *Controller) begin(term Term) map[waitroom.EventID]Standing {
	c.metrics.leading.Set(1)
	c.metrics.fence.Set(float64(term.Fence))
	if term.Gap >= 0 {
		c.metrics.leaderless.Observe(term.Gap.Seconds())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leading = true
	heard := c.last
	if time.Since(c.heardAt) > resumable {
		heard = nil
	}
	c.last = make(map[waitroom.EventID]Standing)
	return heard
}

// resumable is how long after the last bulletin a new leader goes on from it.
const resumable = 15 * time.Second

func (c *Controller) end() {
	c.metrics.leading.Set(0)
	c.metrics.perEvent.Reset()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leading, c.heardAt = false, time.Now()
}

// note keeps what was decided, and says aloud when the reason is another one.
func (c *Controller) note(s Standing) {
	c.mu.Lock()
	before, known := c.last[s.Event]
	c.last[s.Event] = s
	c.mu.Unlock()
	c.metrics.decided(s)
	if before.Reason == s.Reason && before.PassThrough == s.PassThrough && known {
		return
	}
	fields := []zap.Field{
		zap.String("event", string(s.Event)), zap.String("reason", s.Reason), zap.Float64("rate_per_s", s.RatePerS),
		zap.Float64("usage", s.Usage), zap.String("load", s.Load), zap.Int64("fence", s.Fence), zap.Bool("pass_through", s.PassThrough),
	}
	if s.Reason == ReasonUnknown {
		c.log.Warn("load unknown", fields...)
		return
	}
	c.log.Info("rate decided", fields...)
}

// forget drops an event that is no more, also at the sources that keep something of
// it: another event of the same name must not inherit it.
func (c *Controller) forget(ctx context.Context, event waitroom.EventID) {
	for _, s := range c.deps.Sources {
		if keeper, ok := s.(interface {
			Forget(context.Context, waitroom.EventID) error
		}); ok {
			if err := keeper.Forget(context.WithoutCancel(ctx), event); err != nil {
				c.log.Warn("event not forgotten", zap.String("event", string(event)), zap.Error(err))
			}
		}
	}
	c.metrics.forget(event)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last, event)
}

// bulletin tells the others while leading, and listens otherwise.
func (c *Controller) bulletin(ctx context.Context) {
	c.mu.Lock()
	leading, all := c.leading, make([]Standing, 0, len(c.last))
	for _, s := range c.last {
		all = append(all, s)
	}
	c.mu.Unlock()
	if leading {
		c.deps.Bulletin.tell(ctx, all)
		return
	}
	heard, ok := c.deps.Bulletin.hear(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leading {
		return
	}
	if !ok { // nobody leads, or the store is away: what was heard is no decision any more
		if time.Since(c.heardAt) > resumable {
			clear(c.last)
		}
		return
	}
	c.heardAt = time.Now()
	clear(c.last)
	for _, s := range heard {
		c.last[s.Event] = s
	}
}
