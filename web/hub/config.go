package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// Config is what an operator may decide about the hub. Zero means the default.
type Config struct {
	// Origins are the web origins that may open a socket, each exactly as a
	// browser sends it ("https://tickets.example"). A socket without an Origin is
	// no browser and always allowed. Default: none.
	Origins []string
	// MaxSockets is the most sockets at once; one more is refused with 503 and a
	// time to come back. Default 17,000 (a process with 20,000 files needs some for
	// its stores and its HTTP calls).
	MaxSockets int
	// MaxOps is the most operators' sockets at once. Default 64.
	MaxOps int
	// Shards is the number of goroutines that write. Default: one per core.
	Shards int
	// HelloTimeout is the time for a socket without cookie to say who it is. Default 10s.
	HelloTimeout time.Duration
	// Near is how many at the front are told their position every NearEvery. Default 1000.
	Near int64
	// NearEvery is the time between two positions near the front. Default 1s.
	NearEvery time.Duration
	// FarEvery is the time between two positions for everybody else. Default 4s; at
	// most 20s, so that proxies see data in time.
	FarEvery time.Duration
	// IdleEvery is the time between two messages to somebody who has no position:
	// inside, or not yet placed. Default 20s; at most 25s.
	IdleEvery time.Duration
	// PingEvery is the time between two pings. Default 25s, at most 25s.
	PingEvery time.Duration
	// PongWait is how long a peer may be silent before it counts as lost. Default 60s.
	PongWait time.Duration
	// WriteTimeout is how long a message may wait in a full socket before the client
	// is cut as slow. Default 10s.
	WriteTimeout time.Duration
	// QueueLen is how many one-off messages may wait for a slow client. Default 16.
	QueueLen int
	// SendBuffer is the kernel's send buffer a socket, in bytes. It bounds what a
	// client that stopped reading costs. Default 16 KiB.
	SendBuffer int
	// SeatsEvery is the least time between two messages about the map to somebody who
	// chooses from it. Default 500ms.
	SeatsEvery time.Duration
	// Tick is the hub's unit of time: every interval above is a multiple of it. Default 100ms.
	Tick time.Duration
	// Askers is how many calls to the line may run at once. Default 64, so that the
	// line can gather them.
	Askers int
	// StoreTimeout is the deadline of each call to the line. Default 2s.
	StoreTimeout time.Duration
	// GoneAfter is how long an event must be missing before its people are sent away
	// for good: a store that lost its data has it again by then. Default 5s.
	GoneAfter time.Duration
	// DrainPerS is how many clients a second may come back after a drain, as long as
	// all are back in 50s. Default 500.
	DrainPerS int
	// DrainGrace is how long the farewell may take. Default 5s.
	DrainGrace time.Duration
}

func (c Config) withDefaults() Config {
	c.MaxSockets = cmp.Or(c.MaxSockets, 17_000)
	c.MaxOps = cmp.Or(c.MaxOps, 64)
	c.Shards = cmp.Or(c.Shards, runtime.GOMAXPROCS(0))
	c.HelloTimeout = cmp.Or(c.HelloTimeout, 10*time.Second)
	c.Near = cmp.Or(c.Near, 1000)
	c.NearEvery = cmp.Or(c.NearEvery, time.Second)
	c.FarEvery = cmp.Or(c.FarEvery, 4*time.Second)
	c.IdleEvery = cmp.Or(c.IdleEvery, 20*time.Second)
	c.PingEvery = cmp.Or(c.PingEvery, 25*time.Second)
	c.PongWait = cmp.Or(c.PongWait, 60*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 10*time.Second)
	c.QueueLen = cmp.Or(c.QueueLen, 16)
	c.SendBuffer = cmp.Or(c.SendBuffer, 16<<10)
	c.SeatsEvery = cmp.Or(c.SeatsEvery, 500*time.Millisecond)
	c.Tick = cmp.Or(c.Tick, 100*time.Millisecond)
	c.Askers = cmp.Or(c.Askers, 64)
	c.StoreTimeout = cmp.Or(c.StoreTimeout, 2*time.Second)
	c.GoneAfter = cmp.Or(c.GoneAfter, 5*time.Second)
	c.DrainPerS = cmp.Or(c.DrainPerS, 500)
	c.DrainGrace = cmp.Or(c.DrainGrace, 5*time.Second)
	return c
}

