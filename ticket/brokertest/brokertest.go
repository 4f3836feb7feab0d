// Package brokertest plays the same games with every broker: what the relay, the
// consumers and an audit rely on, whatever the broker is.
package brokertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/relay"
)

// Broker is one to play with, on a server of its own.
type Broker struct {
	Publisher relay.Publisher
	// Consume makes a consumer of the group "g" that gives a message up after three
	// tries.
	Consume func(h relay.Handler) func(context.Context) error
	// Tail makes a tail; nil where its own tests do.
	Tail func(each func(relay.Message)) func(context.Context) error
	Log  ticket.BrokerLog
	// Dead gives the deduplication ids of the dead letters.
	Dead func() []string
	// Freeze makes the server hang, Thaw lets it go on.
	Freeze, Thaw func()
	// Once says that the broker itself counts repetitions once.
	Once bool
	// TooLarge is the size of a payload that it refuses.
	TooLarge int
}

// Play plays all games.
func Play(t *testing.T, broker func(t *testing.T) Broker) {
	t.Helper()
	for name, game := range map[string]func(*testing.T, Broker){
		"in order and once":         inOrderAndOnce,
		"refuses only what it must": refuses,
		"hangs and comes back":      hangs,
		"a group shares":            shares,
		"poison":                    poison,
		"delivered is committed":    delivered,
		"tail":                      tail,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			game(t, broker(t))
		})
	}
}

func message(n int) relay.Message {
	return relay.Message{
		DedupID: fmt.Sprintf("r%d:t%d", n%5, n), Event: "e", Topic: "reservation.held", Key: fmt.Sprintf("r%d", n%5),
		Payload: fmt.Appendf(nil, `{"n":%d}`, n),
	}
}

// eventually polls until it is so, for at most 30 seconds.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(30 * time.Second)
	for !so() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it never was so: " + what)
		}
	}
}

// running runs a component until the test ends, or until stop is called.
func running(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background()) // ended in a cleanup
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return stop
}

// publish wants a broker that answers to take all.
func publish(t *testing.T, b Broker, ms ...relay.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.Nil(t, b.Publisher.Publish(ctx, ms))
}

// held is what the log holds of each key, in order.
func held(t *testing.T, b Broker) (byKey map[string][]string, n int) {
	t.Helper()
	byKey = map[string][]string{}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, b.Log.Records(ctx, func(r ticket.LogRecord) {
		require.NotZero(t, r.At)
		byKey[r.Key] = append(byKey[r.Key], r.DedupID)
		n++
	}))
	return byKey, n
}

// first drops repetitions.
func first(ids []string) []string {
	seen := map[string]bool{}
	var kept []string
	for _, id := range ids {
		if !seen[id] {
			kept = append(kept, id)
		}
		seen[id] = true
	}
	return kept
}

func inOrderAndOnce(t *testing.T, b Broker) {
	t.Helper()
	_, n := held(t, b)
	require.Zero(t, n, "a log that is not there yet is empty")
	const most = 1200
	var ms []relay.Message
	want := map[string][]string{}
	for i := range most {
		m := message(i)
		ms = append(ms, m)
		want[m.Key] = append(want[m.Key], m.DedupID)
	}
	publish(t, b, ms...)
	publish(t, b, ms[:100]...)
	got, n := held(t, b)
	for key := range got {
		got[key] = first(got[key])
	}
	require.Equal(t, want, got)
	if b.Once {
		require.Equal(t, most, n)
	}
}

func refuses(t *testing.T, b Broker) {
	t.Helper()
	large := message(1)
	large.Payload = make([]byte, b.TooLarge)
	for i := range large.Payload {
		large.Payload[i] = byte(rand.IntN(256)) //nolint:gosec // it must not be packed small
	}
	nameless := message(2)
	nameless.DedupID = ""
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	errs := b.Publisher.Publish(ctx, []relay.Message{message(0), large, nameless, message(3)})
	require.Len(t, errs, 4)
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], relay.ErrRefused)
	require.ErrorIs(t, errs[2], relay.ErrRefused)
	require.NoError(t, errs[3])
	_, n := held(t, b)
	require.Equal(t, 2, n)
}

func hangs(t *testing.T, b Broker) {
	t.Helper()
	publish(t, b, message(0))
	b.Freeze()
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		began := time.Now()
		errs := b.Publisher.Publish(ctx, []relay.Message{message(1), message(2)})
		cancel()
		require.Less(t, time.Since(began), 10*time.Second, "it ends with its context")
		require.Len(t, errs, 2)
		require.ErrorIs(t, errs[0], relay.ErrAway)
		require.ErrorIs(t, errs[1], relay.ErrAway)
	}
	b.Thaw()
	eventually(t, "it takes messages again", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return b.Publisher.Publish(ctx, []relay.Message{message(1), message(2), message(6)}) == nil
	})
	got, n := held(t, b)
	require.Equal(t, []string{"r1:t1", "r1:t6"}, first(got["r1"]))
	require.LessOrEqual(t, n, 20, "nothing piled up")
}

