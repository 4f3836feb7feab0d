// Command soak lets a real database be loaded by whom a real admission loop lets in:
// the line in Redis, law target, a PostgreSQL pool of 20, and buyers who each hold a
// connection for a while, some seconds after their turn. Ten times as many come as
// the pool can serve. It prints the pool's usage, and whether it stayed at the
// target. `make soak` runs it against private servers.
//
// Measured with `make soak` (five minutes to settle, then ten) on two cores that six
// other builds kept at a load of 11 to 28: 59 of 59 means of ten seconds within 10
// points of 75 %, 74.6 % on average, above 95 % for 2 s at most, 5,802 served (soak.svg).
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/waitroom-dev/waitroom/admission"
	"github.com/waitroom-dev/waitroom/admission/plot"
	"github.com/waitroom-dev/waitroom/waitroom"
)

const (
	connections = 20
	hold        = 2 * time.Second // of a connection; a quarter more or less
	target      = 0.75
	prefix      = "soak"
	event       = waitroom.EventID("soak")
	perS        = 10 * connections / 2 // ten times what 20 connections of 2 s serve
)

func main() {
	lag := flag.Duration("lag", 10*time.Second, "time from a turn to the purchase")
	warm := flag.Duration("warm", 5*time.Minute, "time before the samples count")
	last := flag.Duration("last", 10*time.Minute, "time in which they do")
	svg := flag.String("svg", "", "draw the usage into `FILE`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := soak(ctx, *lag, *warm, *last, *svg)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// shop is the site: who was let in comes, waits for a connection, and holds it.
type shop struct {
	line    *waitroom.Line
	pool    *pgxpool.Pool
	lag     time.Duration
	waiting atomic.Int64
	served  atomic.Int64
	turns   chan waitroom.Grant // bounded by max_active
}

// Admitted is told by the view; a turn that finds no room is a no-show.
func (s *shop) Admitted(_ waitroom.EventID, grants []waitroom.Grant) {
	for _, g := range grants {
		select {
		case s.turns <- g:
		default:
		}
	}
}

// Departed and Changed say nothing that a shop wants to know.
func (s *shop) Departed(waitroom.EventID, []waitroom.Departure) {}

// Changed is a change of settings.
func (s *shop) Changed(waitroom.Event) {}

func (s *shop) stats() admission.PoolStats {
	st := s.pool.Stat()
	return admission.PoolStats{InUse: float64(st.AcquiredConns()), Max: connections, Waiting: float64(s.waiting.Load())}
}

// buy is one buyer, from the turn to the end of the session.
func (s *shop) buy(ctx context.Context, g waitroom.Grant) error {
	if _, err := s.line.Enter(ctx, event, waitroom.Pass{Event: event, JTI: g.JTI}); err != nil {
		return err
	}
	if !sleep(ctx, time.Duration(float64(s.lag)*(0.8+0.4*rand.Float64()))) {
		return nil
	}
	s.waiting.Add(1)
	conn, err := s.pool.Acquire(ctx)
	s.waiting.Add(-1)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "SELECT pg_sleep($1)", hold.Seconds()*(0.75+0.5*rand.Float64())); err != nil {
		return err
	}
	s.served.Add(1)
	return s.line.Complete(ctx, event, g.JTI)
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func soak(ctx context.Context, lag, warm, last time.Duration, svg string) error {
	opt, err := redis.ParseURL(os.Getenv("WAITROOM_REDIS"))
	if err != nil {
		return fmt.Errorf("WAITROOM_REDIS: %w", err)
	}
	rdb := redis.NewClient(opt)
	defer func() { _ = rdb.Close() }()
	pc, err := pgxpool.ParseConfig(os.Getenv("WAITROOM_DATABASE"))
	if err != nil {
		return fmt.Errorf("WAITROOM_DATABASE: %w", err)
	}
	pc.MaxConns, pc.MinConns = connections, connections
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return err
	}
	defer pool.Close()
	log := zap.NewNop()
	line, err := waitroom.New(waitroom.Config{Prefix: prefix, Node: "soak", ReceiptKeys: [][]byte{bytes.Repeat([]byte{7}, 32)}}, rdb, log)
	if err != nil {
		return err
	}
	s, _, err := waitroom.DecodeSettings(fmt.Appendf(nil,
		`{"id":%q,"rate_per_s":%d,"grace":"2h","tickets":{"kind":"stock","stock":1000000},"load":{"law":"target","target":%v}}`, event, perS, target))
	if err != nil {
		return err
	}
	if _, err := line.Create(ctx, s, waitroom.Open, "soak"); err != nil {
		return err
	}
	sh := &shop{line: line, pool: pool, lag: lag, turns: make(chan waitroom.Grant, 10_000)}
	view, err := waitroom.NewView(line, sh)
	if err != nil {
		return err
	}
	board := admission.NewPoolBoard(rdb, prefix, "soak")
	board.Publish(admission.Pool{Stats: sh.stats, Ping: pool.Ping})
	lease, err := admission.NewLease(admission.LeaseConfig{Prefix: prefix}, rdb, log)
	if err != nil {
		return err
	}
	control, err := admission.New(admission.Config{Node: "soak"}, admission.Deps{
		Line: line, Leadership: lease, Sources: []admission.Source{board}, Log: log, Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, warm+last)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{view.Run, board.Run, control.Run, sh.come, sh.sell} {
		group.Go(func() error { return run(ctx) })
	}
	var usage []float64
	group.Go(func() error { usage = sh.watch(ctx, control); return nil })
	if err := group.Wait(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return judge(usage, int(warm.Seconds()), svg)
}

// come lets ten times as many join as can be served.
func (s *shop) come(ctx context.Context) error {
	t := time.NewTicker(time.Second / perS)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			if _, err := s.line.Join(ctx, waitroom.JoinRequest{Event: event}); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// sell serves everybody whose turn it is; each buyer ends with ctx.
func (s *shop) sell(ctx context.Context) error {
	var buyers errgroup.Group
	for {
		select {
		case <-ctx.Done():
			_ = buyers.Wait() // they end because of ctx
			return nil
		case g := <-s.turns:
			buyers.Go(func() error { return s.buy(ctx, g) })
		}
	}
}

// watch samples the share of connections at work, each second the mean of twenty.
func (s *shop) watch(ctx context.Context, control *admission.Controller) []float64 {
	t := time.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	var seconds []float64
	sum, n := 0.0, 0
	for {
		select {
		case <-ctx.Done():
			return seconds
		case <-t.C:
		}
		sum += float64(s.pool.Stat().AcquiredConns()) / connections
		if n++; n < 20 {
			continue
		}
		seconds, sum, n = append(seconds, sum/20), 0, 0
		if k := len(seconds); k%10 == 0 {
			d, _ := control.Decision(event)
			fmt.Printf("%4d s  in use %3.0f %%  allowed %5.2f/s  %s  served %d\n", k, 100*mean(seconds[k-10:]), d.RatePerS, d.Reason, s.served.Load())
		}
	}
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// judge holds the means of ten seconds against the target.
func judge(usage []float64, warm int, svg string) error {
	if svg != "" {
		goal := make([]float64, len(usage))
		for i := range goal {
			goal[i] = target
		}
		picture, err := plot.Chart{
			Title: "A PostgreSQL pool of 20, ten times the demand", Step: time.Second, Percent: true, Top: 1, Width: 900, Height: 340,
			Lines: []plot.Line{{Name: "in use", Values: usage}, {Name: "target", Values: goal}},
		}.SVG()
		if err != nil {
			return err
		}
		if err := os.WriteFile(svg, picture, 0o600); err != nil {
			return err
		}
	}
	near, all, row, longest := 0, 0, 0, 0
	for k := warm; k+10 <= len(usage); k += 10 {
		all++
		if math.Abs(mean(usage[k:k+10])-target) <= 0.1 {
			near++
		}
	}
	if all == 0 {
		return errors.New("no samples")
	}
	for _, u := range usage[warm:] {
		if row++; u <= 0.95 {
			row = 0
		}
		longest = max(longest, row)
	}
	fmt.Printf("within 10 points of %.0f %%: %d of %d means of 10 s; mean %.1f %%; longest above 95 %%: %d s\n",
		100*target, near, all, 100*mean(usage[warm:]), longest)
	if near*10 < all*9 || longest > 10 {
		return errors.New("the usage did not stay at the target")
	}
	return nil
}
