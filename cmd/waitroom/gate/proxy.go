package gate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/web/guard"
	"github.com/waitroom-dev/waitroom/web/limit"
)

// Config says what is guarded, by whom, and how.
type Config struct {
	// Upstream is the site's address, reachable from here only.
	Upstream string
	// Guard is who decides about holders; Spends is set from the rules.
	Guard guard.Config
	// Rules are tried before the guard is asked.
	Rules Rules
	// Proxies are the networks of proxies whose X-Forwarded-For is believed.
	Proxies []netip.Prefix
}

// New makes the proxy; it connects to nothing.
func New(cfg Config, log *zap.Logger) (*Proxy, error) {
	upstream, err := url.Parse(cfg.Upstream)
	if err != nil || upstream.Host == "" || upstream.Scheme != "http" && upstream.Scheme != "https" {
		return nil, fmt.Errorf("upstream: %q is no http or https address", cfg.Upstream)
	}
	p := &Proxy{rules: cfg.Rules, event: cfg.Guard.Event, proxies: cfg.Proxies, keyed: cfg.Guard.SiteKey != ""}
	for i := range cfg.Rules {
		if cfg.Rules[i].Do == Spend {
			cfg.Guard.Spends = func(r *http.Request) bool { return p.deed(r) == Spend }
		}
	}
	if p.guard, err = guard.New(cfg.Guard); err != nil {
		return nil, err
	}
	service, err := url.Parse(cfg.Guard.Service)
	if cfg.Guard.Asked != "" {
		service, err = url.Parse(cfg.Guard.Asked)
	}
	if err != nil {
		return nil, err
	}
	p.site, p.service = p.forward(upstream, log.Named("site")), p.forward(service, log.Named("service"))
	return p, nil
}

// What the site is told of who passed.
const (
	headerUser  = "x-waitroom-user"
	headerEntry = "x-waitroom-entry"
)

type personKey struct{}

// Proxy is the handler. Any number of goroutines may use it.
type Proxy struct {
	keyed   bool // the service knows us by a site key
	rules   Rules
	event   string
	proxies []netip.Prefix
	guard   *guard.Guard
	site    http.Handler
	service http.Handler
}

// forward hands a request on, with what is known of its client instead of what the
// client says of itself.
func (p *Proxy) forward(to *url.URL, log *zap.Logger) http.Handler {
	const patience = 30 * time.Second
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one
	transport.Proxy, transport.ResponseHeaderTimeout = nil, patience
	transport.MaxIdleConnsPerHost = 256
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
			r.SetXForwarded()
			r.Out.Header.Set("X-Forwarded-For", limit.ClientAddr(r.In, p.proxies).String())
			// Set here, behind the place where a client's Connection header takes things out.
			if who, ok := r.In.Context().Value(personKey{}).(guard.Person); ok {
				r.Out.Header.Set(headerUser, who.User)
				r.Out.Header.Set(headerEntry, who.Entry)
			}
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, context.Canceled) {
				return // the client has gone
			}
			log.Warn("no answer", zap.String("method", r.Method), zap.Error(err))
			w.Header().Set("Retry-After", "2")
			http.Error(w, "The site does not answer at the moment.", http.StatusBadGateway)
		},
		ErrorLog: zap.NewStdLog(log),
	}
}

// Run keeps verdicts fresh until ctx ends, where the configuration has a site key;
// without one each person is asked about apart.
func (p *Proxy) Run(ctx context.Context) error {
	if p.keyed {
		return p.guard.Run(ctx)
	}
	<-ctx.Done()
	return nil
}

// ServeHTTP judges one request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if cleanPath(r.URL.Path) != r.URL.Path || strings.Contains(strings.ToLower(r.URL.RawPath), "%2f") {
		// Two programs read such a path in two ways, and one of them is not guarded.
		http.Error(w, "The path must hold no dot segments, doubled or encoded slashes.", http.StatusBadRequest)
		return
	}
	for name := range r.Header { // also X_Waitroom_User, which some sites read as the same
		switch strings.ToLower(strings.ReplaceAll(name, "_", "-")) {
		case headerUser, headerEntry:
			delete(r.Header, name)
		}
	}
	if own := "/v1/gate/" + p.event + "/enter"; r.URL.Path == own && r.Method == http.MethodPost {
		p.service.ServeHTTP(w, r)
		return
	}
	switch p.deed(r) {
	case Pass:
		p.site.ServeHTTP(w, r)
	case Deny:
		http.NotFound(w, r)
	case Wait, Spend:
		who, err := p.guard.Check(r)
		if err != nil {
			p.guard.Refuse(w, r, err)
			return
		}
		p.site.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), personKey{}, who)))
	}
}

func (p *Proxy) deed(r *http.Request) Deed { return p.rules.of(r, limit.ClientAddr(r, p.proxies)) }

// cleanPath is a path without dot segments and doubled slashes; a slash at the end
// stays.
func cleanPath(raw string) string {
	clean := path.Clean("/" + raw)
	if clean != "/" && strings.HasSuffix(raw, "/") {
		clean += "/"
	}
	return clean
}
