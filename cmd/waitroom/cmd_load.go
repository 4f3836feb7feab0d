package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/waitroom-dev/waitroom/cmd/waitroom/load"
)

// newLoadCommand brings a crowd to running services and judges what it saw.
func newLoadCommand() *cobra.Command {
	var c load.Config
	var jsonFile, profile string
	var lanes map[string]string
	cmd := &cobra.Command{
		Use:   "load --target URL[,URL...] --event ID",
		Short: "Bring a crowd of virtual fans to running services, and check every promise that can be seen",
		Long: `Brings virtual fans over real HTTP and WebSockets: they arrive by schedule, wait, come in, buy or leave.
Prints progress each second and a summary at the end. Exit status: 0 if every promise held and no more of
the server's errors were seen than allowed, 1 if not, 2 if it was called wrongly.

Profiles of the arrivals over the ramp (--profile):
  steady  evenly spread: a sale that is under way, or people sent from elsewhere
  burst   most at the opening, the rest trailing off: 63 % in the first fifth (a concert, course registration)
  flash   half in the first moment, the others within a tenth of the ramp (a flash sale, a login rush)

Habits are shares of the crowd, each judged by what a correct service may do:
  --away     lose their network without a word for 1 to 5 s: the place, and a turn that came meanwhile, are there
  --leave    give the place up: answered 204, and no instance knows the place any more
  --refresh  load the page again and join with the cookie: the same place, not further back
  --tabs     open a second tab: never further back, and told of the turn as the first is
  --poll     ask instead of listening, when Retry-After says, with If-None-Match: told of the turn when they ask
  --deaf     open a socket and never read it: cut within --patience, and nobody else notices
  --bots     no people: call in a closed loop with no token, heed nothing. Counted apart; 99 of 100 people
             are served all the same. With --forwarded each of the crowd names an address of its own, for
             services that limit by address and believe this machine (serve --proxies 127.0.0.0/8)

Where the event wants a challenge of kind altcha, each person solves it, up to three times, as their page would.
That is work for this machine, and meant to be: 0.2 to 0.4 s of a core for each person, up to eight times as
much where they come fast. All workers together use the cores that there are, so people come no faster than
these allow; the summary counts the challenges and their time, which is not in the latency of join. Other
kinds ask a provider whether there is a person, and nobody here can answer that.`,
		Example: "  waitroom load --target http://127.0.0.1:8080 --event demo --users 200 --ramp 5s --hold 2s --buy 0.5\n" +
			"  waitroom load --event demo --target http://10.0.0.7:8080 --profile burst --tabs 0.1 --refresh 0.2 --poll 0.1",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Crowd.Profile = load.Profile(profile)
			var err error
			if c.Crowd.Lanes, err = weights("lanes", lanes); err != nil {
				return usage(err)
			}
			r, err := load.Run(cmd.Context(), c, cmd.ErrOrStderr())
			if err != nil {
				if _, wrong := errors.AsType[*load.UsageError](err); wrong {
					return usage(err)
				}
				return err
			}
			return finishLoad(cmd, r, jsonFile)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&c.Targets, "target", nil, "base `URL`s of instances of one service, separated by commas")
	f.StringVar(&c.Event, "event", "demo", "`ID` of the event")
	f.IntVar(&c.Crowd.Users, "users", 200, "how many people come")
	f.DurationVar(&c.Crowd.Ramp, "ramp", 10*time.Second, "time from the first to the last arrival")
	f.DurationVar(&c.Crowd.Hold, "hold", 2*time.Second, "how long somebody looks around inside before buying or leaving")
	f.Float64Var(&c.Crowd.Buy, "buy", 0.5, "share of the admitted who buy, 0 to 1")
	f.StringVar(&jsonFile, "json", "", "write the report to `FILE` as JSON, with all histograms")
	f.StringVar(&profile, "profile", string(load.Steady), "shape of the arrivals: burst, steady or flash")
	f.StringToStringVar(&lanes, "lanes", nil, "`NAME=WEIGHT,...` of the people of each lane, of an event where they choose one (default: evenly)")
	f.Uint64Var(&c.Crowd.Seed, "seed", 1, "decides everything that is left to chance")
	f.IntVar(&c.Workers, "workers", 0, "processes that share the crowd (0: as few as can hold it)")
	f.IntVar(&c.Connections, "connections", 200, "HTTP connections of one worker at most")
	f.DurationVar(&c.Limit, "limit", 0, "end the run after this time, whoever still waits (0: ramp + 15m)")
	f.Float64Var(&c.Crowd.Habits.Away, "away", 0.02, "share who lose their network once while they wait, 0 to 1")
	h := &c.Crowd.Habits
	f.Float64Var(&h.Leave, "leave", 0, "share who give their place up while they wait, 0 to 1")
	f.Float64Var(&h.Refresh, "refresh", 0, "share who load the page again while they wait, 0 to 1")
	f.Float64Var(&h.Tabs, "tabs", 0, "share who open a second tab, 0 to 1")
	f.Float64Var(&h.Poll, "poll", 0, "share who ask instead of listening on a socket, 0 to 1")
	f.Float64Var(&h.Deaf, "deaf", 0, "share who never read their socket, 0 to 1")
	f.Float64Var(&h.Bots, "bots", 0, "share who are bots, 0 to 1")
	f.BoolVar(&c.Crowd.Forwarded, "forwarded", false, "name an address of their own for each, in X-Forwarded-For")
	f.DurationVar(&c.Checks.Patience, "patience", 90*time.Second, "how long a socket that is never read may stay open")
	f.Float64Var(&c.Checks.Sample, "sample", 0.1, "share who ask for everything twice, to check promises, 0 to 1")
	f.Float64Var(&c.Checks.MaxErrors, "max-errors", 0.01, "share of calls that may fail by the server's fault, 0 to 1")
	f.IntVar(&c.Checks.Burst, "burst", -1, "the event's burst, for the check of the cap (-1: not known)")
	f.IntVar(&c.Checks.MaxActive, "max-active", -1, "the event's max_active, for the check of the cap (-1: not known)")
	f.IntVar(&c.Checks.PerUser, "per-user", -1, "the event's tickets per person, for the checks of sales (-1: not known)")
	f.StringVar(&c.OperatorToken, "operator-token", os.Getenv("WAITROOM_OPERATOR_TOKEN"),
		"operator `TOKEN` to read the event's limits and, at the end, its books with (or WAITROOM_OPERATOR_TOKEN)")
	f.Lookup("operator-token").DefValue = "" // never printed by --help
	cmd.AddCommand(newLoadWorkerCommand(), newLoadMergeCommand())
	return cmd
}

