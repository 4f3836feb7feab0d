package simulate

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waitroom-dev/waitroom/admission"
	"github.com/waitroom-dev/waitroom/deploy/events"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// Config is an event to be played.
type Config struct {
	Settings waitroom.Settings
	Crowd    events.Crowd
	// Arrivals are the times of the people, in order, where they are known; else
	// Crowd says how they come.
	Arrivals []time.Duration
	// Mix is how the people are divided over the event's groups by name, or over its lanes
	// where it has no groups: weights, none for who is not named. Default: evenly.
	Mix map[string]float64
	// Start is when the event opens, for the windows of its groups; without it, its
	// opens_at.
	Start time.Time
	// Stock is how many buyers there is something for; 0 sells nothing and never
	// sells out.
	Stock int
	// Seed decides everything that is left to chance.
	Seed uint64
	// Limit ends the event, whoever still waits. Default 24h of the event's time.
	Limit time.Duration
}

// Validate names every field that is wrong.
func (c Config) Validate() error {
	var faults []error
	fault := func(field string, ok bool, want string) {
		if !ok {
			faults = append(faults, fmt.Errorf("%s: must be %s", field, want))
		}
	}
	cr := c.Crowd
	fault("people", len(c.Arrivals) > 0 || cr.People >= 1 && cr.People <= mostPeople, "1 to 10000000")
	fault("over", cr.Over >= 0 && cr.Over <= 7*24*time.Hour, "0 to a week")
	fault("shape", cr.Shape == "burst" || cr.Shape == "steady" || cr.Shape == "flash", "burst, steady or flash")
	fault("early", cr.Early >= 0 && cr.Early <= 24*time.Hour, "0 to a day")
	fault("pool", cr.Pool >= 0 && cr.Pool <= 1_000_000, "0 (no load is known) to 1000000")
	fault("purchase", cr.Purchase > 0 && cr.Purchase <= time.Hour, "above 0 and at most 1h")
	fault("look", cr.Look >= 0 && cr.Look <= time.Hour, "0 to 1h")
	fault("no-shows", cr.NoShows >= 0 && cr.NoShows < 1, "0 or more and below 1")
	fault("buy", cr.Buy >= 0 && cr.Buy <= 1, "0 to 1")
	if names, of := c.parts(); len(c.Mix) > 0 {
		for name, weight := range c.Mix {
			fault("mix", slices.Contains(names, name), fmt.Sprintf("of %s of the event, which %q is none of", of, name))
			fault("mix", weight >= 0 && weight <= 1e9, "0 to 1e9 for "+name)
		}
		fault("mix", slices.ContainsFunc(names, func(name string) bool { return c.Mix[name] > 0 }), "above 0 for somebody")
	}
	fault("stock", c.Stock >= 0, "0 or more")
	fault("limit", c.Limit >= 0 && c.Limit <= 7*24*time.Hour, "at most a week")
	return errors.Join(faults...)
}

// what is due for somebody inside.
const (
	comes = iota
	wants
	buys
	does = 8 // above any of them; who<<3 | what is one entry of the calendar
)

// play is one run.
type play struct {
	cfg      Config
	line     *line
	site     site
	calendar map[int64][]int64 // by tick
	paces    []pace            // of each lane
	ways     []way             // by which people come
	of       []uint8           // the way of each person in the line
	opened   int64
	sold     int
	soldAt   int64
	out      *Report
	told     []told
	now      int64
}

// pace is what the loop knows of a lane, and the lane's people of their wait.
type pace struct {
	limits   admission.Limits
	state    admission.State
	decision admission.Decision
	turns    admission.Turns
	outlook  waitroom.Outlook
	asked    int
	given    int
	unserved int
	rate     float64 // the most a second
	target   bool    // by law target
}

// told is an estimate that somebody was shown, and by when it says they are in.
type told struct {
	who      int32
	eta, p90 int64 // ms
}

