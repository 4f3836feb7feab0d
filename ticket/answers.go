package ticket

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Old answers are forgotten without an index on their age, which would cost each
// reservation more than it costs to look at every answer once an hour: keys are hashes,
// so that a share of the keys is the same share of the answers, old ones and new.

const (
	// forgetEvery is how often a share of the answers is looked at.
	forgetEvery = time.Minute
	// forgetShares is into how many shares the answers fall at most: all are looked at
	// within an hour.
	forgetShares = 60
	answersBatch = 1000
)

// forgetter deletes old answers, share after share.
type forgetter struct {
	store *Store
	next  int // the share that is next, of any number of them
}

// newForgetter begins anywhere, so that a node that is restarted often does not only see
// the first share.
func newForgetter(s *Store) *forgetter {
	return &forgetter{store: s, next: rand.N(forgetShares)}
}

// shares is how many there are: as many as let an answer become a twenty-fourth older
// than its retention, at most.
func (f *forgetter) shares() int {
	return int(min(max(f.store.cfg.Retention/24/forgetEvery, 1), forgetShares))
}

// share deletes what is too old in the next share.
func (f *forgetter) share(ctx context.Context) error {
	from, to := keyShare(f.next, f.shares())
	for from != nil {
		var err error
		if from, err = f.store.forgetAnswers(ctx, from, to, answersBatch); err != nil {
			return err // the same share again
		}
	}
	f.next++
	return nil
}

// keyShare gives the bounds of the i-th of n shares of all keys, the second excluded.
func keyShare(i, n int) (from, to []byte) {
	at := func(i int) []byte {
		edge := i * 1 << 16 / n
		if edge == 1<<16 {
			return bytes.Repeat([]byte{0xff}, 33) // above every hash
		}
		return []byte{byte(edge >> 8), byte(edge)} //nolint:gosec // its two bytes
	}
	return at(i % n), at(i%n + 1)
}

// forgetAnswers looks at up to limit answers from one key on, deletes those older than the
// retention, and gives the key to go on from; nil at the end.
func (s *Store) forgetAnswers(ctx context.Context, from, to []byte, limit int) (next []byte, err error) {
	err = s.again(ctx, func(ctx context.Context, t tx) error {
		now, err := s.now(ctx, t)
		if err != nil {
			return err
		}
		next = nil
		seen, before := 0, now-s.cfg.Retention.Milliseconds()
		var old [][]byte
		err = t.query(ctx, func(scan func(...any) error) error {
			var key []byte
			var created int64
			err := scan(&key, &created)
			key = bytes.Clone(key)
			if seen++; seen == limit {
				next = append(bytes.Clone(key), 0) // the least above it
			}
			if created <= before {
				old = append(old, key)
			}
			return err
		}, `SELECT key, created_ms FROM answers WHERE key >= $1 AND key < $2 ORDER BY key LIMIT $3`, nil, from, to, limit)
		if err != nil || len(old) == 0 {
			return err
		}
		_, err = t.exec(ctx, `WITH due AS MATERIALIZED
				(SELECT a.key FROM {rows} JOIN answers a ON a.key = r.key WHERE a.created_ms <= $1 ORDER BY a.key {skip a})
			DELETE FROM answers WHERE key IN (SELECT key FROM due)`, table("key", old), before)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("forget answers: %w", err)
	}
	return next, nil
}
