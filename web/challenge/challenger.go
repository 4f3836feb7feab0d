package challenge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// ErrFailed is that a solution does not count. What wraps it carries the reason, for the log only.
var ErrFailed = errors.New("challenge failed")

// Config is what the Challenger needs to know.
type Config struct {
	// Key signs puzzles; all instances have the same. At least 32 bytes.
	Key []byte
	// Prefix starts the keys in the store. Default "wr".
	Prefix string
	// Hosts are the host names, without ports, that providers may name. Needed where
	// there is a secret.
	Hosts []string
	// Secrets are this installation's at the providers, by kind.
	Secrets map[string]string
	// Verifiers are other addresses of providers than those they document, by kind.
	Verifiers map[string]string
	// Effort is the most tries that a puzzle takes when nobody hurries. Default 4,000; 2
	// to 100,000.
	Effort int
	// Expiry is how long a puzzle may take. Default 5m; 10s to 1h.
	Expiry time.Duration
}

const (
	shortestKey   = 32
	mostEffort    = 100_000
	defaultExpiry = 5 * time.Minute
	leastExpiry   = 10 * time.Second
	longestExpiry = time.Hour
	// beyond is how much longer than a puzzle its mark is kept, for clocks that differ.
	beyond = time.Minute
	// keptResponse is how long a provider's response is remembered; they are good for
	// two to five minutes.
	keptResponse = 10 * time.Minute
	spendTimeout = time.Second
)

// Validate names every wrong field at once.
func (c Config) Validate() error {
	var errs []error
	if len(c.Key) < shortestKey {
		errs = append(errs, fmt.Errorf("key: %d bytes are fewer than %d", len(c.Key), shortestKey))
	}
	if c.Expiry != 0 && (c.Expiry < leastExpiry || c.Expiry > longestExpiry) {
		errs = append(errs, fmt.Errorf("expiry: %v is not from %v to %v", c.Expiry, leastExpiry, longestExpiry))
	}
	if c.Effort != 0 && (c.Effort < 2 || c.Effort > mostEffort) {
		errs = append(errs, fmt.Errorf("effort: %d is not from 2 to %d", c.Effort, mostEffort))
	}
	for kind, secret := range c.Secrets {
		if verifiers[kind] == "" {
			errs = append(errs, fmt.Errorf("challenge-secrets: %q is none of turnstile, hcaptcha, recaptcha", kind))
		}
		if secret == "" {
			errs = append(errs, fmt.Errorf("challenge-secrets: that of %s is empty", kind))
		}
		if len(c.Hosts) == 0 {
			errs = append(errs, errors.New("hosts: are needed beside a provider's secret"))
		}
	}
	return errors.Join(errs...)
}

// Challenger offers and checks challenges. All its methods may be called concurrently.
type Challenger struct {
	cfg       Config
	log       *zap.Logger
	spent     spent
	paces     paces
	providers map[string]*provider
	checked   *prometheus.CounterVec
	now       func() time.Time
}

// New makes a Challenger over the store, which it does not ask yet.
func New(cfg Config, rdb redis.UniversalClient, log *zap.Logger, reg prometheus.Registerer) (*Challenger, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("challenges: %w", err)
	}
	cfg.Prefix = cmp.Or(cfg.Prefix, "wr")
	cfg.Effort = cmp.Or(cfg.Effort, easiest)
	cfg.Expiry = cmp.Or(cfg.Expiry, defaultExpiry)
	c := &Challenger{
		cfg: cfg, log: log.Named("challenge"), now: time.Now,
		spent:     spent{rdb: rdb, prefix: cfg.Prefix},
		providers: make(map[string]*provider),
		checked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "waitroom", Subsystem: "challenge", Name: "checked_total",
			Help: "Solutions that were brought, by the challenge's kind and what became of them.",
		}, []string{"kind", "outcome"}),
	}
	hosts := make([]string, len(cfg.Hosts))
	for i, h := range cfg.Hosts {
		hosts[i] = strings.ToLower(h)
	}
	for kind, secret := range cfg.Secrets {
		c.providers[kind] = newProvider(kind, cmp.Or(cfg.Verifiers[kind], verifiers[kind]), secret, hosts)
	}
	if err := reg.Register(c.checked); err != nil {
		return nil, fmt.Errorf("register challenge metrics: %w", err)
	}
	return c, nil
}

// Knows tells whether challenges of this kind can be checked here.
func (c *Challenger) Knows(kind string) bool {
	return kind == waitroom.ChallengeNone || kind == waitroom.ChallengeALTCHA || c.providers[kind] != nil
}

