package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/waitroom-dev/waitroom/cmd/waitroom/gate"
	"github.com/waitroom-dev/waitroom/web/guard"
)

// gateFlags are what `waitroom gate` is told.
type gateFlags struct {
	addr, upstream, rules, format string
	proxies                       []string
	guard                         guard.Config
}

// newGateCommand serves a reverse proxy that lets holders through to a site.
func newGateCommand() *cobra.Command {
	var f gateFlags
	cmd := &cobra.Command{
		Use:   "gate --upstream URL --target URL --event ID",
		Short: "Serve a reverse proxy that lets only holders of an entry token through to a site",
		Long: "Serves the site behind it to whoever holds a good entry token of the event, and sends every other browser to\n" +
			"the waiting page. The service must allow the way back: give its --origins the address of this proxy.\n" +
			"Rules by path, method, header and address stand in a file; without one every request needs a token.",
		Example: "  waitroom gate --addr :80 --upstream http://127.0.0.1:3000 --target https://wait.example --event demo",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runGate(cmd, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.addr, "addr", "127.0.0.1:8081", "`HOST:PORT` to listen on; port 0 picks a free one")
	flags.StringVar(&f.upstream, "upstream", "", "`URL` of the site to guard")
	flags.StringVar(&f.guard.Service, "target", "", "public `URL` of the waiting room, as its tokens name it")
	flags.StringVar(&f.guard.Asked, "ask", "", "`URL` where the waiting room is reached from here (default: target)")
	flags.StringVar(&f.guard.Event, "event", "demo", "`ID` of the event")
	flags.StringVar(&f.rules, "rules", "", "YAML `FILE` of rules: what passes, waits, spends, is refused")
	flags.DurationVar(&f.guard.Fresh, "fresh", time.Second, "how long a verdict holds: a revocation is felt within it")
	flags.BoolVar(&f.guard.Open, "fail-open", false, "let holders of signed tokens pass while the waiting room is away")
	flags.StringVar(&f.guard.SiteKey, "site-key", os.Getenv("WAITROOM_SITE_KEY"), "the site's `KEY`, for rules that spend and for verdicts confirmed a thousand at a time (or WAITROOM_SITE_KEY)")
	flags.Lookup("site-key").DefValue = "" // never printed by --help
	flags.StringSliceVar(&f.proxies, "proxies", nil, "`NETWORKS` of proxies whose X-Forwarded-For is believed")
	flags.StringVar(&f.format, "log-format", "console", "`json|console`")
	return cmd
}

// checkServices names the flags of what the guard knows as its service.
func (f gateFlags) checkServices() error {
	if f.guard.Service == "" {
		return errors.New("target: wants the public URL of the waiting room")
	}
	return errors.Join(
		checkOrigin("target", strings.TrimRight(f.guard.Service, "/")), checkOrigin("ask", strings.TrimRight(f.guard.Asked, "/")),
	)
}

func runGate(cmd *cobra.Command, f gateFlags) error {
	proxies, err := networks(f.proxies)
	if err = errors.Join(err, f.checkServices(), checkAddr(f.addr), oneOf("log-format", f.format, "json", "console")); err != nil {
		return usage(err)
	}
	log, err := newLogger(f.format)
	if err != nil {
		return usage(err)
	}
	var rules gate.Rules
	if f.rules != "" {
		raw, err := os.ReadFile(f.rules)
		if err != nil {
			return usage(fmt.Errorf("rules: %w", err))
		}
		if rules, err = gate.ReadRules(raw); err != nil {
			return usage(fmt.Errorf("rules: %s: %w", f.rules, err))
		}
	}
	var passed unchecked
	f.guard.Unchecked = passed.note
	handler, err := gate.New(gate.Config{Upstream: f.upstream, Guard: f.guard, Rules: rules, Proxies: proxies}, log.Named("gate"))
	if err != nil {
		return usage(err)
	}
	group, ctx := errgroup.WithContext(cmd.Context())
	group.Go(func() error { return handler.Run(ctx) })
	group.Go(func() error { return passed.Run(ctx, log.Named("gate")) })
	group.Go(func() error { return serveHandler(ctx, log, f.addr, handler) })
	return group.Wait()
}

// unchecked counts the requests that pass while nobody can check them.
type unchecked struct{ n atomic.Int64 }

func (u *unchecked) note(guard.Person) { u.n.Add(1) }

// Run says once a second how many have passed so, if any have, until ctx ends.
func (u *unchecked) Run(ctx context.Context, log *zap.Logger) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for total, on := int64(0), true; on; {
		select {
		case <-ctx.Done():
			on = false
		case <-tick.C:
		}
		if n := u.n.Swap(0); n > 0 {
			total += n
			log.Warn("passed unchecked: the waiting room or its store is away", zap.Int64("requests", n), zap.Int64("in_all", total))
		}
	}
	return nil
}
