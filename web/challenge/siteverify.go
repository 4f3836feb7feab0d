package challenge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// The addresses that the providers document for asking about a response.
var verifiers = map[string]string{
	waitroom.ChallengeTurnstile: "https://challenges.cloudflare.com/turnstile/v0/siteverify",
	waitroom.ChallengeHCaptcha:  "https://api.hcaptcha.com/siteverify",
	waitroom.ChallengeReCaptcha: "https://www.google.com/recaptcha/api/siteverify",
}

const (
	// patience ends a question to a provider.
	patience = 3 * time.Second
	// Failures in a row after which a provider counts as down, and how long it is left alone.
	downAfter = 5
	downFor   = time.Second
	// leastScore is the least score (0 to 1) that recaptcha's third version may give; 0.5 is the
	// threshold that its makers suggest to begin with.
	leastScore   = 0.5
	mostAnswered = 64 << 10 // bytes of a provider's answer
)

// Action is the name under which an event's page asks a provider: the event's id where
// that is a name that all of them take (letters, digits and _, at most 32), else a hash.
func Action(event waitroom.EventID) string {
	const most = 32
	name := strings.ReplaceAll(string(event), "-", "_")
	if len(name) > most {
		sum := sha256.Sum256([]byte(event))
		name = "event_" + hex.EncodeToString(sum[:12])
	}
	return name
}

// provider asks one provider whether a response is good.
type provider struct {
	kind, address, secret string
	hosts                 []string
	client                *http.Client
	breaker               circuitbreaker.CircuitBreaker[any]
	asking                chan struct{} // a token for each question on its way
}

func newProvider(kind, address, secret string, hosts []string) *provider {
	return &provider{
		kind: kind, address: address, secret: secret, hosts: hosts,
		client: &http.Client{Timeout: patience},
		asking: make(chan struct{}, mostAsked),
		breaker: circuitbreaker.NewBuilder[any]().
			WithFailureThreshold(downAfter).WithSuccessThreshold(1).WithDelay(downFor).Build(),
	}
}

// errDown: the provider gave no answer that can be read, or does not know our secret.
var errDown = errors.New("provider does not answer")

// answered is what the providers say, as far as it counts here.
type answered struct {
	Success  bool     `json:"success"`
	Hostname string   `json:"hostname"`
	Action   string   `json:"action"`
	Score    *float64 `json:"score"`
	Codes    []string `json:"error-codes"`
}

// mostAsked is how many questions may be on their way to a provider at once: a flood of
// made-up responses is not to become its flood, nor to look like its failure.
const mostAsked = 64

// verify is nil for a good response, errDown (wrapped), waitroom.ErrUnavailable while too
// many are asked about already, or why it does not count.
func (p *provider) verify(ctx context.Context, event waitroom.EventID, response string, addr netip.Addr) error {
	select {
	case p.asking <- struct{}{}:
		defer func() { <-p.asking }()
	default:
		return fmt.Errorf("%s: %w: %d responses are being asked about", p.kind, waitroom.ErrUnavailable, mostAsked)
	}
	if !p.breaker.TryAcquirePermit() {
		return fmt.Errorf("%s: %w: it failed too often just now", p.kind, errDown)
	}
	said, err := p.ask(context.WithoutCancel(ctx), response, addr) // a caller who hangs up says nothing about the provider
	if err != nil {
		p.breaker.RecordFailure()
		return fmt.Errorf("%s: %w: %w", p.kind, errDown, err)
	}
	p.breaker.RecordSuccess()
	return p.judge(said, event)
}

// ask makes the call. What it returns names no secret and no response.
func (p *provider) ask(ctx context.Context, response string, addr netip.Addr) (answered, error) {
	form := url.Values{"secret": {p.secret}, "response": {response}}
	if addr.IsValid() {
		form.Set("remoteip", addr.String())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.address, strings.NewReader(form.Encode()))
	if err != nil {
		return answered{}, fmt.Errorf("make a request: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := p.client.Do(req)
	if err != nil {
		return answered{}, fmt.Errorf("ask: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // nothing is written
	if resp.StatusCode != http.StatusOK {
		return answered{}, fmt.Errorf("answered %d", resp.StatusCode)
	}
	var said answered
	if err := json.NewDecoder(io.LimitReader(resp.Body, mostAnswered)).Decode(&said); err != nil {
		return answered{}, fmt.Errorf("read the answer: %w", err)
	}
	for _, code := range said.Codes {
		if code == "internal-error" || strings.HasSuffix(code, "-input-secret") || code == "sitekey-secret-mismatch" {
			return answered{}, fmt.Errorf("says %q", code)
		}
	}
	return said, nil
}

// judge says whether the provider's answer is about us.
func (p *provider) judge(said answered, event waitroom.EventID) error {
	switch {
	case !said.Success:
		return errWrong
	case !slices.Contains(p.hosts, strings.ToLower(said.Hostname)):
		return errElsewhere
	case p.kind == waitroom.ChallengeHCaptcha: // has no actions
		return nil
	case p.kind == waitroom.ChallengeReCaptcha && said.Action == "" && said.Score == nil: // its second version has none either
		return nil
	case said.Action != Action(event):
		return errElsewhere
	case said.Score != nil && *said.Score < leastScore:
		return errWrong
	}
	return nil
}
