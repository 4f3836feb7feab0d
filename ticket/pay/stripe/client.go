package stripe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/waitroom-dev/waitroom/ticket/pay"
)

// Config says how Stripe is reached.
type Config struct {
	// URL is the API's base address. Default https://api.stripe.com.
	URL string
	// Key is the secret API key. Required.
	Key string
	// Timeout bounds a call whose context has no earlier deadline. Default 10s.
	Timeout time.Duration
	// Method is the payment method of a buyer who names none. Default "pm_card_visa",
	// which works in Stripe's test mode only.
	Method string
}

// Client is the pay.Provider that speaks to Stripe. Close it after use.
type Client struct {
	base, key, method string
	http              *http.Client
}

var _ pay.Provider = (*Client)(nil)

// New makes a client; it connects at the first call.
func New(cfg Config) (*Client, error) {
	base := strings.TrimRight(cmp.Or(cfg.URL, "https://api.stripe.com"), "/")
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("stripe url: must be http://host or https://host")
	}
	if cfg.Key == "" {
		return nil, errors.New("stripe: a secret key is needed")
	}
	return &Client{base: base, key: cfg.Key, method: cmp.Or(cfg.Method, "pm_card_visa"), http: &http.Client{
		Timeout: cmp.Or(cfg.Timeout, 10*time.Second),
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxConnsPerHost: 64, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute,
			DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 2 * time.Second,
		},
		// A redirect would send a charge, and the key, elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// metaKey is the metadata field that holds our payment's id.
const metaKey = "waitroom_payment"

// intent is a PaymentIntent, as far as it matters here.
type intent struct {
	ID       string            `json:"id"`
	Status   string            `json:"status"`
	Amount   int64             `json:"amount"`
	Currency string            `json:"currency"`
	Metadata map[string]string `json:"metadata"`
	Error    *failure          `json:"last_payment_error"`
}

// charge is an intent in our words.
func (i intent) charge() pay.Charge {
	c := pay.Charge{
		ID: i.ID, Key: i.Metadata[metaKey], Status: pay.ChargePending,
		AmountCents: i.Amount, Currency: strings.ToUpper(i.Currency),
	}
	switch i.Status {
	case "succeeded":
		c.Status = pay.ChargeCaptured
	case "canceled", "requires_payment_method":
		c.Status = pay.ChargeDeclined
		if i.Error != nil {
			c.Reason = cmp.Or(i.Error.DeclineCode, i.Error.Code)
		}
	}
	return c
}

// failure is Stripe's error object.
type failure struct {
	Type        string `json:"type"`
	Code        string `json:"code"`
	DeclineCode string `json:"decline_code"`
	Message     string `json:"message"`
}

// Charge is Provider's.
func (c *Client) Charge(ctx context.Context, r pay.ChargeRequest) (pay.Charge, error) {
	var made intent
	err := c.call(ctx, http.MethodPost, "/v1/payment_intents", r.Key, url.Values{
		"amount": {strconv.FormatInt(r.AmountCents, 10)}, "currency": {strings.ToLower(r.Currency)},
		"payment_method": {cmp.Or(r.Method, c.method)}, "payment_method_types[]": {"card"},
		"confirm": {"true"}, "error_on_requires_action": {"true"}, "metadata[" + metaKey + "]": {r.Key},
	}, &made)
	if declined, ok := errors.AsType[*declinedError](err); ok {
		return pay.Charge{
			Key: r.Key, Status: pay.ChargeDeclined, AmountCents: r.AmountCents, Currency: r.Currency,
			Reason: cmp.Or(declined.DeclineCode, declined.Code),
		}, nil
	}
	if err != nil {
		return pay.Charge{}, err
	}
	return made.charge(), nil
}

// find looks an intent up by our key; of several the one that took money.
func (c *Client) find(ctx context.Context, key string) (intent, error) {
	var found struct {
		Data []intent `json:"data"`
	}
	query := "metadata['" + metaKey + "']:'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(key) + "'"
	if err := c.call(ctx, http.MethodGet, "/v1/payment_intents/search?"+url.Values{"query": {query}}.Encode(), "", nil, &found); err != nil {
		return intent{}, err
	}
	best := intent{}
	for _, i := range found.Data {
		if i.Metadata[metaKey] == key && (best.ID == "" || i.Status == "succeeded") {
			best = i
		}
	}
	if best.ID == "" {
		return best, fmt.Errorf("find %s: %w", key, pay.ErrNotFound)
	}
	return best, nil
}

// Find is Provider's. Stripe's search may be a minute behind.
func (c *Client) Find(ctx context.Context, key string) (pay.Charge, error) {
	i, err := c.find(ctx, key)
	if err != nil {
		return pay.Charge{}, err
	}
	return i.charge(), nil
}

// Refund is Provider's.
func (c *Client) Refund(ctx context.Context, r pay.RefundRequest) (pay.Refund, error) {
	i, err := c.find(ctx, r.ChargeKey)
	if errors.Is(err, pay.ErrNotFound) { // the search is behind: it comes again
		return pay.Refund{}, fmt.Errorf("refund %s: the charge is not found yet", r.Key)
	}
	if err != nil {
		return pay.Refund{}, err
	}
	var made struct {
		ID string `json:"id"`
	}
	err = c.call(ctx, http.MethodPost, "/v1/refunds", r.Key, url.Values{
		"payment_intent": {i.ID}, "amount": {strconv.FormatInt(r.AmountCents, 10)},
	}, &made)
	if refused, ok := errors.AsType[*refusedError](err); ok && refused.Code == "charge_already_refunded" {
		err = nil // by an earlier call, whose key Stripe has forgotten
	}
	if err != nil {
		return pay.Refund{}, err
	}
	return pay.Refund{ID: made.ID, Key: r.Key, ChargeKey: r.ChargeKey, AmountCents: r.AmountCents, Currency: r.Currency}, nil
}

// declinedError is a card's refusal.
type declinedError struct{ failure }

func (e *declinedError) Error() string { return "declined: " + cmp.Or(e.DeclineCode, e.Code) }

// refusedError is a request that Stripe understood and will never do.
type refusedError struct{ failure }

func (e *refusedError) Error() string { return e.Type + " " + e.Code + ": " + e.Message }
func (e *refusedError) Unwrap() error { return pay.ErrRefused }

// maxBody is the largest answer that is read.
const maxBody = 1 << 20

// call sends one request and decodes the answer into out.
func (c *Client) call(ctx context.Context, method, path, key string, form url.Values, out any) error {
	var body io.Reader = http.NoBody
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return fmt.Errorf("%w: %w", pay.ErrNotSent, err)
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	what, _, _ := strings.Cut(method+" "+path, "?")
	res, err := c.http.Do(req)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			return fmt.Errorf("%s: %w: %w", what, pay.ErrNotSent, err)
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return fmt.Errorf("%s: read answer: %w", what, err)
	}
	if res.StatusCode == http.StatusOK {
		if err := json.Unmarshal(raw, out); err != nil {
			return fmt.Errorf("%s: answer unreadable: %w", what, err)
		}
		return nil
	}
	var f struct {
		Error failure `json:"error"`
	}
	if json.Unmarshal(raw, &f) != nil || f.Error.Type == "" {
		return fmt.Errorf("%s: answer %d of somebody else", what, res.StatusCode)
	}
	return fmt.Errorf("%s: %w", what, judge(res.StatusCode, f.Error))
}

// judge says what an error of Stripe's means.
func judge(status int, f failure) error {
	switch {
	case status == http.StatusPaymentRequired && f.Type == "card_error":
		return &declinedError{f}
	case status == http.StatusBadRequest && f.Type == "invalid_request_error":
		return &refusedError{f}
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fmt.Errorf("the key is not accepted (%d): %w", status, pay.ErrDown)
	default: // 409, 429, 5xx, an idempotency_error: they do not say whether there is a charge
		return fmt.Errorf("answer %d %s %s", status, f.Type, f.Code)
	}
}
