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
	} {
		us = append(us, unit{bars: []string{r.Name}, run: func(context.Context, *bench, func(string) bool) ([]result, error) {
			return []result{r}, nil
		}})
	}
	return us
}
