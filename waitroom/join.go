package waitroom

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// JoinRequest asks for a place in an event's line.
type JoinRequest struct {
	Event EventID
	// Receipt is the place token of somebody who has been here; empty, damaged or
	// foreign ones count as none.
	Receipt string
	// Subject is the site's own sub, where identity is jwt; else empty.
	Subject string
	// Mobile is true for a phone, whose grace is the longer one.
	Mobile bool
	// Groups are the event's groups that take this person (Settings.GroupsOf), and Code
	// is what they say to be of another; both are for events with groups.
	Groups []string
	Code   string
}

// joinCall is one person's part of a join batch.
type joinCall struct {
	placeCall
	chosen
	fresh bool // the entry's id was made for this call
}

// placeCall is one person's part of a poll batch.
type placeCall struct {
	entry   EntryID
	member  EntryID // the person, where the receipt's entry is a party's
	seq     Seq     // of the receipt; 0 without one
	mobile  bool
	subject string
}

// placeReply is what the store says of one entry, in the words of entries.lua.
type placeReply string

// joinReply is what the store says of one join: the sequence of a new place, or else
// its answer in words.
type joinReply struct {
	seq   Seq  // of a new place; 0 for anything else
	lobby bool // of a draw, where the new place is
	words placeReply
}

// arg is the call as join.lua and issue.lua take it.
func (c joinCall) arg() string {
	if !c.fresh {
		return c.placeCall.arg() + c.chosen.arg()
	}
	return c.run() + string(c.entry) + c.chosen.arg()
}

// run is what a run of made ids begins with that this one may be in.
func (c joinCall) run() string {
	if c.mobile {
		return "F"
	}
	return "f"
}

// joinArgs adds the calls as join.lua takes them to args: neighbours whose ids were made
// and who chose nothing are one argument, which is cheap to send and to read.
func joinArgs(args []any, calls []joinCall) []any {
	var run []byte
	end := func() {
		if len(run) > 0 {
			args = append(args, run)
			run = nil
		}
	}
	for i, c := range calls {
		if !c.fresh || !c.none() {
			end()
			args = append(args, c.arg())
			continue
		}
		if len(run) > 0 && run[0] != c.run()[0] {
			end()
		}
		if run == nil {
			run = append(make([]byte, 0, 1+len(c.entry)*(len(calls)-i)), c.run()...)
		}
		run = append(run, c.entry...)
	}
	end()
	return args
}

// arg is the call as place.lua takes it.
func (c placeCall) arg() string {
	kind := "k"
	if c.mobile {
		kind = "K"
	}
	subject := base64.RawURLEncoding.EncodeToString([]byte(c.subject))
	if c.member != "" {
		kind += string(c.entry) + "/" + string(c.member)
	} else {
		kind += string(c.entry)
	}
	return kind + " " + strconv.FormatInt(int64(c.seq), 10) + " " + subject
}

// Join gives a person a place at the end of the line, or the place that they have.
// Calls at the same time go to the store together. Errors: ErrNoEvent, ErrNotOpen,
// ErrClosed, ErrBlocked, *NotEligibleError, ErrBusy, ErrUnavailable.
func (l *Line) Join(ctx context.Context, req JoinRequest) (Place, error) {
	c := l.whoJoins(req)
	p, err := l.join(ctx, req.Event, c)
	if c.isHolder(err) {
		p, err = l.join(ctx, req.Event, c)
	}
	if errors.Is(err, errOtherLane) {
		c.placeCall = placeCall{entry: newEntry(), mobile: c.mobile}
		c.fresh = true
		p, err = l.join(ctx, req.Event, c)
	}
	if err != nil {
		return Place{}, fmt.Errorf("join %s: %w", req.Event, err)
	}
	p.Created = p.Created || c.fresh // the answer may be of a call that was sent again
	l.saw(req.Event, p.Seq)
	return p, nil
}

func (l *Line) join(ctx context.Context, event EventID, c joinCall) (Place, error) {
	r, err := l.joins.do(ctx, event, c)
	if err != nil {
		return Place{}, err
	}
	return l.joined(event, c, r)
}

