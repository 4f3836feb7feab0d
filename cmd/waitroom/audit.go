package main

import (
	"context"
	"time"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web"
)

// auditor recounts what an event sold, from the tables, the broker and the line.
type auditor struct {
	store  *ticket.Store
	broker ticket.BrokerLog // nil: not asked
	line   *waitroom.Line   // nil: not asked
}

var _ web.Books = auditor{}

// Books recounts; the line is asked where it gives out every token that can buy.
func (a auditor) Books(ctx context.Context, event waitroom.EventID) (ticket.Books, error) {
	q := ticket.AuditRequest{Event: string(event), Broker: a.broker}
	if a.line != nil {
		ev, err := a.line.Event(ctx, event)
		if err != nil {
			return ticket.Books{}, err
		}
		q.Line = map[string]int64{"line waiting": ev.Waiting, "line inside": ev.Inside, "line admitted": ev.Admitted}
		if ev.Mode == "queue" {
			q.Grants = lineGrants{a.line}
		}
	}
	return a.store.Audit(ctx, q)
}

// lineGrants tells how many a line has let in since its store began.
type lineGrants struct{ line *waitroom.Line }

// Admitted is ticket.Grants's. An epoch's number is the microsecond in which it
// began, or more where an earlier one had gone further.
func (g lineGrants) Admitted(ctx context.Context, event string) (int64, time.Time, error) {
	ev, err := g.line.Event(ctx, waitroom.EventID(event))
	return ev.Admitted, time.UnixMicro(ev.Epoch), err
}

// replayBatch is the most messages of one replay.
const replayBatch = 1000

// Replay puts messages that were given up back to be published.
func (a auditor) Replay(ctx context.Context, event waitroom.EventID) (int, error) {
	return a.store.Unpark(ctx, string(event), replayBatch)
}
