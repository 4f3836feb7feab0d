package waitroom

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// EnqueueRequest asks for a number of an event with mode buffered.
type EnqueueRequest struct {
	JoinRequest
	// RequestID is the caller's idempotency key. Who has a receipt or a subject is that
	// person, whatever the key; of all others the same key is one person and one number,
	// since a try whose answer was lost has nothing else to be known by. So keys have to
	// be random, as those of our pages are. Empty: one is made.
	RequestID string
}

// Numbering is where somebody's request for a number stands.
type Numbering struct {
	Event     EventID
	Entry     EntryID
	RequestID string
	// Receipt is the signed place token: who asked, and nothing of when.
	Receipt string
	// Seq is the number, from 1 on; 0 while it is not known.
	Seq int64
	// Winner is true for a number of the event's winners.
	Winner bool

	unsafe bool // nobody knows whether the queue outside of the store has it
}

// Result is somebody's number, as every node is told of it.
type Result struct {
	Entry  EntryID
	Seq    int64
	Winner bool
}

// QueuedRequest is a request that waits to be numbered.
type QueuedRequest struct {
	Record  string // of the queue, for Numbered
	Entry   EntryID
	Request string
	Subject string // the site's own sub, or the entry's id
}

// RequestQueue is a queue outside of the store. Put returns when the request is safe
// there; the same one again is harmless. Whoever numbers reads that queue, too, and
// tells the line by Numbered with the record Outside. Forget drops all of an event that
// is deleted. Errors: ErrBusy for a full queue.
type RequestQueue interface {
	Put(ctx context.Context, event EventID, r QueuedRequest) error
	Forget(ctx context.Context, event EventID) error
}

// Outside is the record of a request that waits in another queue than the store's.
const Outside = "-"

// Before a request's id: enqueue.lua says by unsure that the request is perhaps not in
// the queue outside of the store, and is told by inQueue that it is. Until then it
// counts as not made: whoever was refused, and asks where they stand, is not told to
// wait for a number that nobody would give them.
const (
	unsure  = "?"
	inQueue = "+"
)

// mostQueued bounds the requests of an event that wait for a number: about 150 bytes
// of the store each. At the bound new ones are refused with ErrBusy.
const mostQueued = 1_000_000

// enqueueCall is one person's part of an enqueue batch.
type enqueueCall struct {
	entry            EntryID
	request, subject string
	chosen
}

// Enqueue puts a request for a number into the queue, or finds the one that the
// person has. Calls at the same time go to the store together. Errors: ErrWrongMode,
// ErrNoEvent, ErrNotOpen, ErrClosed, ErrBlocked, *NotEligibleError, ErrBusy,
// ErrUnavailable.
func (l *Line) Enqueue(ctx context.Context, req EnqueueRequest) (Numbering, error) {
	c := enqueueCall{request: req.RequestID, subject: "-"}
	if c.request == "" {
		c.request = newID()
	}
	who := l.whoJoins(req.JoinRequest)
	if who.fresh && req.RequestID != "" { // a client without cookies that asks again is the same person
		who.entry = l.entryOf(req.Event, "request\x00"+req.RequestID)
	}
	c.entry, c.chosen = who.entry, who.chosen
	if who.subject != "" {
		c.subject = base64.RawURLEncoding.EncodeToString([]byte(who.subject))
	}
	n, err := l.enqueue(ctx, req.Event, c)
	if who.isHolder(err) {
		c.entry = who.entry
		n, err = l.enqueue(ctx, req.Event, c)
	}
	if err != nil {
		return Numbering{}, fmt.Errorf("enqueue in %s: %w", req.Event, err)
	}
	n.Receipt = l.signer.sign(receipt{Event: req.Event, Entry: c.entry, Mobile: who.mobile})
	if l.cfg.Requests == nil || n.Seq > 0 {
		return n, nil
	}
	// Also who waits already: a queue that was restored from a copy may have lost them.
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	q := QueuedRequest{Entry: n.Entry, Request: n.RequestID, Subject: cmp.Or(who.subject, string(n.Entry))}
	if err := l.cfg.Requests.Put(ctx, req.Event, q); err != nil {
		if !errors.Is(err, ErrBusy) {
			err = unavailable(err)
		}
		return Numbering{}, fmt.Errorf("enqueue in %s: %w", req.Event, err)
	}
	if n.unsafe {
		c.request = inQueue + n.RequestID
		if _, err = l.enqueue(ctx, req.Event, c); err != nil {
			return Numbering{}, fmt.Errorf("enqueue in %s: %w", req.Event, err)
		}
		n.unsafe = false
	}
	return n, nil
}

func (l *Line) enqueue(ctx context.Context, event EventID, c enqueueCall) (Numbering, error) {
	r, err := l.queues.do(ctx, event, c)
	if err != nil {
		return Numbering{}, err
	}
	return parseNumbering(event, c.entry, r)
}

// numbering are the keys that both scripts take.
func (k keys) numbering(e EventID) []string { return []string{k.asks(e), k.queue(e), k.numbers(e)} }

