package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is how an event went. The same Config gives the same Report, to the byte,
// on any machine.
type Report struct {
	Event     string  `json:"event"`
	Seed      uint64  `json:"seed"`
	RatePerS  float64 `json:"rate_per_s"`
	MaxActive int     `json:"max_active"`
	Law       string  `json:"law"`
	Target    float64 `json:"target,omitempty"` // of law target
	Pool      int     `json:"pool"`
	Stock     int     `json:"stock"`

	// LastedS is the time from the first arrival to the end.
	LastedS float64 `json:"lasted_s"`
	People  int     `json:"people"`
	// Admitted had their turn, Entered came, NoShows never did.
	Admitted int `json:"admitted"`
	Entered  int `json:"entered"`
	NoShows  int `json:"no_shows"`
	// Bought had something, Left looked around and went, SoldOutFor came too late for
	// what they wanted.
	Bought     int `json:"bought"`
	Left       int `json:"left"`
	SoldOutFor int `json:"sold_out_for"`
	// TurnedAway came when all was sold, and StillWaiting waited when it was. Late came
	// when the window of their group was over.
	TurnedAway   int `json:"turned_away"`
	Late         int `json:"late,omitempty"`
	StillWaiting int `json:"still_waiting"`
	// SoldOutS is when the last piece was sold; absent if it never was.
	SoldOutS *float64 `json:"sold_out_s,omitempty"`
	// WaitS are times from joining to the turn, of those who had one, by percentile.
	WaitS Percentiles `json:"wait_s"`
	// Usage is the share of the connections in use or waited for, from the first
	// purchase on, by percentile; OverS is for how many seconds it was above 95 %.
	Usage Percentiles `json:"usage"`
	OverS float64     `json:"over_95_s"`
	// Coverage is, of those who were shown an estimate, the share who were in by its
	// P50 and by its P90; Told is of how many.
	Told int     `json:"told"`
	By50 float64 `json:"in_by_p50"`
	By90 float64 `json:"in_by_p90"`
	// Lanes and Groups are those of the event, in their order.
	Lanes  []Part  `json:"lanes,omitempty"`
	Groups []Part  `json:"groups,omitempty"`
	Series Series  `json:"series"`
	waits  counts  // people by ticks waited
	usages []int32 // ticks by usage in thousandths
	lanes  []laneReport
	begun  bool
	base   int // of the admissions at the last sample
}

// Part is how it went for the people of one lane or group.
type Part struct {
	Name   string `json:"name"`
	People int    `json:"people"`
	// Late came when their window was over, and TurnedAway when all was sold.
	Late         int         `json:"late,omitempty"`
	TurnedAway   int         `json:"turned_away,omitempty"`
	Admitted     int         `json:"admitted"`
	StillWaiting int         `json:"still_waiting"`
	WaitS        Percentiles `json:"wait_s"`
}

// laneReport is what is counted of a lane on the way.
type laneReport struct {
	name  string
	waits counts
}

// counts are people by the ticks that they waited.
type counts []int32

// add counts somebody's wait, in ms.
func (c *counts) add(wait int64) {
	t := int(max(0, wait) / tickMS)
	for len(*c) <= t {
		*c = append(*c, make([]int32, t+1-len(*c))...)
	}
	(*c)[t]++
}

func (c counts) people() (n int) {
	for _, of := range c {
		n += int(of)
	}
	return n
}