// Validate returns every fault of c, with field and value.
func (c Config) Validate() error {
	c = c.withDefaults()
	var faults []error
	for _, o := range c.Origins {
		u, err := url.Parse(o)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.Scheme+"://"+u.Host != o {
			faults = append(faults, fmt.Errorf("origins: %q is no origin such as https://tickets.example", o))
		}
	}
	for _, f := range []struct {
		name string
		n    int
	}{
		{"max_sockets", c.MaxSockets},
		{"max_ops", c.MaxOps},
		{"shards", c.Shards},
		{"queue_len", c.QueueLen},
		{"send_buffer", c.SendBuffer},
		{"askers", c.Askers},
		{"drain_per_s", c.DrainPerS},
		{"near", int(c.Near)},
	} {
		if f.n < 1 {
			faults = append(faults, fmt.Errorf("%s: %d is less than 1", f.name, f.n))
		}
	}
	for _, f := range []struct {
		name   string
		d, max time.Duration
	}{
		{"hello_timeout", c.HelloTimeout, 25 * time.Second},
		{"near_every", c.NearEvery, 5 * time.Second},
		{"far_every", c.FarEvery, 20 * time.Second},
		{"idle_every", c.IdleEvery, 25 * time.Second},
		{"ping_every", c.PingEvery, 25 * time.Second},
		{"pong_wait", c.PongWait, time.Hour},
		{"write_timeout", c.WriteTimeout, time.Minute},
		{"seats_every", c.SeatsEvery, 5 * time.Second},
		{"tick", c.Tick, 100 * time.Millisecond},
		{"store_timeout", c.StoreTimeout, time.Minute},
		{"gone_after", c.GoneAfter, time.Minute},
		{"drain_grace", c.DrainGrace, 20 * time.Second},
	} {
		if f.d <= 0 || f.d > f.max {
			faults = append(faults, fmt.Errorf("%s: %v is not between 0 and %v", f.name, f.d, f.max))
		}
	}
	if c.PongWait <= c.PingEvery {
		faults = append(faults, fmt.Errorf("pong_wait: %v must be longer than ping_every (%v)", c.PongWait, c.PingEvery))
	}
	return errors.Join(faults...)
}

// Line is what the hub asks of the line about one person.
type Line interface {
	// ReadReceipt checks a receipt without asking the store: whose it is, and the place's
	// sequence.
	ReadReceipt(event waitroom.EventID, token string) (waitroom.EntryID, waitroom.Seq, error)
	// PartyOf is the party that a receipt is of, as its entry's id; empty without one.
	PartyOf(event waitroom.EventID, token string) waitroom.EntryID
	// Place asks the store where the receipt's holder stands.
	Place(ctx context.Context, event waitroom.EventID, receipt string) (waitroom.Place, error)
	// Leave gives the place, or the turn, up.
	Leave(ctx context.Context, event waitroom.EventID, entry waitroom.EntryID) error
}

// Presence is told, in batches, whose sockets opened and closed on this node.
type Presence interface {
	Here(ctx context.Context, event waitroom.EventID, entries []waitroom.EntryID) error
	Away(ctx context.Context, event waitroom.EventID, desktop, mobile []waitroom.EntryID) error
}

// View answers from this node's memory of the lines. Position and Estimate must
// not block.
type View interface {
	Event(ctx context.Context, id waitroom.EventID) (waitroom.Event, error)
	Position(id waitroom.EventID, seq waitroom.Seq) (int64, bool)
	Estimate(id waitroom.EventID, seq waitroom.Seq, pos int64) (eta, p90 time.Duration, ok bool)
}

// Passes makes entry tokens. The same grant gives the same token.
type Passes interface {
	Mint(g waitroom.Grant) (string, error)
}

// Deps are what the hub needs of others. All but those marked optional are required.
type Deps struct {
	Line     Line
	Presence Presence
	View     View
	Passes   Passes
	// Ping asks whether the store answers.
	Ping func(ctx context.Context) error
	// SeatsLeft answers from memory. Optional: without it no seats are told.
	SeatsLeft func(event waitroom.EventID) (int64, bool)
	// Seats answers what changed on a map. Optional: without it nobody is told.
	Seats Seats
	// Holding answers from memory why an open event lets in fewer than its rate, such as
	// database_busy, and since when (zero: not known); "" is for no reason that a fan has
	// to know. Optional.
	Holding func(event waitroom.EventID) (reason string, since time.Time)
	// Redirect is where an admitted person of the event goes. Optional: the event's
	// redirect_url, or its shop page.
	Redirect func(waitroom.Event) string
	// Sample is one metrics sample for operators, as JSON. Optional: without it
	// ServeOps answers 404.
	Sample func(ctx context.Context, event waitroom.EventID) ([]byte, error)
	// Refuse answers a request that gets no socket. Optional: a problem+json body
	// with the code, and Retry-After where retry is positive.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, code string, retry time.Duration)

	Log *zap.Logger
	// Registerer takes the hub's metrics. Optional.
	Registerer prometheus.Registerer
}

func (d Deps) validate() error {
	if d.Line == nil || d.Presence == nil || d.View == nil || d.Passes == nil || d.Ping == nil || d.Log == nil {
		return errors.New("hub: line, presence, view, passes, ping and log are required")
	}
	return nil
}

func (d Deps) withDefaults() Deps {
	if d.SeatsLeft == nil {
		d.SeatsLeft = func(waitroom.EventID) (int64, bool) { return 0, false }
	}
	if d.Holding == nil {
		d.Holding = func(waitroom.EventID) (string, time.Time) { return "", time.Time{} }
	}
	if d.Redirect == nil {
		d.Redirect = func(ev waitroom.Event) string {
			return cmp.Or(ev.RedirectURL, "/e/"+string(ev.ID)+"/shop")
		}
	}
	if d.Refuse == nil {
		d.Refuse = refuse
	}
	if d.Registerer == nil {
		d.Registerer = prometheus.NewRegistry()
	}
	return d
}
