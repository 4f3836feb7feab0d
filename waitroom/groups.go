package waitroom

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// GroupSettings are some of an event's people, and when they may join. Exactly one of
// Claim, Codes and Default says who they are.
type GroupSettings struct {
	// Name is 1 to 32 characters of a-z, 0-9 and -.
	Name string `json:"name"`
	// Claim takes the people whose JWT of the site has all of these claims (at most 8;
	// text, numbers, true and false). A claim that is a list has what is one of its
	// elements. For identity jwt.
	Claim map[string]any `json:"claim,omitempty"`
	// Codes takes whoever gives a code of this group when they join (Line.AddCodes).
	Codes bool `json:"codes,omitempty"`
	// Default takes whomever no claim takes and who gives no code.
	Default bool `json:"default,omitempty"`
	// OpensAt and ClosesAt are the group's window: from the first moment and up to the
	// second its people may join. Without them it is the event's own time. Whoever has
	// joined keeps the place when the window ends.
	OpensAt  *time.Time `json:"opens_at,omitempty"`
	ClosesAt *time.Time `json:"closes_at,omitempty"`
	// Lane is where the group's people stand, in an event with lanes.
	Lane string `json:"lane,omitempty"`
}

const (
	mostGroups     = 64
	mostClaims     = 8
	longestClaim   = 128
	mostGroupNames = 256 // bytes: the names of groups that take one person
)

var groupNames = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// GroupsOf are the names of the groups that take somebody with these claims of the
// site's JWT (none: anonymous): those whose claim they have, or else the default ones.
// A code may add one to them.
func (s Settings) GroupsOf(claims map[string]any) []string {
	if len(s.Groups) == 0 {
		return nil
	}
	var names, rest []string
	for _, g := range s.Groups {
		switch {
		case g.Default:
			rest = append(rest, g.Name)
		case len(g.Claim) > 0 && g.has(claims):
			names = append(names, g.Name)
		}
	}
	if len(names) == 0 {
		return rest
	}
	return names
}

// ChooseLane is the groups of somebody who may choose a lane (empty: the first), in an
// event that has lanes and no groups; other events choose by the person's groups alone.
// A name that is no lane is an *InvalidError.
func (s Settings) ChooseLane(name string, groups []string) ([]string, error) {
	switch {
	case len(s.Lanes) == 0 && name != "":
		return nil, &InvalidError{Fields: []FieldError{{Field: "lane", Detail: "the event has no lanes"}}}
	case len(s.Lanes) == 0:
		return groups, nil
	case name != "" && s.laneIndex(name) == "":
		return nil, &InvalidError{Fields: []FieldError{{Field: "lane", Detail: "must be the name of one of the event's lanes"}}}
	case len(s.Groups) > 0:
		return groups, nil
	default:
		return []string{cmp.Or(name, s.Lanes[0].Name)}, nil
	}
}

// has tells whether claims have all that the group asks for.
func (g GroupSettings) has(claims map[string]any) bool {
	for name, want := range g.Claim {
		got, ok := claims[name]
		if !ok {
			return false
		}
		if list, is := got.([]any); is {
			ok = slices.ContainsFunc(list, func(v any) bool { return sameClaim(v, want) })
		} else {
			ok = sameClaim(got, want)
		}
		if !ok {
			return false
		}
	}
	return true
}

// sameClaim compares two values that are no lists and no objects; all others differ.
func sameClaim(a, b any) bool {
	switch a := a.(type) {
	case string:
		b, ok := b.(string)
		return ok && a == b
	case float64:
		b, ok := b.(float64)
		return ok && a == b
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	default:
		return false
	}
}

// groupFaults refuses groups that take nobody, or the same people at the same time.
func (s Settings) groupFaults(d *decoder) {
	if len(s.Groups) > mostGroups {
		d.fault("groups", "must be at most %d", mostGroups)
	}
	names := 0
	for i, g := range s.Groups {
		at := fmt.Sprintf("groups[%d]", i)
		if !groupNames.MatchString(g.Name) {
			d.fault(at+".name", "must be 1 to 32 characters of a-z, 0-9 and -")
		}
		names += len(g.Name) + 1
		g.takes(d, at, s.Identity)
		s.windowFaults(d, at, g)
		for j, other := range s.Groups[:i] {
			if other.Name == g.Name {
				d.fault(at+".name", "is there twice")
			}
			if g.samePeople(other) && g.overlaps(other) {
				d.fault(at+".opens_at", "overlaps the window of groups[%d], which takes the same people", j)
			}
		}
	}
}

