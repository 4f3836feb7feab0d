package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waitroom-dev/waitroom/admission/law"
	"github.com/waitroom-dev/waitroom/admission/ledger"
	"github.com/waitroom-dev/waitroom/admission/simulate"
	"github.com/waitroom-dev/waitroom/deploy/events"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// simulation is what the flags of simulate say.
type simulation struct {
	preset, config, compare, arrivals, log, jsonFile, htmlFile string

	mix   map[string]string
	seed  uint64
	stock int
	limit time.Duration
	crowd events.Crowd
}

// newSimulateCommand plays an event in virtual time.
func newSimulateCommand() *cobra.Command {
	var s simulation
	cmd := &cobra.Command{
		Use:   "simulate --preset NAME | --config FILE",
		Short: "Play an event in virtual time, with the real control law and settings: waits, load, when it sells out",
		Long: "Plays an event in virtual time: the law and the settings are the real ones, the line is a plain model that\n" +
			"tests hold equal to the real line, and the people and the site are as the flags say. The same seed gives\n" +
			"the same result. A preset brings its crowd; --config takes the files that serve takes as --events.",
		Example: "  waitroom simulate --preset concert --html concert.html\n" +
			"  waitroom simulate --config mine.yaml --compare other.yaml --people 50000 --pool 40 --purchase 2s\n" +
			"  waitroom simulate --preset game-login --mix eu=3,na=2,asia=5\n" +
			"  waitroom simulate --config next.yaml --log https://wait.example/v1/events/last-year/log\n" +
			"  waitroom simulate plan --connections 40 --purchase 12s",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&s.preset, "preset", "", "ready-made event `NAME`, with its crowd")
	f.StringVar(&s.config, "config", "", "YAML `FILE` of events")
	f.StringVar(&s.compare, "compare", "", "another `FILE` of events, for the same people, beside it")
	f.StringVar(&s.arrivals, "arrivals", "", "CSV `FILE` of arrivals: seconds or times, and how many came")
	f.StringVar(&s.log, "log", "", "a past event's admission log whose people come again: a `FILE` that verify --save wrote, or the URL of .../v1/events/ID/log")
	f.StringVar(&s.jsonFile, "json", "", "write the result to `FILE` as JSON")
	f.StringVar(&s.htmlFile, "html", "", "write the result to `FILE` as a page with plots")
	f.Uint64Var(&s.seed, "seed", 1, "decides everything that is left to chance")
	f.DurationVar(&s.limit, "limit", 24*time.Hour, "end after this time of the event, whoever still waits")
	f.IntVar(&s.stock, "stock", -1, "buyers for whom there is something (-1: the event's tickets; 0: without end)")
	d := events.Crowds["demo"]
	f.IntVar(&s.crowd.People, "people", d.People, "how many come")
	f.DurationVar(&s.crowd.Over, "over", d.Over, "time from the first to the last arrival")
	f.StringVar(&s.crowd.Shape, "shape", d.Shape, "how they come: burst, steady or flash")
	f.DurationVar(&s.crowd.Early, "early", d.Early, "how long before the opening the first ones come")
	f.IntVar(&s.crowd.Pool, "pool", d.Pool, "connections of the site's database (0: its load is not known)")
	f.DurationVar(&s.crowd.Purchase, "purchase", d.Purchase, "how long a purchase holds a connection, on average")
	f.DurationVar(&s.crowd.Look, "look", d.Look, "time from coming in to the purchase, on average")
	f.Float64Var(&s.crowd.NoShows, "no-shows", d.NoShows, "share who are let in and never come")
	f.Float64Var(&s.crowd.Buy, "buy", d.Buy, "share of those who come who buy")
	f.StringToStringVar(&s.mix, "mix", nil, "`NAME=WEIGHT,...` of the people of each group, or of each lane where there are no groups (default: evenly)")
	cmd.AddCommand(newPlanCommand(), newLawsCommand())
	return cmd
}

func (s *simulation) run(cmd *cobra.Command) error {
	if (s.preset == "") == (s.config == "") {
		return usage(errors.New("simulate wants one of --preset and --config"))
	}
	var planned []plannedEvent
	var err error
	if s.preset != "" {
		if planned, err = preset(s.preset); err != nil {
			return usage(err)
		}
		s.bring(cmd.Flags())
	} else if planned, err = eventsFile(s.config); err != nil {
		return usage(err)
	}
	if s.compare != "" {
		other, err := eventsFile(s.compare)
		if err != nil {
			return usage(err)
		}
		planned = append(planned, other...)
	}
	times, err := s.times(cmd.Context())
	if err != nil {
		return err
	}
	mix, err := weights("mix", s.mix)
	if err != nil {
		return usage(err)
	}
	reports := make([]*simulate.Report, len(planned))
	for i, p := range planned {
		reports[i], err = simulate.Run(simulate.Config{
			Settings: p.settings, Crowd: s.crowd, Arrivals: times, Mix: mix, Start: p.at, Stock: s.buyers(p.settings), Seed: s.seed, Limit: s.limit,
		})
		if err != nil {
			return usage(err)
		}
	}
	return s.write(cmd.OutOrStdout(), reports)
}

// weights are what a flag says of each name.
func weights(flag string, said map[string]string) (map[string]float64, error) {
	all := make(map[string]float64)
	for name, weight := range said {
		n, err := strconv.ParseFloat(weight, 64)
		if err != nil {
			return nil, fmt.Errorf("--%s: %q is no weight", flag, weight)
		}
		all[name] = n
	}
	return all, nil
}

