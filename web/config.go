package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web/identity"
)

// Config is what the HTTP side needs to know.
type Config struct {
	// PublicURL is the address under which browsers reach this service, without a
	// path. Required; http or https. Over https, cookies are Secure.
	PublicURL string
	// Origins are further origins ("https://shop.example") whose pages may call the
	// API and open sockets. Compared exactly. Default none.
	Origins []string
	// AllowedRedirectHosts are hosts ("shop.example", "shop.example:8443") to which
	// people may be sent back after waiting. PublicURL's own host is always allowed.
	AllowedRedirectHosts []string
	// OperatorToken opens the ops API. Required.
	OperatorToken string
	// SiteKey opens the calls of the protected site. Empty: nobody may make them.
	SiteKey string
	// MetricsToken opens /metrics and nothing else, also while the store is away. Empty:
	// operators' tokens only, of any role.
	MetricsToken string
	// OpenMetrics leaves /metrics open to everybody.
	OpenMetrics bool
	// Identity is how the site signs its own JWTs, for events with identity jwt.
	// Empty: such events are refused.
	Identity identity.Config
	// Defaults are those of a new event, where this installation has its own. Default
	// waitroom.DefaultSettings.
	Defaults *waitroom.Settings
	// TrustedProxies are the networks whose X-Forwarded-For is believed. Default none.
	TrustedProxies []netip.Prefix
	// MaxBody is the most bytes of a request body. Default 64 KiB.
	MaxBody int64
	// CallTimeout is how long a handler may wait for store and database. Default 5s.
	CallTimeout time.Duration
	// ShutdownTimeout is how long running requests may take to end. Default 10s.
	ShutdownTimeout time.Duration
}

const (
	defaultMaxBody         = 64 << 10
	defaultCallTimeout     = 5 * time.Second
	defaultShutdownTimeout = 10 * time.Second
)

func (c Config) withDefaults() Config {
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	if c.Defaults == nil {
		defaults := waitroom.DefaultSettings("")
		c.Defaults = &defaults
	}
	c.MaxBody = cmp.Or(c.MaxBody, defaultMaxBody)
	c.CallTimeout = cmp.Or(c.CallTimeout, defaultCallTimeout)
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, defaultShutdownTimeout)
	return c
}

// Validate names every wrong field at once.
func (c Config) Validate() error {
	var errs []error
	wrong := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	if origin, err := exactOrigin(c.PublicURL); err != nil {
		wrong("public-url", "%q: %v", c.PublicURL, err)
	} else if origin != strings.ToLower(strings.TrimSuffix(c.PublicURL, "/")) {
		wrong("public-url", "%q: has a path; the service lives at the root of its host", c.PublicURL)
	}
	for _, o := range c.Origins {
		if origin, err := exactOrigin(o); err != nil {
			wrong("origins", "%q: %v", o, err)
		} else if origin != strings.ToLower(o) {
			wrong("origins", "%q: an origin is a scheme and a host, such as %q", o, origin)
		}
	}
	for _, h := range c.AllowedRedirectHosts {
		if u, err := url.Parse("https://" + h); err != nil || u.Host != h || h == "" {
			wrong("allowed-redirect-hosts", "%q: want a host, or host:port", h)
		}
	}
	if c.OperatorToken == "" {
		wrong("operator-token", "is empty")
	}
	errs = append(errs, c.Identity.Validate())
	if c.MaxBody < 0 || c.CallTimeout < 0 || c.ShutdownTimeout < 0 {
		wrong("limits", "max-body, call-timeout and shutdown-timeout are not negative")
	}
	return errors.Join(errs...)
}

// OwnOrigins are all origins whose pages may call the API and open sockets, as
// browsers write them: PublicURL's own first.
func (c Config) OwnOrigins() ([]string, error) {
	var origins []string
	for _, address := range append([]string{c.PublicURL}, c.Origins...) {
		origin, err := exactOrigin(address)
		if err != nil {
			return nil, fmt.Errorf("origin %q: %w", address, err)
		}
		origins = append(origins, origin)
	}
	return origins, nil
}

// exactOrigin is the origin of an address as a browser would write it.
func exactOrigin(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("not an address")
	}
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if (scheme != "http" && scheme != "https") || host == "" || u.User != nil {
		return "", errors.New("want http://host or https://host")
	}
	host = strings.TrimSuffix(host, map[string]string{"http": ":80", "https": ":443"}[scheme])
	return scheme + "://" + host, nil
}
