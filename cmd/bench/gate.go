package main

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

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

	parser := jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}),
		jwt.WithAudience(string(event)), jwt.WithIssuer("http://bench"), jwt.WithExpirationRequired(), jwt.WithIssuedAt())
	usual := func(token string) error {
		var c jwt.RegisteredClaims
		_, err := parser.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return public, nil })
		return err
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
	const least = 200_000
	return []result{{
		Name: "gate-verify",
		Measured: fmt.Sprintf("%s/s on one core (%.0f × the JWT library's %s/s; a token's first check %s/s; %s holders in turn)",
			thousands(s.ours), s.ratio, thousands(s.base), thousands(first), thousands(holders)),
		Bar: "≥ 200,000 checks a second on one core", Verdict: verdict(s.ours >= least),
		Figures: map[string]float64{"per_s": s.ours, "library_per_s": s.base, "ratio": s.ratio, "first_per_s": first},
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
