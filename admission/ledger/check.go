package ledger

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

// Report is what a check found.
type Report struct {
	// Leaves were read, from First on; People were let in by them, of whom ByHand by
	// an operator, Through without a limit, and Kept on a place that was put back.
	First, Leaves                 int64
	People, ByHand, Through, Kept int64
	// From and Until are the moments of the first and the last leaf.
	From, Until time.Time
	// Reasons is how many were let in, by the reason of the decision.
	Reasons map[string]int64
	// Faults are what is wrong, in order; More is how many are left out.
	Faults []Fault
	More   int
}

// OK reports whether nothing is wrong.
func (r Report) OK() bool { return len(r.Faults) == 0 }

// Fault is one thing that is wrong. Leaf is its number, from 1; 0 is the log as a
// whole.
type Fault struct {
	Leaf int64
	What string
}

// mostFaults bounds the list: a log that was cut in the middle is wrong everywhere.
const mostFaults = 100

func (r *Report) fault(leaf int64, format string, args ...any) {
	if len(r.Faults) == mostFaults {
		r.More++
		return
	}
	r.Faults = append(r.Faults, Fault{Leaf: leaf, What: fmt.Sprintf(format, args...)})
}

// Check looks at a whole bundle: the chain up to its head, the heads that somebody
// kept, and who came in when.
func Check(b Bundle) Report {
	r := Report{First: b.First, Reasons: make(map[string]int64)}
	keys, err := b.publicKeys()
	if err != nil {
		r.fault(0, "%v", err)
	}
	kept := slices.Clone(b.Kept)
	slices.SortStableFunc(kept, func(a, b Head) int { return int(min(1, max(-1, a.N-b.N))) })
	for _, h := range append(slices.Clone(kept), b.Head) {
		switch {
		case h.Event != b.Event || h.Chain != b.Chain:
			r.fault(0, "a head is of event %q and log %q, this is %q and %q: the store was lost in between, or this is another log", h.Event, h.Chain, b.Event, b.Chain)
		case !h.Good(keys):
			r.fault(h.N, "the head is not signed by a key of this installation (kid %q)", h.KID)
		}
	}
	hash := b.Start
	if b.First == 0 {
		hash = Start(b.Event, b.Chain)
	}
	o := &order{top: make(map[string]int64), partial: b.First > 0}
	n := b.First
	behind := func() {
		for ; len(kept) > 0 && kept[0].N <= n; kept = kept[1:] {
			if kept[0].N == n && kept[0].Hash != hash && kept[0].Chain == b.Chain {
				r.fault(n, "the log up to here is not the one whose head was kept")
			}
		}
	}
	behind()
	for _, text := range b.Leaves {
		n++
		hash = hash.Next(text)
		behind()
		l, err := Parse(text)
		if err != nil {
			r.fault(n, "%v", err)
			continue
		}
		r.count(l)
		o.look(n, l, &r)
	}
	r.Leaves = n - b.First
	if len(kept) > 0 && kept[0].Chain == b.Chain {
		r.fault(0, "the log ends at leaf %d, and a head was kept of %d leaves: leaves were removed", n, kept[len(kept)-1].N)
	}
	switch {
	case n < b.Head.N:
		r.fault(0, "the log has %d leaves, its head covers %d: leaves were removed", n, b.Head.N)
	case n > b.Head.N:
		r.fault(0, "the log has %d leaves, its head covers %d: leaves were added", n, b.Head.N)
	case hash != b.Head.Hash:
		r.fault(0, "the leaves are not those that the head covers: one was changed, removed, added or moved")
	}
	return r
}

// count adds a leaf to the sums.
func (r *Report) count(l Leaf) {
	n := l.People()
	if r.People == 0 {
		r.From = l.At
	}
	r.Until = l.At
	r.People += n
	r.Reasons[l.Reason] += n
	switch l.Kind {
	case ByRate:
		r.Kept += min(l.Kept, n)
	case ByHand:
		r.ByHand += n
	case Through:
		r.Through += n
	}
}

// order follows who came in, lane by lane.
type order struct {
	in    spans
	top   map[string]int64 // by lane: the highest sequence that went by the rate
	fence int64
	// partial: what went before is not known.
	partial bool
}

func (o *order) look(n int64, l Leaf, r *Report) {
	var below int64 // people before whom somebody from behind went
	top := o.top[l.Lane]
	for _, run := range l.Runs {
		if twice, ok := o.in.add(run); !ok {
			r.fault(n, "sequence %d was let in twice", twice)
		}
		if run.First < top {
			below += min(run.last(), top-1) - run.First + 1
		}
	}
	if l.Kind == ByHand {
		return
	}
	if l.Fence < o.fence {
		r.fault(n, "decided by leadership %d after %d: an old leader", l.Fence, o.fence)
	}
	o.fence = max(o.fence, l.Fence)
	o.top[l.Lane] = max(top, l.Runs[len(l.Runs)-1].last())
	if below > l.Kept || below < l.Kept && !o.partial {
		r.fault(n, "%d came in after somebody from behind them, and %d are marked as put back", below, l.Kept)
	}
	if people := l.People(); l.Kind == ByRate && people > l.Asked+l.Burst {
		r.fault(n, "%d were let in where %d were asked for", people, l.Asked+l.Burst)
	}
}

// spans is a set of sequences, as disjoint runs in rising order.
type spans []Run

// add puts a run in, and says the first sequence of it that was there before.
func (s *spans) add(run Run) (int64, bool) {
	all := *s
	i := sort.Search(len(all), func(i int) bool { return all[i].last() >= run.First })
	if i < len(all) && all[i].First <= run.last() {
		return max(all[i].First, run.First), false
	}
	before := i > 0 && all[i-1].last()+1 == run.First
	after := i < len(all) && run.last()+1 == all[i].First
	switch {
	case before && after:
		all[i-1].Len += run.Len + all[i].Len
		all = slices.Delete(all, i, i+1)
	case before:
		all[i-1].Len += run.Len
	case after:
		all[i].First, all[i].Len = run.First, all[i].Len+run.Len
	default:
		all = slices.Insert(all, i, run)
	}
	*s = all
	return 0, true
}
