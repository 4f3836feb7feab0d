package waitroom

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// AuditRecord is one deed of an operator, or of the schedule.
type AuditRecord struct {
	ID     string    `json:"id"` // for the next page
	At     time.Time `json:"at"` // the event's clock
	By     string    `json:"by"`
	What   string    `json:"what"`   // create, patch, delete, admit, block, revoke, state, seats, import
	Before string    `json:"before"` // what it was, as the deed has it
	After  string    `json:"after"`
}

// Create makes an event. Its state is the given one, or follows the schedule; an
// event without opens_at is open then. Errors: ErrExists, *InvalidError,
// ErrUnavailable.
func (l *Line) Create(ctx context.Context, s Settings, state State, by string) (Event, error) {
	s, err := l.create(ctx, s, state, by)
	if err != nil {
		return Event{}, err
	}
	if s.Order == OrderDraw {
		if err := l.commit(ctx, s.ID); err != nil {
			return Event{}, fmt.Errorf("create %s: %w", s.ID, err)
		}
	}
	return l.Event(ctx, s.ID)
}

// create is Create without the draw's commitment.
func (l *Line) create(ctx context.Context, s Settings, state State, by string) (Settings, error) {
	s = s.Defaults()
	if err := s.Validate(); err != nil {
		return s, fmt.Errorf("create %s: %w", s.ID, err)
	}
	if state != "" && !slices.Contains(states, state) {
		return s, &InvalidError{Fields: []FieldError{{Field: "state", Detail: "must be one of " + list(states)}}}
	}
	if err := s.lobbyFault(state); err != nil {
		return s, fmt.Errorf("create %s: %w", s.ID, err)
	}
	doc, err := json.Marshal(s)
	if err != nil {
		return s, fmt.Errorf("create %s: %w", s.ID, err)
	}
	// Listed first: an id without an event is skipped, an event without an id is lost.
	if err := l.list(ctx, s.ID); err != nil {
		return s, fmt.Errorf("create %s: %w", s.ID, err)
	}
	if err := l.listArchive(ctx, s); err != nil {
		return s, err
	}
	args := append([]any{newID(), by, string(state), string(doc)}, scriptFields(s)...)
	r, err := l.call(ctx, scriptCreate, s.ID, nil, args...)
	if err != nil {
		return s, fmt.Errorf("create %s: %w", s.ID, err)
	}
	if r.outcome == outcomeExists {
		return s, fmt.Errorf("create %s: %w", s.ID, ErrExists)
	}
	// Listed once more: a Delete of an event of the same id may have taken it off.
	if err := l.list(ctx, s.ID); err != nil {
		return s, fmt.Errorf("create %s: %w", s.ID, err)
	}
	if err := l.listArchive(ctx, s); err != nil { // once more: one of the same id may just have been folded
		return s, err
	}
	return s, nil
}

// patchTries bounds how often a patch is made again on settings that changed
// under it.
const patchTries = 10

// Patch changes any part of the settings, and the state; what it does not name
// stays. Errors: *InvalidError (also of an event that is not there, where any event's
// would be), ErrNoEvent, ErrUnavailable.
func (l *Line) Patch(ctx context.Context, id EventID, patch []byte, by string) (Event, error) {
	for range patchTries {
		old, err := l.Event(ctx, id)
		if errors.Is(err, ErrNoEvent) {
			if _, _, wrong := decodeOver(DefaultSettings(id), patch); wrong != nil {
				err = wrong
			}
		}
		if err != nil {
			return Event{}, fmt.Errorf("patch: %w", err)
		}
		s, state, err := decodeOver(old.Settings, patch)
		if err != nil {
			return Event{}, fmt.Errorf("patch %s: %w", id, err)
		}
		if s.ID != id {
			return Event{}, &InvalidError{Fields: []FieldError{{Field: "id", Detail: "cannot be changed"}}}
		}
		if err := lanesFault(old.Settings, s); err != nil {
			return Event{}, fmt.Errorf("patch %s: %w", id, err)
		}
		if s.Order != old.Order {
			if old.State != Scheduled {
				return Event{}, &InvalidError{Fields: []FieldError{{Field: "order", Detail: "cannot be changed once people may join"}}}
			}
			if err := s.lobbyFault(old.State); err != nil {
				return Event{}, fmt.Errorf("patch %s: %w", id, err)
			}
		}
		if s.Party != old.Party && old.State != Scheduled {
			return Event{}, &InvalidError{Fields: []FieldError{{Field: "party.size", Detail: "cannot be changed once people may join"}}}
		}
		doc, err := json.Marshal(s)
		if err != nil {
			return Event{}, fmt.Errorf("patch %s: %w", id, err)
		}
		if err := l.listArchive(ctx, s); err != nil {
			return Event{}, fmt.Errorf("patch: %w", err)
		}
		args := append([]any{newID(), by, string(state), string(doc), old.Version}, scriptFields(s)...)
		r, err := l.call(ctx, scriptPatch, id, nil, args...)
		if err != nil {
			return Event{}, fmt.Errorf("patch: %w", err)
		}
		if r.outcome != outcomeConflict {
			if s.Order == OrderDraw && old.Draw == nil {
				if err := l.commit(ctx, id); err != nil {
					return Event{}, fmt.Errorf("patch: %w", err)
				}
			}
			l.stir(ctx, id)
			return l.Event(ctx, id)
		}
	}
	return Event{}, fmt.Errorf("patch %s: it changed %d times meanwhile: %w", id, patchTries, ErrBusy)
}