// Percentiles are what half, nine in ten and so on stay below.
type Percentiles struct {
	P10 float64 `json:"p10"`
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Series are samples, StepS seconds apart.
type Series struct {
	StepS    float64   `json:"step_s"`
	Waiting  []int     `json:"waiting"`
	Inside   []int     `json:"inside"`
	Bought   []int     `json:"bought"`
	Admitted []float64 `json:"admitted_per_s"`
	Allowed  []float64 `json:"allowed_per_s"` // what the law decided
	Usage    []float64 `json:"usage"`
	// Lanes are those who wait in each lane, of an event that has any.
	Lanes [][]int `json:"lanes_waiting,omitempty"`
}

// mostSamples is how many samples a series has at most: twice as many are halved.
const mostSamples = 600

func newReport(c Config) *Report {
	s := c.Settings
	r := &Report{
		Event: string(s.ID), Seed: c.Seed, RatePerS: s.RatePerS, MaxActive: s.MaxActive, Law: s.Load.Law,
		Pool: c.Crowd.Pool, Stock: c.Stock, usages: make([]int32, 1001),
	}
	if s.Load.Law == "target" {
		r.Target = s.Load.Target
	}
	r.Series.StepS = 1
	r.lanes = make([]laneReport, max(1, len(s.Lanes)))
	for i, l := range s.Lanes {
		r.lanes[i].name = l.Name
	}
	r.Series.Lanes = make([][]int, len(s.Lanes))
	return r
}

// sample is called at each tick.
func (r *Report) sample(p *play, tick int64) {
	usage := 0.0
	if p.site.max > 0 {
		usage = min(1, float64(p.site.busy+len(p.site.queue)-p.site.next)/float64(p.site.max))
	}
	if r.begun = r.begun || usage > 0; r.begun && !p.soldOut() {
		r.usages[int(usage*1000)]++
		if usage > 0.95 {
			r.OverS += 0.1
		}
	}
	s := &r.Series
	every := int64(s.StepS * 10)
	if tick%every != 0 {
		return
	}
	s.Waiting, s.Inside, s.Bought = append(s.Waiting, p.line.waiting), append(s.Inside, p.line.inside), append(s.Bought, p.sold)
	s.Admitted = append(s.Admitted, round(float64(r.Admitted-r.base)/s.StepS, 3))
	allowed := 0.0
	for _, of := range p.paces {
		allowed += of.decision.RatePerS
	}
	s.Allowed = append(s.Allowed, round(min(allowed, r.RatePerS), 3))
	for i := range s.Lanes {
		s.Lanes[i] = append(s.Lanes[i], p.line.lanes[i].waiting)
	}
	mean := p.site.published
	if mean.Max > 0 {
		usage = mean.Wanted()
	}
	s.Usage = append(s.Usage, round(usage, 3))
	r.base = r.Admitted
	if len(s.Waiting) > 2*mostSamples {
		s.halve()
	}
}

// halve keeps every other sample; admissions are the mean of two.
func (s *Series) halve() {
	n := len(s.Waiting) / 2
	for i := range n {
		k := 2 * i
		s.Waiting[i], s.Inside[i], s.Bought[i] = s.Waiting[k], s.Inside[k], s.Bought[k]
		s.Allowed[i], s.Usage[i] = s.Allowed[k], s.Usage[k]
		s.Admitted[i] = round((s.Admitted[max(0, k-1)]+s.Admitted[k])/2, 3)
	}
	s.Waiting, s.Inside, s.Bought = s.Waiting[:n], s.Inside[:n], s.Bought[:n]
	s.Admitted, s.Allowed, s.Usage = s.Admitted[:n], s.Allowed[:n], s.Usage[:n]
	for i, of := range s.Lanes {
		for k := range n {
			of[k] = of[2*k]
		}
		s.Lanes[i] = of[:n]
	}
	s.StepS *= 2
}

func (r *Report) finish(p *play) {
	r.LastedS = float64(p.now) / 1000
	r.People = len(p.line.people) + r.TurnedAway + r.Late
	r.Entered, r.NoShows, r.Bought = int(p.line.came), int(p.line.missed), p.sold
	r.StillWaiting = p.line.waiting
	r.OverS = round(r.OverS, 1)
	if p.soldOut() {
		at := float64(p.soldAt) / 1000
		r.SoldOutS = &at
	}
	r.WaitS = percentiles(r.waits, tickMS/1000.0)
	r.Usage = percentiles(r.usages, 0.001)
	r.parts(p)
	by50, by90 := 0, 0
	for _, t := range p.told {
		who := p.line.people[t.who]
		if who.let == 0 {
			if p.soldOut() {
				continue // nobody's turn comes any more, and they are told that
			}
			who.let = math.MaxInt64
		}
		r.Told++
		if who.let <= t.eta {
			by50++
		}
		if who.let <= t.p90 {
			by90++
		}
	}
	if r.Told > 0 {
		r.By50, r.By90 = round(float64(by50)/float64(r.Told), 4), round(float64(by90)/float64(r.Told), 4)
	}
}

// parts sums up the lanes and groups.
func (r *Report) parts(p *play) {
	if len(p.cfg.Settings.Lanes) > 0 {
		for i, of := range r.lanes {
			l := &p.line.lanes[i]
			r.Lanes = append(r.Lanes, Part{Name: of.name, People: len(l.queue), Admitted: of.waits.people(), StillWaiting: l.waiting, WaitS: percentiles(of.waits, tickMS/1000.0)})
		}
	}
	if len(p.cfg.Settings.Groups) == 0 {
		return
	}
	still := make([]int, len(p.ways))
	for i, who := range p.line.people {
		if who.at == waiting {
			still[p.of[i]]++
		}
	}
	for i, w := range p.ways {
		r.Groups = append(r.Groups, Part{Name: w.name, People: w.people, Late: w.late, TurnedAway: w.turnedAway, Admitted: w.waits.people(), StillWaiting: still[i], WaitS: percentiles(w.waits, tickMS/1000.0)})
	}
}

// percentiles of counts, the i-th being of the value i times unit.
func percentiles(counts []int32, unit float64) Percentiles {
	total := int64(0)
	for _, n := range counts {
		total += int64(n)
	}
	at := func(q float64) float64 {
		left := int64(math.Ceil(q * float64(total)))
		for i, n := range counts {
			if left -= int64(n); left <= 0 && total > 0 {
				return round(float64(i)*unit, 3)
			}
		}
		return 0
	}
	return Percentiles{P10: at(0.1), P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: at(1)}
}

func round(v float64, places int) float64 {
	p := math.Pow(10, float64(places))
	return math.Round(v*p) / p
}

// WriteJSON writes the reports as a list, or a single one by itself.
func WriteJSON(w io.Writer, reports ...*Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	if len(reports) == 1 {
		return e.Encode(reports[0])
	}
	return e.Encode(reports)
}

// row is a line of the table: what it is and what each report says.
type row struct {
	name string
	of   func(*Report) string
}

func span(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond).String()
}

