package main

import "context"

// elsewhereUnits are the bars that this program does not measure itself.
func elsewhereUnits() []unit {
	var us []unit
	for _, r := range []result{
		{
			Name: "sockets-50k", Measured: "not measured here", Verdict: "see make load-50k",
			Bar: "50,000 sockets over four nodes: positions ≤ 2 s old p99 for the first 1,000, ≤ 5 s for all; admitted to token ≤ 250 ms p99 at 500/s",
		},
		{
			Name: "leader-lost", Measured: "not measured here", Verdict: "see go test ./admission",
			Bar: "next admission within lease + 1 tick (kill), 2 ticks (planned); 0 over-admissions",
		},
	} {
		us = append(us, unit{bars: []string{r.Name}, run: func(context.Context, *bench, func(string) bool) ([]result, error) {
			return []result{r}, nil
		}})
	}
	return us
}
