package waitroom

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/waitroom-dev/waitroom/waitroom/draw"
	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// fakeBeacon has one round, when it is told to.
type fakeBeacon struct{ out atomic.Bool }

func (b *fakeBeacon) RoundAt(context.Context, time.Time) (uint64, error) { return 7, nil }

func (b *fakeBeacon) Round(_ context.Context, round uint64) (draw.Beacon, error) {
	if round != 7 || !b.out.Load() {
		return draw.Beacon{}, errors.New("not yet")
	}
	return draw.Beacon{Round: 7, Signature: draw.Hex("round seven"), Randomness: sha256.Sum256([]byte("round seven"))}, nil
}

// drawers run on n nodes, with one beacon.
func drawers(t *testing.T, n int, l *Line, beacon Beacon) {
	t.Helper()
	for range n {
		v, err := NewView(l, nil)
		require.NoError(t, err)
		d := NewDrawer(l, v, func(string) Beacon { return beacon }, zaptest.NewLogger(t))
		background(t, v.Run)
		background(t, d.Run)
	}
}

// background runs until the test ends.
func background(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
}

func lobby(t *testing.T, l *Line, change func(*Settings)) Event {
	t.Helper()
	s := DefaultSettings("e")
	s.Order, s.RatePerS = OrderDraw, 1000
	if change != nil {
		change(&s)
	}
	e, err := l.Create(t.Context(), s, Lobby, "test")
	require.NoError(t, err)
	require.NotNil(t, e.Draw, "the commitment is there before anybody may join")
	return e
}

func drawnOpen(t *testing.T, l *Line) Event {
	t.Helper()
	var e Event
	deadline := time.Now().Add(30 * time.Second)
	for {
		var err error
		e, err = l.Event(t.Context(), "e")
		require.NoError(t, err)
		if e.State == Open {
			return e
		}
		require.True(t, time.Now().Before(deadline), "not drawn: %s", e.drawPhase)
	}
}

// doc.go promise 13: early birds stand by the published draw, latecomers behind, and
// anyone can check it.
func TestPromise13TheOrderIsTheDraws(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := testLine(t, start(t))
			made := lobby(t, l, nil)
			drawers(t, 3, l, nil)
			early := joinN(t, l, 30)
			for _, p := range early {
				require.Equal(t, EntryLobby, p.State)
			}
			require.NoError(t, l.Leave(t.Context(), "e", early[3].Entry))
			require.Empty(t, promote(t, l, 5).Grants, "nobody is in before the draw")
			_, err := l.Patch(t.Context(), "e", []byte(`{"state":"open"}`), "test")
			require.NoError(t, err)
			late := joinN(t, l, 3)
			e := drawnOpen(t, l)
			late = append(late, joinN(t, l, 2)...)

			require.Equal(t, made.Draw.Commitment, e.Draw.Commitment)
			require.Equal(t, 29, e.Draw.Size)
			b, err := l.Bundle(t.Context(), e)
			require.NoError(t, err)
			require.NoError(t, b.Verify())
			require.Len(t, b.Line, 29)

			var want []EntryID
			for _, leaf := range b.Line {
				i := slices.IndexFunc(early, func(p Place) bool { return draw.Leaf("e", string(p.Entry)) == leaf })
				require.GreaterOrEqual(t, i, 0)
				want = append(want, early[i].Entry)
			}
			for _, p := range late {
				want = append(want, p.Entry)
			}
			var got []EntryID
			for _, g := range promote(t, l, 100).Grants {
				got = append(got, g.Entry)
			}
			require.Equal(t, want, got)

			// Receipts of the lobby find the new place.
			for _, p := range early[:3] {
				now, err := l.Place(t.Context(), "e", p.Receipt)
				require.NoError(t, err)
				require.Equal(t, EntryAdmitted, now.State)
			}
		})
	}
}