// Delete ends an event for good; only its audit trail stays. Errors: ErrNoEvent,
// ErrUnavailable.
func (l *Line) Delete(ctx context.Context, id EventID, by string) error {
	nodes, err := l.nodes(ctx, id)
	if err != nil {
		return fmt.Errorf("delete %s: %w", id, err)
	}
	more := []string{l.keys.log(id), l.keys.seals(id), l.keys.issued(id), l.keys.drawn(id), l.keys.codes(id), l.keys.party(id)} // its archive stays until a database has it
	more = append(more, l.keys.numbering(id)...)
	for _, n := range nodes {
		more = append(more, l.keys.here(id, n))
	}
	if err := l.forgetRequests(ctx, id); err != nil {
		return fmt.Errorf("delete %s: %w", id, err)
	}
	if _, err := l.call(ctx, scriptDelete, id, more, newID(), by); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	l.forget(id)
	if err := l.unlist(ctx, id); err != nil {
		return fmt.Errorf("delete %s: %w", id, err)
	}
	return nil
}

// forgetRequests empties an event's part of another queue than the store's.
func (l *Line) forgetRequests(ctx context.Context, id EventID) error {
	if l.cfg.Requests == nil {
		return nil
	}
	ev, err := l.Event(ctx, id)
	if err != nil || ev.Mode != ModeBuffered {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	if err := l.cfg.Requests.Forget(ctx, id); err != nil {
		return unavailable(err)
	}
	return nil
}

// list puts an id on the list of events.
func (l *Line) list(ctx context.Context, id EventID) error {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	if err := l.rdb.SAdd(ctx, l.keys.index(), string(id)).Err(); err != nil {
		return unavailable(err)
	}
	return nil
}

// unlist takes an id off the list of events, unless there is such an event again:
// either it is seen here, or its Create lists it after this.
func (l *Line) unlist(ctx context.Context, id EventID) error {
	bounded, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	if err := l.rdb.SRem(bounded, l.keys.index(), string(id)).Err(); err != nil {
		return unavailable(err)
	}
	again, err := l.rdb.Exists(bounded, l.keys.meta(id)).Result()
	if err != nil {
		return unavailable(err)
	}
	if again == 0 {
		return nil
	}
	return l.list(ctx, id)
}

// Event is an event as it is now. Errors: ErrNoEvent, ErrUnavailable.
func (l *Line) Event(ctx context.Context, id EventID) (Event, error) {
	r, err := l.call(ctx, scriptEvent, id, nil)
	if err != nil {
		return Event{}, err
	}
	if err := r.want(10); err != nil {
		return Event{}, fmt.Errorf("event %s: %w", id, err)
	}
	n, err := numbers(r.rest[0], r.rest[1], r.rest[2], r.rest[6], r.rest[7], r.rest[9], r.rest[8])
	if err != nil {
		return Event{}, fmt.Errorf("event %s: %w", id, err)
	}
	l.saw(id, Seq(n[6])) // also what other nodes gave out
	e := Event{
		State: State(r.rest[4]), Reason: r.rest[5],
		Waiting: n[0], Inside: n[1], Now: millis(n[2]), Version: n[3], Epoch: n[4], Admitted: n[5], Newest: Seq(n[6]),
	}
	if len(r.rest) >= 12 {
		if n, err = numbers(r.rest[10], r.rest[11]); err != nil {
			return Event{}, fmt.Errorf("event %s: %w", id, err)
		}
		e.Entered, e.Unclaimed = n[0], n[1]
	}
	if len(r.rest) >= 14 {
		if e.drawPhase = r.rest[13]; r.rest[12] != "" {
			if err := json.Unmarshal([]byte(r.rest[12]), &e.Draw); err != nil {
				return Event{}, fmt.Errorf("event %s: draw: %w", id, unavailable(err))
			}
		}
	}
	e.SoldOut = len(r.rest) >= 15 && r.rest[14] == "0"
	if len(r.rest) >= 16 && r.rest[15] != "0" {
		if n, err = numbers(r.rest[15]); err != nil {
			return Event{}, fmt.Errorf("event %s: %w", id, err)
		}
		e.Since = millis(n[0])
	}
	if err := json.Unmarshal([]byte(r.rest[3]), &e.Settings); err != nil {
		return Event{}, fmt.Errorf("event %s: settings: %w", id, unavailable(err))
	}
	if len(r.rest) >= 17 {
		seqs, err := e.readLanes(r.rest[16])
		if err != nil {
			return Event{}, fmt.Errorf("event %s: %w", id, err)
		}
		for _, seq := range seqs {
			l.saw(id, seq)
		}
	}
	return e, nil
}

// eventsAtOnce is how many events are read at a time: one that is slow, on another
// node of a cluster, holds up none of the others.
const eventsAtOnce = 16

// Events are all events, by id. Errors: ErrUnavailable, with those that could be
// read all the same.
func (l *Line) Events(ctx context.Context) ([]Event, error) {
	bounded, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	ids, err := l.rdb.SMembers(bounded, l.keys.index()).Result()
	if err != nil {
		return nil, fmt.Errorf("events: %w", unavailable(err))
	}
	slices.Sort(ids)
	all := make([]Event, len(ids))
	errs := make([]error, len(ids))
	var reading errgroup.Group
	reading.SetLimit(eventsAtOnce)
	for i, id := range ids {
		reading.Go(func() error {
			all[i], errs[i] = l.Event(ctx, EventID(id))
			return nil
		})
	}
	_ = reading.Wait()
	events := make([]Event, 0, len(ids))
	for i, err := range errs {
		switch {
		case err == nil:
			events = append(events, all[i])
		case errors.Is(err, ErrNoEvent): // listed by a Create that is on its way, or was cut off
			errs[i] = nil
		}
	}
	if err := errors.Join(errs...); err != nil {
		return events, fmt.Errorf("events: %w", err)
	}
	return events, nil
}

// mostAudit bounds one page of the audit trail.
const mostAudit = 1000

// Audit is a page of an event's trail, oldest first, behind the record with the id
// after ("": from the beginning). The trail outlives its event; an unknown event
// has an empty one. Errors: *InvalidError (a bad after), ErrUnavailable.
func (l *Line) Audit(ctx context.Context, id EventID, after string, limit int) ([]AuditRecord, error) {
	start := "-"
	if after != "" {
		var ms, n uint64
		if _, err := fmt.Sscanf(after, "%d-%d", &ms, &n); err != nil || after != fmt.Sprintf("%d-%d", ms, n) {
			return nil, &InvalidError{Fields: []FieldError{{Field: "after", Detail: "must be the id of a record"}}}
		}
		start = "(" + after
	}
	if limit < 1 || limit > mostAudit {
		limit = mostAudit
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	msgs, err := l.rdb.XRangeN(ctx, l.keys.audit(id), start, "+", int64(limit)).Result()
	if err != nil {
		return nil, fmt.Errorf("audit of %s: %w", id, unavailable(err))
	}
	records := make([]AuditRecord, len(msgs))
	for i, m := range msgs {
		records[i] = auditRecord(m)
	}
	return records, nil
}

// Note keeps in an event's trail what an operator did beside the line: by whom, what,
// and what was before and after. Errors: ErrNoEvent, ErrUnavailable.
func (l *Line) Note(ctx context.Context, id EventID, deed AuditRecord) error {
	if _, err := l.call(ctx, scriptNote, id, nil, rand.Text(), deed.By, deed.What, deed.Before, deed.After); err != nil {
		return fmt.Errorf("note in %s: %w", id, err)
	}
	return nil
}

func auditRecord(m redis.XMessage) AuditRecord {
	text := func(name string) string {
		s, _ := m.Values[name].(string)
		return s
	}
	ms, _ := strconv.ParseInt(text("at"), 10, 64)
	return AuditRecord{
		ID: m.ID, At: millis(ms), By: text("by"), What: text("what"),
		Before: text("before"), After: text("after"),
	}
}

// ShiftClock moves an event's clock ahead of the store's, for rehearsals and tests:
// deadlines come at once, order stays. Errors: ErrNoEvent, ErrUnavailable.
func (l *Line) ShiftClock(ctx context.Context, id EventID, ahead time.Duration) error {
	if _, err := l.call(ctx, scriptShift, id, nil, ahead.Milliseconds()); err != nil {
		return fmt.Errorf("shift clock: %w", err)
	}
	l.stir(ctx, id)
	return nil
}

// scriptFields are the settings that scripts read, as names and values.
func scriptFields(s Settings) []any {
	ms := func(d Duration) int64 { return time.Duration(d).Milliseconds() }
	at := func(t *time.Time) int64 {
		if t == nil {
			return 0
		}
		return t.UnixMilli()
	}
	return []any{
		"rate_per_s", strconv.FormatFloat(s.RatePerS, 'f', -1, 64),
		"pass_through", s.PassThrough || s.Starts.On(), "burst", s.Burst, "max_active", s.MaxActive,
		"claim_ttl", ms(s.ClaimTTL), "session_ttl", ms(s.SessionTTL), "session", s.Session,
		"grace", ms(s.Grace), "grace_mobile", ms(s.GraceMobile), "identity", s.Identity,
		"mode", s.Mode, "quota", s.Tokens(), "returns", s.Quota.Returns, "durable", s.Durable,
		"on_sold_out", s.OnSoldOut, "party", s.Party.Size, "groups", groupFields(s), "lanes", laneFields(s),
		"order", s.Order, "lobby_opens_at", at(s.LobbyOpensAt), "opens_at", at(s.OpensAt), "closes_at", at(s.ClosesAt),
	}
}
