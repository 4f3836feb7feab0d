package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/waitroom-dev/waitroom/admission"
)

// changeShared takes a step of a rotation with the keys that instances share.
func changeShared(cmd *cobra.Command, store string, step admission.KeyStep) error {
	return withStore(cmd, store, func(ctx context.Context, rdb redis.UniversalClient) error {
		keys, err := admission.ChangeShared(ctx, rdb, keyPrefix, step)
		if err != nil {
			return err
		}
		if err := printKeys(cmd, keys); err != nil {
			return err
		}
		return printHolders(ctx, cmd.OutOrStdout(), rdb, keys)
	})
}

// listShared lists the keys that instances share, and how many have them.
func listShared(cmd *cobra.Command, store string) error {
	return withStore(cmd, store, func(ctx context.Context, rdb redis.UniversalClient) error {
		keys, err := admission.StoredKeys(ctx, rdb, keyPrefix)
		if err != nil {
			return err
		}
		if err := printKeys(cmd, keys); err != nil {
			return err
		}
		return printHolders(ctx, cmd.OutOrStdout(), rdb, keys)
	})
}

// printHolders says how many running instances have taken the keys as they are now.
func printHolders(ctx context.Context, w io.Writer, rdb redis.UniversalClient, keys *admission.Keys) error {
	holders, err := admission.KeyHolders(ctx, rdb, keyPrefix)
	if err != nil {
		return err
	}
	taken := 0
	for _, h := range holders {
		if h.Holds(keys) {
			taken++
		}
	}
	_, err = fmt.Fprintf(w, "%d of %d running instances have taken these; a restart does\n", taken, len(holders))
	return err
}

// withStore calls with a client of the Redis that a URL names, where it answers.
func withStore(cmd *cobra.Command, store string, do func(context.Context, redis.UniversalClient) error) error {
	if store == "" {
		return usage(errors.New("redis: wants a URL such as redis://127.0.0.1:6379"))
	}
	if err := checkURL("redis", store, redisSchemes...); err != nil {
		return usage(err)
	}
	rdb, err := redisClient(store)
	if err != nil {
		return usage(err)
	}
	defer func() { _ = rdb.Close() }()
	if err := reachRedis(cmd.Context(), rdb); err != nil {
		return err
	}
	return do(cmd.Context(), rdb)
}
