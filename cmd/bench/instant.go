package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// The crowd of system E: its people ask for its wristbands in one moment, and its
// p95 was 501 ms.
const (
	askers     = 1000
	wristbands = 900
)

// instantUnits measure a crowd that asks for tokens at once, over HTTP, with Redis
// keeping nothing, keeping everything, and waiting for a replica.
func instantUnits() []unit {
	var us []unit
	for _, d := range []struct {
		suffix, aof, durability string
		durable                 bool
	}{
		{"", "", "AOF off", false},
		{"-always", "always", "AOF always", false},
		{"-durable", "", "AOF off, each answer waits for a replica", true},
	} {
		name := "instant-issue" + d.suffix
		us = append(us, unit{bars: []string{name}, run: func(ctx context.Context, b *bench, _ func(string) bool) ([]result, error) {
			r, err := runInstant(ctx, b, name, d.aof, d.durability, d.durable)
			return []result{r}, err
		}})
	}
	return us
}

func runInstant(ctx context.Context, b *bench, name, aof, durability string, durable bool) (result, error) {
	s, err := startRedis(ctx, aof)
	if err != nil {
		return result{}, err
	}
	defer s.end()
	if durable {
		replica, err := startRedis(ctx, aof)
		if err != nil {
			return result{}, err
		}
		defer replica.end()
		if err := follow(ctx, replica, s); err != nil {
			return result{}, err
		}
	}
	_, line, err := openLine(ctx, s.rdb, kindOurs)
	if err != nil {
		return result{}, err
	}
	n, err := startNode(ctx, nodeSpec{Kind: kindOurs, Redis: s.addr, Prefix: kindOurs, Profile: b.profile})
	if err != nil {
		return result{}, err
	}
	defer n.end()
	// The first round warms the node up, and counts for nothing.
	var p50, p95, worst, fresh, floor []float64
	var spent shares
	for round := range b.rounds + 1 {
		var open, took []time.Duration
		one, err := sharesOf(ctx, n, s, func() (err error) {
			open, took, err = issueOnce(ctx, line, n.addr, "open-"+strconv.Itoa(round), durable, true)
			return err
		})
		if err != nil {
			return result{}, err
		}
		_, cold, err := issueOnce(ctx, line, n.addr, "fresh-"+strconv.Itoa(round), durable, false)
		if err != nil {
			return result{}, err
		}
		if round == 0 {
			continue
		}
		spent.add(one)
		p50 = append(p50, ms(quantile(took, 0.5)))
		p95 = append(p95, ms(quantile(took, 0.95)))
		worst = append(worst, ms(quantile(took, 1)))
		fresh = append(fresh, ms(quantile(cold, 0.95)))
		floor = append(floor, ms(quantile(open, 0.95)))
	}
	const most = 100
	middle := median(p95)
	return result{
		Name: name,
		Measured: fmt.Sprintf("p95 %.1f ms (median of %d rounds, the slowest %.1f; p50 %.1f, last %.1f; %d people with the page open ask in one moment, %d tokens, none over; Redis with %s; the page's own question before it: p95 %.1f ms; people without a connection yet: p95 %.1f ms; of the processors' time the node had %.0f %%, Redis %.0f %%, this load %.0f %%)",
			middle, len(p95), slices.Max(p95), median(p50), median(worst), askers, wristbands, durability, median(floor), median(fresh), spent.percent(spent.node), spent.percent(spent.store), spent.percent(spent.load)),
		Bar: "p95 ≤ 100 ms (system E: 501 ms)", Verdict: verdict(middle <= most),
		Figures: map[string]float64{
			"p50_ms": median(p50), "p95_ms": middle, "p95_slowest_round_ms": slices.Max(p95), "last_ms": median(worst),
			"event_p95_ms": median(floor), "new_connections_p95_ms": median(fresh),
			"node_percent": spent.percent(spent.node), "redis_percent": spent.percent(spent.store), "load_percent": spent.percent(spent.load),
		},
	}, nil
}

// shares are who had how much of the processors' time.
type shares struct{ node, store, load time.Duration }

func (s *shares) add(o shares) {
	s.node, s.store, s.load = s.node+o.node, s.store+o.store, s.load+o.load
}

func (s *shares) percent(part time.Duration) float64 {
	return 100 * part.Seconds() / (s.node + s.store + s.load).Seconds()
}