// times are those of the people, where they are known: from a file, or as they came to a
// past event.
func (s *simulation) times(ctx context.Context) ([]time.Duration, error) {
	switch {
	case s.arrivals != "" && s.log != "":
		return nil, usage(errors.New("simulate wants one of --arrivals and --log"))
	case s.arrivals != "":
		file, err := os.Open(s.arrivals)
		if err != nil {
			return nil, usage(err)
		}
		times, err := simulate.ReadArrivals(file)
		_ = file.Close() // only read
		if err != nil {
			return nil, usage(err)
		}
		return times, nil
	case s.log == "":
		return nil, nil
	}
	var past ledger.Bundle
	var err error
	if target, event, ok := logAddress(s.log); ok {
		past, err = fetchLog(ctx, target, event)
	} else {
		past, err = readBundle(s.log)
	}
	if err != nil {
		return nil, err
	}
	times, err := simulate.Replay(past, s.crowd.Early)
	if err != nil {
		return nil, usage(err)
	}
	return times, nil
}

// logAddress splits the address of a published log; false for anything else.
func logAddress(address string) (target, event string, ok bool) {
	if !strings.HasPrefix(address, "http://") && !strings.HasPrefix(address, "https://") {
		return "", "", false
	}
	target, rest, ok := strings.Cut(address, "/v1/events/")
	event, tail, _ := strings.Cut(rest, "/")
	return target, event, ok && event != "" && tail == "log"
}

// bring takes a preset's crowd, where no flag says otherwise.
func (s *simulation) bring(flags *pflag.FlagSet) {
	c, ok := events.Crowds[s.preset]
	if !ok {
		return
	}
	given := s.crowd
	s.crowd = c
	for name, keep := range map[string]func(){
		"people": func() { s.crowd.People = given.People }, "over": func() { s.crowd.Over = given.Over },
		"shape": func() { s.crowd.Shape = given.Shape }, "early": func() { s.crowd.Early = given.Early },
		"pool": func() { s.crowd.Pool = given.Pool }, "purchase": func() { s.crowd.Purchase = given.Purchase },
		"look": func() { s.crowd.Look = given.Look }, "no-shows": func() { s.crowd.NoShows = given.NoShows },
		"buy": func() { s.crowd.Buy = given.Buy },
	} {
		if flags.Changed(name) {
			keep()
		}
	}
}

// buyers is for how many there is something: a person takes one and a half pieces of
// two on average, and one of one.
func (s *simulation) buyers(e waitroom.Settings) int {
	if s.stock >= 0 {
		return s.stock
	}
	pieces := e.Tickets.Stock
	for _, sec := range e.Tickets.Sections {
		pieces += sec.Rows * sec.SeatsPerRow
	}
	if e.Tickets.PerUser > 1 {
		return (pieces*2 + 2) / 3
	}
	return pieces
}

func (s *simulation) write(out io.Writer, reports []*simulate.Report) error {
	if err := simulate.WriteTable(out, reports...); err != nil {
		return err
	}
	for _, to := range []struct {
		name  string
		write func(io.Writer, ...*simulate.Report) error
	}{{s.jsonFile, simulate.WriteJSON}, {s.htmlFile, simulate.WriteHTML}} {
		if to.name == "" {
			continue
		}
		file, err := os.Create(to.name)
		if err != nil {
			return usage(err)
		}
		if err := errors.Join(to.write(file, reports...), file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// newPlanCommand answers what rate to set.
func newPlanCommand() *cobra.Command {
	var n simulate.Need
	var claim time.Duration
	cmd := &cobra.Command{
		Use:     "plan --connections N --purchase D",
		Short:   "Say what rate to set for so many connections and so long a purchase",
		Example: "  waitroom simulate plan --connections 40 --purchase 12s",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := simulate.MakePlan(n, claim)
			if err != nil {
				return usage(err)
			}
			return p.Write(cmd.OutOrStdout(), n)
		},
	}
	f := cmd.Flags()
	f.IntVar(&n.Pool, "connections", 0, "connections of the site's database")
	f.DurationVar(&n.Purchase, "purchase", 0, "how long a purchase holds one, on average")
	f.Float64Var(&n.Target, "target", 0.75, "share of the connections that shall be in use")
	f.Float64Var(&n.NoShows, "no-shows", 0, "share who are let in and never come")
	f.Float64Var(&n.Buy, "buy", 1, "share of those who come who buy")
	f.DurationVar(&n.Inside, "inside", 2*time.Minute, "time from coming in to leaving, on average")
	f.DurationVar(&claim, "claim-ttl", 5*time.Minute, "the event's claim_ttl")
	return cmd
}

// newLawsCommand compares the control laws, and makes what package law publishes.
func newLawsCommand() *cobra.Command {
	var full bool
	var table, picture string
	cmd := &cobra.Command{
		Use: "laws", Short: "Compare the target law with those that lost, on a model of sites", Args: noArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			grid := law.Quick()
			if full {
				grid = law.Full()
			}
			text := law.Table(law.Compare(grid))
			fmt.Fprint(cmd.OutOrStdout(), text)
			if table != "" {
				if err := os.WriteFile(table, []byte(text), 0o600); err != nil {
					return err
				}
			}
			if picture == "" {
				return nil
			}
			svg, err := law.Picture()
			if err != nil {
				return err
			}
			return os.WriteFile(picture, svg, 0o600)
		},
	}
	cmd.Flags().BoolVar(&full, "full", false, "the whole grid, some minutes")
	cmd.Flags().StringVar(&table, "table", "", "write the table to `FILE`")
	cmd.Flags().StringVar(&picture, "svg", "", "write one trial's picture to `FILE`")
	return cmd
}
