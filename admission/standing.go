package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waitroom-dev/waitroom/admission/ledger"
	"github.com/waitroom-dev/waitroom/waitroom"
)

const (
	// bulletinEvery is how often the leader tells, and the others listen.
	bulletinEvery = time.Second
	// bulletinFresh is how long a bulletin is believed.
	bulletinFresh = 5 * time.Second
)

// Standing is the last decision on one event, and what became of it.
type Standing struct {
	Decision
	Event waitroom.EventID
	// Since is when the reason began to hold, by the event's clock; zero: not known.
	Since time.Time
	// Lane is the lane that it is of; empty: the event as a whole, of whose lanes, if it
	// has any, Lanes are.
	Lane  string
	Lanes []Standing
	// Load says where the usage comes from, or why it is unknown.
	Load string
	// Signals are what each source said.
	Signals []Signal
	// PassThrough is whether everybody passed: N, RatePerS and Reason are then what the
	// law would have done.
	PassThrough bool
	// Starts says why people wait, where waiting starts by itself; empty where it does
	// not, and while everybody passes.
	Starts string
	// Given is how many were let in at that tick; Held is what the store kept the
	// rest back for: rate_cap, max_active, empty, not_open, or nothing.
	Given int
	Held  string
	// Fence and Leader say whose decision it is.
	Fence  int64
	Leader string
	// Waiting and Inside are the line's counts then, and At is the store's time.
	Waiting, Inside int64
	At              time.Time
	// Head is the newest sealed head of the admission log; nil before there is one.
	Head *ledger.Head
}

// standingJSON is a Standing on its way through the store. Usage is absent when
// unknown: JSON has no NaN.
type standingJSON struct {
	Event    waitroom.EventID `json:"event"`
	Lane     string           `json:"lane,omitempty"`
	Lanes    []Standing       `json:"lanes,omitempty"`
	N        int              `json:"n"`
	RatePerS float64          `json:"rate_per_s"`
	Reason   string           `json:"reason"`
	Usage    *float64         `json:"usage,omitempty"`
	Since    string           `json:"since,omitempty"`
	Load     string           `json:"load,omitempty"`
	Signals  []Signal         `json:"signals,omitempty"`
	Pass     bool             `json:"pass_through,omitempty"`
	Starts   string           `json:"starts,omitempty"`
	Given    int              `json:"given"`
	Held     string           `json:"held,omitempty"`
	Fence    int64            `json:"fence"`
	Leader   string           `json:"leader"`
	Waiting  int64            `json:"waiting"`
	Inside   int64            `json:"inside"`
	At       string           `json:"at"`
	Head     *ledger.Head     `json:"log,omitempty"`
}

// stampFormat is how times are written outside: UTC, with milliseconds.
const stampFormat = "2006-01-02T15:04:05.000Z"

// MarshalJSON writes snake_case fields, and no usage while it is unknown.
func (s Standing) MarshalJSON() ([]byte, error) {
	j := standingJSON{
		Event: s.Event, Lane: s.Lane, Lanes: s.Lanes, N: s.N, RatePerS: s.RatePerS, Reason: s.Reason, Load: s.Load, Signals: s.Signals, Pass: s.PassThrough, Starts: s.Starts, Given: s.Given, Held: s.Held,
		Fence: s.Fence, Leader: s.Leader, Waiting: s.Waiting, Inside: s.Inside, At: s.At.UTC().Format(stampFormat), Head: s.Head,
	}
	if !s.Since.IsZero() {
		j.Since = s.Since.UTC().Format(stampFormat)
	}
	if !math.IsNaN(s.Usage) {
		j.Usage = &s.Usage
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Standing) UnmarshalJSON(b []byte) error {
	var j standingJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return fmt.Errorf("standing: %w", err)
	}
	at, err := time.Parse(time.RFC3339, j.At)
	if err != nil {
		return fmt.Errorf("standing: %w", err)
	}
	var since time.Time
	if j.Since != "" {
		if since, err = time.Parse(time.RFC3339, j.Since); err != nil {
			return fmt.Errorf("standing: %w", err)
		}
	}
	*s = Standing{
		Since:    since,
		Decision: Decision{N: j.N, RatePerS: j.RatePerS, Reason: j.Reason, Usage: math.NaN()},
		Event:    j.Event, Lane: j.Lane, Lanes: j.Lanes, Load: j.Load, Signals: j.Signals, PassThrough: j.Pass, Starts: j.Starts, Given: j.Given, Held: j.Held,
		Fence: j.Fence, Leader: j.Leader, Waiting: j.Waiting, Inside: j.Inside, At: at, Head: j.Head,
	}
	if j.Usage != nil {
		s.Usage = *j.Usage
	}
	return nil
}

// Bulletin is how the leader's decisions come to the other nodes, so that any
// node can show them.
type Bulletin struct {
	rdb    redis.UniversalClient
	prefix string
}

// NewBulletin is the bulletin in this store.
func NewBulletin(rdb redis.UniversalClient, prefix string) *Bulletin {
	return &Bulletin{rdb: rdb, prefix: prefix}
}

// tell replaces the bulletin. It is for people to look at: a lost one is followed
// by the next in a second.
func (b *Bulletin) tell(ctx context.Context, all []Standing) {
	text, err := json.Marshal(all)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	_ = b.rdb.Set(ctx, decisionsKey(b.prefix), text, bulletinFresh).Err()
}

// hear reads the bulletin; false when there is none to be had.
func (b *Bulletin) hear(ctx context.Context) ([]Standing, bool) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	text, err := b.rdb.Get(ctx, decisionsKey(b.prefix)).Bytes()
	if err != nil {
		return nil, false
	}
	var all []Standing
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, false
	}
	return all, true
}
