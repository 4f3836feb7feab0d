package law

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
)

// Grid is a set of trials.
type Grid []Trial

// cells are all combinations.
func cells(lags, demands, noShows, noises, perS []float64, changes []change) Grid {
	var g Grid
	for _, lag := range lags {
		for _, spread := range []bool{false, true} {
			for _, demand := range demands {
				for _, n := range noShows {
					for _, noise := range noises {
						for _, c := range changes {
							for _, per := range perS {
								g = append(g, Trial{Lag: lag, Spread: spread, Demand: demand, NoShows: n, Noise: noise, Change: c, PerS: per})
							}
						}
					}
				}
			}
		}
	}
	return g
}

// Full is the whole grid of lags from 5 to 60 s, demand from 0.5 to 20 times what
// the site can serve, no-shows up to 60 %, noise, and sudden changes.
func Full() Grid {
	return cells([]float64{5, 10, 15, 30, 45, 60}, []float64{0.5, 1.5, 3, 10, 20}, []float64{0, 0.3, 0.6},
		[]float64{0, 0.05}, []float64{3, 50, 400}, []change{steady, halved, surge})
}

// Quick is a part of the grid: its corners, for tests.
func Quick() Grid {
	return cells([]float64{5, 60}, []float64{1.5, 20}, []float64{0, 0.6}, []float64{0.05}, []float64{50}, []change{halved, surge})
}

// Result is how a law did on a grid.
type Result struct {
	Law string
	// Trials is the number of cells, and Met of those in which all bars were met.
	Trials, Met int
	// Near, Over, Swing, Through and Peak are the worst of all cells, each as in Score.
	Near, Over, Swing, Through, Peak float64
	// Worst is the cell with the least Near.
	Worst Trial
	// Failed are the cells in which a bar was missed.
	Failed []Trial
}

// Compare tries every law on every cell, on all cores, the chosen law first.
func Compare(g Grid) []Result { return compare(contestants(), g) }

func compare(all []contestant, g Grid) []Result {
	results := make([]Result, len(all))
	for i, c := range all {
		scores := make([]Score, len(g))
		var wg sync.WaitGroup
		next := make(chan int)
		for range runtime.GOMAXPROCS(0) {
			wg.Go(func() {
				for k := range next {
					scores[k] = run(c.make(), g[k])
				}
			})
		}
		for k := range g {
			next <- k
		}
		close(next)
		wg.Wait()
		results[i] = sum(c.name, g, scores)
	}
	return results
}

func sum(name string, g Grid, scores []Score) Result {
	r := Result{Law: name, Trials: len(g), Near: 1, Swing: length, Through: 1e9}
	for k, s := range scores {
		t := g[k]
		if s.Meets(t) {
			r.Met++
		} else {
			r.Failed = append(r.Failed, t)
		}
		if t.Demand > setPoint && s.Near < r.Near {
			r.Near, r.Worst = s.Near, t
		}
		r.Over, r.Peak = max(r.Over, s.Over), max(r.Peak, s.Peak)
		r.Swing, r.Through = min(r.Swing, s.Swing), min(r.Through, s.Through)
	}
	return r
}

// Table is the results in Markdown, the figures being the worst of all trials.
func Table(results []Result) string {
	var b strings.Builder
	b.WriteString("| law | all bars met | samples near the target | longest overload | fastest swing | throughput | highest demand |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %d of %d | %.0f %% | %.0f s | %.0f s | %.0f %% | %.1f × |\n",
			r.Law, r.Met, r.Trials, 100*r.Near, r.Over, r.Swing, 100*r.Through, r.Peak)
	}
	return b.String()
}

// Example runs every law on one trial, for a picture: a lag of 30 s that varies, ten
// times the demand, noise, and half of the capacity gone for a third of the time.
func Example() map[string]Score {
	t := Trial{Lag: 30, Spread: true, Demand: 10, NoShows: 0.3, Noise: 0.05, Change: halved, PerS: 50}
	scores := make(map[string]Score)
	for _, c := range contestants() {
		scores[c.name] = run(c.make(), t)
	}
	return scores
}

// Names are the laws in the order of Compare.
func Names() []string {
	var names []string
	for _, c := range contestants() {
		names = append(names, c.name)
	}
	return names
}
