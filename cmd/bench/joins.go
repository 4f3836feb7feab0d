package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waitroom-dev/waitroom/waitroom"
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
				for _, bar := range []struct {
					name    string
					measure func(ctx context.Context, b *bench, name, durability string) (result, error)
				}{
					{"joins-http" + d.suffix, r.throughput},
					{"joins-cpu" + d.suffix, r.storeCPU},
					{"joins-p50" + d.suffix, r.latency},
				} {
					if !wanted(bar.name) {
						continue
					}
					one, err := bar.measure(ctx, b, bar.name, d.durability)
					if err != nil {
						return results, fmt.Errorf("%s: %w", bar.name, err)
					}
					results = append(results, one)
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
	ours, base rival
	ends       []func()
}

// rival is one side's node with its clients.
type rival struct {
	*node
	clients
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
	for kind, to := range map[string]*rival{kindOurs: &r.ours, kindThree: &r.base} {
		_, line, err := openLine(ctx, r.store.rdb, kind)
		if err != nil {
			return r, err
		}
		if err := openEvent(ctx, line, event); err != nil {
			return r, err
		}
		if to.node, err = startNode(ctx, nodeSpec{Kind: kind, Redis: r.store.addr, Prefix: kind, Profile: b.profile}); err != nil {
			return r, err
		}
		r.ends = append(r.ends, to.end)
		if to.clients, err = dial(ctx, to.addr, b.conns); err != nil {
			return r, err
		}
		r.ends = append(r.ends, to.close)
		if _, _, err := to.closed(ctx, b.warm, requests{[]byte(joinRequest)}, created); err != nil {
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

// effort is one side's round: joins per second, and for each the µs of Redis, of the
// node and of this load.
type effort struct{ perS, usec, node, load float64 }

// spend is a round of one side, with what Redis did meanwhile.
func (r *race) spend(work func(context.Context) (perS, n float64, err error)) func(context.Context) (effort, error) {
	return func(ctx context.Context) (effort, error) {
		before, err := r.store.cpu(ctx)
		if err != nil {
			return effort{}, err
		}
		perS, n, err := work(ctx)
		if err != nil {
			return effort{}, err
		}
		after, err := r.store.cpu(ctx)
		return effort{perS: perS, usec: float64((after - before).Microseconds()) / n}, err
	}
}

func (e effort) rate() float64 { return e.perS }
func (e effort) cost() float64 { return e.usec }
func (e effort) work() float64 { return e.node }
func (e effort) ask() float64  { return e.load }

// throughput is as many joins over HTTP as the connections can get.
func (r *race) throughput(ctx context.Context, b *bench, name, durability string) (result, error) {
	side := func(v rival) func(context.Context) (effort, error) {
		return func(ctx context.Context) (effort, error) {
			var e effort
			var n float64
			had, err := sharesOf(ctx, v.node, r.store, func() (err error) {
				e.perS, n, err = v.closed(ctx, b.round, requests{[]byte(joinRequest)}, created)
				return err
			})
			each := func(part time.Duration) float64 { return float64(part.Microseconds()) / n }
			e.usec, e.node, e.load = each(had.store), each(had.node), each(had.load)
			return e, err
		}
	}
	pairs, err := duel(ctx, b.rounds, side(r.ours), side(r.base))
	if err != nil {
		return result{}, err
	}
	rate, cpu, node, load := compare(pairs, effort.rate), compare(pairs, effort.cost), compare(pairs, effort.work), compare(pairs, effort.ask)
	const least = 2.5
	return result{
		Name: name,
		Measured: fmt.Sprintf("%.2f × (%s/s against %s/s; one node, Redis with %s, %d connections; a join takes Redis %s and %s, the node %s and %s, this load %s and %s)",
			rate.ratio, thousands(rate.ours), thousands(rate.base), durability, b.conns,
			micros(cpu.ours), micros(cpu.base), micros(node.ours), micros(node.base), micros(load.ours), micros(load.base)),
		Bar: "≥ 2.5 × the three-call flow (goal 3)", Verdict: verdict(rate.ratio >= least),
		Figures: map[string]float64{
			"ratio": rate.ratio, "joins_per_s": rate.ours, "three_call_joins_per_s": rate.base,
			"redis_usec": cpu.ours, "three_call_redis_usec": cpu.base,
			"node_usec": node.ours, "three_call_node_usec": node.base,
			"load_usec": load.ours, "three_call_load_usec": load.base,
		},
	}, nil
}

// storeCPU is what joins cost Redis, measured at the package as all that is about
// the store: over HTTP, batches are as small as the cores are slow to fill them.
func (r *race) storeCPU(ctx context.Context, b *bench, name, durability string) (result, error) {
	keys, line, err := openLine(ctx, r.store.rdb, kindOurs)
	if err != nil {
		return result{}, err
	}
	three, err := newThreeCalls(ctx, line, r.store.rdb, kindThree, keys.ReceiptKeys()[0])
	if err != nil {
		return result{}, err
	}
	side := func(join func(context.Context, waitroom.JoinRequest) (waitroom.Place, error)) func(context.Context) (effort, error) {
		return r.spend(func(ctx context.Context) (float64, float64, error) {
			return busy(ctx, callers, b.round, 0, func(ctx context.Context) error {
				_, err := join(ctx, waitroom.JoinRequest{Event: event})
				return err
			})
		})
	}
	pairs, err := duel(ctx, b.rounds, side(line.Join), side(three.Join))
	if err != nil {
		return result{}, err
	}
	cpu, rate := compare(pairs, effort.cost), compare(pairs, effort.rate)
	// Where three calls cost more than the design's 45 µs, the machine is slower.
	const most, usual = 10, 45
	allowed := most * max(1, cpu.base/usual)
	return result{
		Name: name,
		Measured: fmt.Sprintf("%s of Redis a join (three calls: %s; %.2f ×; package, %s, %d callers: %s/s against %s/s)",
			micros(cpu.ours), micros(cpu.base), cpu.ratio, durability, callers, thousands(rate.ours), thousands(rate.base)),
		Bar: fmt.Sprintf("≤ %s (10 where three calls cost 45 or less)", micros(allowed)), Verdict: verdict(cpu.ours <= allowed),
		Figures: map[string]float64{
			"usec": cpu.ours, "three_call_usec": cpu.base, "ratio": cpu.ratio,
			"joins_per_s": rate.ours, "three_call_joins_per_s": rate.base,
		},
	}, nil
}

// latency is how long a join takes while the server has time.
func (r *race) latency(ctx context.Context, b *bench, name, durability string) (result, error) {
	const perS = 2000
	type quantiles struct{ p50, p99 time.Duration }
	side := func(v rival) func(context.Context) (quantiles, error) {
		return func(ctx context.Context) (quantiles, error) {
			took, err := v.open(ctx, perS, b.round, requests{[]byte(joinRequest)}, created)
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
		Name: name,
		Measured: fmt.Sprintf("%.2f × (%.2f ms against %.2f ms; p99 %.1f against %.1f; %d a second, %s)",
			p50.ratio, p50.ours*1e3, p50.base*1e3, p99.ours*1e3, p99.base*1e3, perS, durability),
		Bar: "≤ 1.2 × the three-call flow", Verdict: verdict(p50.ratio <= 1.2),
		Figures: map[string]float64{"ratio": p50.ratio, "p50_ms": p50.ours * 1e3, "three_call_p50_ms": p50.base * 1e3, "p99_ms": p99.ours * 1e3, "three_call_p99_ms": p99.base * 1e3},
	}, nil
}
