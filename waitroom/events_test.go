package waitroom

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

func TestEventsFollowTheSchedule(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			s := DefaultSettings("e")
			now := time.Now().UTC()
			lobby, opens, closes := now.Add(time.Hour), now.Add(2*time.Hour), now.Add(3*time.Hour)
			s.LobbyOpensAt, s.OpensAt, s.ClosesAt = &lobby, &opens, &closes
			e, err := l.Create(t.Context(), s, "", "op")
			require.NoError(t, err)
			require.Equal(t, Scheduled, e.State)
			join := func() error {
				_, err := l.Join(t.Context(), JoinRequest{Event: "e"})
				return err
			}
			require.ErrorIs(t, join(), ErrNotOpen)
			for _, step := range []struct {
				ahead time.Duration
				state State
				err   error
			}{
				{time.Hour - time.Minute, Scheduled, ErrNotOpen},
				{time.Hour + time.Second, Lobby, nil},
				{2*time.Hour - time.Minute, Lobby, nil},
				{2*time.Hour + time.Second, Open, nil},
				{3*time.Hour + time.Second, Closed, ErrClosed},
			} {
				at(t, l, step.ahead)
				require.ErrorIs(t, join(), step.err)
				e, err := l.Event(t.Context(), "e")
				require.NoError(t, err)
				require.Equal(t, step.state, e.State)
				require.Equal(t, "schedule", e.Reason)
			}
		})
	}
}

func TestOperatorsOverruleTheSchedule(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			s := DefaultSettings("e")
			opens := time.Now().Add(time.Hour)
			s.OpensAt = &opens
			_, err := l.Create(t.Context(), s, "", "op")
			require.NoError(t, err)
			patch := func(doc string) Event {
				e, err := l.Patch(t.Context(), "e", []byte(doc), "op")
				require.NoError(t, err)
				return e
			}
			e := patch(`{"state":"paused"}`)
			require.Equal(t, Paused, e.State)
			require.Equal(t, "operator", e.Reason)
			at(t, l, 2*time.Hour)
			e, err = l.Event(t.Context(), "e")
			require.NoError(t, err)
			require.Equal(t, Paused, e.State, "a pause holds through the opening")
			e = patch(`{"state":"scheduled"}`)
			require.Equal(t, Scheduled, e.State, "a moment that is past does not come again")
			e = patch(`{"state":"open","message":"hello"}`)
			require.Equal(t, Open, e.State)
			require.Equal(t, "hello", e.Message)

			// New times count while the schedule rules.
			s.ID = "f"
			_, err = l.Create(t.Context(), s, "", "op")
			require.NoError(t, err)
			e, err = l.Patch(t.Context(), "f", []byte(`{"opens_at":"2020-01-01T00:00:00Z"}`), "op")
			require.NoError(t, err)
			require.Equal(t, Open, e.State)
			e, err = l.Patch(t.Context(), "f", []byte(`{"opens_at":null}`), "op")
			require.NoError(t, err)
			require.Nil(t, e.OpensAt)
		})
	}
}

func TestEventsAreCreatedOncePatchedAndLogged(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			ctx := t.Context()
			_, err := l.Event(ctx, "e")
			require.ErrorIs(t, err, ErrNoEvent)
			_, err = l.Patch(ctx, "e", []byte(`{"colour":1}`), "op")
			require.ErrorAs(t, err, new(*InvalidError), "what no event could take is said before that there is none")
			_, err = l.Patch(ctx, "e", []byte(`{}`), "op")
			require.ErrorIs(t, err, ErrNoEvent)
			_, err = l.Create(ctx, Settings{ID: "e", RatePerS: -1}, "", "op")
			require.ErrorContains(t, err, "rate_per_s")
			made, err := l.Create(ctx, DefaultSettings("e"), "", "ada")
			require.NoError(t, err)
			require.Equal(t, Open, made.State, "an event without opens_at is open")
			require.Equal(t, DefaultSettings("e").Defaults(), made.Settings)
			_, err = l.Create(ctx, DefaultSettings("e"), "", "op")
			require.ErrorIs(t, err, ErrExists)

			_, err = l.Patch(ctx, "e", []byte(`{"rate_per_s":200,"colour":1}`), "bob")
			require.ErrorContains(t, err, "colour")
			_, err = l.Patch(ctx, "e", []byte(`{"id":"f"}`), "bob")
			require.ErrorContains(t, err, "id")
			e, err := l.Patch(ctx, "e", []byte(`{"rate_per_s":200,"load":{"floor_per_s":2}}`), "bob")
			require.NoError(t, err)
			want := made.Settings
			want.RatePerS, want.Load.FloorPerS = 200, 2
			require.Equal(t, want, e.Settings, "what a patch does not name stays")
			require.Equal(t, made.Version+1, e.Version)

			// Patches at once lose nothing.
			var wg sync.WaitGroup
			docs := []string{`{"burst":5}`, `{"max_active":7}`, `{"message":"x"}`, `{"grace":"1m"}`}
			for _, doc := range docs {
				wg.Go(func() {
					if _, err := l.Patch(ctx, "e", []byte(doc), "op"); err != nil {
						t.Errorf("patch: %v", err)
					}
				})
			}
			wg.Wait()
			e, err = l.Event(ctx, "e")
			require.NoError(t, err)
			want.Burst, want.MaxActive, want.Message, want.Grace = 5, 7, "x", Duration(time.Minute)
			require.Equal(t, want, e.Settings)

			trail, err := l.Audit(ctx, "e", "", 2)
			require.NoError(t, err)
			require.Len(t, trail, 2)
			require.Equal(t, "ada", trail[0].By)
			require.Equal(t, "create", trail[0].What)
			require.Equal(t, "bob", trail[1].By)
			require.Equal(t, "patch", trail[1].What)
			require.Contains(t, trail[1].Before, `\"rate_per_s\":10`)
			require.Contains(t, trail[1].After, `\"rate_per_s\":200`)
			require.WithinDuration(t, e.Now, trail[1].At, time.Minute)
			rest, err := l.Audit(ctx, "e", trail[1].ID, 0)
			require.NoError(t, err)
			require.Len(t, rest, len(docs))
			deed := AuditRecord{By: "eve", What: "seats", Before: `{"A-1":"free"}`, After: `{"A-1":"blocked"}`}
			require.NoError(t, l.Note(ctx, "e", deed)) // of what is sold
			require.ErrorIs(t, l.Note(ctx, "nope", deed), ErrNoEvent)
			noted, err := l.Audit(ctx, "e", rest[len(rest)-1].ID, 0)
			require.NoError(t, err)
			require.Len(t, noted, 1)
			deed.ID, deed.At = noted[0].ID, noted[0].At
			require.Equal(t, deed, noted[0])
			_, err = l.Audit(ctx, "e", "not an id", 0)
			require.ErrorContains(t, err, "after")
		})
	}
}

