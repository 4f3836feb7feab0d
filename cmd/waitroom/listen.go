package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
)

// serveHandler serves one handler until ctx ends, and lets running requests finish.
// The line "listening" carries the address, which matters for port 0.
func serveHandler(ctx context.Context, log *zap.Logger, addr string, handler http.Handler) error {
	const grace, idle = 5 * time.Second, 2 * time.Minute
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("addr: %w", err)
	}
	log.Info("listening", zap.String("addr", listener.Addr().String()))
	server := &http.Server{Handler: handler, ReadHeaderTimeout: grace, IdleTimeout: idle, ErrorLog: zap.NewStdLog(log)}
	ended := make(chan error, 1) // one Serve, one value
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err = server.Shutdown(stop)
	<-ended //nolint:errcheck // it is ErrServerClosed: Shutdown has just closed it
	return err
}