// Run plays an event to its end: until everybody is through, or what there was is
// sold and nobody is inside.
func Run(cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	if cfg.Limit == 0 {
		cfg.Limit = 24 * time.Hour
	}
	if len(cfg.Arrivals) == 0 {
		cfg.Arrivals = arrivals(cfg.Crowd, cfg.Seed)
	}
	p := &play{
		cfg: cfg, line: newLine(cfg.Settings), site: site{max: cfg.Crowd.Pool}, calendar: make(map[int64][]int64),
		opened: -1, soldAt: -1, out: newReport(cfg), ways: cfg.ways(),
	}
	for i := range p.line.lanes {
		s := cfg.Settings
		if len(s.Lanes) > 0 {
			s = waitroom.Event{Settings: s}.ForLane(i).Settings
		}
		p.paces = append(p.paces, pace{limits: admission.LimitsOf(s, admission.DefaultTick), rate: s.RatePerS, target: s.Load.Law == "target"})
	}
	p.line.people = make([]person, 0, len(cfg.Arrivals))
	next := 0
	for tick := int64(0); ; tick++ {
		p.now = tick * tickMS
		if time.Duration(p.now)*time.Millisecond > cfg.Limit {
			break
		}
		for next < len(cfg.Arrivals) && cfg.Arrivals[next].Milliseconds() <= p.now {
			p.arrive(next, cfg.Arrivals[next].Milliseconds())
			next++
		}
		waits := p.windows()
		p.line.sweep(p.now)
		p.happen(tick)
		p.site.look(tick)
		p.promote(tick)
		p.out.sample(p, tick)
		if next == len(cfg.Arrivals) && !waits && p.line.inside == 0 && len(p.calendar) == 0 && (p.line.waiting == 0 || p.soldOut()) {
			break
		}
	}
	p.out.finish(p)
	return p.out, nil
}

func (p *play) soldOut() bool { return p.soldAt >= 0 }

// arrive is the k-th to come: they join by their way, or hear when it opens and come
// back then.
func (p *play) arrive(k int, at int64) {
	by := p.choose(k)
	w := &p.ways[by]
	w.people++
	if at < w.opens {
		w.later = append(w.later, w.opens+at) // as they came, behind each other
		return
	}
	p.join(by, at)
}

// windows lets those join whose window has opened, and tells whether others still wait
// for theirs.
func (p *play) windows() bool {
	more := false
	for by := range p.ways {
		w := &p.ways[by]
		for ; len(w.later) > 0 && w.later[0] <= p.now; w.later = w.later[1:] {
			p.join(uint8(by), w.later[0])
		}
		more = more || len(w.later) > 0
	}
	return more
}

// join takes a place, unless the window is over or all is sold.
func (p *play) join(by uint8, at int64) {
	switch w := &p.ways[by]; {
	case at >= w.closes:
		w.late++
		p.out.Late++
	case p.soldOut():
		w.turnedAway++
		p.out.TurnedAway++
	default:
		p.line.join(w.lane, at)
		p.of = append(p.of, by)
	}
}

// tellEvery is how often some of those who wait are held to what they are shown, and
// tellMany of how many each time.
const (
	tellEvery = 10 // ticks
	tellMany  = 4
)

// tell notes what some of the line are shown, evenly over it, once it moves. Nobody
// leaves this line but by being let in, so that a place is counted from its front.
func (p *play) tell(tick int64) {
	if p.opened < 0 || p.now-p.opened < 5000 || p.line.waiting == 0 || p.soldOut() {
		return
	}
	for i := range p.paces {
		p.tellLane(tick, &p.paces[i], &p.line.lanes[i])
	}
}

func (p *play) tellLane(tick int64, of *pace, l *lane) {
	if l.waiting == 0 {
		return
	}
	flow := of.outlook.Flow(p.now, of.rate)
	place := func(seq waitroom.Seq) (int64, bool) { return int64(seq) - int64(l.front), true }
	of.outlook.Note(p.now, waitroom.Seq(len(l.queue)), place, flow)
	if tick%tellEvery != 0 {
		return
	}
	for n := range tellMany {
		at := int64((float64(n) + luck{p.cfg.Seed, uint64(tick), 13}.draw(uint64(n))) / tellMany * float64(l.waiting)) //nolint:gosec // ticks count from 0
		if eta, p90, ok := waitroom.Estimate(at+1, flow); ok {
			p.told = append(p.told, told{l.queue[l.front+int(at)], p.now + ms(eta), p.now + ms(p90)})
		}
	}
}

// plan puts something into the calendar.
func (p *play) plan(i int32, what int64, after int64) {
	t := max(p.now/tickMS+1, (p.now+after+tickMS-1)/tickMS)
	p.calendar[t] = append(p.calendar[t], int64(i)*does|what)
}

