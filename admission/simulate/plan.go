package simulate

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// Need is what an operator knows of a site.
type Need struct {
	// Pool is its number of connections, and Purchase how long one purchase holds one.
	Pool     int
	Purchase time.Duration
	// Target is the share of the connections that shall be in use.
	Target float64
	// NoShows is the share who are let in and never come, Buy that of the others who buy.
	NoShows, Buy float64
	// Inside is the time from coming in to leaving, on average.
	Inside time.Duration
}

// Plan is what to set.
type Plan struct {
	// RatePerS is how many to let in a second, MaxActive how many may be inside.
	RatePerS  float64 `json:"rate_per_s"`
	MaxActive int     `json:"max_active"`
	// PurchasesPerS is what the site serves at that, and FullPerS with every
	// connection in use.
	PurchasesPerS float64 `json:"purchases_per_s"`
	FullPerS      float64 `json:"full_per_s"`
}

// MakePlan goes by Little's law: people a second = connections ÷ seconds each. Who
// does not come and who does not buy needs no connection, so more may be let in.
func MakePlan(n Need, claim time.Duration) (Plan, error) {
	switch {
	case n.Pool < 1 || n.Pool > 1_000_000:
		return Plan{}, errors.New("connections: must be 1 to 1000000")
	case n.Purchase <= 0 || n.Purchase > time.Hour:
		return Plan{}, errors.New("purchase: must be above 0 and at most 1h")
	case !(n.Target > 0 && n.Target <= 1):
		return Plan{}, errors.New("target: must be above 0 and at most 1")
	case !(n.NoShows >= 0 && n.NoShows < 1):
		return Plan{}, errors.New("no-shows: must be 0 or more and below 1")
	case !(n.Buy > 0 && n.Buy <= 1):
		return Plan{}, errors.New("buy: must be above 0 and at most 1")
	case n.Inside < 0 || n.Inside > 24*time.Hour:
		return Plan{}, errors.New("inside: must be 0 to 24h")
	}
	full := float64(n.Pool) / n.Purchase.Seconds()
	p := Plan{FullPerS: round(full, 3), PurchasesPerS: round(full*n.Target, 3)}
	p.RatePerS = round(full*n.Target/n.Buy/(1-n.NoShows), 2)
	// Those inside, and the turns that nobody uses until their claim ends; a fifth more
	// for the moments when more come at once.
	stay := max(n.Inside, n.Purchase).Seconds()
	inside := p.RatePerS * ((1-n.NoShows)*stay + n.NoShows*claim.Seconds())
	p.MaxActive = int(math.Ceil(inside * 1.2))
	return p, nil
}

// Write says what to set and why.
func (p Plan) Write(w io.Writer, n Need) error {
	_, err := fmt.Fprintf(w, "set rate_per_s: %v and max_active: %d\n\n"+
		"%d connections ÷ %v a purchase are %.2f purchases a second with every connection in use,\n"+
		"and %.2f at %.0f %%. %.0f %% of those let in come, and %.0f %% of them buy: let in %v a second.\n"+
		"law target finds that rate by itself, and another when the purchase takes longer:\n\n"+
		"  rate_per_s: %v\n  load: {law: target, target: %v}\n",
		p.RatePerS, p.MaxActive, n.Pool, n.Purchase, p.FullPerS, p.PurchasesPerS, 100*n.Target, 100*(1-n.NoShows), 100*n.Buy, p.RatePerS,
		round(p.RatePerS*2, 1), n.Target)
	return err
}
