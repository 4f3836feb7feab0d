package waitroom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom/draw"
)

// Drawn is what is published of an event's draw so far.
type Drawn struct {
	// Commitment binds the seed; it is there before anybody may join.
	Commitment draw.Hash `json:"commitment"`
	// ClosedAt is when the lobby closed; who joined later stands behind the draw.
	ClosedAt *time.Time `json:"closed_at,omitempty"`
	// Root and Size are those of the list of entrants.
	Root *draw.Hash `json:"root,omitempty"`
	Size int        `json:"size,omitempty"`
	// Round is the beacon's round that is waited for; 0: no beacon is configured.
	Round uint64 `json:"round,omitempty"`
	// Beacon is that round's; Fallback says that it did not come in time.
	Beacon   *draw.Beacon `json:"beacon,omitempty"`
	Fallback bool         `json:"fallback,omitempty"`
	// Seed ends the draw: with it everyone can compute the order.
	Seed *draw.Seed `json:"seed,omitempty"`
}

// Drawer draws the order of events whose lobby has closed. Any number of nodes may
// run one: the store lets one at a time do each draw, and another go on with it.
type Drawer struct {
	line   *Line
	view   *View
	beacon func(url string) Beacon
	log    *zap.Logger
	node   string
}

// The phases of a draw, as the store names them.
const (
	drawUndrawn = "undrawn" // before the lobby closes
	drawListing = "listing" // the lobby has closed, the list is being written
	drawWaiting = "waiting" // the root is published, the beacon is to come
	drawPlacing = "placing" // the seed is published, the places are being given
	drawDone    = "done"
)

// Each step of a draw takes a bounded piece of the list, so that the store serves
// everybody else in between: 500 places take it about 2 ms.
const (
	drawChunk = 500
	drawLease = 10 * time.Second
	drawPause = 100 * time.Millisecond // between looks at the events, a tick
)

// NewDrawer draws for the events of a view. The function makes a beacon out of the
// address that an event names.
func NewDrawer(l *Line, v *View, beacon func(url string) Beacon, log *zap.Logger) *Drawer {
	return &Drawer{line: l, view: v, beacon: beacon, log: log.Named("drawer"), node: newID()}
}

// Run draws until ctx ends.
func (d *Drawer) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	var mu sync.Mutex // guards busy
	busy := make(map[EventID]bool)
	ticker := time.NewTicker(drawPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for _, ev := range d.view.Events() {
			if ev.Order != OrderDraw || ev.drawPhase == drawDone || ev.drawPhase == drawUndrawn && ev.Draw != nil {
				continue
			}
			mu.Lock()
			begun := busy[ev.ID]
			busy[ev.ID] = true
			mu.Unlock()
			if begun {
				continue
			}
			running.Go(func() {
				if err := d.draw(ctx, ev); err != nil && ctx.Err() == nil {
					d.log.Warn("the draw does not go on", zap.String("event", string(ev.ID)), zap.Error(err))
				}
				mu.Lock()
				defer mu.Unlock()
				delete(busy, ev.ID)
			})
		}
	}
}

// errElsewhere: another node does this draw.
var errElsewhere = errors.New("another node draws")

// errMovedOn: the draw is not where the step belongs: a step came twice, or the store
// has lost one. The next claim says where it is.
var errMovedOn = errors.New("the draw is elsewhere by now")

// drawing is where a draw is, as the store says.
type drawing struct {
	phase  string
	base   int64
	closed time.Time
	placed int
	drawn  Drawn
	seed   draw.Seed
}

