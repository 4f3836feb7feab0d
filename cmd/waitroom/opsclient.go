package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// opsClient calls the ops API of a running service.
type opsClient struct {
	target string // base URL
	root   string // path that all calls are below
	token  string // operator token
	http   *http.Client
}

// opsTimeout bounds one call.
const opsTimeout = 10 * time.Second

func newOpsClient(target, token string) (*opsClient, error) {
	if err := checkOrigin("target", target); err != nil {
		return nil, usage(err)
	}
	if token == "" {
		return nil, usage(errors.New("operator-token: wants the token that serve was started with (or WAITROOM_OPERATOR_TOKEN)"))
	}
	return &opsClient{target: target, root: "/v1/ops/events", token: token, http: &http.Client{Timeout: opsTimeout}}, nil
}

// problem is the part of a refusal that an operator needs.
type problem struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Title  string `json:"title"`
	Errors []struct {
		Field  string `json:"field"`
		Detail string `json:"detail"`
	} `json:"errors"`
}

func (p problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	for _, e := range p.Errors {
		text += "; " + e.Field + ": " + e.Detail
	}
	return p.Code + ": " + text
}

// call sends one request below the root and decodes the answer into out.
func (c *opsClient) call(ctx context.Context, method, path string, body, out any) error {
	var sent []byte
	kind := ""
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return usage(err)
		}
		kind = "application/json"
	}
	raw, err := c.send(ctx, method, path, kind, sent)
	if err != nil || out == nil || len(raw) == 0 {
		return err
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("answer of %s: %w", c.target, err)
	}
	return nil
}

// mostAnswer is the most bytes that are read of an answer.
const mostAnswer = 128 << 20

// send sends a body of some kind, "" for none, and gives the answer's.
func (c *opsClient) send(ctx context.Context, method, path, kind string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.target+c.root+path, bytes.NewReader(body))
	if err != nil {
		return nil, usage(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be reached: %w", c.target, err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(res.Body, mostAnswer))
	if err != nil {
		return nil, fmt.Errorf("answer of %s: %w", c.target, err)
	}
	if res.StatusCode < http.StatusBadRequest {
		return raw, nil
	}
	var p problem
	if json.Unmarshal(raw, &p) != nil || p.Code == "" {
		return nil, fmt.Errorf("%s answered %s: %s", c.target, res.Status, strings.TrimSpace(string(raw[:min(len(raw), 200)])))
	}
	if res.StatusCode == http.StatusUnprocessableEntity {
		return nil, usage(p)
	}
	return nil, p
}
