package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket/pay"
	"github.com/waitroom-dev/waitroom/ticket/pay/stripe"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// stripeSchemes are how --payments names Stripe, and what is spoken to it; plain
// HTTP is for its mock.
var stripeSchemes = map[string]string{"stripe": "https", "stripe+http": "http"}

// stripeURL is the address of Stripe's API, where the provider is Stripe.
func stripeURL(payments string) (string, bool) {
	scheme, rest, _ := strings.Cut(payments, ":")
	speaks, ok := stripeSchemes[scheme]
	return speaks + ":" + rest, ok
}

func checkPayments(c serveConfig) error {
	address, isStripe := stripeURL(c.Payments)
	if !isStripe {
		return checkOrigin("payments", c.Payments)
	}
	if c.PaymentsKey == "" && c.has(roleWorker) {
		return errors.New("payments-key: stripe wants a secret key")
	}
	return checkOrigin("payments", address)
}

// secretOf is a secret as it was given, or what the file that is named holds.
func secretOf(key, given string) (string, error) {
	path, inFile := strings.CutPrefix(given, "file:")
	if !inFile {
		return given, nil
	}
	raw, err := os.ReadFile(path) //nolint:gosec // the operator names it
	if err != nil {
		return "", usage(fmt.Errorf("%s: %w", key, err))
	}
	return strings.TrimSpace(string(raw)), nil
}

// provider is who takes the money, and its name: Stripe, or a sandbox, in this
// process or served by `waitroom sandbox`.
func (s *service) provider(ctx context.Context) (pay.Provider, error) {
	if s.cfg.Payments == "" {
		s.log.Warn("payments go to a sandbox in this process: no money moves")
		return pay.NewSandbox(pay.SandboxConfig{}), nil
	}
	var provider interface {
		pay.Provider
		Close()
	}
	if address, isStripe := stripeURL(s.cfg.Payments); isStripe {
		key, err := secretOf("payments-key", s.cfg.PaymentsKey)
		if err != nil {
			return nil, err
		}
		if provider, err = stripe.New(stripe.Config{URL: address, Key: key}); err != nil {
			return nil, usage(err)
		}
	} else {
		client, err := pay.NewClient(pay.ClientConfig{URL: s.cfg.Payments})
		if err != nil {
			return nil, usage(err)
		}
		provider = client
	}
	s.closers = append(s.closers, func() error { provider.Close(); return nil })
	s.probe(ctx, provider)
	return provider, nil
}

// probeTimeout is how long a start asks the payment provider.
const probeTimeout = 2 * time.Second

// probe warns of a provider that does not answer: payments wait for it, or are
// cancelled, as their events say.
func (s *service) probe(ctx context.Context, provider pay.Provider) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if _, err := provider.Find(ctx, "start-"+s.node); err != nil && !errors.Is(err, pay.ErrNotFound) {
		s.log.Warn("payment provider does not answer; payments wait for it", zap.Error(err))
	}
}

// takeWebhooks lets the provider tell of payments by itself, where it has a secret
// to sign with.
func (s *service) takeWebhooks(worker *pay.Worker) error {
	secret, err := secretOf("webhook-secret", s.cfg.WebhookSecret)
	if err != nil || secret == "" {
		return err
	}
	name, hooks := "sandbox", pay.Webhooks{Secret: secret, Read: pay.ReadWebhook, Worker: worker}
	if _, isStripe := stripeURL(s.cfg.Payments); isStripe {
		name, hooks.Read = "stripe", stripe.ReadWebhook
	}
	s.webhooks = map[string]func(context.Context, string, []byte) error{
		name: func(ctx context.Context, signature string, body []byte) error {
			err := hooks.Take(ctx, signature, body)
			if errors.Is(err, pay.ErrSignature) {
				return fmt.Errorf("%w: %w", waitroom.ErrTokenInvalid, err)
			}
			return err
		},
	}
	return nil
}
