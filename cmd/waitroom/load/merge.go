package load

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// ReadReport reads what WriteJSON wrote.
func ReadReport(r io.Reader) (*Report, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	var out Report
	if err := decode(b, &out); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	if out.Version != 1 {
		return nil, fmt.Errorf("read report: version %d, want 1", out.Version)
	}
	return &out, nil
}

// Merge makes one report of several machines' runs on one event at one time. The
// histograms are merged, not their percentiles. The cap and the seats are judged
// anew over all of them together; the order only within each run, since the clocks
// of several machines do not tell whose join came first.
func Merge(reports []*Report) (*Report, error) {
	if len(reports) == 0 {
		return nil, &UsageError{err: errors.New("nothing to merge")}
	}
	h, t := newHistograms(), newTally()
	all := *reports[0]
	all.Why, all.Notes, all.Counts, all.Errors, all.Refusals, all.Bots = nil, nil, Counts{}, Errors{}, Trouble{}, Bots{}
	all.Targets = nil
	all.Setup.Users, all.Setup.Workers, all.Setup.BytesPerUser = 0, 0, 0
	all.Evidence = Evidence{AdmittedPerSecond: map[int64]int64{}, RatePerSecond: map[int64]float64{}, Burst: -1, Sold: map[string]string{}}
	end, last := all.StartedAt, reports[0]
	var bytes int64
	for _, r := range reports {
		if r.Event != all.Event {
			return nil, &UsageError{err: fmt.Errorf("reports of different events: %s and %s", all.Event, r.Event)}
		}
		if err := h.add(r.Histograms); err != nil {
			return nil, err
		}
		t.add(r.Promises)
		all.Counts.add(r.Counts)
		all.Errors.Server.add(r.Errors.Server)
		all.Errors.Own.add(r.Errors.Own)
		all.Refusals.add(r.Refusals)
		all.Bots.add(r.Bots)
		all.Notes = append(all.Notes, r.Notes...)
		all.Targets = append(all.Targets, r.Targets...)
		all.Setup.Users += r.Setup.Users
		all.Setup.Workers += r.Setup.Workers
		bytes += r.Setup.BytesPerUser * int64(r.Setup.Users)
		if r.StartedAt.Before(all.StartedAt) {
			all.StartedAt = r.StartedAt
		}
		if e := r.StartedAt.Add(seconds(r.TookS)); e.After(end) {
			end = e
		}
		if r.StartedAt.After(last.StartedAt) {
			last = r
		}
		mergeEvidence(t, &all.Evidence, r.Evidence)
	}
	all.Books = last.Books // a recount is of the whole event: the newest counts
	all.TookS = end.Sub(all.StartedAt).Seconds()
	all.Setup.BytesPerUser = bytes / int64(max(1, all.Setup.Users))
	slices.Sort(all.Targets)
	all.Targets = slices.Compact(all.Targets)
	l := limits{burst: all.Evidence.Burst, opensAt: all.Evidence.OpensAt}
	for _, at := range slices.Sorted(maps.Keys(all.Evidence.RatePerSecond)) {
		l.rates = append(l.rates, rateSeen{at: at, rate: all.Evidence.RatePerSecond[at]})
	}
	checkCap(t, all.Evidence.AdmittedPerSecond, l)
	return &all, all.finish(h, t)
}

func mergeEvidence(t *tally, into *Evidence, one Evidence) {
	for second, n := range one.AdmittedPerSecond {
		into.AdmittedPerSecond[second] += n
	}
	for second, rate := range one.RatePerSecond {
		into.RatePerSecond[second] = max(into.RatePerSecond[second], rate)
	}
	into.Burst, into.OpensAt = max(into.Burst, one.Burst), max(into.OpensAt, one.OpensAt)
	for seat, reservation := range one.Sold {
		other, twice := into.Sold[seat]
		t.check(promiseSeat, !twice || other == reservation, "seat %s was sold in %s and in %s", seat, other, reservation)
		into.Sold[seat] = reservation
	}
}