// Wanted counts a stranger who joins or asks for a token, and tells whether they must
// solve the event's challenge first.
func (c *Challenger) Wanted(event waitroom.EventID, s waitroom.ChallengeSettings) (wanted bool) {
	if !s.Asked() {
		return false
	}
	now := c.now()
	c.paces.of(event, func(p *pace) {
		rate := p.count(now, 1)
		wanted = s.When == waitroom.ChallengeOn || p.above(now, rate, s.AbovePerS)
	})
	return wanted
}

// offered is the answer for a provider's challenge; the page asks the provider with it.
type offered struct {
	Kind    string `json:"kind"`
	SiteKey string `json:"site_key,omitempty"`
	Action  string `json:"action,omitempty"`
}

// Offer is a challenge of the event as JSON: with kind altcha a puzzle as ALTCHA's own
// clients read it, with a provider's kind what a page asks the provider with. A puzzle
// counts under the host name that is given.
func (c *Challenger) Offer(event waitroom.EventID, s waitroom.ChallengeSettings, host string) ([]byte, error) {
	if s.Kind != waitroom.ChallengeALTCHA {
		said := offered{Kind: cmp.Or(s.Kind, waitroom.ChallengeNone), SiteKey: s.SiteKey}
		if c.providers[s.Kind] != nil {
			said.Action = Action(event)
		}
		return encode(said)
	}
	now := c.now()
	effort := c.cfg.Effort
	c.paces.of(event, func(p *pace) { effort = effortAt(c.cfg.Effort, p.count(now, 0), s.AbovePerS) })
	p, err := newPuzzle(c.cfg.Key, binding{string(event), bare(host)}, effort, now.Add(c.cfg.Expiry))
	if err != nil {
		return nil, err
	}
	return encode(struct {
		Kind string `json:"kind"`
		puzzle
	}{waitroom.ChallengeALTCHA, p})
}

func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode challenge: %w", err)
	}
	return b, nil
}

// Attempt is a solution and where it was brought.
type Attempt struct {
	Event    waitroom.EventID
	Settings waitroom.ChallengeSettings
	Solution string
	// Host is the request's host, with or without a port.
	Host string
	// Addr is the client's, which a provider is told.
	Addr netip.Addr
}

// Check says whether a solution counts, and marks it as spent. Cleared is false where
// it was let pass because the provider is down: the caller may join, but has cleared no
// limit. Errors: ErrFailed, waitroom.ErrUnavailable.
func (c *Challenger) Check(ctx context.Context, a Attempt) (cleared bool, err error) {
	outcome := "passed"
	defer func() { c.checked.WithLabelValues(a.Settings.Kind, outcome).Inc() }()
	name, keep, err := c.verify(ctx, a)
	switch {
	case errors.Is(err, errDown):
		c.log.Warn("challenge provider down", zap.String("event", string(a.Event)), zap.String("policy", a.Settings.OnError), zap.Error(err))
		if outcome = "down"; a.Settings.OnError == waitroom.ChallengePass {
			return false, nil
		}
		return false, fmt.Errorf("%w: %w", ErrFailed, err)
	case errors.Is(err, waitroom.ErrUnavailable):
		outcome = "busy"
		return false, err
	case err != nil:
		outcome = "failed"
		return false, fmt.Errorf("%w: %w", ErrFailed, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), spendTimeout)
	defer cancel()
	switch err := c.spent.spend(ctx, a.Event, name, keep); {
	case errors.Is(err, errSpent):
		outcome = "spent"
		return false, fmt.Errorf("%w: %w", ErrFailed, err)
	case err != nil:
		outcome = "unmarked"
		return false, err
	}
	return true, nil
}

// verify says whether a solution is right, under which name it is spent, and for how
// long that must be remembered.
func (c *Challenger) verify(ctx context.Context, a Attempt) (name string, keep time.Duration, err error) {
	if a.Settings.Kind == waitroom.ChallengeALTCHA {
		now := c.now()
		name, ends, err := check(c.cfg.Key, a.Solution, binding{string(a.Event), bare(a.Host)}, now)
		return name, ends.Sub(now) + beyond, err
	}
	p := c.providers[a.Settings.Kind]
	if p == nil {
		return "", 0, fmt.Errorf("%s: %w: this installation has no secret for it", a.Settings.Kind, errDown)
	}
	if a.Solution == "" || len(a.Solution) > longestSolution {
		return "", 0, errShape
	}
	sum := sha256.Sum256([]byte(a.Solution))
	return hex.EncodeToString(sum[:16]), keptResponse, p.verify(ctx, a.Event, a.Solution, a.Addr)
}

// bare is a host name without its port, in small letters.
func bare(host string) string {
	host = strings.ToLower(host)
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	const most = 253 // a DNS name's most bytes
	return host[:min(len(host), most)]
}

// Kinds are those that ask a provider.
func Kinds() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for kind := range verifiers {
			if !yield(kind) {
				return
			}
		}
	})
}
