package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/waitroom-dev/waitroom/ticket/pay"
)

// newSandboxCommand serves a payment provider in which no money moves.
func newSandboxCommand() *cobra.Command {
	var addr, format string
	cmd := &cobra.Command{
		Use: "sandbox", Short: "Serve a payment provider to test against; serve --payments URL uses it", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(checkAddr(addr), oneOf("log-format", format, "json", "console")); err != nil {
				return usage(err)
			}
			log, err := newLogger(format)
			if err != nil {
				return usage(err)
			}
			return serveHandler(cmd.Context(), log, addr, pay.NewSandbox(pay.SandboxConfig{}).Handler())
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:9090", "`HOST:PORT` to listen on; port 0 picks a free one")
	cmd.Flags().StringVar(&format, "log-format", "console", "`json|console`")
	return cmd
}
