package waitroom

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// IssueRequest asks for a token of an event with mode instant.
type IssueRequest struct {
	Event EventID
	// Receipt, Subject and Mobile say who asks, as in JoinRequest.
	Receipt string
	Subject string
	Mobile  bool
	// Groups and Code are as in JoinRequest.
	Groups []string
	Code   string
	// Durable is the event's setting: the answer waits until a replica has it.
	Durable bool
}

// Issued is the answer to whoever has a token.
type Issued struct {
	Place
	// Rank is the number of the token: the n-th that the event gave out has n, and no
	// two have the same.
	Rank int64
}

const (
	// mostUnarchived bounds the tokens that wait for a database: about 150 bytes of
	// the store each. At the bound nothing is given out until some are archived.
	mostUnarchived = 1_000_000
	// mostIssues is the most asks that go in one call, where Config.Batch is not more.
	// A crowd that asks in one moment waits for each call in turn, and with appendfsync
	// always each call for the disk: 256 make that four times for 1,000 people.
	mostIssues = 256
	// replicaTimeout is how long an answer waits for a replica.
	replicaTimeout = 500 * time.Millisecond
)

// issueKey says which asks go together.
type issueKey struct {
	event   EventID
	durable bool
}

// Issue gives a person a token, or the one that they have: Place.Created is true
// for the call that gave it out. Calls at the same time go to the store together;
// each is one round trip. Errors: *ExhaustedError, ErrSoldOut, ErrWrongMode,
// ErrNoEvent, ErrNotOpen, ErrClosed, ErrBlocked, *NotEligibleError, ErrBusy,
// ErrUnavailable, ErrNotReplicated. With an ErrUnavailable nobody knows whether a token was given
// out; the Place then has a receipt all the same, with which the same person asks
// again.
func (l *Line) Issue(ctx context.Context, req IssueRequest) (Issued, error) {
	c := l.whoJoins(JoinRequest{
		Event: req.Event, Receipt: req.Receipt, Subject: req.Subject, Mobile: req.Mobile, Groups: req.Groups, Code: req.Code,
	})
	r, err := l.issues.do(ctx, issueKey{req.Event, req.Durable}, c)
	if err != nil {
		return l.unanswered(req.Event, c), fmt.Errorf("issue in %s: %w", req.Event, err)
	}
	got, err := parseIssued(req.Event, c.entry, r)
	if c.isHolder(err) {
		if r, err = l.issues.do(ctx, issueKey{req.Event, req.Durable}, c); err != nil {
			return l.unanswered(req.Event, c), fmt.Errorf("issue in %s: %w", req.Event, err)
		}
		got, err = parseIssued(req.Event, c.entry, r)
	}
	if err != nil {
		return Issued{}, fmt.Errorf("issue in %s: %w", req.Event, err)
	}
	got.Receipt = l.signer.sign(receipt{Event: req.Event, Entry: c.entry, Seq: got.Seq, Mobile: c.mobile})
	l.saw(req.Event, got.Seq)
	return got, nil
}

// unanswered is who asked, for the next time: a receipt without a sequence says
// only who it is.
func (l *Line) unanswered(event EventID, c joinCall) Issued {
	return Issued{Place: Place{
		Event: event, Entry: c.entry,
		Receipt: l.signer.sign(receipt{Event: event, Entry: c.entry, Seq: c.seq, Mobile: c.mobile}),
	}}
}

// sendIssues is the one caller of issue.lua.
func (l *Line) sendIssues(ctx context.Context, k issueKey, calls []joinCall) ([]placeReply, error) {
	args := make([]any, 0, 3+len(calls))
	args = append(args, newID(), &given{seqs: l.highest(k.event)}, mostUnarchived)
	for _, c := range calls {
		args = append(args, c.arg())
	}
	more := []string{l.keys.issued(k.event), l.keys.archive(k.event), l.keys.codes(k.event)}
	call := l.call
	if k.durable {
		call = l.callDurable
	}
	r, err := call(ctx, scriptIssue, k.event, more, args...)
	if err != nil {
		return nil, err
	}
	if r.outcome == outcomeWrongMode {
		return nil, ErrWrongMode
	}
	return placeReplies(r, len(calls))
}

