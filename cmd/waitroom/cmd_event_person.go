package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

// eventAdmitCommand lets people in by hand.
func eventAdmitCommand(client clientFunc) *cobra.Command {
	var count int
	var entry string
	cmd := &cobra.Command{
		Use: "admit EVENT --count N | --entry ID", Short: "Let people in by hand: outside the rate, inside max_active", Args: wantArgs("EVENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{"count": count}
			switch {
			case (count == 0) == (entry == ""):
				return usage(errors.New("admit wants one of --count and --entry"))
			case entry != "":
				body = map[string]any{"entry_id": entry}
			}
			c, err := client()
			if err != nil {
				return err
			}
			var out struct {
				Admitted int `json:"admitted"`
			}
			if err := c.call(cmd.Context(), http.MethodPost, "/"+url.PathEscape(args[0])+"/admit", body, &out); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d let in\n", out.Admitted)
			return err
		},
	}
	cmd.Flags().IntVar(&count, "count", 0, "so many from the front of the line")
	cmd.Flags().StringVar(&entry, "entry", "", "the person with this entry `ID`, wherever they stand")
	return cmd
}

// eventRevokeCommand ends a turn.
func eventRevokeCommand(client clientFunc) *cobra.Command {
	return &cobra.Command{
		Use: "revoke EVENT JTI", Short: "Make an entry token open nothing any more", Args: wantArgs("EVENT", "JTI"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client()
			if err != nil {
				return err
			}
			return c.call(cmd.Context(), http.MethodPost, "/"+url.PathEscape(args[0])+"/revoke", map[string]any{"jti": args[1]}, nil)
		},
	}
}

// eventBlockCommand puts a person out, by entry or, where the site knows its people, by
// the site's own id.
func eventBlockCommand(client clientFunc) *cobra.Command {
	var subject string
	cmd := &cobra.Command{
		Use: "block EVENT ENTRY | EVENT --subject SUB", Short: "Put a person out for good",
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("subject") {
				return wantArgs("EVENT")(cmd, args)
			}
			return wantArgs("EVENT", "ENTRY")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{"subject": subject}
			if len(args) > 1 {
				body = map[string]any{"entry_id": args[1]}
			}
			c, err := client()
			if err != nil {
				return err
			}
			return c.call(cmd.Context(), http.MethodPost, "/"+url.PathEscape(args[0])+"/block", body, nil)
		},
	}
	cmd.Flags().StringVar(&subject, "subject", "", "with identity jwt: the site's own id `SUB` of somebody, who need not have come yet")
	return cmd
}

// eventSetCommand changes any part of the settings.
func eventSetCommand(client clientFunc) *cobra.Command {
	return &cobra.Command{
		Use: "set EVENT JSON", Short: "Change any part of the settings", Args: wantArgs("EVENT", "JSON"),
		Example: `  waitroom event set demo '{"max_active": 500, "load": {"law": "target"}}'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var change map[string]any
			if err := json.Unmarshal([]byte(args[1]), &change); err != nil {
				return usage(fmt.Errorf("JSON: %w", err))
			}
			return patchEvent(cmd, client, args[0], change)
		},
	}
}
