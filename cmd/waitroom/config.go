package main

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/waitroom-dev/waitroom/cmd/waitroom/heap"
	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web/identity"
)

// serveConfig is everything that `serve` can be told, by a flag, an environment
// variable (WAITROOM_ and the flag's name in capitals), or a key of the YAML
// file that --config names; the first of these three that says it wins.
type serveConfig struct {
	Addr          string                 // HOST:PORT to listen on; port 0 picks one
	PublicURL     string                 // where fans reach us, and the tokens' issuer; default: the address
	Origins       []string               // more origins that may open sockets and use the API from their pages
	Proxies       []string               // networks of proxies whose X-Forwarded-For is believed
	Redis         string                 // URL of the line's store; empty: embedded
	Database      string                 // postgres:// URL; empty: SQLite in Data
	Data          string                 // directory of the embedded database
	Keys          string                 // file or directory of signing keys; empty: made once, shared through the store
	OperatorToken string                 // for /v1/ops and /console; empty: random, printed once
	MetricsToken  string                 // for /metrics alone; empty: operators' tokens, or none where none was given
	SiteKey       string                 // for the site's own backend; empty: nobody has one
	Identity      identity.Config        // how the site signs its own JWTs
	Challenges    map[string]string      // secrets at the providers of challenges, by kind
	Broker        string                 // URL of the outbox's broker; empty: streams in the line's store
	Queue         string                 // URL of the queue of mode buffered; empty: a stream in the line's store
	Payments      string                 // URL of a sandbox that `waitroom sandbox` serves; empty: one in the process
	PaymentsKey   string                 // the provider's secret key, or file:PATH
	WebhookSecret string                 // what the provider signs its webhooks with, or file:PATH
	Retention     time.Duration          // how long answers are kept under their idempotency keys
	LoadURL       string                 // a Prometheus-compatible server that knows how busy the site is
	LoadQuery     string                 // the PromQL expression of that, 0 to 1
	Workers       int                    // requests that a node can work on at once; 0: no load signal
	HeapSlack     int                    // MiB: how much garbage is gathered before it is collected
	Preset        string                 // a ready-made event to start with
	Events        string                 // YAML file of events to create where they do not exist
	Roles         []string               // which parts of the service this process runs
	Limits        bool                   // rate limits
	DefaultLimits waitroom.LimitSettings // of events that say nothing else
	LogFormat     string                 // json or console
}

// Roles of a process.
const (
	roleLine      = "line"      // fans: joins, positions, sockets, the gate
	roleAdmission = "admission" // stands for the lease of the admission loop
	roleTicket    = "ticket"    // sells
	roleWorker    = "worker"    // relays the outbox, pays
)

// setting is one key of the configuration: its flag, its default, its help.
type setting struct {
	name, byDefault, help string
}

// settings lists every key, in the order of --help and of the README's table.
var settings = []setting{
	{"addr", "127.0.0.1:8080", "`HOST:PORT` to listen on; port 0 picks a free one"},
	{"public-url", "", "`URL` where fans reach the service, and the tokens' issuer (default: the address)"},
	{"origins", "", "comma-separated `URLs` of more origins allowed on sockets and for cross-site pages"},
	{"proxies", "", "comma-separated `NETWORKS` (10.0.0.0/8) of proxies whose X-Forwarded-For is believed"},
	{"redis", "", "`URL` of Redis: redis://, rediss://, redis+sentinel://, redis+cluster:// (default: embedded)"},
	{"database", "", "`URL` of PostgreSQL: postgres://… (default: SQLite in the data directory)"},
	{"data", "data", "`DIR` of the embedded database"},
	{"keys", "", "`PATH` of a key file or a directory of them, or env:NAME of a variable with a file's content (default: made once and shared through the store)"},
	{"operator-token", "", "`TOKEN` for the console and the ops API (default: random, printed once)"},
	{"metrics-token", "", "`TOKEN` for /metrics alone, also good while the store is away (default: any operator's; none where no operator-token is given)"},
	{"site-key", "", "`KEY` of the protected site's own backend (default: none)"},
	{"identity-secret", "", "`SECRET` that the site signs its own JWTs with, for events with identity jwt (HS256; better in the environment)"},
	{"identity-jwks", "", "`URL` of the site's published keys, instead of a secret"},
	{"identity-issuer", "", "`ISS` that the site's JWTs must name (default: any)"},
	{"identity-audience", "", "`AUD` that the site's JWTs must name (default: any)"},
	{"identity-leeway", "5s", "how far the site's clock may be from ours"},
	{"challenge-secrets", "", "`KIND=SECRET` at the providers of challenges, comma-separated: turnstile, hcaptcha, recaptcha (better in the environment)"},
	{"broker", "", "`URL` of the broker for what is sold: redis://, nats://, kafka:// (default: streams in --redis)"},
	{"queue", "", "`URL` of the queue of people who wait for a number (mode buffered): nats:// (default: a stream in --redis)"},
	{"payments", "", "`URL` of the payment provider: stripe://api.stripe.com, or http:// of a waitroom sandbox (default: one in the process)"},
	{"payments-key", "", "secret `KEY` of the payment provider, or file:PATH (better in the environment)"},
	{"webhook-secret", "", "`SECRET` that the payment provider signs its webhooks with, or file:PATH (better in the environment)"},
	{"retention", "24h", "`DURATION` for which answers are kept under their idempotency keys, 1m to 8760h"},
	{"load-prometheus", "", "`URL` of a Prometheus-compatible server that knows how busy the site is"},
	{"load-query", "", "`PROMQL` that gives the load, 0 to 1: one sample, or one with a label event for each event"},
	{"workers", "0", "`N` requests that a process can work on at once, as a load signal; 0 is none"},
	{"heap-slack", "32", "`MIB` of garbage that a process may gather before it is collected; 0, or a GOGC in the environment, leaves that to Go"},
	{"preset", "", "`NAME` of a ready-made event to start with: " + strings.Join(presetNames(), ", ")},
	{"events", "", "YAML `FILE` of events to create where the store does not have them"},
	{"roles", "line,admission,ticket,worker", "comma-separated `ROLES` of this process"},
	{"limits", "on", "rate limits, `on|off`; on the embedded default loopback addresses are exempt"},
	{"default-limits", "", "comma-separated `LIMIT=RULE` of events that say nothing else, such as person=120/1m,address=off (default: see limits in /openapi.json)"},
	{"log-format", "console", "`json|console`"},
}