// parseIssued reads one answer of issue.lua.
func parseIssued(event EventID, entry EntryID, r placeReply) (Issued, error) {
	kind, rest, _ := strings.Cut(string(r), " ")
	damaged := func() error { return unavailable(fmt.Errorf("%w: %q", errReply, string(r))) }
	switch kind {
	case "sold_out":
		return Issued{}, ErrSoldOut
	case "behind":
		return Issued{}, fmt.Errorf("%d tokens wait for a database: %w", mostUnarchived, ErrBusy)
	case "exhausted":
		ms, err := numbers(rest)
		if err != nil {
			return Issued{}, damaged()
		}
		return Issued{}, &ExhaustedError{Next: time.Duration(ms[0]) * time.Millisecond}
	case "i", "a", "u":
	default:
		_, err := parsePlace(event, entry, r)
		if err == nil {
			err = damaged()
		}
		return Issued{}, err
	}
	rank, rest, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseInt(rank, 10, 64)
	if err != nil {
		return Issued{}, damaged()
	}
	got := Issued{Rank: n, Place: Place{Event: event, Entry: entry}}
	switch kind {
	case "i":
		got.Created = true
		got.Grant, err = parseGrant(event, rest)
	case "a":
		var p Place
		p, err = parsePlace(event, entry, placeReply("g "+rest))
		got.Grant = p.Grant
	case "u":
		f := strings.Split(rest, " ")
		if len(f) != 5 {
			return Issued{}, damaged()
		}
		got.Grant, err = newGrant(event, string(entry), f[0], f[1], f[2], f[3], f[4])
		got.Grant.State = EntryCompleted
	}
	if err != nil {
		return Issued{}, err
	}
	got.Seq, got.State = got.Grant.Seq, got.Grant.State
	return got, nil
}

// Supply tells an event whether anything is left to buy, and every node hears of it
// (Event.SoldOut). When nothing is, whoever asks in mode instant hears ErrSoldOut, and an event whose OnSoldOut is CloseSoldOut
// closes for the reason sold_out, which everybody who waits is told. Harmless if
// repeated. Errors: ErrNoEvent, ErrUnavailable.
func (l *Line) Supply(ctx context.Context, event EventID, left bool) error {
	said := "0"
	if left {
		said = "1"
	}
	if _, err := l.call(ctx, scriptSupply, event, nil, said); err != nil {
		return fmt.Errorf("supply %s: %w", event, err)
	}
	return nil
}

// callDurable is call for what a replica must have before it is answered: script
// and wait go to one connection together. Errors as call's, and ErrNotReplicated.
func (l *Line) callDurable(ctx context.Context, s *redis.Script, event EventID, more []string, args ...any) (reply, error) {
	bounded, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	node, err := l.master(bounded, event)
	if err != nil {
		return reply{}, unavailable(err)
	}
	run, acks, err := runAndWait(bounded, node, s, l.keys.all(event, more...), args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		unseen(args)
		if err = s.Load(bounded, node).Err(); err == nil {
			run, acks, err = runAndWait(bounded, node, s, l.keys.all(event, more...), args)
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return reply{}, context.Cause(ctx)
	case err != nil:
		return reply{}, unavailable(err)
	}
	fields, err := run.StringSlice()
	switch {
	case err != nil:
		return reply{}, unavailable(err)
	case len(fields) == 0:
		return reply{}, unavailable(errors.New("empty reply"))
	case outcome(fields[0]) == outcomeNoEvent:
		l.forget(event)
		return reply{}, fmt.Errorf("event %s: %w", event, ErrNoEvent)
	case acks < 1:
		return reply{}, ErrNotReplicated
	}
	return reply{outcome: outcome(fields[0]), rest: fields[1:]}, nil
}

func runAndWait(ctx context.Context, node redis.UniversalClient, s *redis.Script, keys []string, args []any) (*redis.Cmd, int64, error) {
	pipe := node.Pipeline()
	run := pipe.EvalSha(ctx, s.Hash(), keys, args...)
	acks := pipe.Do(ctx, "WAIT", 1, replicaTimeout.Milliseconds())
	_, err := pipe.Exec(ctx)
	n, _ := acks.Int64() // an error is Exec's too
	return run, n, err
}

// master is the server that has an event's keys: on a cluster a wait without a key
// could go to another than the script.
func (l *Line) master(ctx context.Context, event EventID) (redis.UniversalClient, error) {
	if c, ok := l.rdb.(*redis.ClusterClient); ok {
		return c.MasterForKey(ctx, l.keys.meta(event))
	}
	return l.rdb, nil
}
