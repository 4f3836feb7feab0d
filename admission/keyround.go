package admission

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// holdFor is how long an instance counts as running after it last said which keys it
// has: three times shareEvery.
const holdFor = 3 * shareEvery

// KeyHolder is a running instance and the names of the signing keys that it has, the
// one that signs first.
type KeyHolder []string

// Has tells whether the instance verifies what this key signs.
func (h KeyHolder) Has(kid string) bool { return slices.Contains(h, kid) }

// Holds tells whether the instance has these keys as they are.
func (h KeyHolder) Holds(k *Keys) bool { return slices.Equal(h, k.KIDs()) }

// KeyStep is one step of a rotation.
type KeyStep string

// The steps, in their order. Between two of them every instance is started anew.
const (
	PrepareKeys KeyStep = "prepare"
	RotateKeys  KeyStep = "rotate"
	RetireKeys  KeyStep = "retire"
)

// NotYetError refuses a step that instances are not ready for: afterwards one would not
// know what another has signed.
type NotYetError struct {
	Step KeyStep
	// Waiting is how many of Running instances must be started anew first.
	Waiting, Running int
}

// Error says what to do.
func (e *NotYetError) Error() string {
	if e.Step == RotateKeys && e.Waiting == e.Running {
		return fmt.Sprintf("rotate: none of %d running instances has the next keys; prepare first, and restart each", e.Running)
	}
	return fmt.Sprintf("%s: %d of %d running instances have not taken the keys yet; restart them first", e.Step, e.Waiting, e.Running)
}

// next are the keys after a step, and the key that every running instance must have, or
// sign with, before it. One instance alone need not be prepared for another's signature.
func (k *Keys) next(step KeyStep, holders []KeyHolder) (*Keys, error) {
	ready := func(KeyHolder) bool { return true }
	var next *Keys
	var err error
	switch step {
	case PrepareKeys:
		next, err = k.Prepared()
	case RotateKeys:
		next = k.Rotated()
		ready = func(h KeyHolder) bool { return len(holders) == 1 || h.Has(next.KID()) }
	case RetireKeys:
		next, err = k.Retired()
		ready = func(h KeyHolder) bool { return len(h) > 0 && h[0] == k.KID() }
	default:
		err = fmt.Errorf("%q is no step of a rotation", step)
	}
	if err != nil {
		return nil, err
	}
	waiting := 0
	for _, h := range holders {
		if !ready(h) {
			waiting++
		}
	}
	if waiting > 0 {
		return nil, &NotYetError{Step: step, Waiting: waiting, Running: len(holders)}
	}
	return next, nil
}

// errChanged is that somebody else took a step at the same time.
var errChanged = errors.New("the keys were changed at the same time; look at them again")

// ChangeShared takes a step with the keys that an installation shares through its store.
// Instances take them when they are started. Errors: *NotYetError, and what Prepared and
// Retired refuse; a store that holds no keys, or does not answer.
func ChangeShared(ctx context.Context, rdb redis.UniversalClient, prefix string, step KeyStep) (*Keys, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	holders, err := KeyHolders(ctx, rdb, prefix)
	if err != nil {
		return nil, err
	}
	key := keysKey(prefix)
	var next *Keys
	err = rdb.Watch(ctx, func(tx *redis.Tx) error {
		k, err := storedKeys(ctx, tx, key)
		if err != nil {
			return err
		}
		if next, err = k.next(step, holders); err != nil {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Set(ctx, key, next.Encode(), 0).Err() })
		return err
	}, key)
	if errors.Is(err, redis.TxFailedErr) {
		err = errChanged
	}
	if err != nil {
		return nil, fmt.Errorf("shared keys: %w", err)
	}
	return next, nil
}

// StoredKeys are the keys that an installation shares through its store; none are made.
func StoredKeys(ctx context.Context, rdb redis.UniversalClient, prefix string) (*Keys, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	k, err := storedKeys(ctx, rdb, keysKey(prefix))
	if err != nil {
		return nil, fmt.Errorf("shared keys: %w", err)
	}
	return k, nil
}

// errNoKeys is that no instance has kept keys in this store.
var errNoKeys = errors.New("the store holds none; an instance without --keys makes them")

func storedKeys(ctx context.Context, rdb redis.Cmdable, key string) (*Keys, error) {
	b, err := rdb.Get(ctx, key).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, errNoKeys
	}
	if err != nil {
		return nil, err
	}
	k, err := decodeKeys(b)
	if err != nil {
		return nil, fmt.Errorf("%s holds no keys: %w", key, err)
	}
	return k, nil
}

// holder is how this instance says which keys it has.
func (k *Keys) holder() string { return rand.Text() + " " + strings.Join(k.KIDs(), " ") }

// hold says, by the store's clock, that a holder runs, and forgets those that do not.
func hold(ctx context.Context, rdb redis.UniversalClient, prefix, holder string) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	now, err := rdb.Time(ctx).Result()
	if err != nil {
		return err
	}
	key, gone := holdersKey(prefix), strconv.FormatInt(now.Add(-holdFor).UnixMilli(), 10)
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAdd(ctx, key, redis.Z{Score: float64(now.UnixMilli()), Member: holder})
		p.ZRemRangeByScore(ctx, key, "-inf", "("+gone)
		return nil
	})
	return err
}

// letGo is the last word of a holder that ends.
func letGo(ctx context.Context, rdb redis.UniversalClient, prefix, holder string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	_ = rdb.ZRem(ctx, holdersKey(prefix), holder).Err() // else it ends by itself
}

// KeyHolders are the instances that run and share their keys through the store.
func KeyHolders(ctx context.Context, rdb redis.UniversalClient, prefix string) ([]KeyHolder, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	now, err := rdb.Time(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("holders of keys: %w", err)
	}
	since := strconv.FormatInt(now.Add(-holdFor).UnixMilli(), 10)
	members, err := rdb.ZRangeByScore(ctx, holdersKey(prefix), &redis.ZRangeBy{Min: since, Max: "+inf"}).Result()
	if err != nil {
		return nil, fmt.Errorf("holders of keys: %w", err)
	}
	holders := make([]KeyHolder, len(members))
	for i, m := range members {
		_, kids, _ := strings.Cut(m, " ") // the first word is the instance's own
		holders[i] = strings.Fields(kids)
	}
	return holders, nil
}

// follows tells whether two sets of keys are of one installation at neighbouring steps:
// each verifies what the other signs.
func (k *Keys) follows(o *Keys) bool {
	return slices.Equal(k.subject, o.subject) && slices.Contains(k.KIDs(), o.KID()) && slices.Contains(o.KIDs(), k.KID())
}
