package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// newEventCommand groups the operator's commands; each is one call of the ops API.
func newEventCommand() *cobra.Command {
	var target, token string
	client := func() (*opsClient, error) { return newOpsClient(target, token) }
	cmd := &cobra.Command{
		Use: "event", Short: "Operate events of a running service",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("unknown command %q; see waitroom event --help", args[0]))
			}
			return cmd.Help()
		},
	}
	cmd.PersistentFlags().StringVar(&target, "target", "http://127.0.0.1:8080", "`URL` of the service")
	cmd.PersistentFlags().StringVar(&token, "operator-token", os.Getenv("WAITROOM_OPERATOR_TOKEN"), "operator `TOKEN` (or WAITROOM_OPERATOR_TOKEN)")
	cmd.PersistentFlags().Lookup("operator-token").DefValue = "" // never printed by --help
	cmd.AddCommand(
		eventListCommand(client), eventCreateCommand(client), eventRateCommand(client), eventPassThroughCommand(client), eventAuditCommand(client), eventReplayCommand(client),
		eventImportCommand(client), eventExportCommand(client), eventCodesCommand(client),
		eventSeatsCommand(client, "block", "Hold free seats back from the sale, or close slots and courses"), eventSeatsCommand(client, "release", "Put seats that were held back on sale, or open slots and courses"),
		eventAdmitCommand(client), eventSetCommand(client),
		eventBlockCommand(client), eventRevokeCommand(client),
		eventStateCommand(client, "open", "Let people join and in", waitroom.Open),
		eventStateCommand(client, "pause", "Hold: let nobody in; joining goes on", waitroom.Paused, "hold"),
		eventStateCommand(client, "resume", "Go on after a pause", waitroom.Open),
		eventStateCommand(client, "drain", "Let nobody join; the line empties", waitroom.Draining),
		eventStateCommand(client, "close", "Reject: nobody joins or is let in any more", waitroom.Closed, "reject"),
	)
	return cmd
}

// eventRow is what the commands print of an event.
type eventRow struct {
	ID       string  `json:"id"`
	Name     string  `json:"name"`
	State    string  `json:"state"`
	RatePerS float64 `json:"rate_per_s"`
	Passes   bool    `json:"pass_through"`
	Waiting  int64   `json:"waiting"`
	Inside   int64   `json:"inside"`

	Lanes []waitroom.LaneCounts `json:"lane_counts"`
}

func printEvents(cmd *cobra.Command, rows ...eventRow) error {
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "EVENT\tSTATE\tRATE/S\tWAITING\tINSIDE\tNAME")
	for _, e := range rows {
		rate := strconv.FormatFloat(e.RatePerS, 'g', -1, 64)
		if e.Passes {
			rate = "all pass"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\n", e.ID, e.State, rate, e.Waiting, e.Inside, e.Name)
		for _, l := range e.Lanes {
			state := ""
			if l.Paused {
				state = "paused"
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\t%d\t%d\t\n", l.Name, state, strconv.FormatFloat(l.RatePerS, 'g', -1, 64), l.Waiting, l.Inside)
		}
	}
	return w.Flush()
}

type clientFunc func() (*opsClient, error)

// wantArgs wants exactly the named arguments.
func wantArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return usage(fmt.Errorf("%s wants %s; see %s --help", cmd.CommandPath(), strings.Join(names, " "), cmd.CommandPath()))
		}
		return nil
	}
}

func eventListCommand(client clientFunc) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List all events", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client()
			if err != nil {
				return err
			}
			var out struct {
				Events []eventRow `json:"events"`
			}
			if err := c.call(cmd.Context(), http.MethodGet, "", nil, &out); err != nil {
				return err
			}
			return printEvents(cmd, out.Events...)
		},
	}
}

func eventCreateCommand(client clientFunc) *cobra.Command {
	return &cobra.Command{
		Use: "create FILE", Short: "Create the events of a YAML file", Args: wantArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			planned, err := eventsFile(args[0])
			if err != nil {
				return usage(err)
			}
			c, err := client()
			if err != nil {
				return err
			}
			var rows []eventRow
			for _, p := range planned {
				body, err := p.body()
				if err != nil {
					return err
				}
				var row eventRow
				if err := c.call(cmd.Context(), http.MethodPost, "", body, &row); err != nil {
					return fmt.Errorf("event %s: %w", p.settings.ID, err)
				}
				rows = append(rows, row)
			}
			return printEvents(cmd, rows...)
		},
	}
}

