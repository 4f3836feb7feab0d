package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const joinRequest = "POST /v1/events/" + string(event) + "/entries HTTP/1.1\r\nHost: bench\r\nContent-Length: 0\r\n\r\n"

const created = 201

// joinUnits measure joins over HTTP, one node, with Redis keeping nothing, keeping
// what is a second old, and keeping everything.
func joinUnits() []unit {
	var us []unit
	for _, d := range []struct{ suffix, aof, durability string }{
		{"", "", "AOF off"},
		{"-everysec", "everysec", "AOF everysec"},
		{"-always", "always", "AOF always"},
	} {
		us = append(us, unit{
			bars: []string{"joins-http" + d.suffix, "joins-cpu" + d.suffix, "joins-p50" + d.suffix},
			run: func(ctx context.Context, b *bench, wanted func(string) bool) ([]result, error) {
				r, err := newRace(ctx, b, d.aof)
				if err != nil {
					return nil, err
				}
				defer r.close()
				var results []result
				if wanted("joins-http"+d.suffix) || wanted("joins-cpu"+d.suffix) {
					if results, err = r.throughput(ctx, b, d.suffix, d.durability); err != nil {
						return nil, err
					}
				}
				if wanted("joins-p50" + d.suffix) {
					p50, err := r.latency(ctx, b, d.suffix, d.durability)
					if err != nil {
						return results, err
					}
					results = append(results, p50)
				}
				return results, nil
			},
		})
	}
	return us
}

// race is our node and the three-call one on the same store, each with its clients.
type race struct {
	store      *store
	ours, base clients
	ends       []func()
}

func newRace(ctx context.Context, b *bench, aof string) (r *race, err error) {
	r = &race{}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if r.store, err = startRedis(ctx, aof); err != nil {
		return r, err
	}
	r.ends = append(r.ends, r.store.end)
	for kind, to := range map[string]*clients{kindOurs: &r.ours, kindThree: &r.base} {
		_, line, err := openLine(ctx, r.store.rdb, kind)
		if err != nil {
			return r, err
		}
		if err := openEvent(ctx, line, event); err != nil {
			return r, err
		}
		n, err := startNode(ctx, nodeSpec{Kind: kind, Redis: r.store.addr, Prefix: kind})
		if err != nil {
			return r, err
		}
		r.ends = append(r.ends, n.end)
		if *to, err = dial(ctx, n.addr, b.conns); err != nil {
			return r, err
		}
		r.ends = append(r.ends, to.close)
		if _, _, err := to.closed(ctx, b.warm, []byte(joinRequest), created); err != nil {
			return r, fmt.Errorf("%s: %w", kind, err)
		}
	}
	return r, nil
}

func (r *race) close() {
	for _, end := range slices.Backward(r.ends) {
		end()
	}
}

// effort is one side's round: joins per second, and Redis's µs for each.
type effort struct{ perS, usec float64 }

func (r *race) throughput(ctx context.Context, b *bench, suffix, durability string) ([]result, error) {
	side := func(cs clients) func(context.Context) (effort, error) {
		return func(ctx context.Context) (effort, error) {
			before, err := r.store.cpu(ctx)
			if err != nil {
				return effort{}, err
			}
			perS, n, err := cs.closed(ctx, b.round, []byte(joinRequest), created)
			if err != nil {
				return effort{}, err
			}
			after, err := r.store.cpu(ctx)
			return effort{perS: perS, usec: float64((after - before).Microseconds()) / n}, err
		}
	}
	pairs, err := duel(ctx, b.rounds, side(r.ours), side(r.base))
	if err != nil {
		return nil, err
	}
	rate := compare(pairs, func(e effort) float64 { return e.perS })
	cpu := compare(pairs, func(e effort) float64 { return e.usec })
	// Where three calls cost more than the design's 45 µs, the machine is slower.
	const most, three = 10, 45
	allowed := most * max(1, cpu.base/three)
	return []result{
		{
			Name: "joins-http" + suffix,
			Measured: fmt.Sprintf("%.2f × (%s/s against %s/s; one node, Redis with %s, %d connections)",
				rate.ratio, thousands(rate.ours), thousands(rate.base), durability, b.conns),
			Bar: "≥ 2.5 × the three-call flow (goal 3)", Verdict: verdict(rate.ratio >= 2.5),
			Figures: map[string]float64{"ratio": rate.ratio, "joins_per_s": rate.ours, "three_call_joins_per_s": rate.base},
		},
		{
			Name: "joins-cpu" + suffix,
			Measured: fmt.Sprintf("%s of Redis a join (three calls: %s; %.2f ×; %s)",
				micros(cpu.ours), micros(cpu.base), cpu.ratio, durability),
			Bar: fmt.Sprintf("≤ %s (10 where three calls cost 45 or less)", micros(allowed)), Verdict: verdict(cpu.ours <= allowed),
			Figures: map[string]float64{"usec": cpu.ours, "three_call_usec": cpu.base, "ratio": cpu.ratio},
		},
	}, nil
}

func (r *race) latency(ctx context.Context, b *bench, suffix, durability string) (result, error) {
	const perS = 2000
	type quantiles struct{ p50, p99 time.Duration }
	side := func(cs clients) func(context.Context) (quantiles, error) {
		return func(ctx context.Context) (quantiles, error) {
			took, err := cs.open(ctx, perS, b.round, []byte(joinRequest), created)
			return quantiles{p50: quantile(took, .5), p99: quantile(took, .99)}, err
		}
	}
	pairs, err := duel(ctx, b.rounds, side(r.ours), side(r.base))
	if err != nil {
		return result{}, err
	}
	p50 := compare(pairs, func(q quantiles) float64 { return q.p50.Seconds() })
	p99 := compare(pairs, func(q quantiles) float64 { return q.p99.Seconds() })
	return result{
		Name: "joins-p50" + suffix,
		Measured: fmt.Sprintf("%.2f × (%.2f ms against %.2f ms; p99 %.1f against %.1f; %d a second, %s)",
			p50.ratio, p50.ours*1e3, p50.base*1e3, p99.ours*1e3, p99.base*1e3, perS, durability),
		Bar: "≤ 1.2 × the three-call flow", Verdict: verdict(p50.ratio <= 1.2),
		Figures: map[string]float64{"ratio": p50.ratio, "p50_ms": p50.ours * 1e3, "three_call_p50_ms": p50.base * 1e3, "p99_ms": p99.ours * 1e3, "three_call_p99_ms": p99.base * 1e3},
	}, nil
}
