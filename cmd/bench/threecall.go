package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// threeCalls is the usual way to join: add, rank, count, each a call of its own.
// Everything about it that is not the store is as cheap as ours or cheaper. It
// takes the place of line and view behind the same HTTP side.
type threeCalls struct {
	*waitroom.Line // for all calls that nobody makes here
	rdb            *redis.Client
	key            string
	secret         []byte
	event          waitroom.Event
	waiting        atomic.Int64
}

func newThreeCalls(ctx context.Context, line *waitroom.Line, rdb *redis.Client, prefix string, secret []byte) (*threeCalls, error) {
	ev, err := line.Event(ctx, event)
	if err != nil {
		return nil, err
	}
	return &threeCalls{Line: line, rdb: rdb, key: prefix + ":queue", secret: secret, event: ev}, nil
}

// Join adds a person and asks where they stand.
func (t *threeCalls) Join(ctx context.Context, _ waitroom.JoinRequest) (waitroom.Place, error) {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	entry := base64.RawURLEncoding.EncodeToString(b[:])
	added, err := t.rdb.ZAddNX(ctx, t.key, redis.Z{Score: float64(time.Now().UnixMilli()), Member: entry}).Result()
	if err != nil {
		return waitroom.Place{}, fmt.Errorf("%w: %w", waitroom.ErrUnavailable, err)
	}
	rank, err := t.rdb.ZRank(ctx, t.key, entry).Result()
	if err != nil {
		return waitroom.Place{}, fmt.Errorf("%w: %w", waitroom.ErrUnavailable, err)
	}
	n, err := t.rdb.ZCard(ctx, t.key).Result()
	if err != nil {
		return waitroom.Place{}, fmt.Errorf("%w: %w", waitroom.ErrUnavailable, err)
	}
	t.waiting.Store(n)
	return waitroom.Place{
		Event: event, Entry: waitroom.EntryID(entry), Seq: waitroom.Seq(rank + 1), State: waitroom.EntryWaiting,
		Created: added == 1, Receipt: t.receipt(b[:], rank),
	}, nil
}

// receipt is as long as ours, and signed in the same way.
func (t *threeCalls) receipt(entry []byte, rank int64) string {
	payload := fmt.Appendf(make([]byte, 0, 96), "1%d", rank)
	payload = append(append(payload, entry...), event...)
	m := hmac.New(sha256.New, t.secret)
	m.Write(payload)
	return base64.RawURLEncoding.EncodeToString(append(payload, m.Sum(nil)[:16]...))
}

// Event is the event with the last count.
func (t *threeCalls) Event(context.Context, waitroom.EventID) (waitroom.Event, error) {
	ev := t.event
	ev.Waiting = t.waiting.Load()
	return ev, nil
}

// Position is what Join put into the place.
func (t *threeCalls) Position(_ waitroom.EventID, seq waitroom.Seq) (int64, bool) {
	return int64(seq), true
}

// Shown remembers nobody.
func (t *threeCalls) Shown(_ waitroom.EventID, _ waitroom.EntryID, _ waitroom.Seq, position int64) int64 {
	return position
}

// Estimate divides by the rate.
func (t *threeCalls) Estimate(_ waitroom.EventID, _ waitroom.Seq, position int64) (eta, p90 time.Duration, ok bool) {
	eta = time.Duration(float64(position) / t.event.RatePerS * float64(time.Second))
	return eta, eta, true
}

// Check enters one after the other; nobody asks it here.
func (t *threeCalls) Check(ctx context.Context, id waitroom.EventID, jtis []string) []error {
	errs := make([]error, len(jtis))
	for i, jti := range jtis {
		_, errs[i] = t.Enter(ctx, id, waitroom.Pass{Event: id, JTI: jti})
	}
	return errs
}