// sharesOf measures them while work runs.
func sharesOf(ctx context.Context, n *node, s *store, work func() error) (shares, error) {
	now := func() (at shares, err error) {
		var self syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
			return at, fmt.Errorf("processor time: %w", err)
		}
		at.load = time.Duration(self.Utime.Nano() + self.Stime.Nano())
		if at.node, err = n.cpu(); err != nil {
			return at, err
		}
		at.store, err = s.cpu(ctx)
		return at, err
	}
	before, err := now()
	if err != nil {
		return shares{}, err
	}
	if err := work(); err != nil {
		return shares{}, err
	}
	after, err := now()
	return shares{node: after.node - before.node, store: after.store - before.store, load: after.load - before.load}, err
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

// openInstant makes an event that gives out the wristbands, to whoever asks.
func openInstant(ctx context.Context, line *waitroom.Line, id waitroom.EventID, durable bool) error {
	s := waitroom.DefaultSettings(id)
	s.Limits = waitroom.LimitSettings{Person: "off", PersonBurst: "off", Address: "off", Booking: "off", Issue: "off"}
	s.Mode, s.Durable, s.Quota.Factor = waitroom.ModeInstant, durable, 1
	s.Tickets.Kind, s.Tickets.Stock = "stock", wristbands
	_, err := line.Create(ctx, s, waitroom.Open, "bench")
	return err
}

// follow makes one server the other's replica.
func follow(ctx context.Context, replica, master *store) error {
	host, port, err := net.SplitHostPort(master.addr)
	if err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	if err := replica.rdb.Do(ctx, "REPLICAOF", host, port).Err(); err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	acked, err := master.rdb.Do(ctx, "WAIT", 1, patience.Milliseconds()/2).Int64()
	if err != nil || acked < 1 {
		return fmt.Errorf("replica: %d has followed: %w", acked, err)
	}
	return nil
}

// issueOnce lets a new crowd ask for the tokens of a new event. With pages open
// each of them has a connection, and has asked for the event before.
func issueOnce(ctx context.Context, line *waitroom.Line, addr, id string, durable, pages bool) (open, took []time.Duration, err error) {
	if err := openInstant(ctx, line, waitroom.EventID(id), durable); err != nil {
		return nil, nil, err
	}
	at := "/v1/events/" + id
	people := make(clients, askers)
	defer func() { people.close() }()
	if pages {
		if people, err = dial(ctx, addr, askers); err != nil {
			return nil, nil, err
		}
		var by map[int]int
		if open, by, err = people.rush(ctx, addr, "GET "+at+" HTTP/1.1\r\nHost: bench\r\n\r\n"); err != nil || by[200] != askers {
			return nil, nil, fmt.Errorf("page: answers %v: %w", by, err)
		}
	}
	took, by, err := people.rush(ctx, addr, "POST "+at+"/tokens HTTP/1.1\r\nHost: bench\r\nContent-Length: 0\r\n\r\n")
	if err != nil {
		return nil, nil, fmt.Errorf("tokens: %w", err)
	}
	if by[201] != wristbands || by[409] != askers-wristbands {
		return nil, nil, fmt.Errorf("answers %v: want %d issued and the others refused", by, wristbands)
	}
	return open, took, nil
}

// rush lets the crowd ask in one moment; whoever has no connection makes one then.
// It gives the times from that moment, and the answers by status.
func (cs clients) rush(ctx context.Context, addr, request string) (took []time.Duration, by map[int]int, err error) {
	took, statuses := make([]time.Duration, len(cs)), make([]int, len(cs))
	now := make(chan struct{})
	var began time.Time
	g, ctx := errgroup.WithContext(ctx)
	for i := range cs {
		g.Go(func() error {
			<-now
			if cs[i] == nil {
				var d net.Dialer
				raw, err := d.DialContext(ctx, "tcp", addr)
				if err != nil {
					return fmt.Errorf("connect: %w", err)
				}
				cs[i] = &conn{Conn: raw, in: bufio.NewReaderSize(raw, 4096)}
			}
			if err := cs[i].SetDeadline(began.Add(patience)); err != nil {
				return fmt.Errorf("connect: %w", err)
			}
			var length int
			var err error
			if statuses[i], length, err = cs[i].ask([]byte(request)); err == nil {
				_, err = cs[i].in.Discard(length)
			}
			took[i] = time.Since(began)
			return err
		})
	}
	began = time.Now()
	close(now)
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	by = make(map[int]int)
	for _, s := range statuses {
		by[s]++
	}
	return took, by, nil
}
