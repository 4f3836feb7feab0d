package main

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/waitroom-dev/waitroom/admission"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// gateUnit measures the check of an entry token, as the gate makes it.
func gateUnit() unit {
	return unit{bars: []string{"gate-verify"}, run: runGate}
}

func runGate(ctx context.Context, b *bench, _ func(string) bool) ([]result, error) {
	const holders = 10_000
	keys := admission.NewKeys()
	passes, err := admission.NewPasses(keys, "http://bench")
	if err != nil {
		return nil, err
	}
	public, err := publicKey(passes.JWKS())
	if err != nil {
		return nil, err
	}
	tokens := make([]string, holders)
	now := time.Now().Truncate(time.Second)
	for i := range tokens {
		person := fmt.Sprintf("person-%d", i)
		tokens[i], err = passes.Mint(waitroom.Grant{
			Event: event, Entry: waitroom.EntryID(person), Subject: person, JTI: fmt.Sprintf("jti-%d", i),
			AdmittedAt: now, ClaimBy: now.Add(time.Hour),
		})
		if err != nil {
			return nil, err
		}
	}
	// One that has seen no token yet, as after a start.
	fresh, err := admission.NewPasses(keys, "http://bench")
	if err != nil {
		return nil, err
	}
	began := time.Now()
	for _, t := range tokens {
		if _, err := fresh.Verify(t, event); err != nil {
			return nil, err
		}
	}
	first := holders / time.Since(began).Seconds()

	usual := func(token string) error {
		dot := strings.LastIndexByte(token, '.')
		signature, err := base64.RawURLEncoding.DecodeString(token[dot+1:])
		if err != nil {
			return fmt.Errorf("signature: %w", err)
		}
		if !ed25519.Verify(public, []byte(token[:dot]), signature) {
			return errors.New("signature: not good")
		}
		return nil
	}
	remembered := func(token string) error {
		_, err := fresh.Verify(token, event)
		return err
	}
	side := func(check func(string) error) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) {
			n, began := 0, time.Now()
			for time.Since(began) < b.round/4 && ctx.Err() == nil {
				for range 100 {
					if err := check(tokens[n%holders]); err != nil {
						return 0, err
					}
					n++
				}
			}
			return float64(n) / time.Since(began).Seconds(), ctx.Err()
		}
	}
	pairs, err := duel(ctx, b.rounds, side(remembered), side(usual))
	if err != nil {
		return nil, err
	}
	s := compare(pairs, itself)
	const least = 10
	return []result{{
		Name: "gate-verify",
		Measured: fmt.Sprintf("%.0f × (%s/s on one core against %s/s; a token's first check %s/s; %s holders in turn)",
			s.ratio, thousands(s.ours), thousands(s.base), thousands(first), thousands(holders)),
		Bar: "≥ 10 × checking the signature each time (200,000/s where that takes 50 µs)", Verdict: verdict(s.ratio >= least),
		Figures: map[string]float64{"ratio": s.ratio, "per_s": s.ours, "signature_per_s": s.base, "first_per_s": first},
	}}, nil
}

// publicKey is the first key of a JWKS document.
func publicKey(document []byte) (ed25519.PublicKey, error) {
	var set struct {
		Keys []struct {
			X string `json:"x"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(document, &set); err != nil {
		return nil, fmt.Errorf("jwks: %w", err)
	}
	if len(set.Keys) == 0 {
		return nil, errors.New("jwks: no key")
	}
	key, err := base64.RawURLEncoding.DecodeString(set.Keys[0].X)
	if err != nil {
		return nil, fmt.Errorf("jwks: %w", err)
	}
	return key, nil
}
