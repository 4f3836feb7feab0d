package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/waitroom-dev/waitroom/ticket"
)

// newMigrateCommand brings a database up to this version; serve does the same at
// its start, so this is for those who want it to happen apart.
func newMigrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "migrate", Short: "Bring the database's schema up to this version", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadServeConfig(cmd.Flags(), os.Environ())
			if err != nil {
				return usage(err)
			}
			address := cfg.Database
			if address == "" {
				if address, err = sqliteURL(cfg.Data); err != nil {
					return err
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), reachTimeout)
			defer cancel()
			db, err := ticket.Open(ctx, address)
			if err != nil {
				return databaseError(err)
			}
			defer func() { _ = db.Close() }()
			if err := ticket.Migrate(cmd.Context(), db); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "the schema is up to date")
			return err
		},
	}
	addStoreFlags(cmd.Flags(), "database", "data")
	return cmd
}
