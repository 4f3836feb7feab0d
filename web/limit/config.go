package limit

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Config is what the Limiter needs to know.
type Config struct {
	// Prefix starts the keys, after redis_rate's own "rate:". Default "wr".
	Prefix string
	// Exempt are addresses without limits, such as loopback on the embedded default.
	// A proxy that is not known to ClientAddr hides everybody behind its own address:
	// one that is exempt as well lifts the limits altogether. Default none.
	Exempt []netip.Prefix
	// Remember is how many buckets of a process are surely kept, at about 300 bytes
	// each; twice as many may be there. Default 50,000; at least 16.
	Remember int
	// CallTimeout is the longest that a call waits for the store. Default 250ms.
	CallTimeout time.Duration
	// AwayAfter is how many calls in a row the store must fail to count as away.
	// Default 3.
	AwayAfter int
	// AwayRetry is how often a store that is away is asked again. Default 1s.
	AwayRetry time.Duration
	// AwayPerS is how many calls a second one process lets through in all while the
	// store is away, and as many for booking. Default 1,000.
	AwayPerS int
}

const (
	defaultRemember    = 50_000
	leastRemember      = 16
	defaultCallTimeout = 250 * time.Millisecond
	defaultAwayAfter   = 3
	defaultAwayRetry   = time.Second
	defaultAwayPerS    = 1000
)

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, "wr")
	c.Remember = cmp.Or(c.Remember, defaultRemember)
	c.CallTimeout = cmp.Or(c.CallTimeout, defaultCallTimeout)
	c.AwayAfter = cmp.Or(c.AwayAfter, defaultAwayAfter)
	c.AwayRetry = cmp.Or(c.AwayRetry, defaultAwayRetry)
	c.AwayPerS = cmp.Or(c.AwayPerS, defaultAwayPerS)
	return c
}

// Validate names every wrong field at once.
func (c Config) Validate() error {
	var errs []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(c.Remember != 0 && c.Remember < leastRemember, "remember: %d is less than %d", c.Remember, leastRemember)
	wrong(c.CallTimeout < 0, "call-timeout: %v is negative", c.CallTimeout)
	wrong(c.AwayAfter < 0, "away-after: %d is negative", c.AwayAfter)
	wrong(c.AwayRetry < 0, "away-retry: %v is negative", c.AwayRetry)
	wrong(c.AwayPerS < 0, "away-per-s: %d is negative", c.AwayPerS)
	for _, p := range c.Exempt {
		// Addresses are compared unmapped.
		wrong(!p.IsValid() || p.Addr().Is4In6(), "exempt: %v is no prefix of IPv4 or IPv6 addresses", p)
	}
	return errors.Join(errs...)
}
