package admission

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/waitroom-dev/waitroom/waitroom"
)

const (
	sampleEvery  = 50 * time.Millisecond  // how often a pool is looked at
	samples      = 20                     // so that a published figure is the mean of a second
	publishEvery = 500 * time.Millisecond // how often a node publishes, and reads the others
	pingEvery    = time.Second
	// poolFresh is the age from which a node's figure is left out: it stopped, or
	// lost the store.
	poolFresh = 3 * time.Second
	// poolForgotten is the age from which a node that did not sign off is removed.
	poolForgotten = time.Minute
)

// Pool is the database pool of this process's ticket side.
type Pool struct {
	// Stats is the pool at this moment; it is called often and must be cheap.
	Stats func() PoolStats
	// Ping asks the database itself; nil never asks. A pool of a database that is
	// away looks idle, so its node is published as down.
	Ping func(context.Context) error
}

// PoolBoard is where the ticket nodes tell each other, through the store, how
// busy their pools are, so that the leader's own idle pool never speaks for its
// busy peers. Every figure carries the store's time.
type PoolBoard struct {
	rdb  redis.UniversalClient
	key  string
	node string
	pool *Pool
	kind boardKind

	mu     sync.Mutex // guards the fields below
	ring   []PoolStats
	next   int
	pinged error // what the last ping said
	seen   poolsSeen
}

// poolsSeen is what the last read of the board showed.
type poolsSeen struct {
	nodes int
	sum   PoolStats
	at    time.Time // of the freshest figure, on this process's clock
	down  string    // a node whose database does not answer
	read  bool
}

// NewPoolBoard is this node's board. It only reads, until Publish names a pool.
func NewPoolBoard(rdb redis.UniversalClient, prefix, node string) *PoolBoard {
	return &PoolBoard{rdb: rdb, key: poolsKey(prefix), node: node, kind: boardKind{
		name: "pools", usage: PoolStats.Usage, none: errors.New("pools: no node publishes one"),
		of: func(ev waitroom.Event) bool { return ev.Tickets.Kind != "" && ev.Tickets.Kind != "none" },
	}}
}

// NewWorkerBoard is a board for the requests that nodes work on, of so many that
// each can: their sum over the sum of the limits is a load of every event. A node
// without a limit publishes none; without any there is no such signal.
func NewWorkerBoard(rdb redis.UniversalClient, prefix, node string) *PoolBoard {
	return &PoolBoard{rdb: rdb, key: workersKey(prefix), node: node, kind: boardKind{
		name: "workers", usage: PoolStats.Busy, none: ErrNoSignal, of: func(waitroom.Event) bool { return true },
	}}
}

// boardKind is what a board's figures mean.
type boardKind struct {
	name  string
	usage func(PoolStats) float64
	none  error                     // the answer while no node publishes a figure
	of    func(waitroom.Event) bool // the events whose load it is
}

// Publish makes Run publish this pool. Call it before Run, on nodes that sell.
func (b *PoolBoard) Publish(p Pool) { b.pool = &p }

// Run samples, publishes and reads until ctx ends, and signs this node off. A
// store that is away is no reason to end: the figures grow old, and the law sees it.
func (b *PoolBoard) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	if b.pool != nil {
		group.Go(func() error { return every(ctx, sampleEvery, b.sample) })
		if b.pool.Ping != nil {
			group.Go(func() error { return every(ctx, pingEvery, b.ping) })
		}
	}
	group.Go(func() error { return every(ctx, publishEvery, b.exchange) })
	err := group.Wait()
	b.signOff(ctx)
	return err
}

// Usage is the usage of all pools together, as of the freshest of them. Events
// that sell nothing here have no such signal.
func (b *PoolBoard) Usage(_ context.Context, ev waitroom.Event) (Reading, error) {
	if !b.kind.of(ev) {
		return Reading{}, ErrNoSignal
	}
	b.mu.Lock()
	seen := b.seen
	b.mu.Unlock()
	switch {
	case !seen.read:
		return Reading{}, fmt.Errorf("%s: not read yet", b.kind.name)
	case seen.down != "":
		return Reading{}, fmt.Errorf("%s: database away on %s", b.kind.name, seen.down)
	case seen.nodes == 0:
		return Reading{}, b.kind.none
	}
	s := seen.sum
	return Reading{Usage: b.kind.usage(s), Wanted: s.Wanted(), At: seen.at, Detail: fmt.Sprintf(
		"%s: %.1f of %.0f in use, %.1f waiting, %d nodes", b.kind.name, s.InUse, s.Max, s.Waiting, seen.nodes)}, nil
}

