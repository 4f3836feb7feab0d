package natsbroker_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/natsbroker"
	"github.com/waitroom-dev/waitroom/ticket/natstest"
	"github.com/waitroom-dev/waitroom/ticket/number"
)

func requests(t *testing.T, server *natstest.Server, cfg natsbroker.RequestsConfig) *natsbroker.Requests {
	t.Helper()
	q, err := natsbroker.NewRequests(cfg, connect(t, server))
	require.NoError(t, err)
	return q
}

func wants(who string) ticket.NumberRequest {
	return ticket.NumberRequest{Entry: who, Request: who + "/key", Person: "person " + who}
}

// persistently calls until the server answers again.
func persistently(t *testing.T, do func() error) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		err := do()
		if err == nil {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			require.NoError(t, err)
		}
	}
}

// Promise 7: the order of arrival, also for whoever takes over from a numberer that
// died with requests in hand; each waits until it is done, and is in the queue once.
func TestPromise7RequestsWaitInOrder(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	ctx := t.Context()
	first, second := requests(t, server, natsbroker.RequestsConfig{}), requests(t, server, natsbroker.RequestsConfig{})
	for i := range 10 {
		for range 2 { // sent again
			require.NoError(t, first.Put(ctx, "e", wants(fmt.Sprint("p", i))))
		}
		require.NoError(t, first.Put(ctx, "other", wants(fmt.Sprint("o", i))))
	}
	entries := func(q *natsbroker.Requests, limit int) (who, records []string) {
		t.Helper()
		got, err := q.Queued(ctx, "e", limit)
		require.NoError(t, err)
		for _, r := range got {
			require.Equal(t, wants(r.Entry), r.NumberRequest)
			require.True(t, q.Holds(r.Record))
			who, records = append(who, r.Entry), append(records, r.Record)
		}
		return who, records
	}
	who, records := entries(first, 4)
	require.Equal(t, []string{"p0", "p1", "p2", "p3"}, who)
	who, _ = entries(first, 4)
	require.Equal(t, []string{"p0", "p1", "p2", "p3"}, who, "they stay")
	require.NoError(t, first.Done(ctx, "e", records[:2]))
	who, _ = entries(first, 4)
	require.Equal(t, []string{"p2", "p3", "p4", "p5"}, who)

	who, _ = entries(second, 3) // the first has died here
	require.Equal(t, []string{"p2", "p3", "p4"}, who, "what was in hand comes first, at once")
	_, err := first.Queued(ctx, "e", 100)
	require.Error(t, err, "nor does it take what is another's now")
	who, _ = entries(first, 3) // and the second has died
	require.Equal(t, []string{"p2", "p3", "p4"}, who, "what was in the other's hand comes first, also for who has led before")
	_, err = second.Queued(ctx, "e", 100)
	require.Error(t, err)
	who, records = entries(second, 3)
	require.Equal(t, []string{"p2", "p3", "p4"}, who)
	require.NoError(t, second.Done(ctx, "e", records))
	server.Restart(t)
	persistently(t, func() error { _, err := second.Queued(ctx, "e", 1); return err })
	who, _ = entries(second, 100)
	// A server that was killed may have forgotten what was done, and nothing else.
	require.GreaterOrEqual(t, len(who), 5)
	require.Equal(t, []string{"p5", "p6", "p7", "p8", "p9"}, who[len(who)-5:], "a restart of the server loses none")
	require.NoError(t, second.Forget(ctx, "e"))
	third := requests(t, server, natsbroker.RequestsConfig{})
	who, _ = entries(third, 100)
	require.Empty(t, who)
	for i := range 3 {
		require.NoError(t, third.Put(ctx, "e", wants(fmt.Sprint("new", i))))
	}
	_, err = second.Queued(ctx, "e", 100)
	require.Error(t, err, "of an event that was deleted it has nothing in hand any more")
	others, err := third.Queued(ctx, "other", 100)
	require.NoError(t, err)
	require.Len(t, others, 10)

	small := requests(t, server, natsbroker.RequestsConfig{Prefix: "small", Most: 1})
	require.NoError(t, small.Put(ctx, "e", wants("a")))
	require.ErrorIs(t, small.Put(ctx, "e", wants("b")), natsbroker.ErrFull)
	require.NoError(t, small.Put(ctx, "f", wants("b")), "each event has its own bound")
	_, err = natsbroker.NewRequests(natsbroker.RequestsConfig{Most: -1, Replicas: 9}, nil)
	require.ErrorContains(t, err, "most")
	require.ErrorContains(t, err, "replicas")
}

