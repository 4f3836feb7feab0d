package waitroom

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// A party's code is 10 characters that are told apart when read aloud: no 0, O, 1, I or L.
// There are 31^10, or 8 × 10^14, of them. Whoever guesses from a thousand addresses at the
// limit of wrong codes (ten a minute each, web/limit) tries 14 million a day, and where
// 100,000 parties are open finds one of them in 560 days; an open lobby lasts hours.
const (
	partyCodeLength   = 10
	partyCodeAlphabet = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"
)

// The bounds of PartySettings.Size.
const (
	smallestParty = 2
	largestParty  = 8
)

// PartyRequest is one person's, of their party or to be of one.
type PartyRequest struct {
	JoinRequest
	// PartyCode is the code of the party to join.
	PartyCode string
}

// Party is what its members are told of it.
type Party struct {
	// Place is the party's, with this member's receipt.
	Place Place
	// Code brings friends in, as long as the lobby is open. It is a secret of the members.
	Code string
}

// MakeParty makes a party of a person's place: its sequence becomes the party's. Whoever
// is in one already gets that. Errors: ErrTokenRequired (nobody says who they are),
// ErrNoEntry (there is no place to make it of), ErrNotOpen, ErrLobbyOver, ErrWrongMode (the
// event has no parties), ErrBlocked, ErrNoEvent, ErrUnavailable.
func (l *Line) MakeParty(ctx context.Context, req PartyRequest) (Party, error) {
	id := newEntry()
	return l.party(ctx, req, "make", string(id), l.codeHash(req.Event, l.partyCode(req.Event, id)))
}

// JoinParty makes a person a member of the party with the code; the place that they had
// is given up in the same step. Whoever is in it already stays so. Errors as MakeParty's,
// and ErrNoParty, ErrPartyFull, ErrInParty (they are in another one), *NotEligibleError,
// *InvalidError (what can be no code).
func (l *Line) JoinParty(ctx context.Context, req PartyRequest) (Party, error) {
	plain, _ := plainCode(req.PartyCode)
	if len(plain) != partyCodeLength || strings.Trim(plain, partyCodeAlphabet) != "" {
		return Party{}, &InvalidError{Fields: []FieldError{{
			Field: "code", Detail: fmt.Sprintf("must be %d letters and digits, none of them 0, O, 1, I or L", partyCodeLength),
		}}}
	}
	chosen := chosen{groups: req.Groups}
	return l.party(ctx, req, "join", newID(), l.codeHash(req.Event, plain), chosen.arg())
}

// Party is the party in which a person is. Errors as MakeParty's, and ErrNoParty.
func (l *Line) Party(ctx context.Context, req PartyRequest) (Party, error) {
	return l.party(ctx, req, "see", newID())
}

// LeaveParty ends a person's part in their party. It goes on with the others, with the
// longest-standing of them as its buyer where the buyer left before it entered, and ends
// with its last member. Whoever is in none has nothing to leave. Errors: ErrTokenRequired, ErrWrongMode,
// ErrBlocked, ErrNoEvent, ErrUnavailable.
func (l *Line) LeaveParty(ctx context.Context, req PartyRequest) error {
	_, err := l.party(ctx, req, "leave", newID())
	return err
}

// BuyForParty makes a person the buyer of their party. A token that the one before got is
// revoked in the same step. Errors as Party's, and ErrUsed: the party has entered.
func (l *Line) BuyForParty(ctx context.Context, req PartyRequest) (Party, error) {
	return l.party(ctx, req, "buy", newID())
}

// party is the one caller of party.lua. Where the store has lost a party's code, its
// members bring it back.
func (l *Line) party(ctx context.Context, req PartyRequest, what, id string, more ...string) (Party, error) {
	p, listed, err := l.askParty(ctx, req, what, id, more...)
	if err == nil && !listed && p.Place.Party != nil {
		p, _, err = l.askParty(ctx, req, "list", newID(), l.codeHash(req.Event, p.Code))
	}
	if err != nil {
		return Party{}, fmt.Errorf("%s a party in %s: %w", what, req.Event, err)
	}
	return p, nil
}

