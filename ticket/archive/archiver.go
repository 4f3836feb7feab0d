package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
)

// Batch is some of an event's archive: the records, and the tokens in them.
type Batch struct {
	Records []string
	Tokens  []ticket.IssuedToken
}

// Archives are where the line keeps what it gave out.
type Archives interface {
	// Archives are the events that may have something.
	Archives(ctx context.Context) ([]string, error)
	// Unfiled takes the next records of an event; those that another worker took
	// longer than idle ago come first.
	Unfiled(ctx context.Context, event string, limit int, idle time.Duration) (Batch, error)
	// Filed takes records out.
	Filed(ctx context.Context, event string, records []string) error
}

// Files keep tokens; *ticket.Store does.
type Files interface {
	FileIssued(ctx context.Context, event string, tokens []ticket.IssuedToken) (int64, error)
}

// Config are the settings of an Archiver. The zero value of each means its default.
type Config struct {
	// Every is how often the archives are looked at. Default 250ms; 10ms to 1m.
	Every time.Duration
	// Idle is how long another worker may keep records without filing them. Default
	// 10s; at least 100ms.
	Idle time.Duration
	// Limit is the most records taken at once; each has at most 256 tokens. Default
	// 16; 1 to 64.
	Limit int
}

// Archiver files what was given out. Any number of them may work on one store and
// one database.
type Archiver struct {
	cfg      Config
	archives Archives
	files    Files
	log      *zap.Logger
	filed    prometheus.Counter
	failing  map[string]bool // events whose last try failed; Run's own
}

// NewArchiver checks the settings and starts nothing.
func NewArchiver(cfg Config, archives Archives, files Files, log *zap.Logger, reg prometheus.Registerer) (*Archiver, error) {
	cfg.Every = cmp.Or(cfg.Every, 250*time.Millisecond)
	cfg.Idle = cmp.Or(cfg.Idle, 10*time.Second)
	cfg.Limit = cmp.Or(cfg.Limit, 16)
	var faults []error
	if cfg.Every < 10*time.Millisecond || cfg.Every > time.Minute {
		faults = append(faults, fmt.Errorf("every %v: must be 10ms to 1m", cfg.Every))
	}
	if cfg.Idle < 100*time.Millisecond {
		faults = append(faults, fmt.Errorf("idle %v: must be at least 100ms", cfg.Idle))
	}
	if cfg.Limit < 1 || cfg.Limit > 64 {
		faults = append(faults, fmt.Errorf("limit %d: must be 1 to 64", cfg.Limit))
	}
	a := &Archiver{cfg: cfg, archives: archives, files: files, log: log.Named("archive"), failing: make(map[string]bool)}
	a.filed = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "waitroom", Subsystem: "archive", Name: "tokens_total",
		Help: "Tokens of mode instant that were filed in the database.",
	})
	if reg != nil {
		faults = append(faults, reg.Register(a.filed))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("archiver: %w", err)
	}
	return a, nil
}

// Run files until ctx ends. Store or database being away is waited for.
func (a *Archiver) Run(ctx context.Context) error {
	return every(ctx, a.cfg.Every, func(ctx context.Context) {
		events, err := a.archives.Archives(ctx)
		a.note(ctx, "", err)
		for _, event := range events {
			a.note(ctx, event, a.file(ctx, event))
		}
	})
}

// file empties one event's archive.
func (a *Archiver) file(ctx context.Context, event string) error {
	for {
		b, err := a.archives.Unfiled(ctx, event, a.cfg.Limit, a.cfg.Idle)
		if err != nil || len(b.Records) == 0 {
			return err
		}
		// A batch that fails stays pending, and comes again after Idle.
		n, err := a.files.FileIssued(ctx, event, b.Tokens)
		if err != nil {
			return err
		}
		a.filed.Add(float64(n))
		if err := a.archives.Filed(ctx, event, b.Records); err != nil {
			return err
		}
	}
}

// note says the first of a row of failures, and the recovery.
func (a *Archiver) note(ctx context.Context, event string, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil && !a.failing[event]:
		a.failing[event] = true
		a.log.Warn("tokens not filed", zap.String("event", event), zap.Error(err))
	case err == nil && a.failing[event]:
		delete(a.failing, event)
		a.log.Info("tokens filed again", zap.String("event", event))
	}
}

// every does something at once and then every so often, until ctx ends.
func every(ctx context.Context, d time.Duration, do func(context.Context)) error {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		do(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
