package number

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/sqltest"
)

// stopping ends the test databases before the leak check.
type stopping struct{ m *testing.M }

func (s stopping) Run() int {
	defer sqltest.Stop()
	return s.m.Run()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(stopping{m}) }

var errCrash = errors.New("crashed here")

// queue is one in memory, that crashes where it is told to.
type queue struct {
	mu      sync.Mutex
	event   Event
	waiting []Request
	told    map[string]ticket.Number
	fail    func(step string) error
}

func (q *queue) Events() []Event { return []Event{q.event} }

func (q *queue) Queued(_ context.Context, _ string, limit int) ([]Request, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.fail("before queued"); err != nil {
		return nil, err
	}
	return append([]Request(nil), q.waiting[:min(limit, len(q.waiting))]...), q.fail("after queued")
}

func (q *queue) Numbered(_ context.Context, _ string, results []Result) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.fail("before numbered"); err != nil {
		return err
	}
	gone := make(map[string]bool)
	for i, r := range results {
		if i == len(results)/2 {
			if err := q.fail("amid numbered"); err != nil {
				break
			}
		}
		gone[r.Record] = true
		if was, ok := q.told[r.Entry]; ok && was != r.Number {
			return fmt.Errorf("%s was told %v, then %v", r.Entry, was, r.Number)
		}
		q.told[r.Entry] = r.Number
	}
	left := q.waiting[:0]
	for _, w := range q.waiting {
		if !gone[w.Record] {
			left = append(left, w)
		}
	}
	q.waiting = left
	return q.fail("after numbered")
}

// crashing numbers, and crashes before or after.
type crashing struct {
	Books
	q *queue
}

func (c crashing) Number(ctx context.Context, event string, fence int64, rs []ticket.NumberRequest, winners []int64) ([]ticket.Number, error) {
	if err := c.q.fail("before number"); err != nil {
		return nil, err
	}
	ns, err := c.Books.Number(ctx, event, fence, rs, winners)
	return ns, errors.Join(err, c.q.fail("after number"))
}

func openStore(t *testing.T, address string) *ticket.Store {
	t.Helper()
	db, err := ticket.Open(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	require.NoError(t, ticket.Migrate(t.Context(), db))
	s, err := ticket.New(ticket.Config{CallTimeout: 15 * time.Second}, db, zap.NewNop(), nil)
	require.NoError(t, err)
	return s
}

func onBoth(t *testing.T, test func(t *testing.T, s *ticket.Store)) {
	t.Helper()
	for name, address := range map[string]string{"postgres": sqltest.Postgres(t), "sqlite": "sqlite:" + filepath.Join(t.TempDir(), "t.db")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, openStore(t, address))
		})
	}
}

// Promise 1: wherever the numberer dies, and another follows it with a higher fence.
// 100 people, some of whom are in the queue twice.
func TestPromise1NoHoleNoDoubleEveryWinnerOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *ticket.Store) {
		t.Helper()
		for i, step := range []string{"before queued", "after queued", "before number", "after number", "before numbered", "amid numbered", "after numbered"} {
			q := &queue{event: Event{ID: fmt.Sprintf("e%d", i), Winners: []int64{1, 50, 100, 101}}, told: make(map[string]ticket.Number)}
			for n := range 120 {
				who := n % 100
				q.waiting = append(q.waiting, Request{Record: fmt.Sprintf("r%d", n), NumberRequest: ticket.NumberRequest{
					Entry: fmt.Sprintf("entry-%d", who), Request: fmt.Sprintf("request-%d", who), Person: fmt.Sprintf("person %d", who),
				}})
			}
			crashes, passed := 0, 0
			q.fail = func(at string) error {
				if at != step {
					return nil
				}
				if passed++; crashes < 3 && passed%2 == 0 {
					crashes++
					return errCrash
				}
				return nil
			}
			for fence := range int64(100) { // each is a numberer that dies at its first failure
				n, err := New(Config{Limit: 16}, q, crashing{store, q}, nil, zap.NewNop())
				require.NoError(t, err)
				if err = n.number(t.Context(), q.event, fence); err == nil {
					break
				}
				require.ErrorIs(t, err, errCrash)
			}
			require.Equal(t, 3, crashes, step)
			require.Empty(t, q.waiting)
			require.Len(t, q.told, 100)
			for who := range 100 {
				n := q.told[fmt.Sprintf("entry-%d", who)]
				require.EqualValues(t, who+1, n.Seq, "in the order of arrival, without a hole: %s", step)
				require.Equal(t, who == 0 || who == 49 || who == 99, n.Winner)
			}
		}
		notices := make(map[string]int)
		for {
			rows, err := store.ClaimOutbox(t.Context(), 100, time.Minute)
			require.NoError(t, err)
			if len(rows) == 0 {
				break
			}
			for _, r := range rows {
				require.Equal(t, ticket.TopicWinner, r.Topic)
				notices[r.DedupID]++
				if strings.HasPrefix(r.Key, "e0/50/") {
					require.Regexp(t, `^{"event_id":"e0","user_id":"person 49","seq":50,"determined_at":"\d{4}-.*Z"}$`, string(r.Payload))
				}
			}
		}
		require.Len(t, notices, 3*7, "every winner has one notice")
	})
}

// Promise 2: whoever was leader numbers nobody once another was.
func TestPromise2OldFence(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *ticket.Store) {
		t.Helper()
		ask := func(fence int64, who string) ([]ticket.Number, error) {
			return store.Number(t.Context(), "e", fence, []ticket.NumberRequest{{Entry: who, Request: "q-" + who, Person: who}}, nil)
		}
		n, err := ask(5, "a")
		require.NoError(t, err)
		require.EqualValues(t, 1, n[0].Seq)
		_, err = ask(4, "b")
		require.ErrorIs(t, err, ticket.ErrFenced)
		n, err = ask(6, "b")
		require.NoError(t, err)
		require.EqualValues(t, 2, n[0].Seq)
		n, err = store.Number(t.Context(), "e", 6, []ticket.NumberRequest{{Entry: "c", Request: "q-b", Person: "c"}}, nil)
		require.NoError(t, err)
		require.EqualValues(t, 2, n[0].Seq, "the same request takes one number")
	})
}

// Two that both think they lead at once leave no hole and no double.
func TestPromise1TwoAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *ticket.Store) {
		t.Helper()
		var wg sync.WaitGroup
		var mu sync.Mutex
		seqs := make(map[int64]string)
		for w := range 4 {
			wg.Go(func() {
				for i := range 10 {
					who := fmt.Sprintf("p%d-%d", w%2, i) // two of them ask for the same people
					ns, err := store.Number(t.Context(), "e", 1, []ticket.NumberRequest{{Entry: who, Request: who, Person: who}}, nil)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if was, ok := seqs[ns[0].Seq]; ok && was != who {
						t.Errorf("%d is %s's and %s's", ns[0].Seq, was, who)
					}
					seqs[ns[0].Seq] = who
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		require.Len(t, seqs, 20)
		for i := range int64(20) {
			require.Contains(t, seqs, i+1)
		}
	})
}