// The beacon decides where it comes in time; where it does not, the opening waits as
// long as the event says, and the draw tells that it fell back.
func TestDrawWaitsForItsBeacon(t *testing.T) {
	t.Parallel()
	for name, comes := range map[string]bool{"comes": true, "does not come": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := testLine(t, redistest.Mini(t))
			lobby(t, l, func(s *Settings) {
				s.Beacon = BeaconSettings{URL: "https://beacon.example", Wait: Duration(time.Minute)}
			})
			beacon := &fakeBeacon{}
			drawers(t, 2, l, beacon)
			joinN(t, l, 20)
			_, err := l.Patch(t.Context(), "e", []byte(`{"state":"open"}`), "test")
			require.NoError(t, err)
			deadline := time.Now().Add(20 * time.Second)
			for {
				e, err := l.Event(t.Context(), "e")
				require.NoError(t, err)
				if e.Draw.Root != nil {
					require.Equal(t, Lobby, e.State)
					require.Nil(t, e.Draw.Seed, "the seed waits for the beacon")
					require.EqualValues(t, 7, e.Draw.Round)
					break
				}
				require.True(t, time.Now().Before(deadline))
			}
			if comes {
				beacon.out.Store(true)
			} else {
				at(t, l, 2*time.Minute)
			}
			e := drawnOpen(t, l)
			require.Equal(t, !comes, e.Draw.Fallback)
			require.Equal(t, comes, e.Draw.Beacon != nil)
			b, err := l.Bundle(t.Context(), e)
			require.NoError(t, err)
			require.NoError(t, b.Verify())
		})
	}
}

// A node that dies at any step of a draw leaves it to another, which comes to the
// same end; no step of the dead one counts afterwards.
func TestDrawGoesOnWithoutItsNode(t *testing.T) {
	t.Parallel()
	for dies := 1; dies < 8; dies++ {
		rdb := redistest.Mini(t)
		l := testLineAs(t, rdb, "d")
		ev := lobby(t, l, nil)
		joinMany(t, l, 600) // two chunks
		_, err := l.Patch(t.Context(), "e", []byte(`{"state":"open"}`), "test")
		require.NoError(t, err)
		doomed := redis.NewClient(&redis.Options{Addr: rdb.Options().Addr})
		ctx, die := context.WithCancel(t.Context())
		doomed.AddHook(&countdown{left: dies, die: die})
		d := NewDrawer(testLineAs(t, doomed, "d"), nil, nil, zaptest.NewLogger(t))
		require.ErrorIs(t, d.draw(ctx, ev), context.Canceled)
		require.NoError(t, doomed.Close())

		next := NewDrawer(l, nil, nil, zaptest.NewLogger(t))
		require.NoError(t, next.draw(t.Context(), ev), "the other is at it still")
		at(t, l, time.Minute)
		require.NoError(t, next.draw(t.Context(), ev))
		e := drawnOpen(t, l)
		_, err = l.step(t.Context(), "e", d.node, "place", 0, "x", 0)
		require.ErrorIs(t, err, errElsewhere)
		b, err := l.Bundle(t.Context(), e)
		require.NoError(t, err)
		require.NoError(t, b.Verify(), "died at step %d", dies)
		stand, err := l.rdb.ZRange(t.Context(), l.keys.line("e"), 0, -1).Result()
		require.NoError(t, err)
		var line []draw.Hash
		for _, entry := range stand {
			line = append(line, draw.Leaf("e", entry))
		}
		require.True(t, slices.Equal(b.Line, line), "the line is not the draw's")
	}
}

// countdown dies after so many scripts.
type countdown struct {
	left int
	die  context.CancelFunc
}

func (c *countdown) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *countdown) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *countdown) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "evalsha" && err == nil {
			if c.left--; c.left == 0 {
				c.die()
				return context.Canceled // the answer never arrives
			}
		}
		return err
	}
}

func TestDrawNeedsALobby(t *testing.T) {
	t.Parallel()
	l := testLine(t, redistest.Mini(t))
	s := DefaultSettings("e")
	s.Order = OrderDraw
	_, err := l.Create(t.Context(), s, "", "test")
	requireField(t, err, "lobby_opens_at")
	_, err = l.Create(t.Context(), s, Open, "test")
	requireField(t, err, "lobby_opens_at")
	_, err = l.Create(t.Context(), s, Lobby, "test")
	require.NoError(t, err)
	_, err = l.Patch(t.Context(), "e", []byte(`{"order":"fifo"}`), "test")
	requireField(t, err, "order")
	s.Beacon.URL = "ftp://x"
	requireField(t, s.Validate(), "beacon.url")
	s.Order, s.Beacon = "fifo", BeaconSettings{URL: "https://x", Wait: Duration(time.Minute)}
	requireField(t, s.Validate(), "beacon")
}

func requireField(t *testing.T, err error, field string) {
	t.Helper()
	invalid, ok := errors.AsType[*InvalidError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, field, invalid.Fields[0].Field)
}
