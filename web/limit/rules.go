package limit

import (
	"net/netip"
	"time"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// Call is the kind of a call.
type Call string

// The kinds of calls. Any other counts as Browse.
const (
	Join    Call = "join"    // takes a place, or asks for the one taken before
	Poll    Call = "poll"    // asks how the place is, also by opening a socket
	Booking Call = "booking" // reserves, pays, asks about it, gives back
	Issue   Call = "issue"   // takes a token in mode instant
	Guess   Call = "guess"   // has given a code that is none
	Browse  Call = "browse"  // everything else
)

// Request is one call, as far as a limit cares.
type Request struct {
	// Event is an event that exists, or "" for calls that belong to none. A name that
	// was not looked up would be a fresh bucket for whoever makes names up.
	Event string
	Call  Call
	// Person is the entry of a verified token, or "" for a stranger.
	Person string
	// Addr is where the call comes from; see ClientAddr. Callers without a valid
	// address share one bucket.
	Addr netip.Addr
	// Cleared says that the caller has just solved a challenge, for which they are
	// let through beyond their address's rule.
	Cleared bool
	// Challenge says that the event has a challenge with which a stranger who joins may
	// clear their address's rule.
	Challenge bool
}

// Verdict is what becomes of a call.
type Verdict struct {
	OK bool
	// RetryAfter is how long to wait after a refusal; 0 if OK.
	RetryAfter time.Duration
	// Which is the rule that refused, "" if OK: one of the constants below.
	Which string
}

// The rules that refuse. WhichAddress is the one that a challenge may lift.
const (
	WhichPerson      = "person"
	WhichPersonBurst = "person_burst"
	WhichAddress     = "address"
	WhichOffice      = "address_join" // joins from an address, at an event without a challenge
	WhichBooking     = "booking"
	WhichIssue       = "issue"
	WhichGuesses     = "guesses"
	WhichAway        = "away" // the cap of one process while the store is away
)

// Rules are an event's limits, read. A zero Rule is no limit.
type Rules struct {
	Person, PersonBurst, Address, Booking, Issue, Guesses waitroom.Rule
}

// ParseRules reads an event's settings; what is empty there has its default. The
// error is an *waitroom.InvalidError that names every wrong setting.
func ParseRules(s waitroom.LimitSettings) (Rules, error) {
	s = s.Defaults()
	var r Rules
	var faults []waitroom.FieldError
	for _, f := range []struct {
		field, text string
		rule        *waitroom.Rule
	}{
		{WhichPerson, s.Person, &r.Person},
		{WhichPersonBurst, s.PersonBurst, &r.PersonBurst},
		{WhichAddress, s.Address, &r.Address},
		{WhichBooking, s.Booking, &r.Booking},
		{WhichIssue, s.Issue, &r.Issue},
		{WhichGuesses, s.Guesses, &r.Guesses},
	} {
		var err error
		if *f.rule, err = waitroom.ParseRule(f.text); err != nil {
			faults = append(faults, waitroom.FieldError{Field: "limits." + f.field, Detail: err.Error()})
		}
	}
	if len(faults) > 0 {
		return Rules{}, &waitroom.InvalidError{Fields: faults}
	}
	return r, nil
}

// bucket names one count.
type bucket struct {
	event  string
	which  string
	person string     // of a known person
	addr   netip.Addr // of a stranger: the IPv4 address, or the first of the /64
}

// charge is what one call takes from one bucket.
type charge struct {
	bucket bucket
	rule   waitroom.Rule
}

// plan is what a call charges: the table in the package's comment.
func plan(r Request, rules Rules) []charge {
	var charges []charge
	add := func(which string, rule waitroom.Rule) {
		if rule == (waitroom.Rule{}) {
			return
		}
		b := bucket{event: r.Event, which: which, person: r.Person}
		if r.Person == "" {
			b.addr = Household(r.Addr)
		}
		charges = append(charges, charge{b, rule})
	}
	if r.Call == Guess {
		add(WhichGuesses, rules.Guesses)
		return charges
	}
	if r.Person == "" {
		switch joins := r.Call == Join || r.Call == Issue; {
		case r.Cleared:
		case joins && !r.Challenge:
			add(WhichOffice, forOffice(rules.Address))
		default:
			add(WhichAddress, rules.Address)
		}
		return charges
	}
	switch r.Call {
	case Booking:
		add(WhichBooking, rules.Booking)
	case Issue:
		add(WhichIssue, rules.Issue)
	case Join, Poll, Browse, Guess:
		fallthrough
	default:
		add(WhichPerson, rules.Person)
		add(WhichPersonBurst, rules.PersonBurst)
	}
	return charges
}

// faster is how much faster an address's joins come back where no challenge can tell an
// office from a flood. At 100/1m the room for 300 people is there after ten seconds; with
// the waiting page's own backoff all are in within 25 s (TestAnOfficeIsInWithinHalfAMinute;
// with 8 in place of 12 some need more than the 30 s that they are to have).
const faster = 12

// forOffice is the rule for joins from one address at an event without a challenge.
func forOffice(address waitroom.Rule) waitroom.Rule {
	address.Per /= faster
	return address
}

// Household is the address that stands for all that one subscriber has.
func Household(a netip.Addr) netip.Addr {
	const subscriber = 64
	a = a.Unmap().WithZone("")
	if !a.Is6() {
		return a
	}
	return netip.PrefixFrom(a, subscriber).Masked().Addr()
}

// refusal is a bucket's no.
type refusal struct {
	which string
	wait  time.Duration
}

// worst is the verdict on a call that these buckets refuse: all of them must have
// room again, so that the longest wait counts.
func worst(refusals []refusal) Verdict {
	v := Verdict{OK: true}
	for _, r := range refusals {
		if v.OK || r.wait > v.RetryAfter {
			v = Verdict{RetryAfter: r.wait, Which: r.which}
		}
	}
	return v
}
