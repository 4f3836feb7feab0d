package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is what a run found, or several runs together.
type Report struct {
	Version   int       `json:"version"`
	StartedAt time.Time `json:"started_at"`
	TookS     float64   `json:"took_s"`
	Targets   []string  `json:"targets"`
	Event     string    `json:"event"`
	Setup     Setup     `json:"setup"`

	// OK: no promise broken, no more server errors than allowed, nothing missing.
	OK bool `json:"ok"`
	// Why says what stands against OK.
	Why []string `json:"why,omitempty"`

	Counts    Counts             `json:"counts"`
	LatencyMS map[string]Latency `json:"latency_ms"`
	Promises  []Verdict          `json:"promises"`
	Errors    Errors             `json:"errors"`
	// Refusals are answers that the contract foresees: no errors.
	Refusals Trouble  `json:"refusals"`
	Bots     Bots     `json:"bots"`
	Notes    []string `json:"notes,omitempty"`
	Evidence Evidence `json:"evidence"`
	// Books are the service's own recount when the run was over, where it was asked.
	Books []Sum `json:"books,omitempty"`
	// Histograms are the latencies whole, in HdrHistogram's compressed form,
	// microseconds: what merging needs.
	Histograms map[string]string `json:"histograms"`
}

// Setup is how the crowd was brought. Durations are in seconds.
type Setup struct {
	Users   int                `json:"users"`
	RampS   float64            `json:"ramp_s"`
	HoldS   float64            `json:"hold_s"`
	Buy     float64            `json:"buy"`
	Profile Profile            `json:"profile"`
	Habits  Habits             `json:"habits"`
	Seed    uint64             `json:"seed"`
	Lanes   map[string]float64 `json:"lanes,omitempty"`
	Workers int                `json:"workers"`
	// MaxErrors is the share of calls that may fail by the server's fault.
	MaxErrors float64 `json:"max_errors"`
	// BytesPerUser is the workers' peak memory over the users, all of the tool in it.
	BytesPerUser int64 `json:"bytes_per_user"`
	// ClockOffsetMS is the service's clock less ours, as far as it was estimated.
	ClockOffsetMS float64 `json:"clock_offset_ms"`
}

// Errors are kept apart: the server's count against it, the tool's own do not.
type Errors struct {
	Server Trouble `json:"server"`
	Own    Trouble `json:"own"`
}

// Evidence is what checks over several machines need.
type Evidence struct {
	AdmittedPerSecond map[int64]int64   `json:"admitted_per_second"`
	RatePerSecond     map[int64]float64 `json:"rate_per_second"`
	Burst             int               `json:"burst"`
	OpensAt           int64             `json:"opens_at,omitempty"`
	// Sold are the seats that were paid for, with the reservation that has each.
	Sold map[string]string `json:"sold,omitempty"`
}

// report judges and sums up; runErr is what went wrong with the workers.
func (p *parent) report(ctx context.Context, runErr error) (*Report, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, offset := p.watcher.known()
	if allLoopback(p.config.Targets) {
		offset = 0 // one machine, one clock
	}
	p.watcher.checkSold(ctx, p.tally, p.facts)
	judge(p.tally, p.facts, l)
	judgePolls(p.tally, p.facts, p.start, offset)
	r := &Report{
		Version: 1, StartedAt: p.start.UTC(), TookS: time.Since(p.start).Round(time.Millisecond).Seconds(),
		Targets: p.config.Targets, Event: p.config.Event,
		Counts: p.sum.Counts, Errors: Errors{Server: p.sum.Server, Own: p.sum.Own}, Refusals: p.sum.Refusals,
		Bots: p.sum.Bots, Notes: p.sum.Notes,
		Setup: Setup{
			Users: p.config.Crowd.Users, RampS: p.config.Crowd.Ramp.Seconds(), HoldS: p.config.Crowd.Hold.Seconds(),
			Buy: p.config.Crowd.Buy, Profile: p.config.Crowd.Profile, Habits: p.config.Crowd.Habits, Seed: p.config.Crowd.Seed, Lanes: p.config.Crowd.Lanes,
			Workers: p.config.Workers, MaxErrors: p.config.Checks.MaxErrors,
			BytesPerUser:  p.sum.PeakRSS / int64(p.config.Crowd.Users),
			ClockOffsetMS: float64(offset.Microseconds()) / 1000,
		},
		Evidence: evidence(p.facts, l),
	}
	if note := toToken(p.hist, p.facts, p.start, offset); note != "" {
		r.Notes = append(r.Notes, note)
	}
	if p.config.Crowd.Buy > 0 && ctx.Err() == nil {
		var note string
		if r.Books, note = p.watcher.books(ctx); note != "" {
			r.Notes = append(r.Notes, note)
		}
	}
	switch {
	case ctx.Err() != nil:
		r.Notes = append(r.Notes, "the run was cut short")
	case runErr != nil:
		r.Why = append(r.Why, "not all of the crowd reported: "+runErr.Error())
	}
	return r, r.finish(p.hist, p.tally)
}

// mayFail is the share of the people who may fail, whoever else calls: a crowd that
// bots come with is served as well as one without.
const mayFail = 0.01