func share(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

// count writes a number with its thousands apart.
func count(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func number(of func(*Report) int) func(*Report) string {
	return func(r *Report) string { return count(of(r)) }
}

// rows are those of a table of these reports: each lane and group that any of them has
// gets some of its own.
func rows(reports []*Report) []row {
	all := []row{
		{"rate", func(r *Report) string { return fmt.Sprintf("%v/s", r.RatePerS) }},
		{"law", func(r *Report) string {
			if r.Law == "target" {
				return fmt.Sprintf("target %v", r.Target)
			}
			return r.Law
		}},
		{"people", number(func(r *Report) int { return r.People })},
		{"had their turn", number(func(r *Report) int { return r.Admitted })},
		{"came in", number(func(r *Report) int { return r.Entered })},
		{"no-shows", number(func(r *Report) int { return r.NoShows })},
		{"bought", number(func(r *Report) int { return r.Bought })},
		{"looked and left", number(func(r *Report) int { return r.Left })},
		{"inside when it sold out", number(func(r *Report) int { return r.SoldOutFor })},
		{"waiting when it sold out", number(func(r *Report) int { return r.StillWaiting })},
		{"turned away after", number(func(r *Report) int { return r.TurnedAway })},
		{"sold out after", func(r *Report) string {
			if r.SoldOutS == nil {
				return "not"
			}
			return span(*r.SoldOutS)
		}},
		{"lasted", func(r *Report) string { return span(r.LastedS) }},
		{"wait p50", func(r *Report) string { return span(r.WaitS.P50) }},
		{"wait p90", func(r *Report) string { return span(r.WaitS.P90) }},
		{"wait p99", func(r *Report) string { return span(r.WaitS.P99) }},
		{"pool usage p50", func(r *Report) string { return share(r.Usage.P50) }},
		{"pool usage p99", func(r *Report) string { return share(r.Usage.P99) }},
		{"pool above 95 %", func(r *Report) string { return span(r.OverS) }},
		{"in by the P90 shown", func(r *Report) string {
			if r.Told == 0 {
				return "nobody was told"
			}
			return fmt.Sprintf("%s of %s", share(r.By90), count(r.Told))
		}},
	}
	if slices.ContainsFunc(reports, func(r *Report) bool { return r.Late > 0 }) {
		all = append(all, row{"too late for their window", number(func(r *Report) int { return r.Late })})
	}
	all = append(all, partRows("group", reports, func(r *Report) []Part { return r.Groups })...)
	return append(all, partRows("lane", reports, func(r *Report) []Part { return r.Lanes })...)
}

func partRows(kind string, reports []*Report, of func(*Report) []Part) (all []row) {
	var names []string
	for _, r := range reports {
		for _, part := range of(r) {
			if !slices.Contains(names, part.Name) {
				names = append(names, part.Name)
			}
		}
	}
	for _, name := range names {
		for _, figure := range []struct {
			what string
			is   func(Part) string
		}{
			{"people", func(p Part) string { return count(p.People) }},
			{"had their turn", func(p Part) string { return count(p.Admitted) }},
			{"wait p50", func(p Part) string { return span(p.WaitS.P50) }},
			{"wait p90", func(p Part) string { return span(p.WaitS.P90) }},
		} {
			all = append(all, row{fmt.Sprintf("%s %s: %s", kind, name, figure.what), func(r *Report) string {
				i := slices.IndexFunc(of(r), func(p Part) bool { return p.Name == name })
				if i < 0 {
					return "–"
				}
				return figure.is(of(r)[i])
			}})
		}
	}
	return all
}

// WriteTable writes the figures, a report a column.
func WriteTable(w io.Writer, reports ...*Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	names := make([]string, len(reports))
	for i, r := range reports {
		names[i] = r.Event
	}
	fmt.Fprintf(t, "\t%s\t\n", strings.Join(names, "\t"))
	for _, row := range rows(reports) {
		fmt.Fprintf(t, "%s\t", row.name)
		for _, r := range reports {
			fmt.Fprintf(t, "%s\t", row.of(r))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}