func eventRateCommand(client clientFunc) *cobra.Command {
	var lane string
	cmd := &cobra.Command{
		Use: "rate EVENT PER_SECOND", Short: "Set how many are let in a second", Args: wantArgs("EVENT", "PER_SECOND"),
		RunE: func(cmd *cobra.Command, args []string) error {
			rate, err := strconv.ParseFloat(args[1], 64)
			if err != nil {
				return usage(fmt.Errorf("PER_SECOND: %q is no number", args[1]))
			}
			if lane == "" {
				return patchEvent(cmd, client, args[0], map[string]any{"rate_per_s": rate})
			}
			return patchLane(cmd, client, args[0], lane, func(l *waitroom.LaneSettings) { l.RatePerS, l.Share = &rate, 0 })
		},
	}
	cmd.Flags().StringVar(&lane, "lane", "", "`NAME` of the lane whose rate it is; without it, the event's")
	return cmd
}

// patchLane changes one of an event's lanes.
func patchLane(cmd *cobra.Command, client clientFunc, event, lane string, change func(*waitroom.LaneSettings)) error {
	c, err := client()
	if err != nil {
		return err
	}
	var now struct {
		Lanes []waitroom.LaneSettings `json:"lanes"`
	}
	if err := c.call(cmd.Context(), http.MethodGet, "/"+url.PathEscape(event), nil, &now); err != nil {
		return err
	}
	for i, l := range now.Lanes {
		if l.Name == lane {
			change(&now.Lanes[i])
			return patchEvent(cmd, client, event, map[string]any{"lanes": now.Lanes})
		}
	}
	return usage(fmt.Errorf("--lane: %s has no lane %q", event, lane))
}

func eventPassThroughCommand(client clientFunc) *cobra.Command {
	words := map[string]bool{"on": true, "off": false}
	return &cobra.Command{
		Use: "pass-through EVENT on|off", Short: "Let everybody in at once, and only measure; or keep to the rate again", Args: wantArgs("EVENT", "on|off"),
		RunE: func(cmd *cobra.Command, args []string) error {
			on, known := words[args[1]]
			if !known {
				return usage(fmt.Errorf("%q is neither on nor off", args[1]))
			}
			return patchEvent(cmd, client, args[0], map[string]any{"pass_through": on})
		},
	}
}

func eventStateCommand(client clientFunc, verb, short string, state waitroom.State, alias ...string) *cobra.Command {
	var lane string
	cmd := &cobra.Command{
		Use: verb + " EVENT", Aliases: alias, Short: short, Args: wantArgs("EVENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if lane != "" {
				return patchLane(cmd, client, args[0], lane, func(l *waitroom.LaneSettings) { l.Paused = state == waitroom.Paused })
			}
			return patchEvent(cmd, client, args[0], map[string]any{"state": state})
		},
	}
	if verb == "pause" || verb == "resume" {
		cmd.Flags().StringVar(&lane, "lane", "", "`NAME` of the one lane that it is about; without it, the event")
	}
	return cmd
}

func patchEvent(cmd *cobra.Command, client clientFunc, event string, change map[string]any) error {
	c, err := client()
	if err != nil {
		return err
	}
	var row eventRow
	if err := c.call(cmd.Context(), http.MethodPatch, "/"+url.PathEscape(event), change, &row); err != nil {
		return err
	}
	return printEvents(cmd, row)
}

func eventAuditCommand(client clientFunc) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "audit EVENT", Short: "Print who changed what, and when: the whole trail, oldest first", Args: wantArgs("EVENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("format", format, "jsonl", "csv"); err != nil {
				return usage(err)
			}
			c, err := client()
			if err != nil {
				return err
			}
			trail, err := c.send(cmd.Context(), http.MethodGet, "/"+url.PathEscape(args[0])+"/audit?format="+format, "", nil)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(trail)
			return err
		},
	}
	cmd.Flags().StringVar(&format, "format", "jsonl", "`jsonl|csv`")
	return cmd
}

func eventReplayCommand(client clientFunc) *cobra.Command {
	return &cobra.Command{
		Use: "replay EVENT", Short: "Try messages again that the relay gave up", Args: wantArgs("EVENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client()
			if err != nil {
				return err
			}
			var out struct {
				Replayed int `json:"replayed"`
			}
			if err := c.call(cmd.Context(), http.MethodPost, "/"+url.PathEscape(args[0])+"/replay", nil, &out); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d messages are tried again\n", out.Replayed)
			return err
		},
	}
}
