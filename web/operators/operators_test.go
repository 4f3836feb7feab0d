package operators

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	goleak.VerifyTestMain(m)
}

// silent keeps go-redis from telling of servers that are gone on purpose.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

const static = "the-token-of-the-start"

func add(t *testing.T, s *Store, name string, role Role, life time.Duration) string {
	t.Helper()
	o, token, err := s.Add(t.Context(), name, role, life, "ann")
	require.NoError(t, err)
	require.Equal(t, []string{name, string(role), "ann"}, []string{o.Name, string(o.Role), o.CreatedBy})
	return token
}

// doc.go promise 1: what the store holds opens nothing.
func TestPromise1NothingInTheStoreOpensAnything(t *testing.T) {
	t.Parallel()
	rdb := redistest.Mini(t)
	s := New(rdb, "x", static)
	token := add(t, s, "bob@example-site", Runner, time.Hour)
	o, err := s.Identify(t.Context(), token)
	require.NoError(t, err)
	require.Equal(t, "bob@example-site", o.Name)
	session, _, err := s.SignIn(t.Context(), o)
	require.NoError(t, err)
	_, _, err = s.SignIn(t.Context(), Static(static))
	require.NoError(t, err)
	keys, err := rdb.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Len(t, keys, 4)
	for _, key := range keys {
		require.True(t, strings.HasPrefix(key, "x:"), key)
		if key == s.trail() {
			records := fmt.Sprint(rdb.XRange(t.Context(), key, "-", "+").Val())
			require.Contains(t, records, "bob@example-site")
			require.NotContains(t, records, token[len(token)-26:])
			require.NotContains(t, records, hashOf(token))
			continue
		}
		kept := rdb.Get(t.Context(), key).Val() + rdb.HGet(t.Context(), key, "bob@example-site").Val()
		require.NotEmpty(t, kept)
		for _, secret := range []string{token, token[len(token)-26:], session, static} {
			require.NotContains(t, key+kept, secret)
		}
	}
	for _, wrong := range []string{
		"", "wrop-", "wrop--" + strings.Repeat("A", 26), token[:len(token)-1] + "x", token + "x", strings.ToLower(token), "wrop-carl" + token[len("wrop-bob@example-site"):],
		static, // which web compares before it asks here
	} {
		_, err := s.Identify(t.Context(), wrong)
		require.ErrorIs(t, err, waitroom.ErrTokenInvalid, "%q", wrong)
	}
}

// doc.go promise 2, over two instances.
func TestPromise2TokensAndSessionsEnd(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		a, b := New(rdb, "", static), New(rdb, "", static)
		session := func(token string) string {
			o, err := a.Identify(t.Context(), token)
			require.NoError(t, err)
			id, ends, err := a.SignIn(t.Context(), o)
			require.NoError(t, err)
			require.False(t, ends.After(o.ExpiresAt), "no session outlives its token")
			_, err = b.Session(t.Context(), id)
			require.NoError(t, err)
			return id
		}
		bob, eve := add(t, a, "bob", Viewer, time.Hour), add(t, a, "eve", Owner, time.Hour)
		bobs, eves, eves2 := session(bob), session(eve), session(eve)

		require.NoError(t, a.Revoke(t.Context(), "bob", "ann"))
		_, err := b.Identify(t.Context(), bob)
		require.ErrorIs(t, err, waitroom.ErrTokenInvalid)
		_, err = b.Session(t.Context(), bobs)
		require.ErrorIs(t, err, waitroom.ErrTokenInvalid)
		require.ErrorIs(t, a.Revoke(t.Context(), "bob", "ann"), ErrNone)

		require.NoError(t, b.SignOut(t.Context(), eves))
		require.NoError(t, b.SignOut(t.Context(), eves))
		_, err = a.Session(t.Context(), eves)
		require.ErrorIs(t, err, waitroom.ErrTokenExpired)
		o, err := a.Session(t.Context(), eves2)
		require.NoError(t, err)
		require.Equal(t, Owner, o.Role)

		for _, s := range []*Store{a, b} {
			s.now = func() time.Time { return time.Now().Add(time.Hour + time.Second) }
		}
		_, err = b.Identify(t.Context(), eve)
		require.ErrorIs(t, err, waitroom.ErrTokenExpired)
		_, err = b.Session(t.Context(), eves2)
		require.ErrorIs(t, err, waitroom.ErrTokenExpired)

		mine, _, err := a.SignIn(t.Context(), Static(static))
		require.NoError(t, err)
		_, err = b.Session(t.Context(), mine)
		require.NoError(t, err)
		_, err = New(rdb, "", "another-token").Session(t.Context(), mine)
		require.Error(t, err, "the service was started with another token")
		a.now = func() time.Time { return time.Now().Add(14 * time.Hour) }
		_, err = a.Session(t.Context(), mine)
		require.ErrorIs(t, err, waitroom.ErrTokenExpired)
	})
}