// happen does what is due.
func (p *play) happen(tick int64) {
	for _, entry := range p.calendar[tick] {
		i := int32(entry / does) //nolint:gosec // it was one
		mine := p.luck(i)
		switch entry % does {
		case comes:
			if !p.line.enter(i, p.now) {
				continue
			}
			if mine.draw(4) >= p.cfg.Crowd.Buy {
				p.line.complete(i) // had a look, and went
				p.out.Left++
				continue
			}
			p.plan(i, wants, mine.wait(2, p.cfg.Crowd.Look))
		case wants:
			if p.soldOut() {
				p.line.complete(i)
				p.out.SoldOutFor++
				continue
			}
			if p.cfg.Crowd.Pool == 0 || p.site.want(i) {
				p.plan(i, buys, p.hold(i))
			}
		case buys:
			p.bought(i)
		}
	}
	delete(p.calendar, tick)
}

func (p *play) hold(i int32) int64 { return p.luck(i).wait(3, p.cfg.Crowd.Purchase) }

func (p *play) bought(i int32) {
	p.line.complete(i)
	if p.soldOut() {
		p.out.SoldOutFor++
	} else if p.sold++; p.sold == p.cfg.Stock {
		p.soldAt = p.now
	}
	if p.cfg.Crowd.Pool == 0 {
		return
	}
	if next, ok := p.site.release(); ok {
		p.plan(next, buys, p.hold(next))
	}
}

func (p *play) luck(i int32) luck { return luck{p.cfg.Seed, uint64(i), 11} } //nolint:gosec // i counts from 0

// promote is one tick of the loop: the real law, and the line's own cap.
func (p *play) promote(tick int64) {
	open := p.now >= ms(p.cfg.Crowd.Early) && !p.soldOut()
	if open && p.opened < 0 {
		p.opened = p.now
		p.line.open(p.now)
	}
	for i := range p.paces {
		p.pace(tick, i, open)
	}
	p.tell(tick)
}

// pace is one tick of a lane.
func (p *play) pace(tick int64, i int, open bool) {
	of, l := &p.paces[i], &p.line.lanes[i]
	sig := p.site.signals()
	sig.Tick, sig.Open, sig.Unserved = tick+1, open, of.unserved
	sig.Burst = p.cfg.Settings.Burst > 0 && open && p.now-p.opened < 1000
	sig.Asked, sig.Given, sig.Show = of.asked, of.given, of.turns.Show(p.line.came, p.line.missed)
	sig.Peers = p.peers(i)
	d, state := admission.Decide(sig, of.limits, of.state)
	of.decision, of.state, of.asked, of.given, of.unserved = d, state, d.N, 0, 0
	if d.N > 0 && l.waiting > 0 {
		var held string
		of.given, held = p.line.promote(i, d.N, p.now, p.admit)
		if held == "rate_cap" {
			of.unserved = max(0, d.N-of.given)
		}
	}
	of.outlook.Look(p.now, open && l.waiting > 0)
}

// peers is the mean rate of the lanes that load the same site by law target with this
// one, or 0; package admission's loop shares it out so.
func (p *play) peers(i int) float64 {
	sum, n := 0.0, 0
	for k := range p.paces {
		of := &p.paces[k]
		held := of.decision.Reason == admission.ReasonTarget || of.decision.Reason == admission.ReasonBusy || of.decision.Reason == admission.ReasonRecovering
		switch {
		case of.target && held && p.line.lanes[k].waiting > 0:
			sum, n = sum+of.decision.RatePerS, n+1
		case k == i:
			return 0
		}
	}
	if n < 2 {
		return 0
	}
	return sum / float64(n)
}

// admit is somebody's turn.
func (p *play) admit(i int32) {
	who := p.line.people[i]
	wait := p.now - who.joined
	p.out.waits.add(wait)
	p.ways[p.of[i]].waits.add(wait)
	p.out.lanes[who.lane].waits.add(wait)
	p.out.Admitted++
	p.paces[who.lane].outlook.Admit(p.now, waitroom.Seq(p.line.lanes[who.lane].front)+1)
	if mine := p.luck(i); mine.draw(0) >= p.cfg.Crowd.NoShows {
		p.plan(i, comes, 200+mine.wait(1, 3*time.Second))
	}
}
