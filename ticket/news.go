package ticket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

// news follows the outbox for what other nodes changed. Rows commit in another
// order than their numbers, so a number that is missing is asked for again until
// no transaction can be left that took it.
type news struct {
	wake      chan struct{} // holds one: something was committed here
	committed func()        // see OnCommit; set before Run

	mu        sync.Mutex // serialises readers of the outbox; guards below
	begun     bool
	last      int64
	gaps      map[int64]time.Time // missing numbers, since when
	listeners []Listener
}

const (
	newsBatch = 1000
	gapsMost  = 20_000 // more than these many missing numbers: the oldest are given up
	// gapsLook is how far before the end the first reading looks for gaps.
	gapsLook = 2000
)

func newNews() *news {
	return &news{wake: make(chan struct{}, 1), gaps: map[int64]time.Time{}}
}

// poke makes the follower look at once.
func (n *news) poke() {
	select {
	case n.wake <- struct{}{}:
	default: // it will look anyway
	}
	if n.committed != nil {
		n.committed()
	}
}

// OnCommit names who is called after this process has committed messages that
// somebody waits for; it must not block. Call it before Run.
func (s *Store) OnCommit(f func()) { s.news.committed = f }

// Listen adds a listener for the outcomes of all nodes. Call it before Run.
func (s *Store) Listen(l Listener) {
	s.news.mu.Lock()
	defer s.news.mu.Unlock()
	s.news.listeners = append(s.news.listeners, l)
}

// newsRow is an outbox row as the follower reads it.
type newsRow struct {
	id           int64
	event, topic string
	payload      []byte
}

// catchUp reads what is new in the outbox, brings the halls up to it, and tells
// the listeners.
func (s *Store) catchUp(ctx context.Context) error {
	n := s.news
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		more, err := s.catchUpOnce(ctx)
		if err != nil || !more {
			return err
		}
	}
}

func (s *Store) catchUpOnce(ctx context.Context) (more bool, err error) {
	n := s.news
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	var rows []newsRow
	err = s.db.look(ctx, func(ctx context.Context, t tx) error {
		if !n.begun {
			if err := n.begin(ctx, t); err != nil {
				return err
			}
		}
		read := func(scan func(...any) error) error {
			var r newsRow
			err := scan(&r.id, &r.event, &r.topic, &r.payload)
			rows = append(rows, r)
			return err
		}
		if len(n.gaps) > 0 {
			ids := slices.Collect(maps.Keys(n.gaps))
			if err := t.query(ctx, read, `SELECT o.id, o.event, o.topic, o.payload FROM {rows} JOIN outbox o ON o.id = r.id
				ORDER BY o.id`, table("id", ids)); err != nil {
				return err
			}
		}
		found := len(rows)
		if err := t.query(ctx, read, `SELECT id, event, topic, payload FROM outbox WHERE id > $1 ORDER BY id LIMIT $2`,
			nil, n.last, newsBatch); err != nil {
			return err
		}
		more = len(rows)-found == newsBatch
		return s.refresh(ctx, t, rows)
	})
	if err != nil {
		return false, fmt.Errorf("follow the outbox: %w", err)
	}
	if err := s.reloadChanged(ctx, rows); err != nil {
		return false, err
	}
	n.seen(rows, 3*s.cfg.CallTimeout+5*time.Second)
	s.tell(rows)
	return more, nil
}

// reloadChanged reads the halls anew of which rows say that the catalogue changed.
func (s *Store) reloadChanged(ctx context.Context, rows []newsRow) error {
	changed := map[string]bool{}
	for _, r := range rows {
		if r.topic == TopicCatalogue {
			changed[r.event] = true
		}
	}
	for event := range changed {
		s.mu.Lock()
		h := s.halls[event]
		delete(s.absent, event)
		s.mu.Unlock()
		if h == nil {
			continue
		}
		if err := s.reload(ctx, h); err != nil && !errors.Is(err, ErrWrongMode) {
			return fmt.Errorf("read the catalogue of %s: %w", event, err)
		}
	}
	return nil
}

