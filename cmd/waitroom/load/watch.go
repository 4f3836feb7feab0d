package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"
)

// event is what the public call says of the event.
type event struct {
	ID       string     `json:"id"`
	Order    string     `json:"order"`
	State    string     `json:"state"`
	OpensAt  *time.Time `json:"opens_at"`
	Now      time.Time  `json:"now"`
	RatePerS float64    `json:"rate_per_s"`
	Passes   bool       `json:"pass_through"` // rate_per_s binds nobody
	Groups   []struct{} `json:"groups"`
	Lanes    []struct {
		Name     string  `json:"name"`
		RatePerS float64 `json:"rate_per_s"`
	} `json:"lanes"`
}

// watcher looks at the event each second while the run lasts: its rate, which an
// operator may change, and its clock.
type watcher struct {
	client *client
	config Config

	mu     sync.Mutex
	limits limits        // guarded by mu
	event  event         // guarded by mu: as it was last seen
	offset time.Duration // guarded by mu: the service's clock less ours
	seen   bool          // guarded by mu: offset has a value
}

func newWatcher(c Config) *watcher {
	return &watcher{
		client: newClient(c, &dialer{}, 2), config: c,
		limits: limits{fifo: true, burst: c.Checks.Burst, maxActive: c.Checks.MaxActive, perUser: c.Checks.PerUser, lanes: map[string][]rateSeen{}},
	}
}

// passing stands for the rate while everybody passes: more than any service lets in.
const passing = 1e6

// errNoEvent: the service does not know the event.
var errNoEvent = errors.New("no such event")

// first looks once before the run: the event must be there.
func (w *watcher) first(ctx context.Context) error {
	if err := w.look(ctx, 0); err != nil {
		return err
	}
	if w.config.OperatorToken == "" {
		return nil
	}
	return w.askLimits(ctx)
}

// watch looks each second until ctx ends. What does not answer now is asked again a
// second later, at the next target.
func (w *watcher) watch(ctx context.Context) {
	for n := 0; pause(ctx, time.Second) == nil; n++ {
		_ = w.look(ctx, n) // the users find the same trouble and book it
	}
}

func (w *watcher) look(ctx context.Context, target int) error {
	a, err := w.client.once(ctx, target, call{method: http.MethodGet, path: "/v1/events/" + w.config.Event}, 1)
	got := time.Now()
	switch {
	case err != nil:
		return fmt.Errorf("look at event %s: %w", w.config.Event, err)
	case a.status == http.StatusNotFound:
		return fmt.Errorf("event %s: %w", w.config.Event, errNoEvent)
	case a.status != http.StatusOK:
		return fmt.Errorf("look at event %s: http %d", w.config.Event, a.status)
	}
	var e event
	if err := decode(a.body, &e); err != nil {
		return fmt.Errorf("look at event %s: %w", w.config.Event, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limits.fifo = e.Order == "" || e.Order == "fifo"
	if e.OpensAt != nil {
		w.limits.opensAt = e.OpensAt.Unix()
	}
	rate := e.RatePerS
	if e.Passes {
		rate = passing
	}
	w.limits.rates = append(w.limits.rates, rateSeen{at: e.Now.Unix(), rate: rate})
	for _, l := range e.Lanes {
		if e.Passes {
			l.RatePerS = passing
		}
		w.limits.lanes[l.Name] = append(w.limits.lanes[l.Name], rateSeen{at: e.Now.Unix(), rate: l.RatePerS})
	}
	w.event = e
	// now was written before it was read, so it is never ahead of the service's clock:
	// the largest difference is the closest.
	if d := e.Now.Sub(got); !w.seen || d > w.offset {
		w.offset, w.seen = d, true
	}
	return nil
}

// askLimits reads the event's settings as an operator.
func (w *watcher) askLimits(ctx context.Context) error {
	a, err := w.client.once(ctx, 0, call{method: http.MethodGet, path: "/v1/ops/events/" + w.config.Event, bearer: w.config.OperatorToken}, 1)
	if err != nil {
		return fmt.Errorf("ask for the event's limits: %w", err)
	}
	var s struct {
		Burst      int    `json:"burst"`
		MaxActive  int    `json:"max_active"`
		SessionTTL string `json:"session_ttl"`
		Tickets    struct {
			PerUser int `json:"per_user"`
		} `json:"tickets"`
	}
	if a.status != http.StatusOK {
		return fmt.Errorf("ask for the event's limits: http %d %.200s", a.status, a.body)
	}
	if err := decode(a.body, &s); err != nil {
		return fmt.Errorf("ask for the event's limits: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	fill := func(known *int, asked int) {
		if *known < 0 {
			*known = asked
		}
	}
	fill(&w.limits.burst, s.Burst)
	fill(&w.limits.maxActive, s.MaxActive)
	fill(&w.limits.perUser, s.Tickets.PerUser)
	w.limits.sessionTTL, _ = time.ParseDuration(s.SessionTTL) // zero is the careful value
	return nil
}

// known is what was learnt.
func (w *watcher) known() (limits, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.limits
	l.lanes = maps.Clone(l.lanes) // grown meanwhile
	return l, w.offset
}

// lanes are the weights of the lanes that the crowd comes to.
func (w *watcher) lanes() (map[string]float64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.event.lanesOf(w.config.Crowd.Lanes)
}

// checkSold looks whether every seat that was paid for shows as sold; the map may be
// a few seconds old, so it gets some.
func (w *watcher) checkSold(ctx context.Context, t *tally, facts []fact) {
	paid := map[string]int{}
	for _, f := range facts {
		for _, p := range f.Purchases {
			for _, s := range p.Seats {
				if p.State == statusPaid {
					paid[s] = f.User
				}
			}
		}
	}
	for attempt := 0; len(paid) > 0; attempt++ {
		unsold, known := w.unsold(ctx, paid)
		if known && (len(unsold) == 0 || attempt >= 8) {
			t.checkMany(promiseKept, int64(len(paid)-len(unsold)))
			for _, s := range unsold {
				t.check(promiseKept, false, "user %d paid for seat %s; the map does not show it as sold", paid[s], s)
			}
			return
		}
		if attempt >= 8 || pause(ctx, time.Second) != nil {
			t.note(promiseKept, "the seat map at the end was not to be had")
			return
		}
	}
}

// unsold lists the paid seats that the map does not show as sold.
func (w *watcher) unsold(ctx context.Context, paid map[string]int) (unsold []string, known bool) {
	a, err := w.client.once(ctx, 0, call{method: http.MethodGet, path: "/v1/events/" + w.config.Event + "/seats"}, 1)
	var m seatMap
	if err != nil || a.status != http.StatusOK || decode(a.body, &m) != nil {
		return nil, false
	}
	sold := map[string]bool{}
	for _, sec := range m.Sections {
		for _, s := range sec.Seats {
			sold[s.ID] = s.Status == "sold"
		}
	}
	if len(m.Sections) == 0 {
		return nil, true // a stock has no seats to look at
	}
	for s := range paid {
		if !sold[s] {
			unsold = append(unsold, s)
		}
	}
	return unsold, true
}