// joined turns the store's answer to a join into a Place, or into the error that it means.
func (l *Line) joined(event EventID, c joinCall, r joinReply) (Place, error) {
	if r.seq == 0 {
		return l.place(event, c.placeCall, r.words)
	}
	p := Place{Event: event, Entry: c.entry, Seq: r.seq, State: EntryWaiting, Created: true}
	if r.lobby {
		p.State = EntryLobby
	}
	p.Receipt = l.signer.sign(receipt{Event: event, Entry: c.entry, Seq: r.seq, Mobile: c.mobile})
	return p, nil
}

// isHolder makes a stranger whose code was for one person that person: who has the
// code, and nothing else to be known by, may have lost the answer of the first try.
func (c *joinCall) isHolder(err error) bool {
	e, ok := errors.AsType[*NotEligibleError](err)
	if !ok || e.holder == "" || !c.fresh {
		return false
	}
	c.entry, c.fresh = e.holder, false
	return true
}

// errOtherLane is whoever was in a lane behind the one that they join now: they join as
// somebody new.
var errOtherLane = errors.New("was in a lane behind this one")

// whoJoins is the entry that a request speaks for: the subject's, the receipt's, or
// a new one.
func (l *Line) whoJoins(req JoinRequest) joinCall {
	c := joinCall{placeCall: placeCall{mobile: req.Mobile, subject: req.Subject}, chosen: chosen{groups: req.Groups}}
	if req.Code != "" {
		c.code = l.codeHash(req.Event, req.Code)
	}
	if req.Subject != "" {
		c.entry = l.entryOf(req.Event, req.Subject)
	}
	if req.Receipt != "" {
		rc, err := l.readReceipt(req.Event, req.Receipt)
		if err == nil && (c.entry == "" || c.entry == rc.person()) {
			c.entry, c.member, c.seq = rc.Entry, rc.Member, rc.Seq
		}
	}
	if c.entry == "" {
		c.entry, c.fresh = newEntry(), true
	}
	return c
}

// Place says where the holder of a receipt stands. It renews the grace of somebody
// who is away, and puts a place back that the store has lost. A place that ended is
// an answer, not an error. Errors: ErrTokenInvalid, ErrWrongEvent, ErrNoEvent,
// ErrNoEntry, ErrBlocked, ErrBusy, ErrUnavailable.
func (l *Line) Place(ctx context.Context, event EventID, token string) (Place, error) {
	rc, err := l.readReceipt(event, token)
	if err != nil {
		return Place{}, fmt.Errorf("place: %w", err)
	}
	p, err := l.poll(ctx, event, rc.call())
	if rc.Seq == 0 && errors.Is(err, ErrNoEntry) { // whoever waits for a number has no place in a line
		n, err := l.Numbering(ctx, JoinRequest{Event: event, Receipt: token})
		if err != nil {
			return Place{}, fmt.Errorf("place in %s: %w", event, err)
		}
		p = Place{Event: event, Entry: rc.Entry, State: EntryLobby, Receipt: token}
		if n.Seq > 0 {
			p.Number = &Result{Entry: n.Entry, Seq: n.Seq, Winner: n.Winner}
		}
		return p, nil
	}
	return p, err
}

// PlaceOf says where one of the site's own subjects stands, as Place does.
func (l *Line) PlaceOf(ctx context.Context, event EventID, subject string) (Place, error) {
	return l.poll(ctx, event, placeCall{entry: l.entryOf(event, subject), subject: subject})
}

func (l *Line) poll(ctx context.Context, event EventID, c placeCall) (Place, error) {
	r, err := l.places.do(ctx, event, c)
	if err != nil {
		return Place{}, fmt.Errorf("place in %s: %w", event, err)
	}
	p, err := l.place(event, c, r)
	if err != nil {
		return Place{}, fmt.Errorf("place in %s: %w", event, err)
	}
	return p, nil
}

// sendJoins is the one caller of join.lua.
func (l *Line) sendJoins(ctx context.Context, event EventID, calls []joinCall) ([]joinReply, error) {
	args := joinArgs([]any{&given{seqs: l.highest(event)}}, calls)
	r, err := l.call(ctx, scriptJoin, event, []string{l.keys.codes(event), l.keys.party(event)}, args...)
	if err != nil {
		return nil, err
	}
	return joinReplies(r, len(calls))
}