// begin finds the end of the outbox and the numbers that are missing before it.
func (n *news) begin(ctx context.Context, t tx) error {
	var ids []int64
	err := t.query(ctx, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		ids = append(ids, id)
		return err
	}, `SELECT id FROM outbox ORDER BY id DESC LIMIT $1`, nil, gapsLook)
	if err != nil {
		return err
	}
	slices.Reverse(ids)
	now := time.Now()
	for i, id := range ids {
		if i > 0 {
			n.missing(ids[i-1], id, now)
		}
		n.last = id
	}
	n.begun = true
	return nil
}

// missing notes the numbers between two.
func (n *news) missing(from, to int64, now time.Time) {
	for id := max(from+1, to-gapsMost); id < to; id++ {
		n.gaps[id] = now
	}
}

// seen moves on past rows and forgets gaps that nobody can fill any more.
func (n *news) seen(rows []newsRow, patience time.Duration) {
	now := time.Now()
	for _, r := range rows {
		if r.id <= n.last {
			delete(n.gaps, r.id)
			continue
		}
		n.missing(n.last, r.id, now)
		n.last = r.id
	}
	for id, since := range n.gaps {
		if now.Sub(since) > patience {
			delete(n.gaps, id)
		}
	}
	if len(n.gaps) > gapsMost {
		ids := slices.Sorted(maps.Keys(n.gaps))
		for _, id := range ids[:len(ids)-gapsMost] {
			delete(n.gaps, id)
		}
	}
}

// refresh reads again what the rows say has changed, for the halls that are here.
func (s *Store) refresh(ctx context.Context, t tx, rows []newsRow) error {
	changed := map[string]map[string]bool{}
	for _, r := range rows {
		if changed[r.event] == nil {
			changed[r.event] = map[string]bool{}
		}
		var m Message
		if err := json.Unmarshal(r.payload, &m); err != nil {
			s.log.Error("outbox row unreadable", zap.Int64("id", r.id), zap.Error(err))
			continue
		}
		for _, id := range m.Seats {
			changed[r.event][id] = true
		}
	}
	for event, ids := range changed {
		s.mu.Lock()
		h := s.halls[event]
		s.mu.Unlock()
		if h == nil {
			continue
		}
		if err := h.refresh(ctx, t, slices.Sorted(maps.Keys(ids))); err != nil {
			return err
		}
	}
	return nil
}

// refresh reads some of a hall's seats, or of its items.
func (h *hall) refresh(ctx context.Context, t tx, ids []string) error {
	if h.catalogue().Kind == KindSeats {
		var seats []seatRow
		err := t.query(ctx, func(scan func(...any) error) error {
			var r seatRow
			err := scan(&r.id, &r.status, &r.version)
			seats = append(seats, r)
			return err
		}, `SELECT s.id, s.status, s.version FROM {rows} JOIN seats s ON s.event = r.event AND s.id = r.id`,
			h.rows(len(ids)).column("id", ids))
		if err != nil {
			return err
		}
		h.learn(seats)
		return nil
	}
	var stock []stockRow
	err := t.query(ctx, func(scan func(...any) error) error {
		var r stockRow
		var closed int64
		err := scan(&r.id, &r.total, &r.free, &r.version, &closed)
		r.closed = closed != 0
		stock = append(stock, r)
		return err
	}, `SELECT i.id, i.total, i.free, i.version, i.closed FROM {rows} JOIN items i ON i.event = r.event AND i.id = r.id`,
		h.rows(len(ids)).column("id", ids))
	if err != nil {
		return err
	}
	h.learnStock(stock)
	return nil
}

// tell passes outcomes on; who holds a seat knows it already, and what is said of
// places and not of a reservation is nobody's outcome.
func (s *Store) tell(rows []newsRow) {
	for _, r := range rows {
		switch r.topic {
		case TopicHeld, TopicPaymentRequested, TopicCatalogue, TopicSeats, TopicWinner:
			continue
		}
		var o Outcome
		if err := json.Unmarshal(r.payload, &o); err != nil {
			continue // refresh has said so
		}
		for _, l := range s.news.listeners {
			l.Outcome(o)
		}
	}
}
