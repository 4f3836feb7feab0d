package ticket

import (
	"context"
	"fmt"
)

// Remove ends what an event sells, for good: holds are cancelled with the reason
// event_removed, and so are payments that run, whose money goes back if it was
// taken. What was paid stays in the books. The numbers that it gave are forgotten, so
// that the same id may then sell anything and count from 1.
// Removing what is not there is harmless.
func (s *Store) Remove(ctx context.Context, event string) error {
	err := s.againWithin(ctx, putCalls*s.cfg.CallTimeout, func(ctx context.Context, t tx) error {
		for _, statement := range []string{`DELETE FROM numbers WHERE event = $1`, `DELETE FROM counters WHERE event = $1`} {
			if _, err := t.exec(ctx, statement, nil, event); err != nil {
				return err
			}
		}
		_, found, err := lockCatalogue(ctx, t, event)
		if err != nil || !found {
			return err
		}
		now, err := s.now(ctx, t)
		if err != nil {
			return err
		}
		// Without seats and items nothing more is reserved; who has locked some is
		// waited for, and found below.
		for _, statement := range []string{`DELETE FROM seats WHERE event = $1`, `DELETE FROM items WHERE event = $1`} {
			if _, err := t.exec(ctx, statement, nil, event); err != nil {
				return err
			}
		}
		ended, err := move(ctx, t, `UPDATE reservations SET status = 'cancelled', reason = 'event_removed'
			WHERE `+inEvent+` AND `+ending+` RETURNING `+columns, event)
		if err != nil {
			return err
		}
		if len(ended) > 0 {
			if _, err := release(ctx, t, ended); err != nil {
				return err
			}
			if err := s.announce(ctx, t, ended, now); err != nil {
				return err
			}
		}
		if err := wipe(ctx, t, event); err != nil {
			return err
		}
		return notice(ctx, t, TopicCatalogue, event, []string{}, now)
	})
	if err != nil {
		return fmt.Errorf("remove %s: %w", event, err)
	}
	s.mu.Lock()
	delete(s.halls, event)
	s.mu.Unlock()
	s.news.poke()
	return nil
}
