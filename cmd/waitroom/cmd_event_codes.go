package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// codesACall is how many codes go in one call: 64 bytes each fit a body of 64 KiB.
const codesACall = 500

// eventCodesCommand adds codes to a group.
func eventCodesCommand(client clientFunc) *cobra.Command {
	var uses int
	cmd := &cobra.Command{
		Use: "codes EVENT GROUP FILE", Short: "Add codes to a group of an event", Args: wantArgs("EVENT", "GROUP", "FILE"),
		Long: "Adds the codes of a file, one a line, to a group with codes: true. A code has 8 to 64 letters and digits; blanks and -\n" +
			"in it do not count. The service keeps no code, only a keyed hash of each. Doing it again is harmless.",
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := os.ReadFile(args[2])
			if err != nil {
				return usage(fmt.Errorf("FILE: %w", err))
			}
			var codes []string
			for line := range strings.Lines(string(file)) {
				if line = strings.TrimSpace(line); line != "" {
					codes = append(codes, line)
				}
			}
			if len(codes) == 0 {
				return usage(fmt.Errorf("FILE: %s has no code", args[2]))
			}
			c, err := client()
			if err != nil {
				return err
			}
			added := 0
			for part := range slices.Chunk(codes, codesACall) {
				var done struct {
					Added int `json:"added"`
				}
				body := map[string]any{"group": args[1], "codes": part, "uses": uses}
				if err := c.call(cmd.Context(), http.MethodPost, "/"+url.PathEscape(args[0])+"/codes", body, &done); err != nil {
					return fmt.Errorf("after %d codes: %w", added, err)
				}
				added += done.Added
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d of %d codes added\n", added, len(codes))
			return err
		},
	}
	cmd.Flags().IntVar(&uses, "uses", 1, "how many may join by each code; 0 is any number")
	return cmd
}
