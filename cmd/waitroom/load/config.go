package load

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"time"
)

// Config is what one run is to do. The zero value of a field means its default.
type Config struct {
	// Targets are base URLs of instances of one service; users are spread over them.
	Targets []string
	// Event is the id of the event to join.
	Event string
	// Crowd says who comes, and when.
	Crowd Crowd
	// Checks says what is looked at beyond the usual way.
	Checks Checks
	// Workers is the number of processes; 0 takes as few as can hold the crowd.
	Workers int
	// Connections bounds a worker's HTTP connections in use. Default 200.
	Connections int
	// Limit ends the run for whoever still waits then. Default 15m after the last arrival.
	Limit time.Duration
	// Command starts a worker. Default: this executable with "load worker".
	Command []string
	// OperatorToken, if given, lets the run read the event's limits from the ops API.
	OperatorToken string
}

// Crowd is who comes, and when. Two runs with equal crowds do the same.
type Crowd struct {
	// Users is how many people come.
	Users int `json:"users"`
	// Ramp is the time from the first to the last arrival.
	Ramp time.Duration `json:"ramp"`
	// Hold is how long somebody looks around inside before buying or leaving.
	Hold time.Duration `json:"hold"`
	// Buy is the share of the admitted who buy, 0 to 1.
	Buy float64 `json:"buy"`
	// Habits are what some of them do beside waiting.
	Habits Habits `json:"habits"`
	// Forwarded has everybody come from an address of their own, named in
	// X-Forwarded-For: for limits by address, of a service that believes this machine.
	Forwarded bool `json:"forwarded"`
	// Lanes are the weights of the event's lanes, of an event whose people choose one; none
	// come to a lane that is not named. Default: evenly over all.
	Lanes map[string]float64 `json:"lanes,omitempty"`
	// Profile is the shape of the arrivals. Default steady.
	Profile Profile `json:"profile"`
	// Seed decides everything that is left to chance.
	Seed uint64 `json:"seed"`
}

// Checks says how much is looked at beyond what every user sees anyway, and what is
// known of the event's limits. A limit below zero is not known: what depends on it
// is not checked, unless an operator token lets the run ask.
type Checks struct {
	// Sample is the share of users who join twice, ask again for their token, repeat
	// their purchase, 0 to 1.
	Sample float64 `json:"sample"`
	// MaxErrors is the share of calls that may fail by the server's fault.
	MaxErrors float64 `json:"max_errors"`
	// Burst is how many more may come in when the event opens.
	Burst int `json:"burst"`
	// MaxActive is the most people inside; 0 is no limit.
	MaxActive int `json:"max_active"`
	// PerUser is the most seats one person may have.
	PerUser int `json:"per_user"`
	// Patience is how long a socket that is never read may stay open, and at most how
	// long after one tab the other may be told of its turn (15s then). Default 90s.
	Patience time.Duration `json:"patience"`
}

// UsageError is a Config that cannot be run; every fault is in it.
type UsageError struct{ err error }

// Error lists the faults.
func (e *UsageError) Error() string { return e.err.Error() }

// Unwrap gives the faults.
func (e *UsageError) Unwrap() error { return e.err }

// maxUsersPerWorker leaves room below the 20,000 files of a usual process.
const maxUsersPerWorker = 15_000

// withDefaults fills in what was left out; files is how many a process may hold.
func (c Config) withDefaults(files int) Config {
	if c.Crowd.Profile == "" {
		c.Crowd.Profile = Steady
	}
	if c.Connections == 0 {
		c.Connections = 200
	}
	if c.Limit == 0 {
		c.Limit = c.Crowd.Ramp + 15*time.Minute
	}
	c.Checks.Patience = cmp.Or(c.Checks.Patience, 90*time.Second)
	if c.Workers == 0 {
		per := c.usersPerWorker(files)
		c.Workers = max(1, (c.Crowd.Users+per-1)/per)
	}
	for i, t := range c.Targets {
		c.Targets[i] = strings.TrimRight(strings.TrimSpace(t), "/")
	}
	return c
}

// usersPerWorker is how many people fit, some with two sockets, beside the HTTP
// connections (as many again may be idle; the bots have their own), listeners, pipes
// and a margin.
func (c Config) usersPerWorker(files int) int {
	free := files - 2*c.Connections - 100
	if c.Crowd.Habits.Bots > 0 {
		free -= botConnections
	}
	return max(1, int(min(maxUsersPerWorker, float64(free))/(1+c.Crowd.Habits.Tabs)))
}

// validate returns a *UsageError with every fault of a filled-in Config.
func (c Config) validate(files int) error {
	var faults []error
	bad := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(c.Targets) == 0 {
		bad("--target: at least one URL is needed")
	}
	for _, t := range c.Targets {
		u, err := url.Parse(t)
		switch {
		case err != nil:
			bad("--target: %w", err)
		case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
			bad("--target %q: want http://host:port or https://host:port", t)
		case u.Path != "" || u.RawQuery != "":
			bad("--target %q: want no path", t)
		}
	}
	if c.Event == "" || len(c.Event) > 64 || strings.Trim(c.Event, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		bad("--event %q: want 1 to 64 of a-z 0-9 -", c.Event)
	}
	if c.Crowd.Users < 1 {
		bad("--users %d: want at least 1", c.Crowd.Users)
	}
	if c.Crowd.Ramp < 0 || c.Crowd.Hold < 0 || c.Limit < 0 {
		bad("--ramp, --hold, --limit: want no negative durations")
	}
	h := c.Crowd.Habits
	for _, share := range []struct {
		flag  string
		value float64
	}{
		{"buy", c.Crowd.Buy},
		{"away", h.Away},
		{"leave", h.Leave},
		{"refresh", h.Refresh},
		{"tabs", h.Tabs},
		{"poll", h.Poll},
		{"deaf", h.Deaf},
		{"bots", h.Bots},
		{"sample", c.Checks.Sample},
		{"max-errors", c.Checks.MaxErrors},
	} {
		if !(share.value >= 0 && share.value <= 1) {
			bad("--%s %v: want 0 to 1", share.flag, share.value)
		}
	}
	if h.Poll+h.Deaf+h.Bots > 1 {
		bad("--poll, --deaf and --bots: want no more than 1 together, since nobody is two of them")
	}
	sum := 0.0
	for name, weight := range c.Crowd.Lanes {
		if !(weight >= 0 && weight <= 1e9) {
			bad("--lanes %s=%v: want 0 to 1e9", name, weight)
		}
		sum += weight
	}
	if len(c.Crowd.Lanes) > 0 && sum == 0 {
		bad("--lanes: want a weight above 0 for somebody")
	}
	if c.Checks.Patience < 0 {
		bad("--patience: want no negative duration")
	}
	if !c.Crowd.Profile.known() {
		bad("--profile %q: want burst, steady or flash", c.Crowd.Profile)
	}
	if c.Connections < 1 {
		bad("--connections %d: want at least 1", c.Connections)
	}
	if per := c.usersPerWorker(files); c.Workers < 1 || c.Crowd.Users > per*c.Workers {
		bad("--workers %d: %d users need at least %d, since a process may hold %d files",
			c.Workers, c.Crowd.Users, (c.Crowd.Users+per-1)/per, files)
	}
	if len(faults) == 0 {
		return nil
	}
	return &UsageError{err: errors.Join(faults...)}
}

// sourceAddresses says whether loopback has more addresses than one without setup.
func sourceAddresses() bool { return runtime.GOOS == "linux" }