func TestStatesDecideWhoJoinsAndWhoComesIn(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			l := testLine(t, rdb)
			open(t, l, nil)
			first := joinN(t, l, 20)[0]
			for i, c := range []struct {
				state    State
				join     error
				promoted int
			}{
				{Open, nil, 1},
				{Paused, nil, 0},
				{Lobby, nil, 0},
				{Scheduled, ErrNotOpen, 0},
				{Draining, ErrClosed, 1},
				{Closed, ErrClosed, 0},
			} {
				_, err := l.Patch(t.Context(), "e", []byte(`{"state":"`+string(c.state)+`"}`), "op")
				require.NoError(t, err)
				_, err = l.Join(t.Context(), JoinRequest{Event: "e"})
				require.ErrorIs(t, err, c.join, "%s", c.state)
				_, err = l.Join(t.Context(), JoinRequest{Event: "e", Receipt: first.Receipt})
				require.NoError(t, err, "%s: whoever has a place keeps it", c.state)
				at(t, l, time.Duration(i)*time.Second)
				p := promote(t, l, 1)
				require.Len(t, p.Grants, c.promoted, "%s", c.state)
				if c.promoted == 0 {
					require.Equal(t, "not_open", p.Reason)
				}
			}
		})
	}
}

// before runs do once, before the first command of this name.
type before struct {
	hook
	name string
	once sync.Once
	do   func()
}

func (b *before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == b.name {
			b.once.Do(b.do)
		}
		return next(ctx, cmd)
	}
}

// An event that is made while one of the same id is deleted is on the list.
func TestDeleteAndCreateAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config{})
	l := testLine(t, s.Client(t))
	hooked := func(b *before) *Line {
		rdb := s.Client(t)
		rdb.AddHook(b)
		return testLineAs(t, rdb, l.cfg.Prefix)
	}
	listed := func() {
		t.Helper()
		events, err := l.Events(t.Context())
		require.NoError(t, err)
		require.Len(t, events, 1)
		require.NoError(t, l.Delete(t.Context(), "e", "op"))
		events, err = l.Events(t.Context())
		require.NoError(t, err)
		require.Empty(t, events)
		require.False(t, l.rdb.SIsMember(t.Context(), l.keys.index(), "e").Val())
	}
	// The whole of Create comes between the two steps of Delete.
	open(t, l, nil)
	deleter := hooked(&before{name: "srem", do: func() { open(t, l, nil) }})
	require.NoError(t, deleter.Delete(t.Context(), "e", "op"))
	listed()

	// Delete's second step comes between those of Create.
	open(t, l, nil)
	begun, proceed := make(chan struct{}), make(chan struct{})
	creator := hooked(&before{name: "evalsha", do: func() { close(begun); <-proceed }})
	made := make(chan error, 1)
	deleter = hooked(&before{name: "srem", do: func() {
		go func() {
			_, err := creator.Create(t.Context(), DefaultSettings("e"), Open, "op")
			made <- err
		}()
		<-begun
	}})
	require.NoError(t, deleter.Delete(t.Context(), "e", "op"))
	close(proceed)
	require.NoError(t, <-made)
	listed()
}

// An event says since when it is in its state; what changes nothing moves it not.
func TestEventSaysSinceWhen(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		l := testLine(t, rdb)
		made := open(t, l, nil)
		require.WithinDuration(t, made.Now, made.Since, 10*time.Second)
		clock := time.UnixMilli(1_800_000_000_000).UTC()
		freeze(t, l, clock)
		for _, state := range []string{"paused", "paused"} {
			e, err := l.Patch(t.Context(), "e", []byte(`{"state":"`+state+`"}`), "op")
			require.NoError(t, err)
			require.Equal(t, time.UnixMilli(1_800_000_000_000).UTC(), e.Since)
			clock = clock.Add(time.Minute)
			freeze(t, l, clock)
		}
	})
}
