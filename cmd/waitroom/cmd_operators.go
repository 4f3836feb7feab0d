package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// newOperatorsCommand groups what an owner does with the operators of a running service.
func newOperatorsCommand() *cobra.Command {
	var target, token string
	client := func() (*opsClient, error) {
		c, err := newOpsClient(target, token)
		if err == nil {
			c.root = "/v1/ops/operators"
		}
		return c, err
	}
	cmd := &cobra.Command{
		Use: "operators", Short: "Make and revoke the tokens of people who run events",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("unknown command %q; see waitroom operators --help", args[0]))
			}
			return cmd.Help()
		},
	}
	cmd.PersistentFlags().StringVar(&target, "target", "http://127.0.0.1:8080", "`URL` of the service")
	cmd.PersistentFlags().StringVar(&token, "operator-token", os.Getenv("WAITROOM_OPERATOR_TOKEN"), "owner's `TOKEN` (or WAITROOM_OPERATOR_TOKEN)")
	cmd.PersistentFlags().Lookup("operator-token").DefValue = "" // never printed by --help
	cmd.AddCommand(operatorsAddCommand(client), operatorsListCommand(client), operatorsRevokeCommand(client), operatorsAuditCommand(client))
	return cmd
}

// operatorRow is what the commands print of an operator.
type operatorRow struct {
	Name      string    `json:"name"`
	Role      string    `json:"role"`
	CreatedBy string    `json:"created_by"`
	ExpiresAt time.Time `json:"expires_at"`
	Token     string    `json:"token"`
}

func operatorsAddCommand(client clientFunc) *cobra.Command {
	var role string
	var expires time.Duration
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Make an operator, and print their token this once", Args: wantArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client()
			if err != nil {
				return err
			}
			var made operatorRow
			body := map[string]string{"name": args[0], "role": role, "expires_in": expires.String()}
			if err := c.call(cmd.Context(), http.MethodPost, "", body, &made); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), made.Token)
			return err
		},
	}
	cmd.Flags().StringVar(&role, "role", "operator", "`viewer|operator|owner`")
	cmd.Flags().DurationVar(&expires, "expires", 90*24*time.Hour, "`DURATION` after which the token ends, 1m to 8784h")
	return cmd
}

func operatorsListCommand(client clientFunc) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the operators", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client()
			if err != nil {
				return err
			}
			var out struct {
				Operators []operatorRow `json:"operators"`
			}
			if err := c.call(cmd.Context(), http.MethodGet, "", nil, &out); err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tROLE\tEXPIRES\tMADE BY")
			for _, o := range out.Operators {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", o.Name, o.Role, o.ExpiresAt.UTC().Format(time.RFC3339), o.CreatedBy)
			}
			return w.Flush()
		},
	}
}

func operatorsRevokeCommand(client clientFunc) *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME", Short: "End an operator's token and sessions at once", Args: wantArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client()
			if err != nil {
				return err
			}
			return c.call(cmd.Context(), http.MethodDelete, "/"+url.PathEscape(args[0]), nil, nil)
		},
	}
}

// deedRow is a record of the operators' trail.
type deedRow struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	What   string    `json:"what"`
	Before string    `json:"before"`
	After  string    `json:"after"`
}

func operatorsAuditCommand(client clientFunc) *cobra.Command {
	return &cobra.Command{
		Use: "audit", Short: "Print who made and revoked operators, oldest first", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client()
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "TIME\tBY\tWHAT\tOPERATOR\tROLE\tEXPIRES")
			for after := ""; ; {
				var page struct {
					Records []deedRow `json:"records"`
				}
				query := url.Values{"limit": {"1000"}, "after": {after}}
				if err := c.call(cmd.Context(), http.MethodGet, "/audit?"+query.Encode(), nil, &page); err != nil {
					return err
				}
				if len(page.Records) == 0 {
					return w.Flush()
				}
				for _, r := range page.Records {
					var whom operatorRow
					if err := json.Unmarshal([]byte(cmp.Or(r.After, r.Before)), &whom); err != nil {
						return fmt.Errorf("record %s: %w", r.ID, err)
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.At.UTC().Format(time.RFC3339), r.By, r.What, whom.Name, whom.Role, whom.ExpiresAt.UTC().Format(time.RFC3339))
					after = r.ID
				}
			}
		},
	}
}