// envPrefix starts every environment variable of ours.
const envPrefix = "WAITROOM_"

// addServeFlags declares the flags of serve, and --config beside them.
func addServeFlags(flags *pflag.FlagSet) {
	for _, s := range settings {
		flags.String(s.name, s.byDefault, s.help)
	}
	flags.String("config", "", "YAML `FILE` with these same keys")
}

// addStoreFlags is addServeFlags for a command that opens stores as serve does: it takes
// all flags of serve, so that a command line or a file of one does for the other, and its
// help shows those that it heeds.
func addStoreFlags(flags *pflag.FlagSet, heeded ...string) {
	addServeFlags(flags)
	for _, s := range settings {
		flags.Lookup(s.name).Hidden = !slices.Contains(heeded, s.name)
	}
}

// loadServeConfig gathers defaults, file, environment and flags, in growing
// weight. Every fault is found, and named with where it stands; all are the
// caller's (exit status 2). Flags named in others are a command's own.
func loadServeConfig(flags *pflag.FlagSet, environ []string, others ...string) (serveConfig, error) {
	k := koanf.New("/")
	defaults := map[string]any{}
	for _, s := range settings {
		defaults[s.name] = s.byDefault
	}
	_ = k.Load(confmap.Provider(defaults, ""), nil) // a plain map cannot fail

	fromEnv, path, err := environment(environ)
	if err != nil {
		return serveConfig{}, err
	}
	if flags.Changed("config") {
		path = flags.Lookup("config").Value.String()
	}
	if path != "" {
		fromFile, err := configFile(path)
		if err != nil {
			return serveConfig{}, err
		}
		_ = k.Load(confmap.Provider(fromFile, ""), nil)
	}
	_ = k.Load(confmap.Provider(fromEnv, ""), nil)
	fromFlags := map[string]any{}
	flags.Visit(func(f *pflag.Flag) {
		if f.Name != "config" && !slices.Contains(others, f.Name) {
			fromFlags[f.Name] = f.Value.String()
		}
	})
	_ = k.Load(confmap.Provider(fromFlags, ""), nil)
	return readServeConfig(k)
}

// environment picks our variables; an unknown one is a fault, but for those that
// an orchestrator sets for a service of this name.
func environment(environ []string) (values map[string]any, config string, err error) {
	values = map[string]any{}
	var faults []error
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		rest, ours := strings.CutPrefix(name, envPrefix)
		if !ours || strings.HasPrefix(rest, "PORT") || strings.HasPrefix(rest, "SERVICE_") {
			continue
		}
		key := strings.ReplaceAll(strings.ToLower(rest), "_", "-")
		switch {
		case key == "config":
			config = value
		case slices.ContainsFunc(settings, func(s setting) bool { return s.name == key }):
			values[key] = value
		default:
			faults = append(faults, fmt.Errorf("environment variable %s is unknown", name))
		}
	}
	return values, config, errors.Join(faults...)
}

// configFile reads the YAML file; an unknown key is a fault.
func configFile(path string) (map[string]any, error) {
	k := koanf.New("/")
	if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
		return nil, fmt.Errorf("config file %s: %w", path, err)
	}
	values := map[string]any{}
	var faults []error
	for key, value := range k.Raw() {
		if !slices.ContainsFunc(settings, func(s setting) bool { return s.name == key }) {
			faults = append(faults, fmt.Errorf("config file %s: key %q is unknown", path, key))
			continue
		}
		switch v := value.(type) {
		case []any:
			parts := make([]string, len(v))
			for i, part := range v {
				parts[i] = fmt.Sprint(part)
			}
			values[key] = strings.Join(parts, ",")
		case bool: // YAML reads a bare on or off as a boolean
			values[key] = map[bool]string{true: "on", false: "off"}[v]
		case map[string]any, nil:
			faults = append(faults, fmt.Errorf("config file %s: key %q wants a plain value", path, key))
		default:
			values[key] = fmt.Sprint(v)
		}
	}
	return values, errors.Join(faults...)
}

