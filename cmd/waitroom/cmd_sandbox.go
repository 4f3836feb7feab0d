package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

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
			var lc net.ListenConfig
			listener, err := lc.Listen(cmd.Context(), "tcp", addr)
			if err != nil {
				return fmt.Errorf("addr: %w", err)
			}
			log.Info("listening", zap.String("addr", listener.Addr().String()))
			return serveSandbox(cmd.Context(), listener)
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:9090", "`HOST:PORT` to listen on; port 0 picks a free one")
	cmd.Flags().StringVar(&format, "log-format", "console", "`json|console`")
	return cmd
}

func serveSandbox(ctx context.Context, listener net.Listener) error {
	const grace = 5 * time.Second
	server := &http.Server{Handler: pay.NewSandbox(pay.SandboxConfig{}).Handler(), ReadHeaderTimeout: grace}
	ended := make(chan error, 1) // one Serve, one value
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := server.Shutdown(stop)
	<-ended //nolint:errcheck // it is ErrServerClosed: Shutdown has just closed it
	return err
}
