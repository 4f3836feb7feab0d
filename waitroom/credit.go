package waitroom

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"
)

// A credit is what somebody inside gets whom the service itself failed: the right
// to come in once more. It is signed, so that it can be given while every store is
// away, and bound to the event, the person and the turn that went wrong. It is
// base64url (no padding) of
//
//	version ‖ uvarint end (s) ‖ uvarint size ‖ jti ‖ uvarint size ‖ subject ‖ event ‖ mac (16 bytes)
const (
	creditVersion = 1
	// lateVersion is a credit for a turn whose claim time was over: it was good only if
	// somebody had come in with it.
	lateVersion   = 2
	creditLongest = 2048 // characters
	// creditLife is how long a credit is good. Its end is by the clock of the node that
	// gives it; clocks that differ by seconds do not matter for an hour.
	creditLife = time.Hour
)

// credit is what a credit says.
type credit struct {
	event   EventID
	jti     string
	subject string // the entry's id, or the site's own sub
	end     time.Time
	late    bool // the turn counts only if it was entered
}

func (r receipts) creditMAC(key, payload []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte("waitroom credit\x00"))
	m.Write(payload)
	return m.Sum(nil)[:receiptMAC]
}

func (r receipts) signCredit(c credit) string {
	version := byte(creditVersion)
	if c.late {
		version = lateVersion
	}
	b := binary.AppendUvarint([]byte{version}, uint64(max(0, c.end.Unix())))
	for _, part := range []string{c.jti, c.subject} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	b = append(b, c.event...)
	return base64.RawURLEncoding.EncodeToString(append(b, r.creditMAC(r.keys[0], b)...))
}

// readCredit verifies a credit, but for its end: ErrTokenInvalid unless we made it.
func (r receipts) readCredit(token string) (credit, error) {
	invalid := func(what string) (credit, error) {
		return credit{}, fmt.Errorf("credit: %s: %w", what, ErrTokenInvalid)
	}
	b, ok := decodeToken(token)
	if !ok || len(token) > creditLongest || len(b) <= receiptMAC {
		return invalid("form")
	}
	payload, mac := b[:len(b)-receiptMAC], b[len(b)-receiptMAC:]
	good := false
	for _, k := range r.keys {
		good = hmac.Equal(r.creditMAC(k, payload), mac) || good
	}
	if !good || payload[0] != creditVersion && payload[0] != lateVersion {
		return invalid("signature")
	}
	end, n := binary.Uvarint(payload[1:])
	if n <= 0 || end >= seqLimit {
		return invalid("end")
	}
	rest := payload[1+n:]
	var parts [2]string
	for i := range parts {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > creditLongest || n+int(size) > len(rest) {
			return invalid("parts")
		}
		parts[i], rest = string(rest[n:n+int(size)]), rest[n+int(size):]
	}
	return credit{
		event: EventID(rest), jti: parts[0], subject: parts[1], end: time.Unix(int64(end), 0), late: payload[0] == lateVersion,
	}, nil
}

// Credit is a front-of-line credit for the holder of a verified pass whom the service
// failed. It is good for an hour, and one pass's credits count once together. Of a pass
// whose claim time is over it is good only if its turn had begun.
func (l *Line) Credit(p Pass) string {
	return l.signer.signCredit(credit{event: p.Event, jti: p.JTI, subject: p.Subject, end: time.Now().Add(creditLife), late: p.Expired})
}

// ReadCredit verifies a credit without asking the store, and tells the turn that it
// makes good for. Errors: ErrTokenInvalid, and ErrWrongEvent for one of another event.
func (l *Line) ReadCredit(event EventID, token string) (jti string, err error) {
	c, err := l.signer.readCredit(token)
	if err == nil && c.event != event {
		err = fmt.Errorf("credit for %s: %w", event, ErrWrongEvent)
	}
	return c.jti, err
}

