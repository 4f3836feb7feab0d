package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// auditTimeout bounds a recount of the largest events.
const auditTimeout = 2 * time.Minute

// newAuditCommand recounts an event, and ends with 1 when a sum does not balance.
func newAuditCommand() *cobra.Command {
	var event, target string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Recount seats, money, messages and tokens of an event; exit status 1 when a sum does not balance",
		Long: "With --target a running service is asked (--operator-token, or WAITROOM_OPERATOR_TOKEN). Without it the stores\n" +
			"are opened by the flags of serve: --database or --data, and --redis or --broker for what was published.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if event == "" {
				return usage(errors.New("event: wants the ID of an event"))
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), auditTimeout)
			defer cancel()
			cfg, err := loadServeConfig(cmd.Flags(), os.Environ(), "event", "target", "json")
			if err != nil {
				return usage(err)
			}
			var books ticket.Books
			if target != "" {
				books, err = askBooks(ctx, target, cfg.OperatorToken, event)
			} else {
				books, err = openBooks(ctx, cfg, event)
			}
			if err != nil {
				return err
			}
			if err := printBooks(cmd.OutOrStdout(), books, asJSON); err != nil {
				return err
			}
			if !books.Pass {
				return &exitError{status: exitFailed}
			}
			return nil
		},
	}
	addStoreFlags(cmd.Flags(), "database", "data", "redis", "broker", "operator-token")
	cmd.Flags().StringVar(&event, "event", "", "`ID` of the event")
	cmd.Flags().StringVar(&target, "target", "", "`URL` of a running service to ask (default: the stores are opened)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// askBooks has a running service recount.
func askBooks(ctx context.Context, target, token, event string) (ticket.Books, error) {
	client, err := newOpsClient(target, token)
	if err != nil {
		return ticket.Books{}, err
	}
	client.http.Timeout = auditTimeout
	var books ticket.Books
	err = client.call(ctx, http.MethodGet, "/"+url.PathEscape(event)+"/books", nil, &books)
	return books, err
}

// openBooks recounts from the stores that serve would use with these flags.
func openBooks(ctx context.Context, cfg serveConfig, event string) (_ ticket.Books, err error) {
	address := cfg.Database
	if address == "" {
		if address, err = existingSQLite(cfg.Data); err != nil {
			return ticket.Books{}, err
		}
	}
	db, err := ticket.Open(ctx, address)
	if err != nil {
		return ticket.Books{}, databaseError(err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	a := auditor{}
	if a.store, err = ticket.New(ticket.Config{}, db, zap.NewNop(), nil); err != nil {
		return ticket.Books{}, err
	}
	if cfg.Redis != "" || cfg.Broker != "" { // else it is in the service's own process
		b, err := auditedBroker(cfg)
		if err != nil {
			return ticket.Books{}, err
		}
		defer func() { err = errors.Join(err, b.close()) }()
		if a.broker, err = reachBroker(ctx, b); err != nil {
			return ticket.Books{}, err
		}
	}
	books, err := a.Books(ctx, waitroom.EventID(event))
	if errors.Is(err, ticket.ErrWrongMode) {
		return books, fmt.Errorf("event %s: this database has nothing of this name, neither sold nor numbered nor issued", event)
	}
	return books, err
}

// printBooks writes one line a sum.
func printBooks(out io.Writer, books ticket.Books, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(books)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(books.Sums) > 0 {
		fmt.Fprintln(w, "SUM\tEXPECTED\tFOUND\t\t")
	}
	for _, s := range books.Sums {
		verdict := "pass"
		if !s.Pass {
			verdict = "FAIL"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", s.Name, s.Expected, s.Found, verdict, s.Note)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i, what := range slices.Sorted(maps.Keys(books.Counts)) {
		fmt.Fprintf(out, "%s%s %d", map[bool]string{true: "", false: ", "}[i == 0], what, books.Counts[what])
	}
	fmt.Fprintln(out)
	verdict := "the books balance"
	if len(books.Sums) == 0 {
		verdict = "nothing is sold, numbered or issued, so there is nothing to balance"
	}
	if !books.Pass {
		verdict = fmt.Sprintf("%d sums do not balance", len(books.Failed()))
	}
	_, err := fmt.Fprintf(out, "%s at %s: %s\n", books.Event, books.At.Format(time.RFC3339), verdict)
	return err
}

// auditedBroker is the broker that serve would publish to with these flags.
func auditedBroker(cfg serveConfig) (broker, error) {
	b, err := openBroker(cmp.Or(cfg.Broker, cfg.Redis), nil, brokerDeps{log: zap.NewNop()})
	if err != nil {
		return nil, usage(err)
	}
	return b, nil
}
