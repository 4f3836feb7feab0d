package load

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// Habits are what people do beside waiting, as shares of the crowd, 0 to 1. Who
// does what is decided by the seed. Poll, Deaf and Bots exclude each other.
type Habits struct {
	// Away lose their network once, without a word, for one to five seconds.
	Away float64 `json:"away"`
	// Leave give their place up while they wait.
	Leave float64 `json:"leave"`
	// Refresh load the page again: they join again with their cookie.
	Refresh float64 `json:"refresh"`
	// Tabs open the page in a second tab: a second socket for the same place.
	Tabs float64 `json:"tabs"`
	// Poll have no socket: they ask, when they are told to.
	Poll float64 `json:"poll"`
	// Deaf open a socket and never read from it.
	Deaf float64 `json:"deaf"`
	// Bots are no people: they call in a closed loop, with no token, and heed nothing.
	Bots float64 `json:"bots"`
}

// habits are what one user will do, decided before the first step.
type habits struct {
	kind    kind
	buys    bool // if admitted
	chooses bool // buys chosen seats, else takes what comes
	seats   int  // how many
	away    bool // loses the network once
	leaves  bool // gives the place up while waiting
	reloads bool // loads the page again
	tabs    bool // opens a second tab
	sampled bool // is asked more often, to check promises
}

// kind is how a user hears of the line.
type kind int8

const (
	listens kind = iota // on a socket
	polls               // by asking
	deaf                // not at all, with a socket that nobody reads
	bot                 // no person
)

// habits of user i; the generator goes on to serve the user's own chances.
func (c Crowd) habits(i int, sample float64) (habits, *rand.Rand) {
	r := rand.New(rand.NewPCG(c.Seed, uint64(i))) //nolint:gosec // i counts from 0
	h := habits{
		buys:    r.Float64() < c.Buy,
		chooses: r.Float64() < 0.7,
		seats:   1 + r.IntN(2),
		away:    r.Float64() < c.Habits.Away,
		sampled: r.Float64() < sample,
		leaves:  r.Float64() < c.Habits.Leave,
		reloads: r.Float64() < c.Habits.Refresh,
		tabs:    r.Float64() < c.Habits.Tabs,
	}
	switch way := r.Float64(); {
	case way < c.Habits.Bots:
		h.kind = bot
	case way < c.Habits.Bots+c.Habits.Deaf:
		h.kind = deaf
	case way < c.Habits.Bots+c.Habits.Deaf+c.Habits.Poll:
		h.kind, h.away, h.tabs = polls, false, false // what they do is done to sockets
	}
	return h, r
}

// deed is what a user does of its own will while it waits; a way that it ends by is
// not empty.
type deed struct {
	at time.Time
	do func(context.Context) (end string)
}

// deeds of one wait in their order, within 2.5 s of its beginning; who leaves does so
// after the others.
func (u *user) deeds() []deed {
	now := time.Now()
	soon := func() time.Time { return now.Add(time.Second/2 + time.Duration(u.rng.Int64N(int64(2*time.Second)))) }
	var all []deed
	if u.away {
		all = append(all, deed{soon(), u.loseNetwork})
	}
	if u.reloads {
		all = append(all, deed{soon(), u.reload})
	}
	if u.tabs {
		all = append(all, deed{soon(), u.openTab})
	}
	if u.leaves {
		all = append(all, deed{now.Add(2500*time.Millisecond + time.Duration(u.rng.Int64N(int64(time.Second)))), u.giveUp})
	}
	slices.SortFunc(all, func(a, b deed) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	return all
}