// step is the one caller of draw.lua.
func (l *Line) step(ctx context.Context, event EventID, node, step string, args ...any) (drawing, error) {
	all := append([]any{step, node, drawLease.Milliseconds()}, args...)
	r, err := l.call(ctx, scriptDraw, event, []string{l.keys.drawn(event)}, all...)
	if err != nil {
		return drawing{}, fmt.Errorf("draw %s: %w", event, err)
	}
	if r.outcome == outcomeBusy {
		return drawing{}, errElsewhere
	}
	if r.outcome == outcomeStale {
		return drawing{}, errMovedOn
	}
	if err := r.want(6); err != nil {
		return drawing{}, fmt.Errorf("draw %s: %w", event, err)
	}
	n, err := numbers(r.rest[1], r.rest[2], r.rest[3])
	if err != nil {
		return drawing{}, fmt.Errorf("draw %s: %w", event, err)
	}
	d := drawing{phase: r.rest[0], base: n[0], closed: millis(n[1]), placed: int(n[2])}
	if r.rest[4] != "" {
		if err := json.Unmarshal([]byte(r.rest[4]), &d.drawn); err != nil {
			return drawing{}, fmt.Errorf("draw %s: %w", event, unavailable(err))
		}
	}
	if r.rest[5] != "" {
		if err := d.seed.UnmarshalText([]byte(r.rest[5])); err != nil {
			return drawing{}, fmt.Errorf("draw %s: seed: %w", event, unavailable(err))
		}
	}
	return d, nil
}

// commit chooses the seed of an event whose order will be drawn, once.
func (l *Line) commit(ctx context.Context, event EventID) error {
	seed := draw.NewSeed()
	doc, err := json.Marshal(Drawn{Commitment: draw.Commitment(string(event), seed)})
	if err != nil {
		return err
	}
	_, err = l.step(ctx, event, "", "commit", seed.String(), string(doc))
	return err
}

// draw does one event's draw from where it is to its end.
func (d *Drawer) draw(ctx context.Context, ev Event) error {
	if ev.Draw == nil { // a Create was cut off before it
		if err := d.line.commit(ctx, ev.ID); err != nil {
			return err
		}
	}
	for {
		at, err := d.line.step(ctx, ev.ID, d.node, "claim")
		if err != nil {
			if errors.Is(err, errElsewhere) {
				return nil
			}
			return err
		}
		switch at.phase {
		case drawListing:
			err = d.list(ctx, ev, at)
		case drawWaiting:
			err = d.reveal(ctx, ev, at)
		case drawPlacing:
			err = d.place(ctx, ev, at)
		default:
			return nil
		}
		if errors.Is(err, errElsewhere) || errors.Is(err, errMovedOn) {
			return nil // Run looks again in a moment
		}
		if err != nil {
			return err
		}
	}
}

// list writes down who was in the lobby, ordered by leaf, and publishes the root.
// Who leaves before being read is not in it.
func (d *Drawer) list(ctx context.Context, ev Event, at drawing) error {
	entries, leaves, err := d.entrants(ctx, ev.ID, at.base)
	if err != nil {
		return err
	}
	list, err := draw.NewList(leaves)
	if err != nil {
		return err
	}
	if _, err := d.line.step(ctx, ev.ID, d.node, "forget"); err != nil {
		return err
	}
	for chunk := range slices.Chunk(entries, drawChunk) {
		args := make([]any, len(chunk))
		for i, e := range chunk {
			args[i] = string(e)
		}
		if _, err := d.line.step(ctx, ev.ID, d.node, "list", args...); err != nil {
			return err
		}
	}
	root := list.Root()
	at.drawn.ClosedAt, at.drawn.Root, at.drawn.Size = &at.closed, &root, len(list)
	if ev.Beacon.URL != "" {
		const ahead = time.Second // nobody has seen the round when it is named
		now, err := d.line.now(ctx)
		if err == nil {
			at.drawn.Round, err = d.beacon(ev.Beacon.URL).RoundAt(ctx, now.Add(ahead))
		}
		if err != nil {
			d.log.Warn("no beacon", zap.String("event", string(ev.ID)), zap.Error(err))
			at.drawn.Fallback = true
		}
	}
	doc, err := json.Marshal(at.drawn)
	if err != nil {
		return err
	}
	d.log.Info("lobby closed", zap.String("event", string(ev.ID)), zap.Int("entrants", len(list)), zap.Stringer("root", root))
	_, err = d.line.step(ctx, ev.ID, d.node, "listed", string(doc), len(entries))
	return err
}

