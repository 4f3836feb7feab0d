package admission

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// shareEvery is how often KeepShared looks whether the store still holds the keys.
const shareEvery = 5 * time.Second

// storeTimeout bounds every single call to the store of this package that has no
// limit of its own.
const storeTimeout = 2 * time.Second

// SharedKeys gives the keys that all nodes of an installation without a key file
// share: they are made once and kept in the store, whoever comes first.
func SharedKeys(ctx context.Context, rdb redis.UniversalClient, prefix string) (*Keys, error) {
	k, err := share(ctx, rdb, prefix, NewKeys())
	if err != nil {
		return nil, fmt.Errorf("shared keys: %w", err)
	}
	return k, nil
}

// KeepShared puts these keys back whenever the store has lost them, so that
// receipts and tokens of before stay good on nodes that start later, and tells
// ChangeShared that an instance runs with them. It returns when ctx ends. A store that
// came back with other keys is an error in the log: the nodes that hold them do not know
// our tokens; one whose keys are a step further is not.
func (k *Keys) KeepShared(ctx context.Context, rdb redis.UniversalClient, prefix string, log *zap.Logger) error {
	holder := k.holder()
	defer letGo(ctx, rdb, prefix, holder)
	last := k
	return every(ctx, shareEvery, func(ctx context.Context) {
		stored, err := share(ctx, rdb, prefix, k)
		if err == nil {
			err = hold(ctx, rdb, prefix, holder)
		}
		if err != nil {
			return // the store is away; whoever needs it says so
		}
		if !stored.equal(last) {
			ids := []zap.Field{zap.Strings("kid", k.KIDs()), zap.Strings("stored_kid", stored.KIDs())}
			switch {
			case stored.equal(k):
			case stored.follows(k):
				log.Info("shared keys were changed; a restart takes them", ids...)
			default:
				log.Error("shared keys differ from the store's", ids...)
			}
		}
		last = stored
	})
}

// share stores the keys if none are there, and gives what is stored. A resent
// SETNX whose first reply was lost finds its own value.
func share(ctx context.Context, rdb redis.UniversalClient, prefix string, k *Keys) (*Keys, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	key := keysKey(prefix)
	if err := rdb.SetNX(ctx, key, k.Encode(), 0).Err(); err != nil {
		return nil, err
	}
	return storedKeys(ctx, rdb, key)
}
