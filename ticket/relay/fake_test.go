package relay

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// outbox is an Outbox in memory, with the claims' rules in the fewest lines.
type outbox struct {
	mu   sync.Mutex
	rows []*outboxRow // in order of id
	away error
	// single gives only the oldest unpublished row of each key, as the store does.
	single bool
	claims int
	marked []int64
	failed map[int64]int
	swept  int
}

type outboxRow struct {
	ticket.OutboxRow
	lease     time.Time
	published bool
	parked    bool
}

func (o *outbox) add(rows ...ticket.OutboxRow) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range rows {
		o.rows = append(o.rows, &outboxRow{OutboxRow: r})
	}
	slices.SortFunc(o.rows, func(a, b *outboxRow) int { return int(a.ID - b.ID) })
}

func (o *outbox) ClaimOutbox(_ context.Context, limit int, lease time.Duration) ([]ticket.OutboxRow, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.claims++
	blocked := map[string]bool{}
	var got []ticket.OutboxRow
	for _, r := range o.rows {
		switch {
		case r.published:
		case r.parked, blocked[r.Key], time.Now().Before(r.lease):
			blocked[r.Key] = true
		case len(got) < limit && o.away == nil:
			r.lease = time.Now().Add(lease)
			got = append(got, r.OutboxRow)
			blocked[r.Key] = o.single
		}
	}
	return got, o.away
}

func (o *outbox) MarkPublished(ctx context.Context, ids []int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := errors.Join(o.away, ctx.Err()); err != nil {
		return err
	}
	o.marked = append(o.marked, ids...)
	for _, r := range o.rows {
		r.published = r.published || slices.Contains(ids, r.ID)
	}
	return nil
}

func (o *outbox) MarkFailed(_ context.Context, id int64, _ string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed == nil {
		o.failed = map[int64]int{}
	}
	o.failed[id]++
	for _, r := range o.rows {
		if r.ID == id {
			r.Attempts++
			r.lease = time.Now().Add(time.Second)
			r.parked = r.Attempts >= 3
		}
	}
	return o.away
}

func (o *outbox) SweepOutbox(_ context.Context, _ time.Duration, limit int) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := len(o.rows)
	o.rows = slices.DeleteFunc(o.rows, func(r *outboxRow) bool {
		limit--
		return r.published && limit >= 0
	})
	o.swept += before - len(o.rows)
	return before - len(o.rows), o.away
}

func (o *outbox) waiting() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.rows {
		if !r.published {
			n++
		}
	}
	return n
}

// broker is a Publisher in memory; fail decides about each message.
type broker struct {
	mu    sync.Mutex
	calls [][]Message
	took  time.Duration
	fail  func(Message) error
	// log holds what was stored, in order; at has the times.
	log []Message
	at  []time.Time
}

func (b *broker) Publish(ctx context.Context, ms []Message) []error {
	b.mu.Lock()
	b.calls = append(b.calls, slices.Clone(ms))
	took, fail := b.took, b.fail
	b.mu.Unlock()
	t := time.NewTimer(took)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return slices.Repeat([]error{ctx.Err()}, len(ms))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	errs := make([]error, len(ms))
	for i, m := range ms {
		if fail != nil {
			errs[i] = fail(m)
		}
		if errs[i] == nil {
			b.log = append(b.log, m)
			b.at = append(b.at, time.Now())
		}
	}
	return errs
}

func (b *broker) set(took time.Duration, fail func(Message) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.took, b.fail = took, fail
}

func (b *broker) called() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.calls)
}

// stored is what was stored, in order.
func (b *broker) stored() []Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.log)
}

// ids are the deduplication ids of what was stored, in order.
func (b *broker) ids() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := make([]string, len(b.log))
	for i, m := range b.log {
		ids[i] = m.DedupID
	}
	return ids
}

func newRelay(t *testing.T, o Outbox, p Publisher) *Relay {
	t.Helper()
	r, err := New(Config{}, o, p, zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	return r
}

// running runs a relay until stop is called.
func running(t *testing.T, r *Relay) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
}

// counted is the sum of a counter over its labels.
func counted(t *testing.T, reg *prometheus.Registry, name string) (n int) {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				n += int(m.GetCounter().GetValue())
			}
		}
	}
	return n
}
