package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waitroom-dev/waitroom/ticket"
)

// sheetTimeout is a little more than the service gives to a file of places.
const sheetTimeout = 30 * time.Second

const sheetHelp = `A CSV file (or JSON, by its name's end) lists one place a line, under a first line
that names the columns, in any order; those in brackets may be empty or left out.

  seats    section, number, [row], [price_cents], [kind], [of], [blocked], [id], [section_name]
  slots    id, starts_at, ends_at, capacity, [price_cents], [name]
  courses  id, capacity, meetings, [price_cents], [name]

kind is seat, wheelchair or companion, and of is the id of a companion's wheelchair
place; blocked is true or false; id is {section}-{row}-{number} where it is empty;
times are like 2026-05-01T18:00:00Z, meetings like "mon 10:00-11:30; 2026-10-05 09:00-12:00";
price_cents is the event's own where it is empty. All of a section has one price.
JSON has the same names: {"seats": [{"section": "A", "row": "1", "number": 1}]}.`

func eventImportCommand(client clientFunc) *cobra.Command {
	return &cobra.Command{
		Use: "import EVENT FILE", Short: "Make the places of an event those of a file, CSV or JSON", Args: wantArgs("EVENT", "FILE"),
		Long: "Makes the places of an event those of a file: new ones are added, others changed, and those that it does not list\n" +
			"removed. It is done as a whole or, with every error told by line and column, not at all; what somebody holds or\n" +
			"has bought cannot be changed or removed. The event must exist, with a tickets.kind of the file's kind.\n\n" + sheetHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := os.ReadFile(args[1])
			if err != nil {
				return usage(fmt.Errorf("FILE: %w", err))
			}
			kind := "text/csv"
			if strings.EqualFold(filepath.Ext(args[1]), ".json") {
				kind = "application/json"
			}
			c, err := client()
			if err != nil {
				return err
			}
			answer, err := c.file(cmd.Context(), http.MethodPut, cataloguePath(args[0]), kind, file)
			if err != nil {
				return err
			}
			var done ticket.Imported
			if err := json.Unmarshal(answer, &done); err != nil {
				return fmt.Errorf("answer of %s: %w", c.target, err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d added, %d changed, %d removed\n", done.Added, done.Changed, done.Removed)
			return err
		},
	}
}

func eventExportCommand(client clientFunc) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "export EVENT", Short: "Print the places of an event as a file that import takes", Args: wantArgs("EVENT"),
		Long: "Prints the places of an event as import takes them.\n\n" + sheetHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != ticket.CSV && format != ticket.JSON {
				return usage(fmt.Errorf("format %q: wants csv or json", format))
			}
			c, err := client()
			if err != nil {
				return err
			}
			file, err := c.file(cmd.Context(), http.MethodGet, cataloguePath(args[0])+"?format="+format, "", nil)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(file)
			return err
		},
	}
	cmd.Flags().StringVar(&format, "format", ticket.CSV, "`FORMAT`: csv or json")
	return cmd
}

// eventSeatsCommand blocks or releases seats.
func eventSeatsCommand(client clientFunc, deed, short string) *cobra.Command {
	return &cobra.Command{
		Use: deed + "-seats EVENT SEAT...", Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage(fmt.Errorf("%s wants EVENT and at least one SEAT", cmd.CommandPath()))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client()
			if err != nil {
				return err
			}
			return c.call(cmd.Context(), http.MethodPost, "/"+url.PathEscape(args[0])+"/seats", map[string][]string{deed: args[1:]}, nil)
		},
	}
}

func cataloguePath(event string) string { return "/" + url.PathEscape(event) + "/catalogue" }

// file sends a file, or asks for one, below /v1/ops/events.
func (c *opsClient) file(ctx context.Context, method, path, kind string, file []byte) ([]byte, error) {
	patient := *c
	patient.http = &http.Client{Timeout: sheetTimeout}
	return patient.send(ctx, method, path, kind, file)
}
