package operators

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// kept is what is kept of a session, under the hash of its id.
type kept struct {
	Name string    `json:"name"`
	Hash string    `json:"hash"` // of the token that it was begun with
	Ends time.Time `json:"ends"`
}

// SignIn begins a session of an operator who has just shown their token: its id is the
// cookie's value. It lasts for 12 hours, or until the token ends.
func (s *Store) SignIn(ctx context.Context, o Operator) (id string, ends time.Time, err error) {
	ends = s.now().Add(sessionLife).UTC().Truncate(time.Millisecond)
	if !o.ExpiresAt.IsZero() && o.ExpiresAt.Before(ends) {
		ends = o.ExpiresAt
	}
	raw, err := json.Marshal(kept{o.Name, o.fingerprint, ends})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("encode session: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	id = rand.Text()
	if err := s.rdb.Set(ctx, s.session(id), raw, sessionLife).Err(); err != nil {
		return "", time.Time{}, away("sign in", err)
	}
	return id, ends, nil
}

// Session says whose session this is, as they are now. Errors: waitroom.ErrTokenInvalid,
// ErrTokenExpired.
func (s *Store) Session(ctx context.Context, id string) (Operator, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	raw, err := s.rdb.Get(call, s.session(id)).Bytes()
	if errors.Is(err, redis.Nil) {
		return Operator{}, waitroom.ErrTokenExpired
	}
	if err != nil {
		return Operator{}, away("find session", err)
	}
	var k kept
	if err := json.Unmarshal(raw, &k); err != nil {
		return Operator{}, fmt.Errorf("read session: %w", err)
	}
	if !s.now().Before(k.Ends) {
		return Operator{}, waitroom.ErrTokenExpired
	}
	if k.Name != StaticName {
		return s.current(ctx, k.Name, k.Hash)
	}
	if !same(k.Hash, s.static) {
		return Operator{}, waitroom.ErrTokenInvalid
	}
	return Operator{Name: StaticName, Role: Owner, fingerprint: s.static}, nil
}

// SignOut ends a session; one that is over already is no error.
func (s *Store) SignOut(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := s.rdb.Del(ctx, s.session(id)).Err(); err != nil {
		return away("sign out", err)
	}
	return nil
}
