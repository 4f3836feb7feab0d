package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/waitroom-dev/waitroom/waitroom/draw"
)

// whatIsThere tells what a file holds, or what an event publishes.
func (f verifyFlags) whatIsThere(ctx context.Context) (log, drawn bool, err error) {
	if f.bundle != "" {
		raw, err := os.ReadFile(f.bundle)
		if err != nil {
			return false, false, usage(fmt.Errorf("bundle: %w", err))
		}
		var file struct {
			Commitment *string `json:"commitment"`
		}
		drawn = json.Unmarshal(raw, &file) == nil && file.Commitment != nil
		return !drawn, drawn, nil
	}
	if err := checkOrigin("target", f.target); err != nil {
		return false, false, usage(err)
	}
	raw, err := fetch(ctx, verifyClient(), f.target+"/v1/events/"+url.PathEscape(f.event))
	if err != nil {
		return false, false, err
	}
	var event struct {
		Order string `json:"order"`
	}
	if err := json.Unmarshal(raw, &event); err != nil {
		return false, false, fmt.Errorf("event %s: %w", f.event, err)
	}
	return true, event.Order == "draw", nil
}

func verifyClient() *http.Client { return &http.Client{Timeout: 30 * time.Second} }

func verifyDraw(cmd *cobra.Command, f verifyFlags) error {
	raw, err := f.findDraw(cmd.Context())
	if err != nil {
		return err
	}
	b, err := draw.ReadBundle(bytes.NewReader(raw))
	if err != nil {
		return usage(err)
	}
	if f.save != "" {
		if err := os.WriteFile(f.save, raw, 0o600); err != nil {
			return err
		}
	}
	if f.commitment != "" && f.commitment != b.Commitment.String() {
		return fmt.Errorf("draw of %s: the commitment is %s, not the one that was kept", b.Event, b.Commitment)
	}
	if err := b.Verify(); err != nil {
		return err
	}
	by := "the commitment alone"
	switch {
	case b.Beacon != nil:
		by = fmt.Sprintf("the commitment and beacon round %d", b.Beacon.Round)
	case b.Fallback:
		by = fmt.Sprintf("the commitment alone, since beacon round %d did not come", b.Round)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "draw of %s: %d entrants stand as drawn, bound by %s\n  commitment %s\n  root       %s\n  seed       %s\n",
		b.Event, b.Size, by, b.Commitment, b.Root, b.Seed)
	return nil
}

func (f verifyFlags) findDraw(ctx context.Context) ([]byte, error) {
	if f.bundle != "" {
		raw, err := os.ReadFile(f.bundle)
		if err != nil {
			return nil, usage(fmt.Errorf("bundle: %w", err))
		}
		return raw, nil
	}
	if err := checkOrigin("target", f.target); err != nil {
		return nil, usage(err)
	}
	return fetch(ctx, verifyClient(), f.target+"/v1/events/"+url.PathEscape(f.event)+"/draw")
}
