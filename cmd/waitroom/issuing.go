package main

import (
	"context"
	"time"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/ticket/archive"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// buildIssuing makes what stands behind events with mode instant, where this
// process works: what was given out goes to the database, and the line hears when
// the last piece is sold.
func (s *service) buildIssuing(context.Context) error {
	if s.store == nil || !s.cfg.has(roleWorker) {
		return nil
	}
	archiver, err := archive.NewArchiver(archive.Config{}, archives{s.line}, s.store, s.log, s.metrics)
	if err != nil {
		return err
	}
	taker := archive.NewStocktaker(&suppliedLine{line: s.line, ears: s.planter.ears}, s.store, s.log)
	s.back = append(s.back, archiver.Run, taker.Run)
	return nil
}

// archives is the line as the archiver sees it.
type archives struct{ line *waitroom.Line }

var _ archive.Archives = archives{}

func (a archives) Archives(ctx context.Context) ([]string, error) {
	ids, err := a.line.Archives(ctx)
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = string(id)
	}
	return names, err
}

func (a archives) Unfiled(ctx context.Context, event string, limit int, idle time.Duration) (archive.Batch, error) {
	b, err := a.line.Unfiled(ctx, waitroom.EventID(event), limit, idle)
	batch := archive.Batch{Records: b.Records}
	for _, g := range b.Given {
		batch.Tokens = append(batch.Tokens, ticket.IssuedToken{
			JTI: g.JTI, Rank: g.Rank, Entry: string(g.Entry), Person: g.Subject, IssuedAt: g.AdmittedAt, ExpiresAt: g.ClaimBy,
		})
	}
	return batch, err
}

func (a archives) Filed(ctx context.Context, event string, records []string) error {
	return a.line.Filed(ctx, waitroom.EventID(event), records)
}

// suppliedLine is the line as the stocktaker sees it.
type suppliedLine struct {
	line  *waitroom.Line
	ears  *ears
	looks int // the stocktaker's own
}

var _ archive.Line = (*suppliedLine)(nil)

// keptEvery is how many looks lie between two at the events that only tell people
// that nothing is left, and keep their line: a second, since they may stand sold out
// for hours and each look then asks the database.
const keptEvery = 10

// Supplied are the events that this node has heard of and that sell something: those
// that do something when nothing is left (mode instant, and those that close) each
// time, the others now and then.
func (l *suppliedLine) Supplied() []string {
	var names []string
	for _, ev := range l.ears.events() {
		acts := ev.Mode == waitroom.ModeInstant || ev.OnSoldOut == waitroom.CloseSoldOut
		sells := ev.Tickets.Kind != "none" && ev.State != waitroom.Closed
		if ev.Mode == waitroom.ModeInstant || sells && (acts || l.looks%keptEvery == 0) {
			names = append(names, string(ev.ID))
		}
	}
	l.looks++
	return names
}

func (l *suppliedLine) Supply(ctx context.Context, event string, left bool) error {
	return l.line.Supply(ctx, waitroom.EventID(event), left)
}