// tally counts what handlers saw.
type tally struct {
	mu   sync.Mutex
	seen map[string]int
}

func (c *tally) add(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[string]int{}
	}
	c.seen[id]++
	return c.seen[id]
}

func (c *tally) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

func shares(t *testing.T, b Broker) {
	t.Helper()
	var all tally
	handle := func(_ context.Context, m relay.Message) error {
		all.add(m.DedupID)
		return nil
	}
	for i := range 50 { // before anybody is there
		publish(t, b, message(i))
	}
	stop := running(t, b.Consume(handle))
	running(t, b.Consume(handle))
	for i := range 50 {
		publish(t, b, message(50+i))
	}
	eventually(t, "all are handled", func() bool { return all.len() == 100 })
	stop() // one goes, the other has the rest
	for i := range 50 {
		publish(t, b, message(100+i))
	}
	eventually(t, "all are handled by the other", func() bool { return all.len() == 150 })
}

func poison(t *testing.T, b Broker) {
	t.Helper()
	var done, tried tally
	running(t, b.Consume(func(_ context.Context, m relay.Message) error {
		tried.add(m.DedupID)
		if m.DedupID == "r1:t1" {
			return errors.New("bad")
		}
		done.add(m.DedupID)
		return nil
	}))
	for i := range 20 {
		publish(t, b, message(i))
	}
	eventually(t, "the others are handled", func() bool { return done.len() == 19 })
	eventually(t, "it is a dead letter", func() bool { return len(b.Dead()) > 0 })
	require.Equal(t, []string{"r1:t1"}, b.Dead())
	require.Equal(t, 4, tried.add("r1:t1"), "three tries, and this count")
}

// Delivered = committed, under random commit delays, refusals and cancellations,
// through a real relay from a real outbox.
func delivered(t *testing.T, b Broker) {
	t.Helper()
	db, err := ticket.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "t.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, ticket.Migrate(t.Context(), db))
	s, err := ticket.New(ticket.Config{CallTimeout: 15 * time.Second}, db, zap.NewNop(), nil)
	require.NoError(t, err)
	require.NoError(t, s.Put(t.Context(), "e", ticket.Catalogue{Kind: ticket.KindStock, Stock: 60, PriceCents: 100}))
	r, err := relay.New(relay.Config{}, s, b.Publisher, zap.NewNop(), nil)
	require.NoError(t, err)
	s.OnCommit(r.Kick)
	var seen tally
	running(t, b.Consume(func(_ context.Context, m relay.Message) error {
		seen.add(m.DedupID)
		return nil
	}))
	stop := running(t, r.Run)
	want := make(chan string, 1000)
	var buyers sync.WaitGroup
	for n := range 80 {
		buyers.Go(func() {
			var got ticket.Reservation
			_, err := s.Reserve(t.Context(), ticket.ReserveRequest{
				Event: "e", JTI: fmt.Sprint("j", n), Person: fmt.Sprint("p", n), Quantity: 1,
				Encode: func(r ticket.Reservation, _ error) (int, []byte) { got = r; return 201, nil },
			})
			if err != nil || got.ID == "" {
				return // sold out: nothing was committed
			}
			want <- got.ID + ":" + ticket.TopicHeld
			if rand.IntN(2) == 0 && s.Cancel(t.Context(), "e", got.ID, got.Person) == nil {
				want <- got.ID + ":" + ticket.TopicCancelled
			}
		})
	}
	buyers.Wait()
	close(want)
	n := 0
	for id := range want {
		n++
		eventually(t, id+" is delivered", func() bool {
			seen.mu.Lock()
			defer seen.mu.Unlock()
			return seen.seen[id] > 0
		})
	}
	require.Equal(t, n, seen.len(), "nothing that was not committed")
	stop()
	books, err := s.Audit(t.Context(), ticket.AuditRequest{Event: "e", Broker: b.Log})
	require.NoError(t, err)
	require.Empty(t, books.Failed())
	require.EqualValues(t, n, books.Counts["outbox published"])
}

func tail(t *testing.T, b Broker) {
	t.Helper()
	if b.Tail == nil {
		t.Skip("its own tests show it")
	}
	publish(t, b, message(0))
	var early, all tally
	running(t, b.Tail(func(m relay.Message) { early.add(m.DedupID) }))
	running(t, b.Tail(func(m relay.Message) { all.add(m.DedupID) }))
	n := 0
	eventually(t, "both have begun", func() bool {
		n++
		m := message(0)
		m.DedupID = fmt.Sprint("probe ", n)
		publish(t, b, m)
		return early.len() > 0 && all.len() > 0
	})
	begun := all.len()
	for i := range 30 {
		publish(t, b, message(100+i))
	}
	eventually(t, "all are seen", func() bool { return all.len() >= begun+30 && early.len() >= 30 })
	all.mu.Lock()
	defer all.mu.Unlock()
	require.NotContains(t, all.seen, message(0).DedupID, "published before it began")
}