// MakeGood lets the holder of a credit in: outside the rate, inside max_active, once.
// In mode instant the new token takes the place of the one that bought nothing in the
// quota, or needs one that is free; there ErrSoldOut says that nothing is left to buy,
// and a quota that nothing returns to gives no second token (ErrWrongMode).
// While a turn of theirs still runs, the answer is that one, and the credit stays good.
// When the room is full, the next place that gets free is kept for whoever asks again
// within 15 s. The caller must have made sure that the turn bought nothing. Errors:
// ErrTokenRequired (nobody says who they are), ErrTokenInvalid (also somebody else's
// credit), ErrWrongEvent, ErrTokenExpired, ErrUsed, ErrRevoked, ErrFull, ErrNotOpen,
// ErrClosed, ErrWrongMode, ErrNoEvent, ErrUnavailable.
func (l *Line) MakeGood(ctx context.Context, req JoinRequest, token string) (Place, error) {
	p, err := l.makeGood(ctx, req, token)
	if err != nil {
		return Place{}, fmt.Errorf("make good in %s: %w", req.Event, err)
	}
	return p, nil
}

func (l *Line) makeGood(ctx context.Context, req JoinRequest, token string) (Place, error) {
	if _, err := l.ReadCredit(req.Event, token); err != nil {
		return Place{}, err
	}
	cr, err := l.signer.readCredit(token)
	if err != nil {
		return Place{}, err
	}
	who := l.whoJoins(req)
	switch {
	case who.fresh:
		return Place{}, ErrTokenRequired
	case who.subject == "" && string(who.entry) != cr.subject, who.subject != "" && who.subject != cr.subject:
		return Place{}, fmt.Errorf("somebody else's credit: %w", ErrTokenInvalid)
	}
	r, err := l.call(ctx, scriptCredit, req.Event, []string{
		l.keys.log(req.Event), l.keys.owed(req.Event), l.keys.credited(req.Event, cr.jti), l.keys.issued(req.Event), l.keys.archive(req.Event), l.keys.party(req.Event),
	},
		&given{seqs: l.highest(req.Event)}, string(who.entry), cr.jti, strconv.FormatInt(cr.end.UnixMilli(), 10),
		base64.RawURLEncoding.EncodeToString([]byte(who.subject)), newID(), map[bool]string{true: "late"}[cr.late])
	if err != nil {
		return Place{}, err
	}
	switch r.outcome { //nolint:exhaustive // the outcomes of credit.lua; the rest is odd
	case outcomeOK:
		if err := r.want(1); err != nil {
			return Place{}, err
		}
		g, err := parseGrant(req.Event, r.rest[0])
		if err != nil {
			return Place{}, err
		}
		l.saw(req.Event, g.Seq)
		l.admitted(req.Event, []Grant{g})
		if g.Entry != who.person() || who.member != "" { // a party's, which the store tells as whose it is
			p, err := l.poll(ctx, req.Event, who.placeCall)
			p.Created = true
			return p, err
		}
		return Place{
			Event: req.Event, Entry: who.entry, Seq: g.Seq, State: EntryAdmitted, Created: true, Grant: g,
			Receipt: l.signer.sign(receipt{Event: req.Event, Entry: who.entry, Seq: g.Seq, Mobile: who.mobile}),
		}, nil
	case outcomeAlive:
		if err := r.want(3); err != nil {
			return Place{}, err
		}
		if r.rest[2] != string(who.person()) {
			return l.poll(ctx, req.Event, who.placeCall)
		}
		return l.place(req.Event, who.placeCall, placeReply("g "+r.rest[0]+" "+r.rest[1]))
	case outcomeKnown:
		return Place{}, ErrUsed
	case outcomeExpired:
		return Place{}, ErrTokenExpired
	case outcomeRevoked:
		return Place{}, ErrRevoked
	case outcomeSoldOut:
		return Place{}, ErrSoldOut
	case outcomeFull:
		return Place{}, ErrFull
	case outcomeNotOpen:
		return Place{}, ErrNotOpen
	case outcomeClosed:
		return Place{}, ErrClosed
	case outcomeWrongMode:
		return Place{}, ErrWrongMode
	default:
		return Place{}, r.odd()
	}
}