func (l *Line) askParty(ctx context.Context, req PartyRequest, what, id string, more ...string) (p Party, listed bool, err error) {
	who := l.whoJoins(req.JoinRequest)
	if who.fresh {
		return Party{}, false, ErrTokenRequired
	}
	args := []any{what, who.placeCall.arg(), id}
	for _, m := range more {
		args = append(args, m)
	}
	r, err := l.call(ctx, scriptParty, req.Event, []string{l.keys.codes(req.Event), l.keys.party(req.Event)}, args...)
	if err != nil {
		return Party{}, false, err
	}
	switch r.outcome { //nolint:exhaustive // the outcomes of party.lua; the rest is odd
	case outcomeOK:
		if err := r.want(2); err != nil {
			return Party{}, false, err
		}
		place, err := l.place(req.Event, who.placeCall, placeReply(r.rest[0]))
		if err != nil {
			return Party{}, false, err
		}
		l.saw(req.Event, place.Seq)
		place.Created = what == "make" && string(place.Entry) == id
		return Party{Place: place, Code: l.partyCode(req.Event, place.Entry)}, r.rest[1] == "1", nil
	case outcomeLeft:
		if what == "leave" {
			return Party{}, false, nil
		}
		return Party{}, false, ErrNoParty
	case outcomeRefused:
		if err := r.want(1); err != nil {
			return Party{}, false, err
		}
		if _, err := parsePlace(req.Event, who.person(), placeReply(r.rest[0])); err != nil {
			return Party{}, false, err
		}
		return Party{}, false, r.odd()
	}
	if known, ok := partyRefusals[r.outcome]; ok {
		return Party{}, false, known
	}
	return Party{}, false, r.odd()
}

var partyRefusals = map[outcome]error{
	outcomeNoEntry: ErrNoEntry, outcomeUnknown: ErrNoParty, outcomeExists: ErrInParty, outcomeFull: ErrPartyFull,
	outcomeNotOpen: ErrNotOpen, outcomeClosed: ErrLobbyOver, outcomeUsed: ErrUsed, outcomeWrongMode: ErrWrongMode,
}

// partyCode is the code of a party. It follows from the party's entry, by a key, so that
// the store needs none, and one that has lost it has the same again.
func (l *Line) partyCode(event EventID, entry EntryID) string {
	m := hmac.New(sha256.New, l.cfg.SubjectKey)
	m.Write([]byte("party\x00" + string(event) + "\x00" + string(entry)))
	code := make([]byte, 0, partyCodeLength+1)
	const fair = 256 - 256%len(partyCodeAlphabet) // bytes from here on would make some characters likelier
	for block := m.Sum(nil); len(code) < partyCodeLength; block = m.Sum(nil) {
		for _, b := range block {
			if int(b) < fair && len(code) < partyCodeLength {
				code = append(code, partyCodeAlphabet[int(b)%len(partyCodeAlphabet)])
			}
		}
		m.Write(block)
	}
	return string(slices.Insert(code, partyCodeLength/2, '-'))
}

// call is what the store is asked about a receipt's holder.
func (rc receipt) call() placeCall {
	return placeCall{entry: rc.Entry, member: rc.Member, seq: rc.Seq, mobile: rc.Mobile}
}

// person is whom a call speaks for.
func (c placeCall) person() EntryID { return cmp.Or(c.member, c.entry) }

// parseMember reads "entry members buys answer", as in_party of parties.lua writes it.
func parseMember(event EventID, of string) (Place, error) {
	parts := strings.SplitN(of, " ", 4)
	if len(parts) < 4 || parts[2] != "0" && parts[2] != "1" || strings.HasPrefix(parts[3], "p ") || !isEntry(parts[0]) {
		return Place{}, unavailable(fmt.Errorf("%w: %q", errReply, of))
	}
	n, err := numbers(parts[1])
	if err != nil || n[0] < 1 || n[0] > largestParty {
		return Place{}, unavailable(fmt.Errorf("%w: %q", errReply, of))
	}
	p, err := parsePlace(event, EntryID(parts[0]), placeReply(parts[3]))
	if err != nil {
		return Place{}, err
	}
	p.Party = &Membership{Members: int(n[0]), Buys: parts[2] == "1"}
	if !p.Party.Buys {
		p.Grant.JTI, p.Grant.Subject = "", ""
	}
	return p, nil
}

func isEntry(s string) bool {
	b, err := base64.RawURLEncoding.DecodeString(s)
	return err == nil && len(b) == entryBytes
}

// gone are who left the line without a grant, and did not only move into a party.
func (r feedRecord) gone() []Departure {
	if len(r.parties) == 0 {
		return r.departed
	}
	return slices.DeleteFunc(slices.Clone(r.departed), func(d Departure) bool {
		return slices.ContainsFunc(r.parties, func(c change) bool { return c.member == d.Entry })
	})
}

// whoChanged are the parties and the people of some changes.
func whoChanged(changes []change) []EntryID {
	var who []EntryID
	for _, c := range changes {
		for _, e := range []EntryID{c.party, c.member} {
			if e != "" && !slices.Contains(who, e) {
				who = append(who, e)
			}
		}
	}
	return who
}

// partyFaults refuses parties where there is no draw to share a place of.
func (s Settings) partyFaults(d *decoder) {
	if s.Party.Size == 0 {
		return
	}
	if s.Party.Size < smallestParty || s.Party.Size > largestParty {
		d.fault("party.size", "must be %d to %d, or 0 for no parties", smallestParty, largestParty)
	}
	if s.Order != OrderDraw || s.Mode != ModeQueue {
		d.fault("party", "is for order draw with mode queue: elsewhere nobody waits for their friends")
	}
}