// takes refuses a group that says in no way, or in two, who is in it.
func (g GroupSettings) takes(d *decoder, at, identity string) {
	ways := 0
	for _, is := range []bool{len(g.Claim) > 0, g.Codes, g.Default} {
		if is {
			ways++
		}
	}
	if ways != 1 {
		d.fault(at+".claim", "give exactly one of claim, codes and default")
	}
	if len(g.Claim) > 0 && identity != identityJWT {
		d.fault(at+".claim", "needs identity jwt")
	}
	if len(g.Claim) > mostClaims {
		d.fault(at+".claim", "must have at most %d claims", mostClaims)
	}
	for _, name := range slices.Sorted(maps.Keys(g.Claim)) {
		ok := name != "" && len(name) <= longestClaim
		switch v := g.Claim[name].(type) {
		case string:
			ok = ok && len(v) <= longestClaim
		case float64, bool:
		default:
			ok = false
		}
		if !ok {
			d.fault(at+".claim."+name, "must be text of at most %d bytes, a number, true or false", longestClaim)
		}
	}
}

// windowFaults refuses a window in which nobody could join.
func (s Settings) windowFaults(d *decoder, at string, g GroupSettings) {
	if g.OpensAt != nil && g.ClosesAt != nil && !g.ClosesAt.After(*g.OpensAt) {
		d.fault(at+".closes_at", "must be after opens_at")
	}
	if g.OpensAt != nil && s.ClosesAt != nil && !g.OpensAt.Before(*s.ClosesAt) {
		d.fault(at+".opens_at", "must be before the event's closes_at")
	}
	begins := s.OpensAt
	if s.LobbyOpensAt != nil {
		begins = s.LobbyOpensAt
	}
	if g.ClosesAt != nil && begins != nil && !g.ClosesAt.After(*begins) {
		d.fault(at+".closes_at", "must be after people may join the event")
	}
}

// samePeople tells whether two groups take the same people by what they say.
func (g GroupSettings) samePeople(other GroupSettings) bool {
	if g.Default || other.Default {
		return g.Default && other.Default
	}
	return len(g.Claim) > 0 && maps.EqualFunc(g.Claim, other.Claim, sameClaim)
}

func (g GroupSettings) overlaps(other GroupSettings) bool {
	before := func(a, b GroupSettings) bool { // a ends before b begins
		return a.ClosesAt != nil && b.OpensAt != nil && !a.ClosesAt.After(*b.OpensAt)
	}
	return !before(g, other) && !before(other, g)
}

// groupFields are the windows as eligible.lua reads them: "name opens closes lane;" for
// each, 0 for no bound. Where everybody chooses a lane, each is a group without a window.
func groupFields(s Settings) string {
	var b strings.Builder
	for _, g := range s.Groups {
		fmt.Fprintf(&b, "%s %d %d %s;", g.Name, millisOf(g.OpensAt), millisOf(g.ClosesAt), cmp.Or(s.laneIndex(g.Lane), "0"))
	}
	if len(s.Groups) == 0 {
		for i, l := range s.Lanes {
			fmt.Fprintf(&b, "%s 0 0 %d;", l.Name, i)
		}
	}
	return b.String()
}

func millisOf(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixMilli()
}

// chosen is by what somebody joins an event that has groups.
type chosen struct {
	groups []string // that take them, by their claims
	code   string   // as the store has it; empty: none was given
}

// none tells whether there is nothing to choose by.
func (c chosen) none() bool { return len(c.groups) == 0 && c.code == "" }

// arg is what stands behind a person in the arguments of scripts; nothing where there
// is nothing to choose by.
func (c chosen) arg() string {
	if c.none() {
		return ""
	}
	groups, code := strings.Join(c.groups, ","), c.code
	if groups == "" {
		groups = "-"
	}
	if code == "" {
		code = "-"
	}
	return " " + groups + " " + code
}

// parseRefused reads eligible.lua's refusal of somebody who may not join now.
func parseRefused(rest string) error {
	kind, rest, _ := strings.Cut(rest, " ")
	switch kind {
	case "wait":
		opens, now, _ := strings.Cut(rest, " ")
		n, err := numbers(opens, now)
		if err != nil {
			return err
		}
		return &NotEligibleError{Why: EarlyWindow, OpensAt: millis(n[0]), In: time.Duration(n[0]-n[1]) * time.Millisecond}
	case "over":
		return &NotEligibleError{Why: PastWindow}
	case "none":
		return &NotEligibleError{Why: NoGroup}
	case "code":
		return &NotEligibleError{Why: UnknownCode}
	case "turn":
		return &NotEligibleError{Why: PartyTurn}
	case "lane":
		return errOtherLane
	case "used":
		return &NotEligibleError{Why: UsedCode, holder: EntryID(strings.TrimSpace(rest))}
	default:
		return unavailable(fmt.Errorf("%w: %s", errReply, strconv.Quote(kind)))
	}
}
