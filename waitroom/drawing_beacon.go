package waitroom

import (
	"context"
	"encoding/json"
	"time"

	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom/draw"
)

// Beacon is a source of public randomness in numbered rounds.
type Beacon interface {
	// RoundAt is the first round that is published at this moment or later.
	RoundAt(ctx context.Context, at time.Time) (round uint64, err error)
	// Round is a round that has been published, checked.
	Round(ctx context.Context, round uint64) (draw.Beacon, error)
}

// reveal waits for the beacon, as long as the event says, and publishes the seed.
func (d *Drawer) reveal(ctx context.Context, ev Event, at drawing) error {
	if at.drawn.Round != 0 {
		found, err := d.await(ctx, ev, at)
		if err != nil {
			return err
		}
		at.drawn.Beacon, at.drawn.Fallback = found, found == nil
	}
	at.drawn.Seed = &at.seed
	doc, err := json.Marshal(at.drawn)
	if err != nil {
		return err
	}
	_, err = d.line.step(ctx, ev.ID, d.node, "reveal", string(doc))
	return err
}

// await asks for the beacon's round until it is there or the event's patience is
// over: then there is none.
func (d *Drawer) await(ctx context.Context, ev Event, at drawing) (*draw.Beacon, error) {
	const pause, patience = 500 * time.Millisecond, 2 * time.Second
	until := at.closed.Add(time.Duration(ev.Beacon.Wait))
	for {
		asked, cancel := context.WithTimeout(ctx, patience)
		b, err := d.beacon(ev.Beacon.URL).Round(asked, at.drawn.Round)
		cancel()
		if err == nil {
			return &b, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		now, err := d.line.Event(ctx, ev.ID)
		if err != nil {
			return nil, err
		}
		if !now.Now.Before(until) {
			d.log.Warn("the beacon did not come; the draw goes by the commitment alone",
				zap.String("event", string(ev.ID)), zap.Uint64("round", at.drawn.Round))
			return nil, nil //nolint:nilnil // no beacon and no fault: the event says what then
		}
		if _, err := d.line.step(ctx, ev.ID, d.node, "claim"); err != nil {
			return nil, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		case <-timer.C:
		}
	}
}
