package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger writes to stderr, in json for machines or console for people.
func newLogger(format string) (*zap.Logger, error) {
	cfg := zap.NewProductionConfig()
	cfg.Encoding = format
	cfg.DisableCaller = true
	cfg.DisableStacktrace = true
	cfg.Sampling = nil
	cfg.EncoderConfig.EncodeTime = zapcore.RFC3339TimeEncoder
	cfg.EncoderConfig.EncodeDuration = zapcore.StringDurationEncoder
	return cfg.Build()
}

// quietRedis sends what the client library would print to the log, at the level
// that is not shown: whoever called hears of every failure anyway.
func quietRedis(log *zap.Logger) { redis.SetLogger(redisLog{log.Named("redis")}) }

type redisLog struct{ log *zap.Logger }

// Printf is called by the client library.
func (l redisLog) Printf(_ context.Context, format string, v ...any) {
	l.log.Debug("client", zap.String("text", fmt.Sprintf(format, v...)))
}
