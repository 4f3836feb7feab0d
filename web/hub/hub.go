package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// Hub holds the sockets of one node. It takes what happens to the line and the
// reservations (Admitted, Departed, Changed, Outcome) and tells whoever it
// concerns. All methods may be called at the same time.
type Hub struct {
	cfg      Config
	deps     Deps
	log      *zap.Logger
	metrics  *metrics
	shards   []*shard
	rooms    rooms
	presence presence
	poller   *poller // made by Run
	upgrader websocket.Upgrader
	seed     maphash.Seed
	start    time.Time

	allowance int // messages that a peer may send in allowanceTime

	turn      atomic.Uint64 // deals sockets that say nothing yet to the shards
	sockets   atomic.Int64  // from the handler's claim until the shard has cut them
	ops       atomic.Int64
	emptied   chan struct{} // capacity 1: the last socket went
	loners    chan *client  // unbuffered: a handler waits until Run reads its socket
	questions chan question

	gate     sync.RWMutex // held for reading while a socket is handed to Run; guards the following
	running  bool
	stopped  chan struct{}  // closed when Run begins to drain
	watchers sync.WaitGroup // operators' sockets; Add only while running
}

var (
	_ waitroom.Listener          = (*Hub)(nil)
	_ waitroom.ForgottenListener = (*Hub)(nil)
	_ waitroom.EndedListener     = (*Hub)(nil)
	_ waitroom.NumberedListener  = (*Hub)(nil)
	_ waitroom.PartyListener     = (*Hub)(nil)
)

// New returns a hub that serves once Run runs. It returns every fault of cfg.
func New(cfg Config, deps Deps) (*Hub, error) {
	if err := errors.Join(cfg.Validate(), deps.validate()); err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	h := &Hub{
		cfg:       cfg.withDefaults(),
		deps:      deps.withDefaults(),
		log:       deps.Log.Named("hub"),
		seed:      maphash.MakeSeed(),
		start:     time.Now(),
		emptied:   make(chan struct{}, 1),
		loners:    make(chan *client),
		questions: make(chan question, askQueue),
		stopped:   make(chan struct{}),
		rooms:     rooms{byID: make(map[waitroom.EventID]*room)},
	}
	h.metrics = newMetrics(h.deps.Registerer, h)
	h.presence = presence{
		pending: make(map[waitroom.EventID]map[waitroom.EntryID]whereabouts),
		limit:   presenceFactor * h.cfg.MaxSockets,
	}
	// The library reads and writes the handshake only; its buffers are as small as can be.
	h.upgrader = websocket.Upgrader{ReadBufferSize: 128, WriteBufferSize: 128, WriteBufferPool: &sync.Pool{}, CheckOrigin: h.originAllowed}
	h.allowance = allowance + int(allowanceTime/h.cfg.PingEvery) + 1
	for i := range h.cfg.Shards {
		h.shards = append(h.shards, newShard(h, i))
	}
	return h, nil
}

// Run serves until ctx ends. Then it refuses new sockets, gives each client its
// time to come back (nearest to the front first), closes, and returns when every
// goroutine has ended, at most DrainGrace and the store's last call later. It may
// run once. An error says that sockets could not be read.
func (h *Hub) Run(ctx context.Context) error {
	poller, err := newPoller()
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	h.poller = poller
	// Everything else outlives ctx by the farewell.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ending, stopShards := make(chan struct{}), make(chan struct{})
	var shards, readers, askers sync.WaitGroup
	for _, s := range h.shards {
		shards.Go(func() { s.run(stopShards) })
	}
	broken := make(chan error, 1)
	readers.Go(func() {
		if err := poller.run(h); err != nil {
			broken <- err
		}
	})
	readers.Go(func() {
		for {
			select {
			case c := <-h.loners: // its handler waits, and must not start the goroutine
				readers.Go(func() { h.readAlone(c) })
			case <-ending:
				return
			}
		}
	})
	for range h.cfg.Askers {
		askers.Go(func() { h.asker(work) })
	}
	askers.Go(func() { h.watch(work) })
	askers.Go(func() { h.followSeats(work) })
	askers.Go(func() { h.tellPresence(work) })
	h.open()

	select {
	case <-ctx.Done():
		h.log.Info("draining", zap.Int64("sockets", h.sockets.Load()), zap.NamedError("cause", context.Cause(ctx)))
	case err = <-broken:
		h.log.Error("sockets not read", zap.Error(err))
	}
	h.close() // from here on no handler hands a socket over
	h.farewell()
	// Every socket is closed, so that nothing is posted any more but answers.
	close(ending)
	poller.close()
	readers.Wait()
	h.watchers.Wait()
	cancel()
	askers.Wait()
	close(stopShards)
	shards.Wait()
	last, done := context.WithTimeout(context.WithoutCancel(ctx), h.cfg.StoreTimeout)
	defer done()
	h.flushPresence(last)
	return err
}