// entrants are the entries with sequences up to base, ordered by their leaves.
func (d *Drawer) entrants(ctx context.Context, event EventID, base int64) ([]EntryID, []draw.Hash, error) {
	type entrant struct {
		entry EntryID
		leaf  draw.Hash
	}
	var all []entrant
	after := "-inf"
	for {
		bounded, cancel := context.WithTimeout(ctx, d.line.cfg.CallTimeout)
		some, err := d.line.rdb.ZRangeByScoreWithScores(bounded, d.line.keys.line(event), &redis.ZRangeBy{
			Min: after, Max: strconv.FormatInt(base, 10), Count: drawChunk,
		}).Result()
		cancel()
		if err != nil {
			return nil, nil, fmt.Errorf("draw %s: %w", event, unavailable(err))
		}
		for _, z := range some {
			entry, _ := z.Member.(string)
			all = append(all, entrant{EntryID(entry), draw.Leaf(string(event), entry)})
		}
		if len(some) < drawChunk {
			break
		}
		after = "(" + strconv.FormatFloat(some[len(some)-1].Score, 'f', 0, 64)
	}
	slices.SortFunc(all, func(a, b entrant) int { return slices.Compare(a.leaf[:], b.leaf[:]) })
	entries, leaves := make([]EntryID, len(all)), make([]draw.Hash, len(all))
	for i, e := range all {
		entries[i], leaves[i] = e.entry, e.leaf
	}
	return entries, leaves, nil
}

// place gives the places and opens the event.
func (d *Drawer) place(ctx context.Context, ev Event, at drawing) error {
	entries, err := d.line.drawList(ctx, ev.ID)
	if err != nil {
		return err
	}
	order, err := at.drawn.order(ev.ID)
	if err != nil {
		return err
	}
	if len(entries) != at.drawn.Size || at.placed > len(entries) {
		return fmt.Errorf("draw %s: %d of %d entrants are listed: %w", ev.ID, len(entries), at.drawn.Size, ErrUnavailable)
	}
	places := order.Places()
	for from := at.placed; from < len(entries); from += drawChunk {
		to := min(from+drawChunk, len(entries))
		args := []any{from}
		for i := from; i < to; i++ {
			args = append(args, string(entries[i]), places[i])
		}
		if _, err := d.line.step(ctx, ev.ID, d.node, "place", args...); err != nil {
			return err
		}
	}
	if _, err := d.line.step(ctx, ev.ID, d.node, "open"); err != nil {
		return err
	}
	d.line.stir(ctx, ev.ID)
	d.log.Info("order drawn", zap.String("event", string(ev.ID)), zap.Int("entrants", len(entries)))
	return nil
}

// order is the permutation that the published parts pick.
func (d *Drawn) order(event EventID) (draw.Order, error) {
	if d.Seed == nil || d.Root == nil {
		return draw.Order{}, fmt.Errorf("draw %s: not drawn yet: %w", event, ErrNotDrawn)
	}
	var beacon []byte
	if d.Beacon != nil {
		beacon = d.Beacon.Randomness[:]
	}
	return draw.NewOrder(draw.Key(string(event), *d.Seed, *d.Root, d.Size, beacon), d.Size)
}

// now is the store's own clock, which no rehearsal moves.
func (l *Line) now(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	t, err := l.rdb.Time(ctx).Result()
	if err != nil {
		return time.Time{}, unavailable(err)
	}
	return t, nil
}

// drawList is the list of a draw, as it was written down.
func (l *Line) drawList(ctx context.Context, event EventID) ([]EntryID, error) {
	var entries []EntryID
	for from := int64(0); from < math.MaxInt32; from += drawChunk {
		bounded, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
		some, err := l.rdb.LRange(bounded, l.keys.drawn(event), from, from+drawChunk-1).Result()
		cancel()
		if err != nil {
			return nil, fmt.Errorf("draw %s: %w", event, unavailable(err))
		}
		for _, e := range some {
			entries = append(entries, EntryID(e))
		}
		if len(some) < drawChunk {
			break
		}
	}
	return entries, nil
}
