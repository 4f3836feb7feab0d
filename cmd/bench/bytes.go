package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/redis/go-redis/v9"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// bytesUnit counts Redis's memory for each person who waits.
func bytesUnit() unit {
	return unit{bars: []string{"redis-bytes"}, run: runBytes}
}

func runBytes(ctx context.Context, b *bench, _ func(string) bool) ([]result, error) {
	s, err := startRedis(ctx, "")
	if err != nil {
		return nil, err
	}
	defer s.end()
	_, line, err := openLine(ctx, s.rdb, "bytes")
	if err != nil {
		return nil, err
	}
	if err := openEvent(ctx, line, event); err != nil {
		return nil, err
	}
	// What connections and first records cost is not the people's.
	if err := joinAll(ctx, line, event, callers, nil); err != nil {
		return nil, err
	}
	n := float64(b.stored)
	entries := make([]waitroom.EntryID, b.stored)
	away, err := s.grows(ctx, func() error {
		return joinAll(ctx, line, event, b.stored, func(i int, p waitroom.Place) { entries[i] = p.Entry })
	})
	if err != nil {
		return nil, err
	}
	more, err := s.grows(ctx, func() error { return line.Here(ctx, event, entries) })
	if err != nil {
		return nil, err
	}
	bare, err := s.grows(ctx, func() error {
		const piece = 500
		for from := 0; from < b.stored; from += piece {
			var members []redis.Z
			for i := from; i < min(b.stored, from+piece); i++ {
				members = append(members, redis.Z{Score: rand.Float64() * 1e12, Member: string(entries[i])})
			}
			if err := s.rdb.ZAdd(ctx, "bare", members...).Err(); err != nil {
				return fmt.Errorf("fill: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	// Fewer would drown in what Redis frees of its own meanwhile.
	member, err := partyBytes(ctx, s, line, max(b.stored/100, 500))
	if err != nil {
		return nil, err
	}
	here := away + more
	const most = 250
	return []result{{
		Name: "redis-bytes",
		Measured: fmt.Sprintf("%.0f bytes a person who is on the page, %.0f who is away (a bare sorted set: %.0f; %.2f ×; at %s waiting), %.0f a member of a party of four",
			here/n, away/n, bare/n, here/bare, thousands(n), member),
		Bar: "≤ 250 bytes a waiting person", Verdict: verdict(max(here, away)/n <= most),
		Figures: map[string]float64{"bytes_here": here / n, "bytes_away": away / n, "bytes_sorted_set": bare / n, "bytes_member": member},
	}}, nil
}

// partyBytes is what the store needs for a member of a party of four who is away, with
// what it keeps of the place that they gave up for it.
func partyBytes(ctx context.Context, s *store, line *waitroom.Line, parties int) (float64, error) {
	const size, id = 4, "parties"
	set := waitroom.DefaultSettings(id)
	set.Order, set.Party.Size = waitroom.OrderDraw, size
	if _, err := line.Create(ctx, set, waitroom.Lobby, "bench"); err != nil {
		return 0, err
	}
	grown, err := s.grows(ctx, func() error {
		for range parties {
			code := ""
			for range size {
				p, err := line.Join(ctx, waitroom.JoinRequest{Event: id})
				if err != nil {
					return err
				}
				req := waitroom.PartyRequest{JoinRequest: waitroom.JoinRequest{Event: id, Receipt: p.Receipt}, PartyCode: code}
				if code != "" {
					if _, err := line.JoinParty(ctx, req); err != nil {
						return err
					}
					continue
				}
				made, err := line.MakeParty(ctx, req)
				if err != nil {
					return err
				}
				code = made.Code
			}
		}
		return nil
	})
	return grown / float64(parties*size), err
}

// grows is by how many bytes the store's memory grows.
func (s *store) grows(ctx context.Context, do func() error) (float64, error) {
	before, err := s.memory(ctx)
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := s.memory(ctx)
	return after - before, err
}
