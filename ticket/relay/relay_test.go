package relay

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"pgregory.net/rapid"

	"github.com/waitroom-dev/waitroom/ticket"
)

func row(id int64, key string) ticket.OutboxRow {
	return ticket.OutboxRow{ID: id, DedupID: fmt.Sprintf("d%d", id), Topic: ticket.TopicPaid, Key: key, Payload: []byte("{}"), CreatedAt: time.Now()}
}

var errHiccup = errors.New("connection reset")

// Promise 7: a kick publishes at once, a poll within 200 ms.
func TestKickPublishesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, b := &outbox{}, &broker{}
		r := newRelay(t, o, b)
		stop := running(t, r)
		synctest.Wait()
		start := time.Now()
		o.add(row(1, "a"))
		r.Kick()
		synctest.Wait()
		require.Equal(t, []string{"d1"}, b.ids())
		require.Equal(t, start, b.at[0], "at once")
		o.add(row(2, "a"))
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"d1", "d2"}, b.ids(), "no kick, found by the poll")
		stop()
		require.Zero(t, o.waiting())
	})
}

// What waits behind a row of its key goes out right after it, without a poll.
func TestRowsOfOneKeyDoNotWaitForPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, b := &outbox{single: true}, &broker{}
		r := newRelay(t, o, b)
		stop := running(t, r)
		synctest.Wait()
		o.add(row(1, "a"), row(2, "a"), row(3, "a"))
		start := time.Now()
		r.Kick()
		synctest.Wait()
		stop()
		require.Equal(t, []string{"d1", "d2", "d3"}, b.ids())
		require.Equal(t, start, b.at[2])
	})
}

// An idle relay asks the database a handful of times a second, not more.
func TestIdleRelayIsCheap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &outbox{}
		stop := running(t, newRelay(t, o, &broker{}))
		time.Sleep(10 * time.Second)
		stop()
		require.LessOrEqual(t, o.claims, 64)
		require.GreaterOrEqual(t, o.claims, 40)
	})
}

// Promise 2: rows of one key in order; a failed one holds back only its key.
func TestOrderPerKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, b := &outbox{}, &broker{}
		o.add(row(1, "a"), row(2, "b"), row(3, "a"), row(4, "a"), row(5, "b"))
		tries := 0
		b.fail = func(m Message) error {
			if m.DedupID == "d3" {
				if tries++; tries <= 2 {
					return fmt.Errorf("%w: not today", ErrRefused)
				}
			}
			return nil
		}
		stop := running(t, newRelay(t, o, b))
		synctest.Wait()
		require.Equal(t, []string{"d1", "d2", "d5"}, b.ids(), "3 failed, 4 must wait for it, b goes on")
		time.Sleep(time.Minute)
		stop()
		require.Equal(t, []string{"d1", "d2", "d5", "d3", "d4"}, b.ids())
		for _, call := range b.calls {
			seen := map[string]bool{}
			for _, m := range call {
				require.False(t, seen[m.Key], "two messages of key %s in one call", m.Key)
				seen[m.Key] = true
			}
		}
	})
}

// Promise 5: poison never stops the others, and is counted and reported.
func TestPoisonStopsNobody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
	}{{"refused by name", ErrRefused}, {"failed alone", errHiccup}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, b := &outbox{}, &broker{}
				b.fail = func(m Message) error {
					if m.Key == "poison" {
						return c.err
					}
					return nil
				}
				core, logs := observer.New(zap.ErrorLevel)
				reg := prometheus.NewRegistry()
				r, err := New(Config{}, o, b, zap.New(core), reg)
				require.NoError(t, err)
				stop := running(t, r)
				o.add(row(1, "poison"))
				for i := range int64(100) {
					o.add(row(i+2, fmt.Sprintf("k%d", i)))
					r.Kick()
					time.Sleep(100 * time.Millisecond)
				}
				stop()
				require.Len(t, b.ids(), 100)
				require.Equal(t, 1, o.waiting())
				require.True(t, o.rows[0].parked)
				require.Equal(t, 3, o.failed[1])
				require.Equal(t, 3, logs.FilterMessage("message failed").Len())
				require.Equal(t, 3, counted(t, reg, "waitroom_relay_failures_total"))
			})
		})
	}
}

// Promise 4: a broker that is away burns no attempts, and when it is back what
// waited goes out within seconds.
func TestBrokerAwayBurnsNoAttempts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
	}{{"said so", ErrAway}, {"failed as a whole", errHiccup}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, b := &outbox{}, &broker{}
				b.fail = func(Message) error { return c.err }
				stop := running(t, newRelay(t, o, b))
				for i := range int64(600) {
					o.add(row(i+1, fmt.Sprintf("k%d", i%50)))
					time.Sleep(time.Second)
				}
				require.Empty(t, b.ids())
				b.set(0, nil)
				// The largest wait, and the margin in which a row is let go for others to claim.
				time.Sleep(2*time.Second + 5*time.Second)
				require.Len(t, b.ids(), 600)
				stop()
				require.Empty(t, o.failed)
				require.Zero(t, o.waiting())
				inOrder(t, b)
			})
		})
	}
}