func (b *PoolBoard) sample(context.Context) {
	s := b.pool.Stats()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ring) < samples {
		b.ring = append(b.ring, s)
		return
	}
	b.ring[b.next] = s
	b.next = (b.next + 1) % samples
}

func (b *PoolBoard) ping(ctx context.Context) {
	asked, cancel := context.WithTimeout(ctx, pingEvery)
	defer cancel()
	err := b.pool.Ping(asked)
	if ctx.Err() != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pinged = err
}

// mean is the pool over the last second, and whether its database answers. A ping
// that fails while callers wait is a queue, and the queue says more than "down".
func (b *PoolBoard) mean() (PoolStats, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ring) == 0 {
		return PoolStats{}, b.pinged == nil
	}
	var sum PoolStats
	for _, s := range b.ring {
		sum = sum.add(s)
	}
	n := float64(len(b.ring))
	m := PoolStats{InUse: sum.InUse / n, Max: b.ring[(b.next+len(b.ring)-1)%len(b.ring)].Max, Waiting: sum.Waiting / n}
	return m, b.pinged == nil || m.Waiting > 0
}

// exchangePools publishes a node's figure and reads all.
//
//	KEYS[1]  the hash of pools: node → "ms figure"
//	ARGV[1]  this node, or "" to read only
//	ARGV[2]  its figure: "up in_use max waiting" or "down"
//	ARGV[3]  ms from which on a figure is removed
//	reply    node, age in ms, figure; of every node in turn
var exchangePools = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if ARGV[1] ~= '' then
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %s', now, ARGV[2]))
end
local all, out = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
  local at, figure = string.match(all[i + 1], '^(%d+) (.*)$')
  local age = at and now - tonumber(at)
  if age == nil or age > tonumber(ARGV[3]) then
    redis.call('HDEL', KEYS[1], all[i])
  else
    out[#out + 1] = all[i]
    out[#out + 1] = string.format('%.0f', age)
    out[#out + 1] = figure
  end
end
return out`)

// exchange is one publish and read. A failed one leaves what was seen before.
func (b *PoolBoard) exchange(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	node, figure := "", ""
	if b.pool != nil {
		if b.empty() {
			b.sample(ctx)
		}
		node, figure = b.node, "down"
		if m, up := b.mean(); up {
			figure = "up " + number(m.InUse) + " " + number(m.Max) + " " + number(m.Waiting)
		}
	}
	asked := time.Now()
	reply, err := exchangePools.Run(ctx, b.rdb, []string{b.key},
		node, figure, poolForgotten.Milliseconds()).StringSlice()
	if err != nil {
		return
	}
	seen := readPools(reply, asked)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = seen
}

func (b *PoolBoard) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.ring) == 0
}

// readPools sums the figures that are fresh. Ages are by the store's clock; asked
// is before the call, so that a reading never looks fresher than it is. A figure
// that cannot be read counts as down.
func readPools(reply []string, asked time.Time) poolsSeen {
	seen := poolsSeen{read: true}
	for ; len(reply) >= 3; reply = reply[3:] {
		node, figure := reply[0], reply[2]
		ms, err := strconv.ParseInt(reply[1], 10, 64)
		age := time.Duration(ms) * time.Millisecond
		if err != nil || age > poolFresh {
			continue
		}
		var s PoolStats
		if n, err := fmt.Sscanf(figure, "up %g %g %g", &s.InUse, &s.Max, &s.Waiting); err != nil || n != 3 || strings.Count(figure, " ") != 3 {
			seen.down = node
			continue
		}
		seen.nodes++
		seen.sum = seen.sum.add(s)
		if at := asked.Add(-age); at.After(seen.at) {
			seen.at = at
		}
	}
	return seen
}

// signOff removes this node's figure, so that a planned stop leaves no old one.
func (b *PoolBoard) signOff(ctx context.Context) {
	if b.pool == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = b.rdb.HDel(ctx, b.key, b.node).Err() // else it is old in three seconds
}

// every does a thing at once and then at each tick until ctx ends.
func every(ctx context.Context, d time.Duration, do func(context.Context)) error {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		do(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', 6, 64) }
