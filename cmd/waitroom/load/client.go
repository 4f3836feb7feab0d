package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// The bounds of one HTTP call.
const (
	callTimeout = 20 * time.Second
	maxBody     = 16 << 20
)

// call is one request of a fan.
type call struct {
	method, path string
	bearer       string // place token
	cookie       string // place token, as a page sends it
	from         string // X-Forwarded-For
	entry        string // entry token
	key          string // Idempotency-Key
	solution     string // X-Challenge
	etag         string // If-None-Match
	body         string // JSON, or empty
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// code is the stable code of a refusal, or empty.
func (a answer) code() string {
	var problem struct {
		Code string `json:"code"`
	}
	if json.Unmarshal(a.body, &problem) != nil {
		return ""
	}
	return problem.Code
}

// retryAfter is how long the server wants to be left alone: the body's milliseconds
// where they are given, never less than a whole-second header says it must be.
func (a answer) retryAfter() time.Duration {
	var problem struct {
		MS int64 `json:"retry_after_ms"`
	}
	_ = json.Unmarshal(a.body, &problem) // no JSON is no wish
	d := time.Duration(problem.MS) * time.Millisecond
	if s, err := strconv.Atoi(a.header.Get("Retry-After")); err == nil && s > 0 {
		d = max(d, time.Duration(s)*time.Second)
	}
	return min(max(d, 0), 5*time.Minute)
}

// dialer opens connections; to loopback it spreads them over source addresses, since
// one address has fewer ports than a crowd has sockets.
type dialer struct {
	sources []net.IP
	next    atomic.Uint32
}

// usersPerAddress keeps a loopback address far from its 28,000 usual ports, with
// room for those that linger after a run.
const usersPerAddress = 10_000

// newDialer takes as many of the worker's own loopback addresses as its users need.
func newDialer(worker, users int, targets []string) *dialer {
	d := &dialer{}
	if !sourceAddresses() || !allLoopback(targets) {
		return d
	}
	const perWorker = maxUsersPerWorker/usersPerAddress + 1
	for k := range min(perWorker, users/usersPerAddress+1) {
		n := worker*perWorker + k
		d.sources = append(d.sources, net.IPv4(127, 0, byte(n/250), byte(2+n%250))) //nolint:gosec // below 256 by construction
	}
	return d
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nd := net.Dialer{Timeout: callTimeout, KeepAlive: -1}
	if len(d.sources) > 0 {
		nd.LocalAddr = &net.TCPAddr{IP: d.sources[int(d.next.Add(1))%len(d.sources)]}
	}
	return nd.DialContext(ctx, network, addr)
}

// allLoopback says whether every target is an IPv4 loopback address of this machine.
func allLoopback(targets []string) bool {
	for _, t := range targets {
		u, err := url.Parse(t)
		if err != nil {
			return false
		}
		ip := net.ParseIP(u.Hostname())
		if ip == nil || ip.To4() == nil || !ip.IsLoopback() {
			return false
		}
	}
	return true
}

// client makes single HTTP calls. It never retries and follows no redirects.
type client struct {
	targets []string
	event   string
	http    *http.Client
}

func newClient(c Config, d *dialer, connections int) *client {
	return &client{
		targets: c.Targets, event: c.Event,
		http: &http.Client{
			Transport: &http.Transport{
				DialContext:         d.dial,
				MaxIdleConns:        connections,
				MaxIdleConnsPerHost: connections,
				MaxConnsPerHost:     connections,
				IdleConnTimeout:     30 * time.Second,
				DisableCompression:  true,
				ReadBufferSize:      4 << 10,
				WriteBufferSize:     2 << 10,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// once makes one try of a call at one target; attempt is 1 for the first.
func (c *client) once(ctx context.Context, target int, k call, attempt int) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var body io.Reader
	if k.body != "" {
		body = strings.NewReader(k.body)
	}
	req, err := http.NewRequestWithContext(ctx, k.method, c.targets[target%len(c.targets)]+k.path, body)
	if err != nil {
		return answer{}, fmt.Errorf("%s %s: %w", k.method, k.path, err)
	}
	set := func(name, value string) {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if k.body != "" {
		set("Content-Type", "application/json")
	}
	if k.bearer != "" {
		set("Authorization", "Bearer "+k.bearer)
	}
	if k.cookie != "" {
		req.AddCookie(&http.Cookie{Name: "waitroom_place_" + c.event, Value: k.cookie}) //nolint:gosec // of a request: it has no attributes
	}
	set("X-Forwarded-For", k.from)
	set("X-Entry-Token", k.entry)
	set("Idempotency-Key", k.key)
	set("X-Challenge", k.solution)
	set("If-None-Match", k.etag)
	if attempt > 1 {
		set("X-Attempt", strconv.Itoa(attempt))
	}
	res, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return answer{}, fmt.Errorf("%s %s: read answer: %w", k.method, k.path, err)
	}
	return answer{status: res.StatusCode, header: res.Header, body: b}, nil
}
