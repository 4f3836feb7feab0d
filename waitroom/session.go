package waitroom

import (
	"context"
	"fmt"
)

// Enter uses a grant. The first use makes it entered; later ones find the session,
// and renew it where it slides. Errors: ErrTokenExpired (the claim time or the
// session is over), ErrRevoked, ErrNoEntry (it was completed or given back, or the
// store does not know it), ErrNoEvent, ErrUnavailable.
func (l *Line) Enter(ctx context.Context, event EventID, p Pass) (Grant, error) {
	if p.Event != event {
		return Grant{}, fmt.Errorf("enter %s: %w", event, ErrWrongEvent)
	}
	r, err := l.call(ctx, scriptEnter, event, nil, p.JTI)
	if err != nil {
		return Grant{}, fmt.Errorf("enter %s: %w", event, err)
	}
	switch r.outcome { //nolint:exhaustive // the outcomes of enter.lua; the rest is odd
	case outcomeEntered, outcomeInside:
	case outcomeExpired:
		return Grant{}, fmt.Errorf("enter %s: %w", event, ErrTokenExpired)
	case outcomeRevoked:
		return Grant{}, fmt.Errorf("enter %s: %w", event, ErrRevoked)
	case outcomeCompleted:
		return Grant{}, fmt.Errorf("enter %s: completed: %w", event, ErrNoEntry)
	case outcomeUnknown:
		if p.Expired {
			return Grant{}, fmt.Errorf("enter %s: %w", event, ErrTokenExpired)
		}
		return Grant{}, fmt.Errorf("enter %s: %w", event, ErrNoEntry)
	default:
		return Grant{}, fmt.Errorf("enter %s: %w", event, r.odd())
	}
	if err := r.want(3); err != nil {
		return Grant{}, fmt.Errorf("enter %s: %w", event, err)
	}
	deadline, err := numbers(r.rest[2])
	if err != nil {
		return Grant{}, fmt.Errorf("enter %s: %w", event, err)
	}
	g, err := parsePacked(event, r.rest[0], r.rest[1], deadline[0])
	if err != nil {
		return Grant{}, fmt.Errorf("enter %s: %w", event, err)
	}
	g.Entrance = r.outcome == outcomeEntered
	return g, nil
}

// Use uses a session's token up, where the site lets it be used once: the first call
// succeeds, and so does the same call repeated, known by its id. Errors: ErrUsed,
// ErrTokenExpired, ErrRevoked, ErrNoEntry (completed, given back or never given),
// ErrNoEvent, ErrUnavailable.
func (l *Line) Use(ctx context.Context, event EventID, jti, id string) error {
	r, err := l.call(ctx, scriptUse, event, []string{l.keys.used(event, jti)}, jti, id)
	if err == nil {
		switch r.outcome { //nolint:exhaustive // the outcomes of use.lua; the rest is odd
		case outcomeOK:
			return nil
		case outcomeKnown:
			err = ErrUsed
		case outcomeExpired:
			err = ErrTokenExpired
		case outcomeRevoked:
			err = ErrRevoked
		case outcomeCompleted, outcomeUnknown:
			err = ErrNoEntry
		default:
			err = r.odd()
		}
	}
	return fmt.Errorf("use a token of %s: %w", event, err)
}

// Complete ends a grant whose person is done, and frees the place at once. Harmless
// if repeated. Errors: ErrNoEntry (never given, or ended in another way), ErrNoEvent,
// ErrUnavailable.
func (l *Line) Complete(ctx context.Context, event EventID, jti string) error {
	return l.finish(ctx, event, jti, EntryCompleted, "")
}

// Revoke ends a grant for good: its token opens nothing any more. Its person may
// join again. Errors as Complete.
func (l *Line) Revoke(ctx context.Context, event EventID, jti, by string) error {
	return l.finish(ctx, event, jti, EntryBlocked, by)
}

// finish is the one caller of finish.lua.
func (l *Line) finish(ctx context.Context, event EventID, jti string, state EntryState, by string) error {
	r, err := l.call(ctx, scriptFinish, event, nil, jti, string(state), by)
	if err != nil {
		return fmt.Errorf("end a grant in %s: %w", event, err)
	}
	switch r.outcome { //nolint:exhaustive // the outcomes of finish.lua; the rest is odd
	case outcomeOK:
		l.over(event, jti, state)
		return nil
	case outcomeUnknown:
		return fmt.Errorf("end a grant in %s: %w", event, ErrNoEntry)
	default:
		return fmt.Errorf("end a grant in %s: %w", event, r.odd())
	}
}

// Block puts an entry out of the line or out of the room, and keeps it out. A party's
// entry is all of its members; a person of it, by the entry of their own, is put out of
// the party, which goes on with the others.
// Harmless if repeated. Errors: ErrNoEntry (the store knows of none: whoever blocks
// must not believe that somebody is out who is not), ErrNoEvent, ErrUnavailable.
func (l *Line) Block(ctx context.Context, event EventID, entry EntryID, by string) error {
	return l.block(ctx, event, entry, by, "0")
}

// BlockSubject is Block for one of the site's own subjects, who need not have come yet.
// Errors: ErrNoEvent, ErrUnavailable.
func (l *Line) BlockSubject(ctx context.Context, event EventID, subject, by string) error {
	return l.block(ctx, event, l.entryOf(event, subject), by, "1")
}

func (l *Line) block(ctx context.Context, event EventID, entry EntryID, by, ahead string) error {
	r, err := l.call(ctx, scriptBlock, event, []string{l.keys.asks(event), l.keys.party(event)}, string(entry), by, ahead, newID())
	if err == nil && r.outcome == outcomeUnknown {
		err = ErrNoEntry
	}
	if err != nil {
		return fmt.Errorf("block in %s: %w", event, err)
	}
	l.moved(event, entry)
	return nil
}

// Leave gives a place up, or a grant back; of a member of a party it is the part in it,
// and the party goes on with the others. Harmless if repeated, or if there is nothing.
// Errors: ErrNoEvent, ErrUnavailable.
func (l *Line) Leave(ctx context.Context, event EventID, entry EntryID) error {
	if _, err := l.call(ctx, scriptLeave, event, []string{l.keys.party(event)}, string(entry), newID()); err != nil {
		return fmt.Errorf("leave %s: %w", event, err)
	}
	l.moved(event, entry)
	return nil
}