// doc.go promise 3.
func TestPromise3ANameIsOneOperator(t *testing.T) {
	t.Parallel()
	s := New(redistest.Mini(t), "", static)
	first := add(t, s, "bob", Owner, time.Hour)
	_, _, err := s.Add(t.Context(), "bob", Viewer, time.Hour, "ann")
	require.ErrorIs(t, err, ErrExists)
	o, err := s.Identify(t.Context(), first)
	require.NoError(t, err)
	session, _, err := s.SignIn(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, s.Revoke(t.Context(), "bob", "ann"))
	add(t, s, "bob", Viewer, time.Hour)
	_, err = s.Session(t.Context(), session)
	require.ErrorIs(t, err, waitroom.ErrTokenInvalid, "another bob")
	_, err = s.Identify(t.Context(), first)
	require.ErrorIs(t, err, waitroom.ErrTokenInvalid)
	list, err := s.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, Viewer, list[0].Role)
}

// doc.go promise 4.
func TestPromise4TheStoreIsAway(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	s := New(rdb, "", static)
	_, err := s.Identify(t.Context(), "wrop-bob-"+strings.Repeat("A", 26))
	require.ErrorIs(t, err, waitroom.ErrUnavailable)
	_, err = s.Session(t.Context(), "x")
	require.ErrorIs(t, err, waitroom.ErrUnavailable)
	_, _, err = s.SignIn(t.Context(), Static(static))
	require.ErrorIs(t, err, waitroom.ErrUnavailable)
	require.ErrorIs(t, s.Revoke(t.Context(), "bob", "ann"), waitroom.ErrUnavailable)
	_, _, err = s.Add(t.Context(), "bob", Viewer, 0, "ann")
	require.ErrorIs(t, err, waitroom.ErrUnavailable)
	_, err = s.List(t.Context())
	require.ErrorIs(t, err, waitroom.ErrUnavailable)
	_, err = s.Trail(t.Context(), "", 10)
	require.ErrorIs(t, err, waitroom.ErrUnavailable)
}

// doc.go promise 5, also for a call that is sent again; a refused one leaves no record.
func TestPromise5TheTrail(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := New(rdb, "", static)
		s.now = func() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }
		add(t, s, "bob", Viewer, time.Hour)
		_, _, err := s.Add(t.Context(), "bob", Owner, time.Hour, "eve")
		require.ErrorIs(t, err, ErrExists)
		require.ErrorIs(t, s.Revoke(t.Context(), "carl", "eve"), ErrNone)
		again := record{Operator{Name: "dan", Role: Owner, ExpiresAt: s.now()}, "a hash"}
		for range 2 {
			require.NoError(t, s.change(t.Context(), "bob", again))
		}
		require.NoError(t, s.Revoke(t.Context(), "bob", "dan"))
		first, err := s.Trail(t.Context(), "", 1)
		require.NoError(t, err)
		require.Len(t, first, 1)
		rest, err := s.Trail(t.Context(), first[0].ID, MostTrail)
		require.NoError(t, err)
		bob := `{"name":"bob","role":"viewer","expires_at":"2026-05-01T13:00:00Z"}`
		records := append(first, rest...)
		for i, want := range []waitroom.AuditRecord{
			{By: "ann", What: "add", After: bob},
			{By: "bob", What: "add", After: `{"name":"dan","role":"owner","expires_at":"2026-05-01T12:00:00Z"}`},
			{By: "dan", What: "revoke", Before: bob},
		} {
			require.WithinDuration(t, time.Now(), records[i].At, time.Minute, "the store's clock")
			want.ID, want.At = records[i].ID, records[i].At
			require.Equal(t, want, records[i])
		}
		require.Len(t, records, 3)
		for _, wrong := range []string{"x", "(1-1", "-", "1"} {
			_, err = s.Trail(t.Context(), wrong, 1)
			require.ErrorContains(t, err, "after")
		}
	})
}

func TestWrongOperatorsAreRefused(t *testing.T) {
	t.Parallel()
	s := New(redistest.Mini(t), "", static)
	for _, c := range []struct {
		name  string
		role  Role
		life  time.Duration
		field string
	}{
		{"", Viewer, 0, "name"},
		{"-x", Viewer, 0, "name"},
		{"=1+1", Viewer, 0, "name"},
		{"operator", Viewer, 0, "name"},
		{strings.Repeat("a", 65), Viewer, 0, "name"},
		{"bob", "admin", 0, "role"},
		{"bob", Owner, time.Second, "expires_in"},
		{"bob", Owner, 2 * LongestLife, "expires_in"},
	} {
		_, _, err := s.Add(t.Context(), c.name, c.role, c.life, "ann")
		require.ErrorContains(t, err, c.field)
	}
	require.True(t, Owner.May(Viewer) && Runner.May(Runner) && !Viewer.May(Runner) && !Role("").May(Viewer))
}
