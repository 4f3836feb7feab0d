package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// reachTimeout is how long a start waits for a server to answer.
const reachTimeout = 5 * time.Second

// redisSchemes are the URLs that --redis takes.
var redisSchemes = []string{"redis", "rediss", "redis+sentinel", "redis+cluster"}

// redisURL turns one URL into a client; it connects nothing.
//
//	redis://[user:password@]host:port[/db], rediss://…
//	redis+sentinel://[user:password@]host:port[,host:port…]/MASTER[/db]
//	redis+cluster://[user:password@]host:port[,host:port…]
func redisClient(rawURL string) (redis.UniversalClient, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("redis: no URL") // the parser's text would repeat the password
	}
	switch u.Scheme {
	case "redis", "rediss":
		opt, err := redis.ParseURL(rawURL)
		if err != nil {
			return nil, fmt.Errorf("redis: %w", err)
		}
		tune(&opt.PoolSize, &opt.ContextTimeoutEnabled)
		return redis.NewClient(opt), nil
	case "redis+sentinel":
		master, db, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
		if master == "" {
			return nil, errors.New("redis: a sentinel URL names its master, redis+sentinel://host:port/MASTER")
		}
		opt := &redis.FailoverOptions{MasterName: master, SentinelAddrs: strings.Split(u.Host, ",")}
		opt.Username, opt.Password = userinfo(u)
		if db != "" {
			if _, err := fmt.Sscanf(db, "%d", &opt.DB); err != nil {
				return nil, fmt.Errorf("redis: database %q is no number", db)
			}
		}
		tune(&opt.PoolSize, &opt.ContextTimeoutEnabled)
		return redis.NewFailoverClient(opt), nil
	default: // redis+cluster: the configuration lets nothing else through
		opt := &redis.ClusterOptions{Addrs: strings.Split(u.Host, ",")}
		opt.Username, opt.Password = userinfo(u)
		tune(&opt.PoolSize, &opt.ContextTimeoutEnabled)
		return redis.NewClusterClient(opt), nil
	}
}

// tune sets what all kinds of clients share: enough connections for the blocking
// reads of the feeds beside the calls, and calls that end with their context.
func tune(poolSize *int, contextTimeout *bool) {
	*poolSize = max(*poolSize, 64)
	*contextTimeout = true
}

func userinfo(u *url.URL) (user, password string) {
	if u.User == nil {
		return "", ""
	}
	password, _ = u.User.Password()
	return u.User.Username(), password
}

// reachRedis waits for an answer, so that a wrong address ends the start.
func reachRedis(ctx context.Context, rdb redis.UniversalClient) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redis cannot be reached: %w", err)
	}
	return nil
}

// embeddedRedis is the store inside the process. Its clock for TTLs stands still
// unless somebody drives it: Run does.
type embeddedRedis struct{ server *miniredis.Miniredis }

func startEmbeddedRedis() (*embeddedRedis, error) {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("embedded store: %w", err)
	}
	return &embeddedRedis{server: server}, nil
}

func (e *embeddedRedis) client() redis.UniversalClient {
	opt := &redis.Options{Addr: e.server.Addr()}
	tune(&opt.PoolSize, &opt.ContextTimeoutEnabled)
	return redis.NewClient(opt)
}

// Run moves the TTLs' clock on until ctx ends.
func (e *embeddedRedis) Run(ctx context.Context) error {
	const step = 50 * time.Millisecond
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			e.server.FastForward(now.Sub(last))
			last = now
		}
	}
}

func (e *embeddedRedis) close() { e.server.Close() }

// sqliteURL is the embedded database's URL; the directory is made if it is not there.
func sqliteURL(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("data: %w", err)
	}
	return "sqlite:" + filepath.Join(dir, "waitroom.db"), nil
}

// existingSQLite is the embedded database's URL, for commands that must not make one.
func existingSQLite(dir string) (string, error) {
	path := filepath.Join(dir, "waitroom.db")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("data: no database there: %w", err)
	}
	return "sqlite:" + path, nil
}