// newLoadWorkerCommand is one worker process of a load run; nobody calls it by hand.
func newLoadWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "worker", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return load.Work(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// newLoadMergeCommand makes one report of several machines' runs.
func newLoadMergeCommand() *cobra.Command {
	var jsonFile string
	cmd := &cobra.Command{
		Use:   "merge FILE...",
		Short: "Make one report of the JSON reports of several machines",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(fmt.Errorf("%s wants at least one file", cmd.CommandPath()))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			reports := make([]*load.Report, 0, len(args))
			for _, name := range args {
				f, err := os.Open(name) //nolint:gosec // the caller's own file
				if err != nil {
					return usage(err)
				}
				r, err := load.ReadReport(f)
				_ = f.Close() // only read
				if err != nil {
					return usage(fmt.Errorf("%s: %w", name, err))
				}
				reports = append(reports, r)
			}
			r, err := load.Merge(reports)
			if err != nil {
				return usage(err)
			}
			return finishLoad(cmd, r, jsonFile)
		},
	}
	cmd.Flags().StringVar(&jsonFile, "json", "", "write the merged report to `FILE` as JSON")
	return cmd
}

// finishLoad prints a report, writes its file, and makes it the exit status.
func finishLoad(cmd *cobra.Command, r *load.Report, jsonFile string) error {
	if err := r.WriteTable(cmd.OutOrStdout()); err != nil {
		return err
	}
	if jsonFile != "" {
		f, err := os.Create(jsonFile) //nolint:gosec // the caller's own file
		if err != nil {
			return err
		}
		if err := errors.Join(r.WriteJSON(f), f.Close()); err != nil {
			return err
		}
	}
	if !r.OK {
		return &exitError{status: exitFailed} // the table has said why
	}
	return nil
}
