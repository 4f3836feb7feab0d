package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	run := runBench
	if _, child := os.LookupEnv(nodeEnv); child {
		run = runNode
	}
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// units are all bars, in the order in which they are measured.
func units() []unit {
	return slices.Concat(joinUnits(), crowdUnits(), []unit{positionUnit(), bytesUnit()}, socketUnits(), ticketUnits(), []unit{gateUnit(), gateHTTPUnit(), middlewareUnit()}, instantUnits(), []unit{leaderUnit()}, elsewhereUnits())
}

func runBench(ctx context.Context) error {
	bar := flag.String("bar", "", "measure only the bars whose names begin so")
	quick := flag.Bool("quick", false, "small sizes: shows that it works, and measures nothing")
	profile := flag.String("profile", "", "write the CPU profiles of the nodes into this directory; the last bar's stay")
	list := flag.Bool("list", false, "print the names of all bars, and end")
	flag.Parse()
	chosen, wanted := choose(units(), *bar)
	if *list {
		for _, u := range chosen {
			fmt.Println(strings.Join(slices.DeleteFunc(slices.Clone(u.bars), func(n string) bool { return !wanted(n) }), "\n"))
		}
		return nil
	}
	if len(chosen) == 0 || flag.NArg() > 0 {
		return fmt.Errorf("no bar begins with %q; -list prints them all", *bar+strings.Join(flag.Args(), " "))
	}
	b := newBench(*quick)
	b.profile = *profile
	began := time.Now()
	out := report{Machine: thisMachine(ctx), Quick: *quick}
	fmt.Println("machine ·", out.Machine)
	if *quick {
		fmt.Println("quick · small sizes: no figure and no verdict below counts")
	}
	var failed []error
	for _, u := range chosen {
		results, err := measure(ctx, b, u, wanted)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", strings.Join(u.bars, ", "), err))
			fmt.Fprintln(os.Stderr, "bench: not measured:", failed[len(failed)-1])
		}
		for _, r := range results {
			if wanted(r.Name) {
				fmt.Println(r)
				out.Results = append(out.Results, r)
			}
		}
	}
	b.say("all in %v", time.Since(began).Round(time.Second))
	if file := os.Getenv("BENCH_JSON"); file != "" {
		failed = append(failed, out.write(file))
	}
	return errors.Join(failed...)
}

// measure bounds a unit, so that one that hangs does not take the others with it.
func measure(ctx context.Context, b *bench, u unit, wanted func(string) bool) ([]result, error) {
	const most = 6 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	began := time.Now()
	results, err := u.run(ctx, b, wanted)
	b.say("%s: %v", u.bars[0], time.Since(began).Round(time.Second/10))
	return results, err
}

// sizes are how much is measured.
type sizes struct {
	rounds   int           // of a duel
	round    time.Duration // of one side
	warm     time.Duration // before the first round
	conns    int           // keep-alive connections of the load
	few      int           // the small line
	many     int           // the line of a million
	far      int           // the line of whose positions the cost is counted
	stored   int           // people whose bytes in Redis are counted
	sockets  int
	seats    int // of our hall: few, so that the collector has little to do with it
	group    int // reservations of our side in a round, at most
	promotes int
	pairs    int // lone reservations a side
	rush     int // people who want the last tickets
	faults   int // that a leader meets on real servers
}

// bench is one run: its sizes, and what must be ended after it.
type bench struct {
	sizes
	profile string // a directory for the nodes' profiles, or empty
	began   time.Time
}

func newBench(quick bool) *bench {
	b := &bench{began: time.Now(), sizes: sizes{
		rounds: 7, round: 2 * time.Second, warm: time.Second, conns: 256,
		few: 1000, many: 1_000_000, far: 50_000, stored: 200_000, sockets: 5000,
		seats: 120_000, group: 15_000, promotes: 21, pairs: 300, rush: 5000, faults: 50,
	}}
	if quick {
		b.sizes = sizes{
			rounds: 3, round: 300 * time.Millisecond, warm: 100 * time.Millisecond, conns: 64,
			few: 1000, many: 20_000, far: 2000, stored: 10_000, sockets: 200,
			seats: 20_000, group: 2000, promotes: 3, pairs: 20, rush: 300, faults: 4,
		}
	}
	return b
}

// say tells on standard error how far it is.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%7.1fs  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}
