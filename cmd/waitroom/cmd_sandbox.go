package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/waitroom-dev/waitroom/ticket/pay"
)

// newSandboxCommand serves a payment provider in which no money moves.
func newSandboxCommand() *cobra.Command {
	var addr, format, kept string
	tell := &herald{queue: make(chan pay.Charge, heraldQueue)}
	cmd := &cobra.Command{
		Use: "sandbox", Short: "Serve a payment provider to test against; serve --payments URL uses it", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(checkAddr(addr), oneOf("log-format", format, "json", "console"), tell.check()); err != nil {
				return usage(err)
			}
			log, err := newLogger(format)
			if err != nil {
				return usage(err)
			}
			tell.log = log
			provider := pay.NewSandbox(pay.SandboxConfig{Notify: tell.notify})
			if kept != "" {
				if provider, err = pay.OpenSandbox(pay.SandboxConfig{Notify: tell.notify}, kept); err != nil {
					return err
				}
			}
			group, ctx := errgroup.WithContext(cmd.Context())
			group.Go(func() error { return tell.run(ctx) })
			group.Go(func() error {
				return serveHandler(ctx, log, addr, provider.Handler())
			})
			return errors.Join(group.Wait(), provider.Close())
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:9090", "`HOST:PORT` to listen on; port 0 picks a free one")
	cmd.Flags().StringVar(&kept, "journal", "", "`FILE` that keeps what was charged, also when it is killed (default: memory only)")
	cmd.Flags().StringVar(&tell.url, "webhook", "", "`URL` to tell of each charge, such as http://127.0.0.1:8080/v1/payments/webhooks/sandbox")
	cmd.Flags().StringVar(&tell.secret, "webhook-secret", os.Getenv("WAITROOM_WEBHOOK_SECRET"), "`SECRET` to sign them with (or WAITROOM_WEBHOOK_SECRET)")
	cmd.Flags().Lookup("webhook-secret").DefValue = "" // never printed by --help
	cmd.Flags().StringVar(&format, "log-format", "console", "`json|console`")
	return cmd
}
