package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/waitroom-dev/waitroom/admission"
	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web/guard"
)

// holders are the people inside who come by in turn.
const holders = 10_000

// inside is a node on one processor and the tokens of people who have entered.
type inside struct {
	*node
	line   *waitroom.Line
	tokens []string
	end    func()
}

func newInside(ctx context.Context, b *bench, n int) (*inside, error) {
	s, err := startRedis(ctx, "")
	if err != nil {
		return nil, err
	}
	i := &inside{end: s.end}
	if err := i.fill(ctx, b, s, n); err != nil {
		i.end()
		return nil, err
	}
	return i, nil
}

func (i *inside) fill(ctx context.Context, b *bench, s *store, n int) error {
	keys, line, err := openLine(ctx, s.rdb, kindOurs)
	if err != nil {
		return err
	}
	i.line = line
	if err := openEvent(ctx, line, event); err != nil {
		return err
	}
	if i.node, err = startNode(ctx, nodeSpec{Kind: kindOurs, Redis: s.addr, Prefix: kindOurs, Profile: b.profile, OneCore: true}); err != nil {
		return err
	}
	i.end = func() { i.node.end(); s.end() }
	passes, err := admission.NewPasses(keys, "http://"+i.addr)
	if err != nil {
		return err
	}
	_, _, err = busy(ctx, callers, patience, int64(n), func(ctx context.Context) error {
		_, err := line.Join(ctx, waitroom.JoinRequest{Event: event})
		return err
	})
	if err != nil {
		return err
	}
	for len(i.tokens) < n {
		grants, err := line.Admit(ctx, event, waitroom.AdmitRequest{Count: min(1000, n-len(i.tokens)), By: "bench"})
		if err != nil {
			return err
		}
		if len(grants) == 0 {
			return fmt.Errorf("%d of %d are inside", len(i.tokens), n)
		}
		for _, g := range grants {
			token, err := passes.Mint(g)
			if err != nil {
				return err
			}
			i.tokens = append(i.tokens, token)
		}
	}
	return nil
}

// asks are what a proxy asks the gate, one for each holder.
func (i *inside) asks() requests {
	rs := make(requests, len(i.tokens))
	for n, token := range i.tokens {
		rs[n] = []byte("GET /v1/gate/" + string(event) + " HTTP/1.1\r\nHost: bench\r\nX-Entry-Token: " + token + "\r\n\r\n")
	}
	return rs
}

// gateHTTPUnit measures the verdicts that a proxy asks for.
func gateHTTPUnit() unit {
	return unit{bars: []string{"gate-http", "gate-p99"}, run: runGateHTTP}
}

func runGateHTTP(ctx context.Context, b *bench, wanted func(string) bool) ([]result, error) {
	i, err := newInside(ctx, b, min(holders, b.seats/4))
	if err != nil {
		return nil, err
	}
	defer i.end()
	const proxied = 32 // connections that a proxy keeps
	cs, err := dial(ctx, i.addr, min(proxied, b.conns))
	if err != nil {
		return nil, err
	}
	defer cs.close()
	asks := i.asks()
	nothing := requests{[]byte("GET /healthz HTTP/1.1\r\nHost: bench\r\n\r\n")}
	const passes = http.StatusNoContent
	// Everybody comes in, which is the store's to note, once.
	began := time.Now()
	took, err := cs.open(ctx, 2*float64(len(asks)), time.Second/2, asks, passes)
	if err != nil {
		return nil, err
	}
	b.say("gate: %d first passes in %v", len(took), time.Since(began).Round(time.Millisecond))
	if _, _, err := cs.closed(ctx, b.warm, asks, passes); err != nil {
		return nil, err
	}
	var results []result
	if wanted("gate-http") {
		side := func(rs requests, status int) func(context.Context) (effort, error) {
			return func(ctx context.Context) (effort, error) {
				before, err := i.cpu()
				if err != nil {
					return effort{}, err
				}
				perS, n, err := cs.closed(ctx, b.round, rs, status)
				if err != nil {
					return effort{}, err
				}
				after, err := i.cpu()
				return effort{perS: perS, node: float64((after - before).Microseconds()) / n}, err
			}
		}
		pairs, err := duel(ctx, b.rounds, side(asks, passes), side(nothing, http.StatusOK))
		if err != nil {
			return nil, err
		}
		rate, work := compare(pairs, effort.rate), compare(pairs, effort.work)
		const least = 12_000
		results = append(results, result{
			Name: "gate-http",
			Measured: fmt.Sprintf("%s/s (%.2f × /healthz, which does %s; the node on one core, %s of it a verdict; %d connections, %s people inside in turn)",
				thousands(rate.ours), rate.ratio, thousands(rate.base), micros(work.ours), len(cs), thousands(float64(len(asks)))),
			Bar: "≥ 12,000/s", Verdict: verdict(rate.ours >= least),
			Figures: map[string]float64{"per_s": rate.ours, "ratio": rate.ratio, "healthz_per_s": rate.base, "node_usec": work.ours},
		})
	}
	if wanted("gate-p99") {
		one, err := gateLatency(ctx, b, cs, asks)
		if err != nil {
			return results, err
		}
		results = append(results, one)
	}
	return results, nil
}

