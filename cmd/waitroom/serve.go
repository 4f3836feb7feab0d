package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/waitroom-dev/waitroom/admission"
)

func newServeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the service; without flags everything is embedded, with an event to try",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadServeConfig(cmd.Flags(), os.Environ())
			if err != nil {
				return usage(err)
			}
			return serve(cmd.Context(), cfg)
		},
	}
	addServeFlags(cmd.Flags())
	return cmd
}

// serve builds the service, runs it until ctx ends, and takes it apart.
func serve(ctx context.Context, cfg serveConfig) error {
	log, err := newLogger(cfg.LogFormat)
	if err != nil {
		return usage(err)
	}
	defer func() { _ = log.Sync() }() // a terminal cannot be synced; nothing is lost by it
	quietRedis(log)
	plan, err := readPlan(cfg)
	if err != nil {
		return usage(err)
	}
	logins, err := trialLogins(&cfg, plan)
	if err != nil {
		return usage(err)
	}
	var keys *admission.Keys
	if cfg.Keys != "" {
		if keys, err = ownKeys(cfg.Keys); err != nil {
			return usage(err)
		}
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", cfg.Addr)
	if err != nil {
		return fmt.Errorf("addr: %w", err)
	}
	s, err := build(ctx, blueprint{cfg, plan, keys, listener}, log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer s.close()
	log.Info("listening", zap.String("addr", listener.Addr().String()), zap.String("version", version))
	s.welcome(plan, logins)
	return s.run(ctx)
}

// runner is a component's life: it returns when ctx has ended and everything it
// started has.
type runner func(ctx context.Context) error

// run lets all components live, in three groups that end one after another.
//
//	front: the HTTP server and the hub, which says goodbye to every socket, and
//	       the admission loop, which gives its lease back at once
//	back:  what the front's last requests still need: the view, the seats, the
//	       relay, the payments
//	base:  the embedded store, the heap's slack
//
// Whoever sends stops before whoever receives. If any of them fails, all end.
func (s *service) run(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	afterFront, endBack := context.WithCancel(context.WithoutCancel(ctx))
	afterBack, endBase := context.WithCancel(context.WithoutCancel(ctx))
	defer endBack()
	defer endBase()

	var all errgroup.Group
	all.Go(func() error { defer endBack(); return s.runGroup(ctx, "front", s.front, fail) })
	all.Go(func() error { defer endBase(); return s.runGroup(afterFront, "back", s.back, fail) })
	all.Go(func() error { return s.runGroup(afterBack, "base", s.base, fail) })
	err := all.Wait()
	s.log.Info("stopped", zap.Error(err))
	return err
}

func (s *service) runGroup(ctx context.Context, name string, runners []runner, fail context.CancelCauseFunc) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range runners {
		group.Go(func() error { return run(ctx) })
	}
	group.Go(func() error { <-ctx.Done(); return nil }) // an empty group lives as long as the others
	if err := group.Wait(); err != nil {
		err = fmt.Errorf("%s: %w", name, err)
		fail(err)
		return err
	}
	return nil
}
