package ticket

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket/sqltest"
)

func ids(rows []OutboxRow) []int64 {
	out := make([]int64, len(rows))
	for i, r := range rows {
		out[i] = r.ID
	}
	return out
}

// Promise 13: messages of a reservation keep their order, and each is given out
// until it is published.
func TestPromise13OutboxKeepsOrder(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{OutboxAttempts: 2})
		require.NoError(t, s.Put(t.Context(), "e", hallOf(1, 10)))
		ann, bob := &buyer{event: "e", name: "ann"}, &buyer{event: "e", name: "bob"}
		held := holds(t, s, ann.quantity(1))
		other := holds(t, s, bob.quantity(1))
		require.NoError(t, s.Cancel(t.Context(), "e", held.ID, "ann"))

		rows, err := s.ClaimOutbox(t.Context(), 10, time.Second)
		require.NoError(t, err)
		require.Len(t, rows, 2, "the cancellation waits for its hold")
		require.Equal(t, []string{held.ID, other.ID}, []string{rows[0].Key, rows[1].Key})
		require.Equal(t, held.ID+":"+TopicHeld, rows[0].DedupID)
		require.JSONEq(t, fmt.Sprintf(`{"topic":"reservation.held","event":"e","reservation_id":%q,"person":"ann","status":"held",
			"seats":["A-5"],"amount_cents":5000,"currency":"EUR","at":%q}`, held.ID, rows[0].CreatedAt.Format(time.RFC3339Nano)), string(rows[0].Payload))
		again, err := s.ClaimOutbox(t.Context(), 10, time.Second)
		require.NoError(t, err)
		require.Empty(t, again, "claimed, all of them")
		s.skew.Add(1001)
		again, err = s.ClaimOutbox(t.Context(), 10, time.Second)
		require.NoError(t, err)
		require.Equal(t, ids(rows), ids(again), "a relay that died holds nothing for ever")

		require.NoError(t, s.MarkPublished(t.Context(), ids(rows[1:])))
		for range 2 {
			require.NoError(t, s.MarkFailed(t.Context(), rows[0].ID, "broker said no"))
			s.skew.Add(40_000)
		}
		again, err = s.ClaimOutbox(t.Context(), 10, time.Second)
		require.NoError(t, err)
		require.Empty(t, again, "the hold is parked, and the cancellation stays behind it")
		n, err := s.Unpark(t.Context(), "other", 10)
		require.NoError(t, err)
		require.Zero(t, n, "another event's")
		n, err = s.Unpark(t.Context(), "e", 10)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		for _, topic := range []string{TopicHeld, TopicCancelled} {
			again, err = s.ClaimOutbox(t.Context(), 10, time.Second)
			require.NoError(t, err)
			require.Len(t, again, 1)
			require.Equal(t, topic, again[0].Topic)
			require.NoError(t, s.MarkPublished(t.Context(), ids(again)))
		}
		n, err = s.SweepOutbox(t.Context(), time.Hour, 10)
		require.NoError(t, err)
		require.Zero(t, n)
		s.skew.Add(3_600_001)
		for _, want := range []int{2, 1, 0} {
			n, err = s.SweepOutbox(t.Context(), time.Hour, 2)
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
	})
}

// Promise 13: a relay that cannot keep up gives out the youngest messages, too.
func TestPromise13NothingWaitsForEver(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{})
		require.NoError(t, s.Put(t.Context(), "e", hallOf(1, 100)))
		require.NoError(t, s.db.change(t.Context(), func(ctx context.Context, x tx) error {
			return x.insert(ctx, 1, `INSERT INTO outbox (event, topic, key, payload, created_ms) VALUES ('e', $1, $2, $3, 1)`, nil,
				TopicWinner, winKey("zz", 1, 1), []byte("{}"))
		}))
		won := func() bool {
			rows, err := s.ClaimOutbox(t.Context(), 2, time.Minute)
			require.NoError(t, err)
			return slices.ContainsFunc(rows, func(r OutboxRow) bool { return r.Topic == TopicWinner })
		}
		heard := false
		for n := range 8 { // each time more comes than is taken
			for i := range 4 {
				holds(t, s, (&buyer{event: "e", name: fmt.Sprint("buyer", 4*n+i)}).quantity(1))
			}
			heard = won() || heard
		}
		require.True(t, heard)
	})
}

