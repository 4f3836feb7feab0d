package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config says what is guarded, and by whom.
type Config struct {
	// Service is Waitroom's public address, such as https://wait.example: the issuer
	// of the tokens. Required.
	Service string
	// Asked is where the service is reached from here; default: Service.
	Asked string
	// Event is the event whose holders pass. Required.
	Event string
	// Fresh is how long a verdict holds; default 1 s, from 50 ms to 1 min.
	Fresh time.Duration
	// Timeout ends a question to the service; default 2 s.
	Timeout time.Duration
	// Spends says which requests use the token up: each token passes such a route
	// once. Default: none.
	Spends func(*http.Request) bool
	// SiteKey is the service's key of this site; Spends and Run need it.
	SiteKey string
	// Open lets signed holders pass while the service is away; see the package.
	Open bool
	// Unchecked, if it is there, is told of each request that passes though nobody could
	// check: by Open, or by the event's own fail. It must not block.
	Unchecked func(Person)
	// Client asks the service; default: one with kept connections.
	Client *http.Client
}

// Person is who was let in.
type Person struct {
	// User is the site's own subject where the event knows its people by JWT, else
	// the entry.
	User string
	// Entry is the place in line that led here.
	Entry string
	// Token is the jti of the entry token: the id to complete the session with.
	Token string
	// Unchecked is true where nobody could check that the session still runs, and the
	// configuration or the event says to let people pass all the same.
	Unchecked bool
}

// Guard lets holders of an entry token through. Any number of goroutines may use it.
type Guard struct {
	cfg      Config
	keys     *keys
	verdicts *verdicts
}

// New checks the configuration; it connects to nothing, and the first request
// fetches the keys.
func New(cfg Config) (*Guard, error) {
	cfg.Service = strings.TrimRight(cfg.Service, "/")
	cfg.Asked = strings.TrimRight(cmp.Or(cfg.Asked, cfg.Service), "/")
	cfg.Fresh = cmp.Or(cfg.Fresh, time.Second)
	cfg.Timeout = cmp.Or(cfg.Timeout, 2*time.Second)
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	if cfg.Client == nil {
		const kept = 256 // connections; a question is short, and a crowd asks many
		transport := &http.Transport{MaxIdleConns: kept, MaxIdleConnsPerHost: kept, IdleConnTimeout: time.Minute}
		cfg.Client = &http.Client{Transport: transport}
	}
	// The service never sends a question elsewhere.
	client := *cfg.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	cfg.Client = &client
	v, err := newVerdicts(cfg)
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	return &Guard{cfg: cfg, keys: newKeys(cfg), verdicts: v}, nil
}

func (c *Config) validate() error {
	const shortest, longest = 50 * time.Millisecond, time.Minute
	var faults []error
	for _, f := range []struct{ field, address string }{{"service", c.Service}, {"asked", c.Asked}} {
		if u, err := url.Parse(f.address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			faults = append(faults, fmt.Errorf("%s: %q is no http or https address", f.field, f.address))
		}
	}
	if c.Event == "" || url.PathEscape(c.Event) != c.Event {
		faults = append(faults, fmt.Errorf("event: %q is no event's id", c.Event))
	}
	if c.Fresh < shortest || c.Fresh > longest {
		faults = append(faults, fmt.Errorf("fresh: %s is not from %s to %s", c.Fresh, shortest, longest))
	}
	if c.Timeout < 0 {
		faults = append(faults, fmt.Errorf("timeout: %s is negative", c.Timeout))
	}
	if c.Spends != nil && c.SiteKey == "" {
		faults = append(faults, errors.New("site key: needed where routes spend tokens"))
	}
	return errors.Join(faults...)
}

// Handler lets holders through to next, and answers everyone else itself.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := g.Check(r)
		if err != nil {
			g.Refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), personKey{}, who)))
	})
}

// Check says who shows a good token, and spends it where the route does. Errors:
// a *RefusedError, always.
func (g *Guard) Check(r *http.Request) (Person, error) {
	found := refusals["token_required"]
	for _, token := range tokensOf(r, g.cfg.Event) {
		who, err := g.holder(r.Context(), token)
		if err == nil && g.cfg.Spends != nil && g.cfg.Spends(r) {
			err = g.spend(r.Context(), who)
		}
		if err == nil {
			if who.Unchecked && g.cfg.Unchecked != nil {
				g.cfg.Unchecked(who)
			}
			return who, nil
		}
		if found = refusalOf(err); found.Code != "token_invalid" {
			return Person{}, found
		}
	}
	return Person{}, found
}

// holder is whose token it is, if it is good now.
func (g *Guard) holder(ctx context.Context, token string) (Person, error) {
	id, c, err := g.keys.read(ctx, token)
	if err != nil {
		return Person{}, err
	}
	return g.verdicts.of(ctx, token, id, c)
}

// tokensOf are the tokens to look at, in order. The header wins, also when it is
// bad; Authorization may hold a token of the site's own.
func tokensOf(r *http.Request, event string) []string {
	if t := r.Header.Get("X-Entry-Token"); t != "" {
		return []string{t}
	}
	var tokens []string
	if scheme, t, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		tokens = append(tokens, strings.TrimSpace(t))
	}
	if c, err := r.Cookie("waitroom_entry_" + event); err == nil && c.Value != "" {
		tokens = append(tokens, c.Value)
	}
	return tokens
}

type personKey struct{}

// FromContext is who was let in, in a handler behind the guard.
func FromContext(ctx context.Context) (Person, bool) {
	who, ok := ctx.Value(personKey{}).(Person)
	return who, ok
}