// sendEnqueues is the one caller of enqueue.lua.
func (l *Line) sendEnqueues(ctx context.Context, event EventID, calls []enqueueCall) ([]placeReply, error) {
	args := make([]any, 0, 1+3*len(calls))
	most := mostQueued
	if l.cfg.Requests != nil {
		most = 0
	}
	args = append(args, most)
	for _, c := range calls {
		args = append(args, string(c.entry), c.request, c.subject+c.arg())
	}
	r, err := l.call(ctx, scriptEnqueue, event, append(l.keys.numbering(event), l.keys.codes(event)), args...)
	if err != nil {
		return nil, err
	}
	if r.outcome == outcomeWrongMode {
		return nil, ErrWrongMode
	}
	return placeReplies(r, len(calls))
}

// parseNumbering reads one answer of enqueue.lua.
func parseNumbering(event EventID, entry EntryID, r placeReply) (Numbering, error) {
	f := strings.Split(string(r), " ")
	n := Numbering{Event: event, Entry: entry}
	switch {
	case f[0] == "full":
		return n, fmt.Errorf("%d requests wait for a number: %w", mostQueued, ErrBusy)
	case f[0] == "q" && len(f) == 2:
		n.asked(f[1])
		return n, nil
	case f[0] == "n" && len(f) == 4:
		n.asked(f[1])
		return n, n.read(f[2] + " " + f[3])
	}
	_, err := parsePlace(event, entry, r)
	if err == nil {
		err = unavailable(fmt.Errorf("%w: %q", errReply, string(r)))
	}
	return n, err
}

// asked takes a request's id in.
func (n *Numbering) asked(request string) { n.RequestID, n.unsafe = strings.CutPrefix(request, unsure) }

// read takes "seq winner" in.
func (n *Numbering) read(text string) error {
	seq, winner, _ := strings.Cut(text, " ")
	v, err := numbers(seq)
	if err != nil {
		return err
	}
	n.Seq, n.Winner = v[0], winner == "1"
	return nil
}

// Numbering says where somebody's request stands, by receipt or by subject. Errors:
// ErrTokenInvalid, ErrWrongEvent, ErrNoEntry (nothing was asked
// for, or the queue did not take it), ErrUnavailable.
func (l *Line) Numbering(ctx context.Context, req JoinRequest) (Numbering, error) {
	n := Numbering{Event: req.Event, Receipt: req.Receipt}
	if req.Subject != "" {
		n.Entry = l.entryOf(req.Event, req.Subject)
	} else {
		rc, err := l.readReceipt(req.Event, req.Receipt)
		if err != nil {
			return n, fmt.Errorf("number: %w", err)
		}
		n.Entry = rc.Entry
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	pipe := l.rdb.Pipeline()
	asked := pipe.HGet(ctx, l.keys.asks(req.Event), string(n.Entry))
	number := pipe.HGet(ctx, l.keys.numbers(req.Event), string(n.Entry))
	_, _ = pipe.Exec(ctx) // each says its own error
	request, err := asked.Result()
	if err != nil {
		if errors.Is(err, redis.Nil) {
			return n, fmt.Errorf("number: %w", ErrNoEntry)
		}
		return n, fmt.Errorf("number: %w", unavailable(err))
	}
	n.asked(request)
	text, err := number.Result()
	switch {
	case errors.Is(err, redis.Nil) && n.unsafe:
		return n, fmt.Errorf("number: %w", ErrNoEntry)
	case errors.Is(err, redis.Nil):
		return n, nil
	case err != nil:
		return n, fmt.Errorf("number: %w", unavailable(err))
	}
	return n, n.read(text)
}

// Queued are the first requests of an event's queue, in the order of arrival; they
// stay until Numbered. Errors: ErrUnavailable.
func (l *Line) Queued(ctx context.Context, event EventID, limit int) ([]QueuedRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	msgs, err := l.rdb.XRangeN(ctx, l.keys.queue(event), "-", "+", int64(limit)).Result()
	if err != nil {
		return nil, fmt.Errorf("queue of %s: %w", event, unavailable(err))
	}
	qs := make([]QueuedRequest, len(msgs))
	for i, m := range msgs {
		text := func(name string) string { s, _ := m.Values[name].(string); return s }
		qs[i] = QueuedRequest{Record: m.ID, Entry: EntryID(text("e")), Request: text("r"), Subject: text("e")}
		if s := text("s"); s != "-" {
			b, err := base64.RawURLEncoding.DecodeString(s)
			if err != nil {
				return nil, fmt.Errorf("queue of %s: subject: %w", event, unavailable(err))
			}
			qs[i].Subject = string(b)
		}
	}
	return qs, nil
}

// NumberedRequest is a request of the queue with its number.
type NumberedRequest struct {
	Record string
	Result
}

// Numbered takes requests out of the queue and tells their people. Harmless if
// repeated. Errors: ErrNoEvent, ErrUnavailable.
func (l *Line) Numbered(ctx context.Context, event EventID, done []NumberedRequest) error {
	if len(done) == 0 {
		return nil
	}
	args := make([]any, 0, 4*len(done))
	for _, d := range done {
		winner := "0"
		if d.Winner {
			winner = "1"
		}
		args = append(args, d.Record, string(d.Entry), d.Seq, winner)
	}
	if _, err := l.call(ctx, scriptNumbered, event, l.keys.numbering(event), args...); err != nil {
		return fmt.Errorf("numbered in %s: %w", event, err)
	}
	return nil
}