// Promise 14: what commits late is not skipped, by the relay or by the nodes.
func TestPromise14LateCommitIsNotSkipped(t *testing.T) {
	t.Parallel()
	address := sqltest.Postgres(t)
	s, slow := openStore(t, address, Config{}), openStore(t, address, Config{}) // slow's transaction needs a connection of its own
	require.NoError(t, s.Put(t.Context(), "e", hallOf(1, 10)))
	h := newHearer()
	s.Listen(h)
	require.NoError(t, s.catchUp(t.Context()))
	write := func(ctx context.Context, x tx, id string) error {
		var box outgoing
		box.add(TopicCancelled, &Reservation{ID: id, Event: "e", Person: "p", Status: Cancelled, Seats: []string{"A-1"}}, "", 1)
		return box.write(ctx, x, 1)
	}
	require.NoError(t, slow.db.change(t.Context(), func(ctx context.Context, late tx) error {
		require.NoError(t, write(ctx, late, "late"))
		require.ErrorIs(t, s.db.change(ctx, func(ctx context.Context, x tx) error {
			require.NoError(t, write(ctx, x, "never"))
			return errConflict
		}), errConflict)
		require.NoError(t, s.db.change(ctx, func(ctx context.Context, x tx) error { return write(ctx, x, "early") }))
		rows, err := s.ClaimOutbox(ctx, 10, time.Minute)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		require.Equal(t, "early", rows[0].Key)
		require.NoError(t, s.MarkPublished(ctx, ids(rows)))
		return s.catchUp(ctx)
	}))
	rows, err := s.ClaimOutbox(t.Context(), 10, time.Minute)
	require.NoError(t, err)
	require.Len(t, rows, 1, "its number is lower than that of one which is published already")
	require.Equal(t, "late", rows[0].Key)
	require.NoError(t, s.catchUp(t.Context()))
	require.Equal(t, "early", h.heard[0].ReservationID)
	require.Equal(t, "late", h.heard[1].ReservationID)
	require.Len(t, h.heard, 2)
	require.Len(t, s.news.gaps, 1, "the one that never was is still waited for")
	s.news.seen(nil, -1)
	require.Empty(t, s.news.gaps)
}

// Two relays at once give each row out once.
func TestOutboxClaimsAreDisjoint(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		nodes := []*Store{openStore(t, address, Config{}), openStore(t, address, Config{})}
		require.NoError(t, nodes[0].Put(t.Context(), "e", Catalogue{Kind: KindStock, Stock: 1000}))
		atOnce(200, func(i int) string { return try(t, nodes[i%2], (&buyer{event: "e", name: fmt.Sprint(i)}).quantity(1)) })
		got := atOnce(8, func(i int) string {
			for {
				rows, err := nodes[i%2].ClaimOutbox(t.Context(), 7, time.Minute)
				if err != nil {
					return err.Error()
				}
				if len(rows) == 0 {
					return "done"
				}
				if len(rows) > 7 {
					return fmt.Sprint(len(rows), " rows claimed")
				}
				for _, r := range rows {
					if err := note(t, nodes[0], r); err != nil {
						return err.Error()
					}
				}
				if err := nodes[i%2].MarkPublished(t.Context(), ids(rows)); err != nil {
					return err.Error()
				}
			}
		})
		require.Equal(t, map[string]int{"done": 8}, got)
		require.EqualValues(t, 200, count(t, nodes[0], `SELECT count(*) FROM outbox WHERE state = 1`))
		require.EqualValues(t, 200, count(t, nodes[0], `SELECT count(*) FROM answers WHERE status = 0`), "each given out once")
	})
}

// note keeps a claimed row where keeping it again fails.
func note(t *testing.T, s *Store, r OutboxRow) error {
	t.Helper()
	return s.again(t.Context(), func(ctx context.Context, x tx) error {
		return store(ctx, x, []storing{{key: []byte(r.DedupID)}}, 0)
	})
}