// joinReplies gives each of n calls its answer.
func joinReplies(r reply, n int) ([]joinReply, error) {
	if r.outcome != outcomeOK {
		return nil, r.odd()
	}
	rs := make([]joinReply, 0, n)
	for _, s := range r.rest {
		run, isRun := strings.CutPrefix(s, "n ")
		if !isRun {
			rs = append(rs, joinReply{words: placeReply(s)})
			continue
		}
		run, lobby := strings.CutSuffix(run, " l")
		first, count, _ := strings.Cut(run, " ")
		ns, err := numbers(first, count)
		if err != nil || ns[0] < 1 || ns[0] >= seqLimit || ns[1] < 1 || ns[1] > int64(n-len(rs)) {
			return nil, unavailable(fmt.Errorf("%w: %q", errReply, s))
		}
		for i := range ns[1] {
			rs = append(rs, joinReply{seq: Seq(ns[0] + i), lobby: lobby})
		}
	}
	if len(rs) != n {
		return nil, unavailable(fmt.Errorf("%d answers to %d questions", len(rs), n))
	}
	return rs, nil
}

// sendPlaces is the one caller of place.lua.
func (l *Line) sendPlaces(ctx context.Context, event EventID, calls []placeCall) ([]placeReply, error) {
	args := make([]any, 0, len(calls))
	for _, c := range calls {
		args = append(args, c.arg())
	}
	r, err := l.call(ctx, scriptPlace, event, []string{l.keys.party(event)}, args...)
	if err != nil {
		return nil, err
	}
	return placeReplies(r, len(calls))
}

func placeReplies(r reply, n int) ([]placeReply, error) {
	if r.outcome != outcomeOK {
		return nil, r.odd()
	}
	if len(r.rest) != n {
		return nil, unavailable(fmt.Errorf("%d answers to %d questions", len(r.rest), n))
	}
	rs := make([]placeReply, n)
	for i, s := range r.rest {
		rs[i] = placeReply(s)
	}
	return rs, nil
}

// place turns the store's answer into a Place, or into the error that it means.
func (l *Line) place(event EventID, c placeCall, r placeReply) (Place, error) {
	p, err := parsePlace(event, c.person(), r)
	if err != nil {
		return Place{}, err
	}
	rc := receipt{Event: event, Entry: p.Entry, Seq: p.Seq, Mobile: c.mobile}
	if p.Party != nil {
		rc.Member = c.person()
	}
	p.Receipt = l.signer.sign(rc)
	return p, nil
}

var errReply = errors.New("damaged reply")

// parsePlace reads one answer of join.lua or place.lua about a person.
func parsePlace(event EventID, entry EntryID, r placeReply) (Place, error) {
	if of, party := strings.CutPrefix(string(r), "p "); party {
		return parseMember(event, of)
	}
	kind, rest, _ := strings.Cut(string(r), " ")
	p := Place{Event: event, Entry: entry}
	damaged := func() error { return unavailable(fmt.Errorf("%w: %q", errReply, string(r))) }
	switch kind {
	case "-":
		return Place{}, ErrNoEntry
	case "b":
		return Place{}, ErrBlocked
	case "not_open":
		return Place{}, ErrNotOpen
	case "closed":
		return Place{}, ErrClosed
	case "x":
		return Place{}, parseRefused(rest)
	case "c", "w", "r":
		seq, lobby := strings.CutSuffix(rest, " l")
		n, err := numbers(seq)
		if err != nil {
			return Place{}, damaged()
		}
		p.Seq, p.State, p.Created = Seq(n[0]), EntryWaiting, kind == "c"
		if lobby {
			p.State = EntryLobby
		}
		return p, nil
	case "e":
		state, seq, _ := strings.Cut(rest, " ")
		n, err := numbers(seq)
		if err != nil || state == "" {
			return Place{}, damaged()
		}
		p.Seq, p.State = Seq(n[0]), EntryState(state)
		return p, nil
	case "g":
		i := strings.LastIndexByte(rest, ' ')
		if i < 0 {
			return Place{}, damaged()
		}
		n, err := numbers(rest[i+1:])
		if err != nil {
			return Place{}, damaged()
		}
		g, err := parsePacked(event, string(entry), rest[:i], n[0])
		if err != nil {
			return Place{}, err
		}
		if g.State == "" {
			return Place{}, damaged()
		}
		p.Seq, p.State, p.Grant = g.Seq, g.State, g
		return p, nil
	}
	return Place{}, damaged()
}
