package ticket

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Books are what a recount of an event found: each sum once from one side and
// once from the other. They balance when every sum does.
type Books struct {
	Event string `json:"event"`
	// At is the moment of the tables' snapshot, by the database's clock.
	At   time.Time `json:"at"`
	Pass bool      `json:"pass"`
	Sums []Sum     `json:"sums"`
	// Counts are the numbers of rows by table and state, such as "seats sold".
	Counts map[string]int64 `json:"counts"`
}

// Sum is one thing counted twice.
type Sum struct {
	Name     string `json:"name"`
	Expected int64  `json:"expected"`
	Found    int64  `json:"found"`
	Pass     bool   `json:"pass"`
	// Note names the first few that differ, or says what could not be asked.
	Note string `json:"note,omitempty"`
}

// Add appends a sum, and fails the books if it fails.
func (b *Books) Add(sums ...Sum) {
	for _, s := range sums {
		b.Sums = append(b.Sums, s)
		b.Pass = b.Pass && s.Pass
	}
}

// Failed are the sums that do not balance.
func (b *Books) Failed() []Sum {
	return slices.DeleteFunc(slices.Clone(b.Sums), func(s Sum) bool { return s.Pass })
}

// LogRecord is a message that a broker holds.
type LogRecord struct {
	// Event, DedupID, Key and Topic are the outbox row's.
	Event, DedupID, Key, Topic string
	// At is when the broker took it, by the broker's clock.
	At time.Time
}

// BrokerLog is a broker that can be asked what it holds.
type BrokerLog interface {
	// Records calls each for every message that the broker holds now.
	Records(ctx context.Context, each func(LogRecord)) error
}

// Grants is the line that gave out the tokens.
type Grants interface {
	// Admitted is how many tokens the line of an event has given out since a moment.
	Admitted(ctx context.Context, event string) (n int64, since time.Time, err error)
}

// AuditRequest says what to recount.
type AuditRequest struct {
	Event string
	// Broker is asked for what was published; nil leaves its sums out.
	Broker BrokerLog
	// Grants is asked how many were let in; nil leaves that sum out.
	Grants Grants
	// Line are counts of the line, to stand beside those of the tables. Where they are
	// given, the event is there even if it sells nothing.
	Line map[string]int64
	// Keep is how long published rows stay in the outbox (relay.Config.Keep): the
	// message of an older change may be gone. Default 1h.
	Keep time.Duration
}

// clocks is how far the database's clock and a broker's may be apart.
const clocks = time.Minute

// Audit recounts an event from the tables, read in one snapshot, and from the
// broker, asked after it. It holds the event's rows in memory (about 300 bytes a
// reservation), takes one connection of the pool while it reads, and blocks no
// sale. Of an event that sells nothing the numbers, the issued tokens, the messages
// and the payments of an earlier sale are counted. Errors: ErrWrongMode for an event
// of which nothing is here, ErrUnavailable. A broker that does not answer is a sum that fails.
func (s *Store) Audit(ctx context.Context, q AuditRequest) (Books, error) {
	if q.Keep == 0 {
		q.Keep = time.Hour
	}
	l, err := s.ledger(ctx, q.Event)
	if err != nil {
		return Books{}, fmt.Errorf("audit %s: %w", q.Event, err)
	}
	if l.empty() && q.Line == nil {
		return Books{}, fmt.Errorf("audit %s: %w", q.Event, ErrWrongMode)
	}
	b := Books{Event: q.Event, At: millis(l.now), Pass: true, Sums: []Sum{}, Counts: l.counts()}
	maps.Copy(b.Counts, q.Line)
	if l.kind != "" {
		b.Add(l.seatSums()...)
		b.Add(l.reservationSums()...)
		b.Add(l.bookingSums()...)
	}
	if l.kind != "" || len(l.reservations) > 0 {
		b.Add(l.paymentSums()...)
	}
	b.Add(l.numberSums(q.Keep.Milliseconds())...)
	if l.kind != "" || len(l.outbox) > 0 {
		b.Add(l.outboxSums(q.Keep)...)
	}
	if q.Grants != nil && l.kind != "" {
		b.Add(l.grantSum(ctx, q.Grants))
	}
	if q.Broker == nil || l.empty() {
		return b, nil
	}
	sums, err := s.brokerSums(ctx, l, q.Broker)
	if errors.Is(err, ErrUnavailable) {
		return Books{}, fmt.Errorf("audit %s: %w", q.Event, err)
	}
	if err != nil {
		sums = []Sum{{Name: "broker", Note: "not read: " + err.Error()}}
	}
	b.Add(sums...)
	return b, nil
}