// readServeConfig turns the gathered words into a configuration and checks them.
func readServeConfig(k *koanf.Koanf) (serveConfig, error) {
	leeway, err := time.ParseDuration(k.String("identity-leeway"))
	if err != nil {
		err = fmt.Errorf("identity-leeway: %q is no duration such as 5s", k.String("identity-leeway"))
	}
	c := serveConfig{
		Addr: k.String("addr"), PublicURL: strings.TrimRight(k.String("public-url"), "/"), Origins: list(k.String("origins")),
		Proxies: list(k.String("proxies")),
		Redis:   k.String("redis"), Database: k.String("database"), Data: k.String("data"),
		Keys: k.String("keys"), OperatorToken: k.String("operator-token"), MetricsToken: k.String("metrics-token"), SiteKey: k.String("site-key"),
		Broker: k.String("broker"), Queue: k.String("queue"), Payments: k.String("payments"), PaymentsKey: k.String("payments-key"), WebhookSecret: k.String("webhook-secret"), Retention: k.Duration("retention"),
		Identity: identity.Config{
			Secret: k.String("identity-secret"), JWKS: k.String("identity-jwks"),
			Issuer: k.String("identity-issuer"), Audience: k.String("identity-audience"), Leeway: leeway,
		},
		LoadURL: k.String("load-prometheus"), LoadQuery: k.String("load-query"),
		Preset: k.String("preset"), Events: k.String("events"), Roles: list(k.String("roles")),
		Limits: k.String("limits") == "on", LogFormat: k.String("log-format"),
	}
	limits, limitFault := waitroom.ParseLimits(list(k.String("default-limits")))
	if limitFault != nil {
		limitFault = fmt.Errorf("default-limits: %w", limitFault)
	}
	c.DefaultLimits = limits
	challenges, challengeFault := challengeSecrets(list(k.String("challenge-secrets")))
	c.Challenges = challenges
	faults := []error{
		challengeFault, limitFault,
		err, c.Identity.Validate(),
		oneOf("limits", k.String("limits"), "on", "off"),
		oneOf("log-format", c.LogFormat, "json", "console"),
		checkAddr(c.Addr),
		checkURL("redis", c.Redis, redisSchemes...),
		checkURL("database", c.Database, "postgres", "postgresql"),
		checkURL("broker", c.Broker, brokerSchemes...),
		checkURL("queue", c.Queue, queueSchemes...),
		checkOrigin("public-url", c.PublicURL),
		checkPayments(c),
		checkRetention(k.String("retention")),
		c.checkSecrets(),
		checkKeys(c.Keys),
		checkPath("events", c.Events),
	}
	if (c.LoadURL == "") != (c.LoadQuery == "") {
		faults = append(faults, errors.New("load-query: wants load-prometheus beside it, and the other way round"))
	}
	if u, err := url.Parse(c.LoadURL); c.LoadURL != "" && (err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https")) {
		faults = append(faults, errors.New("load-prometheus: wants a URL such as http://prometheus:9090"))
	}
	if c.Workers, err = strconv.Atoi(k.String("workers")); err != nil || c.Workers < 0 {
		faults = append(faults, fmt.Errorf("workers: %q is no whole number from 0 on", k.String("workers")))
	}
	if c.HeapSlack, err = strconv.Atoi(k.String("heap-slack")); err != nil {
		faults = append(faults, fmt.Errorf("heap-slack: %q is no whole number", k.String("heap-slack")))
	} else if _, err = heap.New(c.HeapSlack); err != nil {
		faults = append(faults, err)
	}
	for _, origin := range c.Origins {
		faults = append(faults, checkOrigin("origins", origin))
	}
	if _, err := networks(c.Proxies); err != nil {
		faults = append(faults, err)
	}
	if len(c.Roles) == 0 {
		faults = append(faults, errors.New("roles: at least one of line, admission, ticket, worker"))
	}
	for _, role := range c.Roles {
		faults = append(faults, oneOf("roles", role, roleLine, roleAdmission, roleTicket, roleWorker))
	}
	if c.Preset != "" {
		faults = append(faults, oneOf("preset", c.Preset, presetNames()...))
	}
	if c.Redis == "" && len(c.Roles) < 4 {
		faults = append(faults, errors.New("roles: the embedded store serves one process; parts that run apart need --redis"))
	}
	return c, errors.Join(faults...)
}

// defaults are the settings of an event about which nothing is said.
func (c serveConfig) defaults() waitroom.Settings {
	s := waitroom.DefaultSettings("")
	s.Limits = c.DefaultLimits.Defaults()
	return s
}

// has tells whether this process plays a role.
func (c serveConfig) has(role string) bool { return slices.Contains(c.Roles, role) }

// list splits at commas and drops blanks.
func list(s string) []string {
	var out []string
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, strings.TrimRight(part, "/"))
		}
	}
	return out
}