var errCrash = errors.New("crashed here")

// falling is a numberer's queue and books, and its death at one of the steps: then, or
// when nobody waits any more, its term ends.
type falling struct {
	queue *natsbroker.Requests
	store *ticket.Store
	step  string
	left  int // times to pass the step
	end   context.CancelFunc
	died  bool
	told  map[string]ticket.Number
}

func (f *falling) dies(at string) error {
	if at == f.step {
		f.left--
	}
	if f.left > 0 || f.died {
		return nil
	}
	f.died = true
	f.end()
	return errCrash
}

func (f *falling) Events() []number.Event { return []number.Event{{ID: "e", Winners: []int64{50}}} }

func (f *falling) Queued(ctx context.Context, event string, limit int) ([]number.Request, error) {
	got, err := f.queue.Queued(ctx, event, limit)
	if len(got) == 0 && err == nil {
		f.end()
	}
	return got, errors.Join(err, f.dies("after queued"))
}

func (f *falling) Number(ctx context.Context, event string, fence int64, rs []ticket.NumberRequest, winners []int64) ([]ticket.Number, error) {
	ns, err := f.store.Number(ctx, event, fence, rs, winners)
	return ns, errors.Join(err, f.dies("after number"))
}

func (f *falling) Numbered(ctx context.Context, event string, results []number.Result) error {
	records := make([]string, len(results))
	for i, r := range results {
		if was, ok := f.told[r.Entry]; ok && was != r.Number {
			return fmt.Errorf("%s was told %v, then %v", r.Entry, was, r.Number)
		}
		f.told[r.Entry], records[i] = r.Number, r.Record
	}
	if err := f.dies("after told"); err != nil {
		return err
	}
	if err := errors.Join(f.queue.Done(ctx, event, records[:len(records)/2]), f.dies("amid done")); err != nil {
		return err
	}
	return f.queue.Done(ctx, event, records)
}

// fence is a leadership that lasts until its context ends.
type fence int64

func (f fence) Run(ctx context.Context, lead func(context.Context, int64)) error {
	lead(ctx, int64(f))
	return nil
}

// Promise 7, with the numberer and a database: wherever it dies, no hole, no double, in
// the order of arrival, and one winner.
func TestPromise7NumbersWithoutAHoleWhereverItDies(t *testing.T) {
	t.Parallel()
	const people = 100
	server := natstest.Start(t)
	for _, step := range []string{"after queued", "after number", "after told", "amid done"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			db, err := ticket.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "t.db"))
			require.NoError(t, err)
			t.Cleanup(func() { _ = db.Close() })
			require.NoError(t, ticket.Migrate(t.Context(), db))
			store, err := ticket.New(ticket.Config{CallTimeout: 15 * time.Second}, db, zap.NewNop(), nil)
			require.NoError(t, err)
			cfg := natsbroker.RequestsConfig{Prefix: strings.ReplaceAll(step, " ", "-")}
			in := requests(t, server, cfg)
			for i := range people {
				require.NoError(t, in.Put(t.Context(), "e", wants(fmt.Sprint("p", i))))
			}
			told := make(map[string]ticket.Number)
			deaths := 0
			for led := fence(1); ; led++ { // each is another process
				ctx, end := context.WithCancel(t.Context())
				f := &falling{queue: requests(t, server, cfg), store: store, step: step, left: 2, end: end, told: told}
				n, err := number.New(number.Config{Every: time.Millisecond, Limit: 16}, f, f, led, zap.NewNop())
				require.NoError(t, err)
				require.NoError(t, n.Run(ctx))
				end()
				if !f.died {
					break
				}
				deaths++
				require.Less(t, deaths, 20, "it goes on")
			}
			require.GreaterOrEqual(t, deaths, 3)
			require.Len(t, told, people)
			for i := range people {
				n := told[fmt.Sprint("p", i)]
				require.EqualValues(t, i+1, n.Seq)
				require.Equal(t, i == 49, n.Winner)
			}
			left, err := in.Queued(t.Context(), "e", 200)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}
