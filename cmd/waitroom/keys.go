package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/redis/go-redis/v9"

	"github.com/waitroom-dev/waitroom/admission"
)

// openKeys finds the keys: the operator's own; or on the embedded default a file
// beside the database, so that receipts outlive the store; or the store's, which
// all nodes share.
func (s *service) openKeys(ctx context.Context) (err error) {
	issuer := s.publicURL
	switch {
	case s.keys != nil:
	case s.cfg.Redis == "":
		if _, err := sqliteURL(s.cfg.Data); err != nil { // makes the directory
			return err
		}
		if s.keys, err = admission.KeepKeys(filepath.Join(s.cfg.Data, "keys.json")); err != nil {
			return err
		}
	default:
		s.log.Warn("keys are kept in the store, where whoever reads it can sign; --keys takes your own")
		if s.keys, err = admission.SharedKeys(ctx, s.rdb, keyPrefix); err != nil {
			return err
		}
		s.back = append(s.back, func(ctx context.Context) error { return s.keys.KeepShared(ctx, s.rdb, keyPrefix, s.log) })
	}
	if s.cfg.PublicURL == "" && s.cfg.Redis != "" {
		if issuer, err = sharedIssuer(ctx, s.rdb, issuer); err != nil {
			return err
		}
	}
	s.passes, err = admission.NewPasses(s.keys, issuer)
	return err
}

// sharedIssuer is the issuer of instances that were not told a public URL: the
// address of the first, so that all mint and accept the same tokens.
func sharedIssuer(ctx context.Context, rdb redis.UniversalClient, own string) (string, error) {
	key := keyPrefix + ":issuer"
	if err := rdb.SetNX(ctx, key, own, 0).Err(); err != nil {
		return "", fmt.Errorf("issuer: %w", err)
	}
	issuer, err := rdb.Get(ctx, key).Result()
	if err != nil {
		return "", fmt.Errorf("issuer: %w", err)
	}
	return issuer, nil
}
