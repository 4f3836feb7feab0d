package ticket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// TopicWinner is the topic of the notice of a win; its payload is a WinnerNotice.
const TopicWinner = "winner.determined"

// ErrFenced means that a newer leadership gives out the numbers now.
var ErrFenced = errors.New("fenced off by a newer leader")

// NumberRequest asks for an event's next number.
type NumberRequest struct {
	// Entry and Request are unique in the event: who asks, and with which call.
	Entry, Request string
	// Person is who is told of in a notice.
	Person string
}

// Number is a request's number.
type Number struct {
	Entry  string
	Seq    int64
	Winner bool
}

// WinnerNotice tells of a win. It is written in the transaction that decided it, so
// it is published at least once, with a deduplication id of its own.
type WinnerNotice struct {
	EventID      string `json:"event_id"`
	UserID       string `json:"user_id"`
	Seq          int64  `json:"seq"`
	DeterminedAt string `json:"determined_at"` // RFC 3339, UTC, milliseconds
}

// Number gives each request its number, in their order: the next ones without a
// hole, or those that their entries or requests have already. Who wins is decided
// here, once, and the notice of it committed with it. Errors: ErrFenced,
// ErrUnavailable, ErrContended; nothing is numbered then, or nobody knows whether
// it was, and the same call again finds out.
func (s *Store) Number(ctx context.Context, event string, fence int64, requests []NumberRequest, winners []int64) ([]Number, error) {
	var numbers []Number
	err := s.again(ctx, func(ctx context.Context, t tx) (err error) {
		numbers, err = s.number(ctx, t, event, fence, requests, winners)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("number in %s: %w", event, err)
	}
	s.news.poke() // a notice may wait
	return numbers, nil
}

func (s *Store) number(ctx context.Context, t tx, event string, fence int64, requests []NumberRequest, winners []int64) ([]Number, error) {
	if _, err := t.exec(ctx, `INSERT INTO counters (event, last, fence) VALUES ($1, 0, $2) ON CONFLICT (event) DO NOTHING`, nil, event, fence); err != nil {
		return nil, err
	}
	// The row's lock is held until the commit: numbers are given out one call after
	// the other.
	last, mine := int64(0), false
	err := t.query(ctx, func(scan func(...any) error) error { mine = true; return scan(&last) },
		`UPDATE counters SET fence = $2 WHERE event = $1 AND fence <= $2 RETURNING last`, nil, event, fence)
	if err != nil {
		return nil, err
	}
	if !mine {
		return nil, ErrFenced
	}
	have, err := s.numbered(ctx, t, event, requests)
	if err != nil {
		return nil, err
	}
	now, err := s.now(ctx, t)
	if err != nil {
		return nil, err
	}
	var seqs, wins []int64
	var entries, ids, persons []string
	out := make([]Number, len(requests))
	for i, r := range requests {
		n, ok := have.of(r)
		if !ok {
			last++
			n = Number{Entry: r.Entry, Seq: last, Winner: slices.Contains(winners, last)}
			have.add(r, n)
			seqs, entries, ids, persons = append(seqs, n.Seq), append(entries, r.Entry), append(ids, r.Request), append(persons, r.Person)
			wins = append(wins, map[bool]int64{true: 1}[n.Winner])
			if err := s.announceWin(ctx, t, event, r, n, now); err != nil {
				return nil, err
			}
		}
		n.Entry = r.Entry
		out[i] = n
	}
	if len(seqs) == 0 {
		return out, nil
	}
	rows := table("seq", seqs).column("entry", entries).column("request", ids).column("person", persons).column("winner", wins)
	if err := t.insert(ctx, len(seqs), `INSERT INTO numbers (event, seq, entry, request, person, winner, determined_ms)
		SELECT $1, r.seq, r.entry, r.request, r.person, r.winner, $2 FROM {rows}`, rows, event, now); err != nil {
		return nil, err
	}
	return out, t.insert(ctx, 1, `UPDATE counters SET last = $2 WHERE event = $1`, nil, event, last)
}

// announceWin writes the notice of a win.
func (s *Store) announceWin(ctx context.Context, t tx, event string, r NumberRequest, n Number, now int64) error {
	if !n.Winner {
		return nil
	}
	payload, err := json.Marshal(WinnerNotice{
		EventID: event, UserID: r.Person, Seq: n.Seq, DeterminedAt: millis(now).Format("2006-01-02T15:04:05.000Z07:00"),
	})
	if err != nil {
		return fmt.Errorf("notice: %w", err)
	}
	return t.insert(ctx, 1, `INSERT INTO outbox (event, topic, key, payload, created_ms) VALUES ($1, $2, $3, $4, $5)`, nil,
		event, TopicWinner, winKey(event, n.Seq, now), payload, now)
}

// winKey names a win for good: an event that is removed and made again under its id has
// another first winner, whom a broker that knows the first one's notice must not swallow.
func winKey(event string, seq, determinedMS int64) string {
	return fmt.Sprintf("%s/%d/%d", event, seq, determinedMS)
}

// given are numbers by who has them.
type given struct{ entries, requests map[string]Number }

func (g given) of(r NumberRequest) (Number, bool) {
	if n, ok := g.entries[r.Entry]; ok {
		return n, true
	}
	n, ok := g.requests[r.Request]
	return n, ok
}

func (g given) add(r NumberRequest, n Number) {
	g.entries[r.Entry], g.requests[r.Request] = n, n
}

// numbered reads the numbers that some of the requests have already.
func (s *Store) numbered(ctx context.Context, t tx, event string, requests []NumberRequest) (given, error) {
	g := given{entries: make(map[string]Number), requests: make(map[string]Number)}
	entries, ids := make([]string, len(requests)), make([]string, len(requests))
	for i, r := range requests {
		entries[i], ids[i] = r.Entry, r.Request
	}
	read := func(scan func(...any) error) error {
		var r NumberRequest
		var n Number
		var winner int64
		err := scan(&n.Seq, &r.Entry, &r.Request, &winner)
		n.Entry, n.Winner = r.Entry, winner == 1
		g.add(r, n)
		return err
	}
	if err := t.query(ctx, read, `SELECT n.seq, n.entry, n.request, n.winner FROM {rows}
		JOIN numbers n ON n.event = r.event AND n.entry = r.entry`, eventTable(event, len(entries)).column("entry", entries)); err != nil {
		return g, err
	}
	return g, t.query(ctx, read, `SELECT n.seq, n.entry, n.request, n.winner FROM {rows}
		JOIN numbers n ON n.event = r.event AND n.request = r.request`, eventTable(event, len(ids)).column("request", ids))
}
