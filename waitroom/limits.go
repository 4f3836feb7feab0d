package waitroom

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// LimitSettings say how often one caller may call, each as "60/1m" (so many in so
// long, all at once if they like) or "off".
type LimitSettings struct {
	// Person is one person's calls but those below. Default 60/1m.
	Person string `json:"person"`
	// PersonBurst is the most of these at once. Default 5/1s.
	PersonBurst string `json:"person_burst"`
	// Address is all calls from one address by people without a place. Default 100/1m.
	Address string `json:"address"`
	// Booking is one person's calls that reserve, pay and give back. Default 60/1m.
	Booking string `json:"booking"`
	// Issue is one person's calls for a token. Default 3/10s.
	Issue string `json:"issue"`
	// Guesses is wrong codes from one address, in an event with groups. Default 10/1m;
	// an address that has more has no code looked at for a while.
	Guesses string `json:"guesses"`
}

// Defaults fills what is empty with its default.
func (s LimitSettings) Defaults() LimitSettings {
	s.Person = cmp.Or(s.Person, "60/1m")
	s.PersonBurst = cmp.Or(s.PersonBurst, "5/1s")
	s.Address = cmp.Or(s.Address, "100/1m")
	s.Booking = cmp.Or(s.Booking, "60/1m")
	s.Issue = cmp.Or(s.Issue, "3/10s")
	s.Guesses = cmp.Or(s.Guesses, "10/1m")
	return s
}

func (s LimitSettings) faults(d *decoder) {
	for _, f := range []struct{ field, rule string }{
		{"limits.person", s.Person},
		{"limits.person_burst", s.PersonBurst},
		{"limits.address", s.Address},
		{"limits.booking", s.Booking},
		{"limits.issue", s.Issue},
		{"limits.guesses", s.Guesses},
	} {
		if _, err := ParseRule(f.rule); err != nil {
			d.fault(f.field, "%s", err)
		}
	}
}

// ParseLimits reads defaults of an installation, such as "person=120/1m" and
// "address=off"; what is not named stays empty. Errors name the limit.
func ParseLimits(pairs []string) (LimitSettings, error) {
	var s LimitSettings
	known := map[string]*string{
		"person": &s.Person, "person_burst": &s.PersonBurst, "address": &s.Address, "booking": &s.Booking, "issue": &s.Issue, "guesses": &s.Guesses,
	}
	for _, pair := range pairs {
		name, rule, _ := strings.Cut(pair, "=")
		field, ok := known[name]
		if !ok {
			return s, fmt.Errorf("%q is no limit: want one of %s, as in person=120/1m", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if _, err := ParseRule(rule); err != nil {
			return s, fmt.Errorf("%s %w", name, err)
		}
		*field = rule
	}
	return s, nil
}

// Rule is how often something may happen: N times in Per. The zero Rule is no limit.
type Rule struct {
	N   int
	Per time.Duration
}

const (
	mostCalls   = 1_000_000
	shortestPer = 100 * time.Millisecond
	longestPer  = 24 * time.Hour
	ruleOff     = "off"
)

var errRule = errors.New("must be a number of calls in a time, like 60/1m, or off")

// ParseRule reads "60/1m", or "off" as the zero Rule. The error is fit to stand
// behind the name of the setting.
func ParseRule(s string) (Rule, error) {
	if s == ruleOff {
		return Rule{}, nil
	}
	calls, period, _ := strings.Cut(s, "/")
	// Only digits: what Atoi takes beside them ("+60") nobody means.
	if strings.Trim(calls, "0123456789") != "" {
		return Rule{}, errRule
	}
	n, err := strconv.Atoi(calls)
	if err != nil {
		return Rule{}, errRule
	}
	per, err := time.ParseDuration(period)
	if err != nil {
		return Rule{}, errRule
	}
	if n < 1 || n > mostCalls {
		return Rule{}, fmt.Errorf("must allow 1 to %d calls", mostCalls)
	}
	if per < shortestPer || per > longestPer {
		return Rule{}, fmt.Errorf("must be for %s to %s", Duration(shortestPer), Duration(longestPer))
	}
	return Rule{N: n, Per: per}, nil
}

// String is the form that ParseRule reads.
func (r Rule) String() string {
	if r == (Rule{}) {
		return ruleOff
	}
	return strconv.Itoa(r.N) + "/" + Duration(r.Per).String()
}
