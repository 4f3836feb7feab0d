package pay

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

// ClientConfig says where a sandbox is served.
type ClientConfig struct {
	// URL is its base address, such as http://127.0.0.1:9090. Required.
	URL string
	// Timeout bounds a call whose context has no earlier deadline. Default 10s.
	Timeout time.Duration
	// MaxConns is the most connections to it at a time. Default 64.
	MaxConns int
}

// Client is the Provider that speaks to a sandbox over HTTP. Close it after use.
type Client struct {
	base *url.URL
	http *http.Client
}

var _ Provider = (*Client)(nil)

// NewClient makes a client; it connects at the first call.
func NewClient(cfg ClientConfig) (*Client, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("payment provider url: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("payment provider url %q: must be http://host or https://host", cfg.URL)
	}
	conns := cmp.Or(cfg.MaxConns, 64)
	return &Client{base: u, http: &http.Client{
		Timeout: cmp.Or(cfg.Timeout, 10*time.Second),
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxConnsPerHost: conns, MaxIdleConnsPerHost: conns,
			IdleConnTimeout: time.Minute, DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
			ForceAttemptHTTP2: true, TLSHandshakeTimeout: 2 * time.Second,
		},
		// A redirect would send a charge a second time, elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Charge is Provider's.
func (c *Client) Charge(ctx context.Context, r ChargeRequest) (Charge, error) {
	return do[Charge](ctx, c, http.MethodPost, "/v1/charges", r.Key, chargeBody{AmountCents: r.AmountCents, Currency: r.Currency, Method: r.Method})
}

// Find is Provider's.
func (c *Client) Find(ctx context.Context, key string) (Charge, error) {
	return do[Charge](ctx, c, http.MethodGet, "/v1/charges/"+url.PathEscape(key), "", nil)
}

// Refund is Provider's.
func (c *Client) Refund(ctx context.Context, r RefundRequest) (Refund, error) {
	return do[Refund](ctx, c, http.MethodPost, "/v1/refunds", r.Key, refundBody{ChargeKey: r.ChargeKey, AmountCents: r.AmountCents, Currency: r.Currency})
}

// Audit fetches the sandbox's books.
func (c *Client) Audit(ctx context.Context) (Books, error) {
	return do[Books](ctx, c, http.MethodGet, "/v1/audit", "", nil)
}

func do[R any](ctx context.Context, c *Client, method, path, key string, body any) (R, error) {
	var out R
	var sent io.Reader = http.NoBody
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return out, fmt.Errorf("encode: %w", err)
		}
		sent = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base.String()+path, sent)
	if err != nil {
		return out, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		// The key also allows net/http to send the request again on a fresh
		// connection when a kept one turns out to be dead.
		req.Header.Set(keyHead, key)
	}
	res, err := c.http.Do(req)
	if err != nil {
		if unsent(err) {
			return out, fmt.Errorf("%s %s: %w: %w", method, path, ErrNotSent, err)
		}
		return out, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return out, fmt.Errorf("%s %s: read answer: %w", method, path, err)
	}
	switch res.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusPaymentRequired:
		if err := json.Unmarshal(b, &out); err != nil {
			return out, fmt.Errorf("%s %s: answer %d unreadable: %w", method, path, res.StatusCode, err)
		}
		return out, nil
	case http.StatusNotFound:
		// Only the provider's own word counts: a proxy's 404 knows no charges.
		var e errorBody
		if json.Unmarshal(b, &e) == nil && e.Code == "not_found" {
			return out, fmt.Errorf("%s %s: %w", method, path, ErrNotFound)
		}
		return out, fmt.Errorf("%s %s: answer 404 of somebody else", method, path)
	case http.StatusUnprocessableEntity:
		return out, fmt.Errorf("%s %s: %w: %.200q", method, path, ErrRefused, b)
	case http.StatusServiceUnavailable:
		return out, fmt.Errorf("%s %s: %w", method, path, ErrDown)
	default:
		return out, fmt.Errorf("%s %s: answer %d: %.200q", method, path, res.StatusCode, b)
	}
}

// unsent says whether an error means that no byte of the request left: there was
// no connection to send it on.
func unsent(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op == "dial"
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