// inOrder checks that the rows of each key were published in order.
func inOrder(t *testing.T, b *broker) {
	t.Helper()
	last := map[string]int64{}
	seen := map[string]bool{}
	for _, m := range b.stored() {
		if seen[m.DedupID] {
			continue
		}
		seen[m.DedupID] = true
		var id int64
		_, err := fmt.Sscanf(m.DedupID, "d%d", &id)
		require.NoError(t, err)
		require.Greater(t, id, last[m.Key], "order of key %s", m.Key)
		last[m.Key] = id
	}
}

// Promise 4: a broker that hangs is left after PublishTimeout.
func TestHungBroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, b := &outbox{}, &broker{took: time.Hour}
		o.add(row(1, "a"))
		stop := running(t, newRelay(t, o, b))
		time.Sleep(4 * time.Second)
		require.Equal(t, 1, b.called())
		time.Sleep(56 * time.Second)
		require.Greater(t, b.called(), 5)
		b.set(0, nil)
		time.Sleep(8 * time.Second)
		require.Equal(t, []string{"d1"}, b.ids())
		stop()
	})
}

// Promise 8: a stop waits for the call in hand and marks what it published.
func TestStopMakesTheLastMarks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, b := &outbox{}, &broker{took: 3 * time.Second}
		o.add(row(1, "a"), row(2, "b"))
		stop := running(t, newRelay(t, o, b))
		time.Sleep(time.Second)
		start := time.Now()
		stop()
		require.Equal(t, 2*time.Second, time.Since(start))
		require.Zero(t, o.waiting())
	})
}

// The database is away after the publication: the marks are made when it is back.
func TestMarksWaitForTheDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, b := &outbox{}, &broker{took: time.Second}
		o.add(row(1, "a"))
		stop := running(t, newRelay(t, o, b))
		synctest.Wait()
		o.mu.Lock()
		o.away = errHiccup
		o.mu.Unlock()
		time.Sleep(10 * time.Second)
		require.Equal(t, 1, o.waiting())
		o.mu.Lock()
		o.away = nil
		o.mu.Unlock()
		time.Sleep(3 * time.Second)
		stop()
		require.Zero(t, o.waiting())
		require.Len(t, b.calls, 1, "published once: the lease was not over")
	})
}

// Promise 6: two relays side by side, one of them dying with its claims.
func TestRelaysSideBySide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, b := &outbox{}, &broker{took: 20 * time.Millisecond}
		for i := range int64(500) {
			o.add(row(i+1, fmt.Sprintf("k%d", i%20)))
		}
		_, err := o.ClaimOutbox(t.Context(), 10, 30*time.Second) // … and dies
		require.NoError(t, err)
		stops := []func(){running(t, newRelay(t, o, b)), running(t, newRelay(t, o, b))}
		time.Sleep(time.Minute)
		for _, stop := range stops {
			stop()
		}
		require.Zero(t, o.waiting())
		ids := b.ids()
		slices.Sort(ids)
		require.Len(t, slices.Compact(ids), 500)
		inOrder(t, b)
	})
}

// Published rows are swept in bounded batches.
func TestSweep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &outbox{}
		for i := range int64(2500) {
			o.add(row(i+1, fmt.Sprintf("k%d", i)))
		}
		reg := prometheus.NewRegistry()
		r, err := New(Config{}, o, &broker{}, zap.NewNop(), reg)
		require.NoError(t, err)
		stop := running(t, r)
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		require.Equal(t, 2500, o.swept)
		require.Equal(t, 2500, counted(t, reg, "waitroom_relay_swept_total"))
	})
}

// Promises 2, 4, 5 and 6 under generated faults.
func TestDeliveredUnderFaults(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		keys := rapid.SliceOfN(rapid.IntRange(0, 5), 1, 60).Draw(rt, "keys")
		relays := rapid.IntRange(1, 3).Draw(rt, "relays")
		seed := rapid.Uint64().Draw(rt, "seed")
		synctest.Test(t, func(t *testing.T) {
			o, b := &outbox{}, &broker{took: 10 * time.Millisecond}
			calm := false
			b.fail = func(Message) error { // under the broker's lock
				seed = seed*6364136223846793005 + 1442695040888963407
				switch {
				case calm, (seed>>33)%4 != 0:
					return nil
				case (seed>>40)%2 == 0:
					return ErrAway
				default:
					return errHiccup
				}
			}
			// Nothing is parked: whatever failed must come in the end.
			for i, k := range keys {
				r := row(int64(i)+1, fmt.Sprintf("k%d", k))
				r.Attempts = -1000
				o.add(r)
			}
			var stops []func()
			for range relays {
				stops = append(stops, running(t, newRelay(t, o, b)))
			}
			time.Sleep(20 * time.Second)
			b.mu.Lock()
			calm = true
			b.mu.Unlock()
			time.Sleep(70 * time.Second)
			for _, stop := range stops {
				stop()
			}
			require.Zero(t, o.waiting())
			inOrder(t, b)
		})
	})
}

func TestConfigFaultsAreNamed(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Batch: -1, Lease: time.Second, Poll: time.Second, Keep: -1}, nil, nil, zap.NewNop(), prometheus.NewRegistry())
	for _, want := range []string{"batch -1", "lease 1s", "poll 1s", "keep -1ns"} {
		require.ErrorContains(t, err, want)
	}
}
