package ticket

import (
	"context"
	"fmt"
	"time"
)

// IssuedToken is a token that an event with mode instant gave out.
type IssuedToken struct {
	JTI string
	// Rank is its number in the order of giving out.
	Rank int64
	// Entry and Person are who has it: the line's entry, and the token's subject.
	Entry, Person string
	// IssuedAt and ExpiresAt are by the line's clock.
	IssuedAt, ExpiresAt time.Time
}

// FileIssued keeps tokens, each once however often it is filed, and gives the number
// of those that were new. Errors: ErrUnavailable, ErrContended.
func (s *Store) FileIssued(ctx context.Context, event string, tokens []IssuedToken) (int64, error) {
	n := len(tokens)
	jtis, entries, persons := make([]string, n), make([]string, n), make([]string, n)
	ranks, issued, expires := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, t := range tokens {
		jtis[i], entries[i], persons[i] = t.JTI, t.Entry, t.Person
		ranks[i], issued[i], expires[i] = t.Rank, t.IssuedAt.UnixMilli(), t.ExpiresAt.UnixMilli()
	}
	rows := table("jti", jtis).column("rank", ranks).column("entry", entries).column("person", persons).
		column("issued_ms", issued).column("expires_ms", expires)
	var filed int64
	err := s.again(ctx, func(ctx context.Context, t tx) (err error) {
		filed, err = t.exec(ctx, `INSERT INTO issued (event, jti, rank, entry, person, issued_ms, expires_ms)
			SELECT $1, r.jti, r.rank, r.entry, r.person, r.issued_ms, r.expires_ms FROM {rows} WHERE r.rank > 0
			ORDER BY r.jti ON CONFLICT (event, jti) DO NOTHING`, rows, event)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("file issued tokens: %w", err)
	}
	return filed, nil
}

// AnyLeft says whether an event's last piece is not sold yet: something is free, held
// by somebody who may not pay, or blocked and may be released. So has one whose places
// are still to be imported. An event without a catalogue is ErrWrongMode. Other errors:
// ErrUnavailable.
func (s *Store) AnyLeft(ctx context.Context, event string) (bool, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	h, err := s.hall(ctx, event)
	if err != nil {
		return false, fmt.Errorf("left of %s: %w", event, err)
	}
	if h.left() > 0 {
		return true, nil
	}
	left := false
	// Of a stock nothing says what is held of it: its holds are looked for among all that live.
	err = s.db.look(ctx, func(ctx context.Context, t tx) error {
		return t.query(ctx, func(scan func(...any) error) error { return scan(&left) },
			`SELECT EXISTS (SELECT 1 FROM items WHERE event = $1 AND free > 0)
				OR EXISTS (SELECT 1 FROM seats WHERE event = $1 AND status <> 'sold')
				OR EXISTS (SELECT 1 FROM items WHERE event = $1)
					AND EXISTS (SELECT 1 FROM reservations WHERE `+inEvent+` AND `+ending+`)
				OR NOT EXISTS (SELECT 1 FROM items WHERE event = $1)
					AND NOT EXISTS (SELECT 1 FROM seats WHERE event = $1)`, nil, event)
	})
	if err != nil {
		return false, fmt.Errorf("left of %s: %w", event, err)
	}
	return left, nil
}