// farewell says goodbye to every client and waits until all are gone. Who is still
// there when DrainGrace is over is cut.
func (h *Hub) farewell() {
	plan := newSlots(int(h.sockets.Load()), h.cfg.DrainPerS)
	for _, s := range h.shards {
		s.notify(news{kind: newsDrain, slots: plan})
	}
	grace := time.NewTimer(h.cfg.DrainGrace)
	defer grace.Stop()
	for h.sockets.Load() > 0 {
		select {
		case <-h.emptied:
		case <-grace.C:
			h.log.Warn("sockets cut at the end of the grace", zap.Int64("sockets", h.sockets.Load()))
			h.cutAll()
		}
	}
}

// cutAll has every shard cut its clients, and each client that comes over later.
func (h *Hub) cutAll() {
	for _, s := range h.shards {
		s.notify(news{kind: newsCut})
	}
}

// drain sends every client of s away, each at its time: whoever is in goes first,
// then the line from the front, then those who are not known.
func (s *shard) drain(plan slots) {
	s.closing = true
	type ranked struct {
		c    *client
		rank int64
	}
	all := make([]ranked, 0, len(s.clients))
	for c := range s.clients {
		all = append(all, ranked{c, rank(c.person)})
	}
	slices.SortFunc(all, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	for i, r := range all {
		// The shards take turns, so that together they make one row.
		s.farewell(r.c, plan.after(i*len(s.h.shards)+s.index))
	}
}

func rank(p *person) int64 {
	const unknown = 1 << 62
	switch {
	case p == nil:
		return unknown
	case p.turn != nil:
		return 0
	case p.shown > 0:
		return p.shown
	default:
		return unknown - 1
	}
}

// farewell tells c when to come back, and closes it.
func (s *shard) farewell(c *client, after time.Duration) {
	c.bye = after
	c.owes |= owesBye
	s.end(c, CodeRestart)
}

func (h *Hub) open() {
	h.gate.Lock()
	defer h.gate.Unlock()
	h.running = true
}

func (h *Hub) close() {
	h.gate.Lock()
	defer h.gate.Unlock()
	h.running = false
	close(h.stopped)
}

// claim counts a socket in, if there is room for one.
func (h *Hub) claim() bool {
	h.gate.RLock()
	running := h.running
	h.gate.RUnlock()
	if running && h.sockets.Add(1) <= int64(h.cfg.MaxSockets) {
		return true
	}
	if running {
		h.release()
	}
	return false
}

// release counts a socket out.
func (h *Hub) release() {
	if h.sockets.Add(-1) > 0 {
		return
	}
	select {
	case h.emptied <- struct{}{}:
	default: // said already
	}
}

// Sockets is how many fans' sockets are open.
func (h *Hub) Sockets() int { return int(h.sockets.Load()) }

// now is the current tick.
func (h *Hub) now() int64 { return int64(time.Since(h.start) / h.cfg.Tick) }

// ticks is d in ticks, at least one.
func (h *Hub) ticks(d time.Duration) int64 { return max(int64(d/h.cfg.Tick), 1) }

func (h *Hub) shardOf(entry waitroom.EntryID) *shard {
	return h.shards[maphash.String(h.seed, string(entry))%uint64(len(h.shards))]
}

// deal has each shard told of those whom it looks after, in their order.
func deal[T any](h *Hub, event waitroom.EventID, all []T, entry func(T) waitroom.EntryID, told func(part []T) news) {
	r := h.rooms.get(event)
	if r == nil {
		return
	}
	parts := make([][]T, len(h.shards))
	for _, one := range all {
		i := h.shardOf(entry(one)).index
		parts[i] = append(parts[i], one)
	}
	for i, part := range parts {
		if len(part) > 0 {
			n := told(part)
			n.room = r
			h.shards[i].notify(n)
		}
	}
}

// Admitted implements waitroom.Listener: each grant's holder gets the entry token
// at once. It does not block, and keeps grants until they are told.
func (h *Hub) Admitted(event waitroom.EventID, grants []waitroom.Grant) {
	deal(h, event, grants, func(of waitroom.Grant) waitroom.EntryID { return of.Entry }, func(part []waitroom.Grant) news {
		return news{kind: newsAdmitted, grants: part}
	})
}

// Departed implements waitroom.Listener: who left, expired or was blocked is told,
// and closed where the socket has no more use. It does not block.
func (h *Hub) Departed(event waitroom.EventID, gone []waitroom.Departure) {
	deal(h, event, gone, func(of waitroom.Departure) waitroom.EntryID { return of.Entry }, func(part []waitroom.Departure) news {
		return news{kind: newsDeparted, gone: part}
	})
}

// Ended implements waitroom.EndedListener: whose turn is over is told. It does not
// block. Who is never told so by the view finds out when the turn's time is over.
func (h *Hub) Ended(event waitroom.EventID, ends []waitroom.End) {
	deal(h, event, ends, func(of waitroom.End) waitroom.EntryID { return of.Entry }, func(part []waitroom.End) news {
		return news{kind: newsEnded, ended: part}
	})
}

// Numbered implements waitroom.NumberedListener: whoever has a number is told it. It
// does not block. Who misses it asks, and is answered the same.
func (h *Hub) Numbered(event waitroom.EventID, results []waitroom.Result) {
	deal(h, event, results, func(of waitroom.Result) waitroom.EntryID { return of.Entry }, func(part []waitroom.Result) news {
		return news{kind: newsNumbered, numbers: part}
	})
}

// Parties implements waitroom.PartyListener: everybody of whom something changed asks
// how it is now. It does not block. Who misses it finds out with the next news, or at the
// next hello.
func (h *Hub) Parties(event waitroom.EventID, who []waitroom.EntryID) {
	r := h.rooms.get(event)
	if r == nil {
		return
	}
	for _, s := range h.shards {
		s.notify(news{kind: newsParties, room: r, parties: who})
	}
}

// Changed implements waitroom.Listener: a new state, reason or message is pushed
// to everybody of the event. It does not block. That an event is no more is not
// believed at once, see Config.GoneAfter.
func (h *Hub) Changed(ev waitroom.Event) {
	if ev.Reason == waitroom.ReasonDeleted {
		return
	}
	if r := h.rooms.get(ev.ID); r != nil && h.rooms.update(r, ev) {
		h.tell([]*room{r})
	}
}

// Forgotten implements waitroom.ForgottenListener: the store lost who is here, so
// the line is told again. It does not block.
func (h *Hub) Forgotten(event waitroom.EventID) {
	if r := h.rooms.get(event); r != nil {
		for _, s := range h.shards {
			s.notify(news{kind: newsRecount, room: r})
		}
	}
}

// Outcome tells a buyer what became of a reservation. It does not block. Whoever
// has no socket here is told by asking.
func (h *Hub) Outcome(o ticket.Outcome) {
	r := h.rooms.get(waitroom.EventID(o.Event))
	if r == nil {
		return
	}
	// A person whom the site knows by a name of its own may be in any shard.
	for _, s := range h.shards {
		s.notify(news{kind: newsOutcome, room: r, outcome: o})
	}
}
