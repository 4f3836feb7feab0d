package waitroom

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/*.lua
var scriptFiles embed.FS

// shared are the Lua files that stand before every script.
var shared = []string{"common", "entries", "eligible"}

// script is a Lua file behind the shared ones, with others between them; its head says
// what it takes and answers.
func script(files ...string) *redis.Script {
	return scriptOf(slices.Concat(shared, files)...)
}

// scriptOf is one script of several Lua files.
func scriptOf(files ...string) *redis.Script {
	var src strings.Builder
	for _, file := range files {
		b, err := scriptFiles.ReadFile("scripts/" + file + ".lua")
		if err != nil {
			panic(err) // a file of this package is missing from the build
		}
		src.Write(b)
	}
	return redis.NewScript(src.String())
}

var (
	scriptAdmit    = script("admit")
	scriptAway     = script("away")
	scriptBlock    = script("parties", "block")
	scriptCodes    = script("codes")
	scriptCreate   = script("create")
	scriptCredit   = script("parties", "credit")
	scriptDelete   = script("delete")
	scriptDraw     = script("draw")
	scriptEnqueue  = script("enqueue")
	scriptEnter    = script("enter")
	scriptEvent    = script("event")
	scriptFinish   = script("finish")
	scriptFold     = script("fold")
	scriptHere     = script("here")
	scriptIssue    = script("issue")
	scriptJoin     = scriptOf(slices.Concat([]string{"strangers"}, shared, []string{"parties", "join"})...)
	scriptLeave    = script("parties", "leave")
	scriptLog      = script("log")
	scriptLost     = script("lost")
	scriptNote     = script("note")
	scriptNumbered = script("numbered")
	scriptParty    = script("parties", "party")
	scriptPatch    = script("patch")
	scriptPlace    = script("parties", "place")
	scriptPromote  = script("promote")
	scriptSeal     = script("seal")
	scriptShift    = script("shift")
	scriptSlide    = script("slide")
	scriptSupply   = script("supply")
	scriptSweep    = script("sweep")
	scriptUse      = script("use")
)

// outcome is the name that a script gives to how it went.
type outcome string

// The outcomes; the head of each script says which it has.
const (
	outcomeOK        outcome = "ok"
	outcomeNoEvent   outcome = "no_event"
	outcomeExists    outcome = "exists"
	outcomeSoldOut   outcome = "sold_out"
	outcomeConflict  outcome = "conflict"
	outcomeFenced    outcome = "fenced"
	outcomeNoEntry   outcome = "no_entry"
	outcomeFull      outcome = "full"
	outcomeClosed    outcome = "closed"
	outcomeNotOpen   outcome = "not_open"
	outcomeUnknown   outcome = "unknown"
	outcomeEntered   outcome = "entered"
	outcomeInside    outcome = "inside"
	outcomeExpired   outcome = "expired"
	outcomeCompleted outcome = "completed"
	outcomeRevoked   outcome = "revoked"
	outcomeKnown     outcome = "known"
	outcomeNew       outcome = "new"
	outcomeStale     outcome = "stale"
	outcomeMore      outcome = "more"
	outcomeDone      outcome = "done"
	outcomeAlive     outcome = "alive"
	outcomeBusy      outcome = "busy"
	outcomeWrongMode outcome = "wrong_mode"
	outcomeNoGroup   outcome = "no_group"
	outcomeLeft      outcome = "left"
	outcomeRefused   outcome = "refused"
	outcomeUsed      outcome = "used"
)

// reply is a script's answer: its outcome and the strings behind it.
type reply struct {
	outcome outcome
	rest    []string
}

// call runs a script on an event's keys. Errors: ErrNoEvent and ErrUnavailable,
// both wrapped, or the ctx's own.
func (l *Line) call(ctx context.Context, s *redis.Script, event EventID, more []string, args ...any) (reply, error) {
	bounded, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	keys := l.keys.all(event, more...)
	fields, err := s.EvalSha(bounded, l.rdb, keys, args...).StringSlice()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		unseen(args)
		fields, err = s.Eval(bounded, l.rdb, keys, args...).StringSlice()
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return reply{}, context.Cause(ctx)
	case err != nil:
		return reply{}, unavailable(err)
	case len(fields) == 0:
		return reply{}, unavailable(errors.New("empty reply"))
	case outcome(fields[0]) == outcomeNoEvent:
		l.forget(event)
		return reply{}, fmt.Errorf("event %s: %w", event, ErrNoEvent)
	}
	return reply{outcome: outcome(fields[0]), rest: fields[1:]}, nil
}

// given is the highest sequences that this process was ever given, one for each lane,
// as caught_up of common.lua takes them.
type given struct {
	seqs   [mostLanes]Seq
	unseen bool // the server had not got the script
}

// MarshalBinary writes "seq,seq" or "?seq,seq", without those that are none.
func (t *given) MarshalBinary() ([]byte, error) {
	b := make([]byte, 0, 20)
	if t.unseen {
		b = append(b, '?')
	}
	for _, seq := range t.seqs {
		if seq > 0 {
			b = append(strconv.AppendInt(b, int64(seq), 10), ',')
		}
	}
	return b, nil
}

// unseen says in a script's arguments that the server had not got the script. From
// Redis 7 on no server gets scripts from another one, so a replica that was promoted
// says so to the first who calls.
func unseen(args []any) {
	for _, a := range args {
		if t, ok := a.(*given); ok {
			t.unseen = true
		}
	}
}

// want is an error unless the reply has at least n strings behind its outcome.
func (r reply) want(n int) error {
	if len(r.rest) < n {
		return unavailable(fmt.Errorf("reply %q has %d fields, want %d", r.outcome, len(r.rest), n))
	}
	return nil
}

// odd is the error for an outcome that the caller does not know.
func (r reply) odd() error { return unavailable(fmt.Errorf("unknown outcome %q", r.outcome)) }

// unavailable wraps a fault of the store.
func unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }

// numbers reads whole numbers, all or none.
func numbers(fields ...string) ([]int64, error) {
	ns := make([]int64, len(fields))
	for i, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return nil, unavailable(fmt.Errorf("reply: %q is no number", f))
		}
		ns[i] = n
	}
	return ns, nil
}

// millis is a moment of the store.
func millis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
