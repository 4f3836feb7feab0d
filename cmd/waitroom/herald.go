package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket/pay"
)

// heraldQueue is the most webhooks that wait to be sent.
const heraldQueue = 1000

// herald sends a sandbox's webhooks, once each, signed.
type herald struct {
	url, secret string
	log         *zap.Logger
	queue       chan pay.Charge // beyond its bound webhooks are dropped, as on a bad day
}

func (h *herald) check() error {
	if h.url == "" {
		return nil
	}
	if h.secret == "" {
		return errors.New("webhook-secret: wants what the service was started with")
	}
	return checkURL("webhook", h.url, "http", "https")
}

// notify takes a charge to tell of; it never blocks.
func (h *herald) notify(c pay.Charge) {
	if h.url == "" {
		return
	}
	select {
	case h.queue <- c:
	default:
		h.log.Warn("webhook dropped", zap.String("charge", c.ID))
	}
}

// run sends what is queued until ctx ends.
func (h *herald) run(ctx context.Context) error {
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-h.queue:
			if err := h.send(ctx, client, c); err != nil {
				h.log.Warn("webhook not taken", zap.String("charge", c.ID), zap.Error(err))
			}
		}
	}
}

func (h *herald) send(ctx context.Context, client *http.Client, c pay.Charge) error {
	body, err := pay.Webhook(c)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(pay.HeadSignature, pay.Sign(h.secret, body, time.Now()))
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	if err := res.Body.Close(); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("answer %d", res.StatusCode)
	}
	h.log.Info("webhook taken", zap.String("charge", c.ID))
	return nil
}