// empty says that no table knows the event.
func (l *ledger) empty() bool {
	return l.kind == "" && len(l.reservations)+len(l.outbox) == 0 && !l.numbers.counts && l.numbers.issued == 0
}

// grantSum compares the tokens that were spent with those that were given out, as
// far as the line remembers. It is asked after the snapshot, so it is never behind.
func (l *ledger) grantSum(ctx context.Context, grants Grants) Sum {
	sum := Sum{Name: "tokens_granted"}
	admitted, since, err := grants.Admitted(ctx, l.event)
	if err != nil {
		sum.Note = "not asked: " + err.Error()
		return sum
	}
	spent := map[string]bool{}
	for _, r := range l.reservations {
		if r.created >= since.UnixMilli() {
			spent[r.jti] = true
		}
	}
	sum.Expected, sum.Found = int64(len(spent)), min(int64(len(spent)), admitted)
	sum.Pass = sum.Expected == sum.Found
	return sum
}

// brokerSums compares what was published with what the broker holds. What it has
// dropped since cannot be asked for.
func (s *Store) brokerSums(ctx context.Context, l *ledger, broker BrokerLog) ([]Sum, error) {
	held := map[string]bool{}
	var oldest time.Time
	var strange []LogRecord
	records := int64(0)
	err := broker.Records(ctx, func(r LogRecord) {
		if oldest.IsZero() || r.At.Before(oldest) {
			oldest = r.At
		}
		if r.Event != l.event {
			return
		}
		records++
		held[r.DedupID] = true
		if !l.happened(r.Key, r.Topic) {
			strange = append(strange, r)
		}
	})
	if err != nil {
		return nil, err
	}
	published := newTally("broker")
	from := l.heldFrom(held, oldest)
	for _, row := range l.outbox {
		id := dedupID(row.key, row.topic)
		switch {
		case row.state != rowPublished:
		case held[id]:
			published.count(1, 1, "")
		case row.published >= from:
			published.count(1, 0, id)
		}
	}
	committed := newTally("broker_committed")
	committed.count(records-int64(len(strange)), records-int64(len(strange)), "")
	if len(strange) > 0 {
		// They may have been committed after the snapshot was taken.
		later, err := s.ledger(ctx, l.event)
		if err != nil {
			return nil, err
		}
		for _, r := range strange {
			if later.happened(r.Key, r.Topic) {
				committed.count(1, 1, "")
				continue
			}
			committed.count(1, 0, r.DedupID)
		}
	}
	return []Sum{published.sum(), committed.sum()}, nil
}

// heldFrom is the time of publication, by the database's clock, from which on the
// broker must hold every message. It is that of the first one that it holds; a
// minute more where earlier ones are gone, for a row may be marked after its
// message was taken. Of a broker that holds none of the event's messages only what
// came well after its oldest record can be asked for.
func (l *ledger) heldFrom(held map[string]bool, oldest time.Time) int64 {
	first := int64(math.MaxInt64)
	for _, row := range l.outbox {
		if row.state == rowPublished && held[dedupID(row.key, row.topic)] {
			first = min(first, row.published)
		}
	}
	switch {
	case oldest.IsZero():
		return math.MaxInt64
	case first == math.MaxInt64:
		return oldest.Add(clocks).UnixMilli()
	}
	for _, row := range l.outbox {
		if row.state == rowPublished && row.published < first {
			return first + clocks.Milliseconds()
		}
	}
	return first
}

// tally counts a sum's two sides, item by item.
type tally struct {
	name            string
	expected, found int64
	differ          int64
	first           []string
}

func newTally(name string) *tally { return &tally{name: name} }

// count adds to both sides; where they differ, what names the item.
func (t *tally) count(expected, found int64, what string) {
	t.expected += expected
	t.found += found
	if expected == found {
		return
	}
	const most = 3
	t.differ++
	if len(t.first) < most {
		t.first = append(t.first, what)
	}
}

// sum is the verdict: it passes when no single item differs, so that two faults
// never make up for each other.
func (t *tally) sum() Sum {
	s := Sum{Name: t.name, Expected: t.expected, Found: t.found, Pass: t.differ == 0}
	if !s.Pass {
		s.Note = fmt.Sprintf("%d differ, such as %q", t.differ, t.first)
	}
	return s
}