// gateLatency is how long a verdict takes while the node has time.
func gateLatency(ctx context.Context, b *bench, cs clients, asks requests) (result, error) {
	const perS, most = 6000, 2
	var p50, p99 []float64
	for range b.rounds {
		took, err := cs.open(ctx, perS, b.round, asks, http.StatusNoContent)
		if err != nil {
			return result{}, err
		}
		p50, p99 = append(p50, ms(quantile(took, .5))), append(p99, ms(quantile(took, .99)))
	}
	return result{
		Name:     "gate-p99",
		Measured: fmt.Sprintf("p99 %.2f ms (median of %d rounds; p50 %.2f; %s verdicts a second, the node on one core)", median(p99), len(p99), median(p50), thousands(perS)),
		Bar:      "p99 < 2 ms", Verdict: verdict(median(p99) < most),
		Figures: map[string]float64{"p50_ms": median(p50), "p99_ms": median(p99)},
	}, nil
}

// benchSite is the site key of the nodes.
const benchSite = "bench-site"

// middlewareUnit measures the verdicts of the middleware in a site's own program.
func middlewareUnit() unit {
	return unit{bars: []string{"gate-middleware"}, run: runMiddleware}
}

func runMiddleware(ctx context.Context, b *bench, _ func(string) bool) ([]result, error) {
	i, err := newInside(ctx, b, min(holders, b.seats/4))
	if err != nil {
		return nil, err
	}
	defer i.end()
	g, err := guard.New(guard.Config{Service: "http://" + i.addr, Event: string(event), SiteKey: benchSite})
	if err != nil {
		return nil, err
	}
	keeping, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- g.Run(keeping) }()
	defer func() {
		stop()
		<-ended //nolint:errcheck // it ended because it was told to
	}()
	visits := make([]*http.Request, len(i.tokens))
	for n, token := range i.tokens {
		if visits[n], err = http.NewRequestWithContext(ctx, http.MethodGet, "http://shop.example/", http.NoBody); err != nil {
			return nil, fmt.Errorf("visit: %w", err)
		}
		visits[n].Header.Set("X-Entry-Token", token)
	}
	for _, visit := range visits { // each person's first pass is asked about apart
		if _, err := g.Check(visit); err != nil {
			return nil, err
		}
	}
	var rates, slow []float64
	for range b.rounds {
		var worst []time.Duration
		n, began := 0, time.Now()
		for time.Since(began) < b.round && ctx.Err() == nil {
			for range 100 {
				at := time.Now()
				if _, err := g.Check(visits[n%len(visits)]); err != nil {
					return nil, err
				}
				worst = append(worst, time.Since(at))
				n++
			}
		}
		rates, slow = append(rates, float64(n)/time.Since(began).Seconds()), append(slow, ms(quantile(worst, .99)))
	}
	const least = 200_000
	return []result{{
		Name: "gate-middleware",
		Measured: fmt.Sprintf("%s/s on one core (p99 %.4f ms; %s people inside in turn)",
			thousands(median(rates)), median(slow), thousands(float64(len(visits)))),
		Bar: "≥ 200,000/s on one core", Verdict: verdict(median(rates) >= least),
		Figures: map[string]float64{"per_s": median(rates), "p99_ms": median(slow)},
	}}, nil
}
