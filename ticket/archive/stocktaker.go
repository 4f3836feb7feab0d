package archive

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/ticket"
)

// Line hears whether anything is left of what an event sells.
type Line interface {
	// Supplied are the events that want to know.
	Supplied() []string
	Supply(ctx context.Context, event string, left bool) error
}

// Stock knows it; *ticket.Store does.
type Stock interface {
	AnyLeft(ctx context.Context, event string) (bool, error)
}

const (
	countEvery  = 100 * time.Millisecond // a tick
	repeatEvery = 5 * time.Second        // for a line that has lost what it was told
)

// Stocktaker tells the line when the last piece is sold, and when one came back.
type Stocktaker struct {
	line  Line
	stock Stock
	log   *zap.Logger
	told  map[string]told // Run's own
}

type told struct {
	left bool
	at   time.Time
}

// NewStocktaker starts nothing.
func NewStocktaker(line Line, stock Stock, log *zap.Logger) *Stocktaker {
	return &Stocktaker{line: line, stock: stock, log: log.Named("stock"), told: make(map[string]told)}
}

// Run counts until ctx ends. While the database is away the line keeps what it was
// told last.
func (s *Stocktaker) Run(ctx context.Context) error {
	return every(ctx, countEvery, func(ctx context.Context) {
		for _, event := range s.line.Supplied() {
			if err := s.count(ctx, event); err != nil && ctx.Err() == nil && !errors.Is(err, ticket.ErrUnavailable) {
				s.log.Debug("stock not counted", zap.String("event", event), zap.Error(err))
			}
		}
	})
}

func (s *Stocktaker) count(ctx context.Context, event string) error {
	left, err := s.stock.AnyLeft(ctx, event)
	if errors.Is(err, ticket.ErrWrongMode) {
		return nil // nothing is sold here
	}
	if err != nil {
		return err
	}
	if last, ok := s.told[event]; ok && last.left == left && time.Since(last.at) < repeatEvery {
		return nil
	}
	if err := s.line.Supply(ctx, event, left); err != nil {
		return err
	}
	s.told[event] = told{left: left, at: time.Now()}
	return nil
}