// finish fills in what follows from the rest.
func (r *Report) finish(h *histograms, t *tally) (err error) {
	r.LatencyMS = h.latencies()
	r.Promises = t.verdicts()
	if r.Histograms, err = h.encode(); err != nil {
		return err
	}
	for _, v := range r.Promises {
		if v.Broken > 0 {
			r.Why = append(r.Why, fmt.Sprintf("promise %d (%s) broken %d times", v.Promise, v.Name, v.Broken))
		}
	}
	if allowed := int64(r.Setup.MaxErrors * float64(r.Counts.Calls)); r.Errors.Server.Total > allowed {
		r.Why = append(r.Why, fmt.Sprintf("%d server errors, at most %d allowed", r.Errors.Server.Total, allowed))
	}
	for _, s := range failed(r.Books) {
		r.Why = append(r.Why, fmt.Sprintf("the books: %s: expected %d, found %d %s", s.Name, s.Expected, s.Found, s.Note))
	}
	if n := r.Errors.Server.ByKind[kindUncut]; n > 0 {
		r.Why = append(r.Why, fmt.Sprintf("%d sockets that nobody read were not cut", n))
	}
	if allowed := int64(mayFail * float64(r.Counts.Arrived)); r.Counts.Failed > allowed {
		r.Why = append(r.Why, fmt.Sprintf("%d of %d people failed, at most %d may", r.Counts.Failed, r.Counts.Arrived, allowed))
	}
	if r.Counts.Joined == 0 {
		r.Why = append(r.Why, "nobody joined")
	}
	r.OK = len(r.Why) == 0
	return nil
}

func evidence(facts []fact, l limits) Evidence {
	e := Evidence{AdmittedPerSecond: perSecond(facts), RatePerSecond: map[int64]float64{}, Burst: l.burst, OpensAt: l.opensAt, Sold: map[string]string{}}
	for _, r := range l.rates {
		e.RatePerSecond[r.at] = max(e.RatePerSecond[r.at], r.rate)
	}
	for _, f := range facts {
		for _, p := range f.Purchases {
			for _, s := range p.Seats {
				if p.State == statusPaid {
					e.Sold[s] = p.ID
				}
			}
		}
	}
	return e
}

// WriteJSON writes the whole report.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// WriteTable writes what a person wants to know.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) } // Flush reports
	c := r.Counts
	row("%d users on %s, %s arrivals over %gs, %.1fs in all, %d workers, %.1f KB a user",
		r.Setup.Users, r.Event, r.Setup.Profile, r.Setup.RampS, r.TookS, r.Setup.Workers, float64(r.Setup.BytesPerUser)/1024)
	row("joined %d, still waiting %d, admitted %d, entered %d, bought %d, sold out for %d, unpaid %d, left %d, refused %d, failed %d",
		c.Joined, c.Joined-c.Admitted-c.LeftLine-c.Deaf-c.Refused-c.Failed, c.Admitted, c.Entered, c.Bought, c.SoldOut, c.Unpaid, c.Left, c.Refused, c.Failed)
	row("%d calls, %d messages, %d reconnects", c.Calls, c.Messages, c.Reconnects)
	if c.Solved > 0 {
		row("challenges solved %d, which took about %.1f s of a core", c.Solved, r.LatencyMS[mChallenge].Mean*float64(c.Solved)/1000)
	}
	if c.LeftLine+c.Reloads+c.Tabs+c.Deaf+c.Polls > 0 {
		row("left the line %d, pages loaded again %d, second tabs %d, never read %d, polls %d, of them with nothing new %d",
			c.LeftLine, c.Reloads, c.Tabs, c.Deaf, c.Polls, c.NotModified)
	}
	if b := r.Bots; b.Count > 0 {
		row("bots %d: %d calls, of them refused %d; places %d", b.Count, b.Calls, b.Refused, b.Places)
	}
	row("")
	row("latency in ms\tn\tp50\tp90\tp95\tp99\tp99.9\tmax\t")
	for _, name := range metrics {
		if l, ok := r.LatencyMS[name]; ok {
			row("%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t", name, l.Count, l.P50, l.P90, l.P95, l.P99, l.P999, l.Max)
		}
	}
	row("")
	for _, v := range r.Promises {
		row("promise %d  %s: %d checks, %d broken", v.Promise, v.Name, v.Checked, v.Broken)
		for _, e := range v.Examples {
			row("    broken: %s", e)
		}
		for _, n := range v.Notes {
			row("    %s", n)
		}
	}
	if len(r.Books) > 0 {
		row("books: %d sums, %d do not balance", len(r.Books), len(failed(r.Books)))
	}
	row("")
	for _, k := range []struct {
		name    string
		trouble Trouble
	}{{"server errors", r.Errors.Server}, {"own errors", r.Errors.Own}, {"refusals", r.Refusals}, {"bots' refusals", r.Bots.Refusals}} {
		row("%s: %d", k.name, k.trouble.Total)
		for _, kind := range slices.Sorted(maps.Keys(k.trouble.ByKind)) {
			row("    %s %d, such as: %.160s", kind, k.trouble.ByKind[kind], strings.TrimSpace(k.trouble.Examples[kind]))
		}
	}
	for _, n := range r.Notes {
		row("note: %s", n)
	}
	if r.OK {
		row("\nOK")
	}
	for _, why := range r.Why {
		row("NOT OK: %s", why)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}
