package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// result is one line of the output.
type result struct {
	Name string `json:"name"`
	// Measured says in words what came out; Figures has its numbers.
	Measured string             `json:"measured"`
	Bar      string             `json:"bar"`
	Verdict  string             `json:"verdict"`
	Figures  map[string]float64 `json:"figures,omitempty"`
}

// The verdicts; anything else says where to look.
const (
	met    = "met"
	notMet = "not met"
)

func verdict(good bool) string {
	if good {
		return met
	}
	return notMet
}

func (r result) String() string {
	return strings.Join([]string{r.Name, r.Measured, r.Bar, r.Verdict}, " · ")
}

// unit measures one or several bars that share their preparation.
type unit struct {
	bars []string
	run  func(ctx context.Context, b *bench, wanted func(bar string) bool) ([]result, error)
}

// choose gives the units that have a bar whose name begins with prefix, and which
// of their bars are wanted.
func choose(units []unit, prefix string) (chosen []unit, wanted func(string) bool) {
	wanted = func(bar string) bool { return strings.HasPrefix(bar, prefix) }
	for _, u := range units {
		if slices.ContainsFunc(u.bars, wanted) {
			chosen = append(chosen, u)
		}
	}
	return chosen, wanted
}

// report is the JSON output.
type report struct {
	Machine machine  `json:"machine"`
	Quick   bool     `json:"quick"`
	Results []result `json:"results"`
}

func (r report) write(file string) error {
	doc, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode results: %w", err)
	}
	if err := os.WriteFile(file, append(doc, '\n'), 0o600); err != nil { //nolint:gosec // the operator names the file
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}
