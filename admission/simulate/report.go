package simulate

import (
	"encoding/json"
	"io"
	"math"
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
